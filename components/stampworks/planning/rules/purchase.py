"""Purchases: the ways to buy machines, the numbers in which they are sold, and elastic groups."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.plan import Plan
from stampworks.planning.build.leaves import joined_nodes
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import BOUGHT_BEFORE
from stampworks.planning.rules.findings import Finding, Verdict
from stampworks.planning.rules.pools import running
from stampworks.text.amounts import counted

GROUP_UNSAID_MIN = 1000
"""Smallest group that is reported when the limit of a cloud is unknown: all known limits are higher."""
_BOUGHT_BEFORE = {"block": "a block of capacity", "reserved": "reserved capacity"}


def purchases(plan: Plan) -> Iterator[Finding]:
    """The purchase of a pool's nodes fits their use."""
    for where, pool in running(plan):
        place = f"{where}.purchase"
        if pool.purchase in _BOUGHT_BEFORE and not pool.reservation:
            text = f"pool {pool.name} uses {_BOUGHT_BEFORE[pool.purchase]}, and its name is missing"
            hint = "write its reservation, as the cloud calls it"
            yield Finding(f"purchase.{pool.purchase}", "fail", text, hint, place, subject=pool.name)
        in_block = any(offer.purchase == "block" for offer in pool.offers)
        if in_block and CLOUDS[plan.cloud].told and not plan.budget.notify:
            text = f"the nodes of pool {pool.name} end half an hour before their block, and no mail address is declared"
            hint = "write a mail address, as in budget: {notify: [ops@example.com]}"
            yield Finding("purchase.end", "fail", text, hint, "budget.notify", "warning", pool.name)
        if pool.purchase == "spot" and not plan.storage:
            text = (
                f"the cloud may take the nodes of pool {pool.name} back at any time, and no storage outlives them: "
                "checkpoints are lost with the nodes"
            )
            hint = "declare a storage, or write purchase: on-demand"
            yield Finding("purchase.spot", "fail", text, hint, place, "warning", pool.name)


def shapes(plan: Plan) -> Iterator[Finding]:
    """The machine is sold in this number and in this way: some are sold only in whole racks or slices."""
    for where, pool in running(plan):
        shape, joined = catalog.shapes().get(pool.machine.name), joined_nodes(catalog.machines()[pool.machine.name])
        what = f"{counted(pool.count, 'node')} of {pool.machine.name} in pool {pool.name}"
        if shape is None:
            if plan.region and joined > 1 and pool.count % joined:
                text = (
                    f"whether {what} can be bought: {joined} of them are a rack, and it is not known whether "
                    "parts of racks are sold"
                )
                hint = f"ask {plan.cloud}, or write a multiple of {joined}"
                yield Finding("machine.shape", "unknown", text, hint, f"{where}.count", subject=pool.name)
            continue
        verdict, text, hint = _count_verdict(shape, pool.count, what)
        yield Finding("machine.shape", verdict, text, hint, f"{where}.count", subject=pool.name)
        if shape.purchases and pool.purchase not in shape.purchases:
            text = f"{pool.machine.name} of pool {pool.name} is {pool.purchase}, and sold as {shape.purchases[0]} only"
            hint = f"write purchase: {shape.purchases[0]}"
            yield Finding("machine.shape", "fail", text, hint, f"{where}.purchase", subject=pool.name)


def _count_verdict(shape: catalog.Shape, count: int, what: str) -> tuple[Verdict, str, str]:
    """Judge a number of nodes by the numbers in which their machine is sold."""
    listed = f"{what}: it comes in {', '.join(map(str, shape.counts))} ({shape.source}, read {shape.read})"
    if count in shape.counts or (shape.several and count % shape.counts[0] == 0):
        return "pass", listed, ""
    if shape.step and count % shape.step == 0 and count < shape.counts[-1]:
        return "unknown", f"{listed}, and in some other multiples of {shape.step}", "ask the cloud for this one"
    below = max((each for each in shape.counts if each < count), default=None)
    above = min((each for each in shape.counts if each > count), default=None)
    if shape.several:
        below, above = (
            count // shape.counts[0] * shape.counts[0] or None,
            -(-count // shape.counts[0]) * shape.counts[0],
        )
    sides = " or ".join(str(each) for each in (below, above) if each)
    return "fail", listed, f"write count: {sides}, or make pools of such numbers"


def group_sizes(plan: Plan) -> Iterator[Finding]:
    """A pool has no more nodes than one group of its cloud can have."""
    choices = CLOUDS[plan.cloud]
    own = choices.runs(plan.scheduler.kind)
    limit = own.group_size if own else choices.group_size
    for where, pool in running(plan):
        said: tuple[Verdict, str] | None = None
        if limit is None:
            if choices.subnets and pool.count > GROUP_UNSAID_MIN:
                said = "unknown", f"the largest size of a group on {plan.cloud} is not known"
        elif pool.count > limit.nodes_max:
            said = "fail", f"a {limit.what} of {plan.cloud} has {limit.nodes_max} at most"
        elif pool.rails and limit.rails_nodes_raised and pool.count > limit.rails_nodes_raised:
            said = "fail", f"a {limit.what} of {plan.cloud} has {limit.rails_nodes_raised} on one fabric at most"
        elif pool.rails and limit.rails_nodes_max and pool.count > limit.rails_nodes_max:
            text = f"a {limit.what} of {plan.cloud} has its nodes on one fabric for sure up to {limit.rails_nodes_max}"
            more = f", and on request up to {limit.rails_nodes_raised}" if limit.rails_nodes_raised else ""
            said = "unknown", f"{text}{more}"
        if said:
            verdict, text = said
            hint = f"ask {plan.cloud}" if verdict == "unknown" else "make several pools of it"
            what = f"{counted(pool.count, 'node')} of pool {pool.name}: {text}"
            yield Finding("group.size", verdict, what, hint, f"{where}.count", subject=pool.name)


def elastic(plan: Plan) -> Iterator[Finding]:
    """Elastic nodes can configure themselves, save money and be proven."""
    for where, pool in running(plan):
        if not pool.elastic:
            continue
        place, all_ = f"{where}.count_min", f"{pool.counts} nodes of pool {pool.name} run"
        if not plan.release.boot:
            text = (
                f"{all_}, but nodes that start later cannot configure themselves: release {plan.release.name} "
                "has no Ansible"
            )
            hint = "take count_min out, or another release"
            yield Finding("elastic.boot", "fail", text, hint, place, "error", pool.name)
        if pool.purchase in BOUGHT_BEFORE and not pool.fallbacks:  # only pools with a count_min can have fallbacks
            text = f"{all_}, but {pool.purchase} capacity of all {pool.count} is paid for whether they run or not"
            hint = "take count_min out, or choose another purchase"
            yield Finding("elastic.purchase", "fail", text, hint, place, "warning", pool.name)
        if plan.proof.level == "none":
            continue
        if pool.count_min > 1 or (pool.count_min and pool.rails == 0):
            text = (
                f"{all_}: the first proof measures {pool.count_min}, others are proven before their first job, and "
                f"expectations for all together hold while all {pool.count} run"
            )
            yield Finding("elastic.proof", "pass", text, "", place, subject=pool.name)
        else:
            text = f"{all_}: the first proof measures {pool.count_min or 'none'}, and no pair of nodes"
            hint = "write count_min: 2 or more, or `stampworks qualify` when more of them run"
            yield Finding("elastic.proof", "unknown", text, hint, place, subject=pool.name)
