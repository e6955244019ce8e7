"""The plan, as `stampworks plan` prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Protocol, get_args

from stampworks import catalog
from stampworks.changes.charges import Cost
from stampworks.changes.outcomes import NOT_STAMPED, Outcome
from stampworks.plan import (
    SPINE,
    Expectation,
    Group,
    Leaf,
    Machine,
    Plan,
    Rail,
    fingerprint,
    log_group,
)
from stampworks.text.amounts import counted
from stampworks.text.names import fold
from stampworks.text.printable import printable
from stampworks.views import existing, hosts, launches
from stampworks.views.money import uncounted, usd
from stampworks.views.people import directory, groups_of_people, people
from stampworks.views.table import INDENT, explained, paragraph, sparse, table

WIDTH = 100
OF_TRAINING = "training."
ENDS = {"": "value", "_max": "max", "_min": "min"}
"""Suffixes of expectations, each with its column."""
SWITCHES = "fabric.switches"
"""Path of the reasons for the sizes of fabrics, which are shown with the leaves."""
LEAVES_SHOWN_ONE_BY_ONE = 16
"""Above this number, leaves are shown as one line for each pool."""


class Finding(Protocol):
    """A rule's answer about a plan (planning.Finding)."""

    @property
    def id(self) -> str:
        """Id of the rule."""

    @property
    def outcome(self) -> Outcome:
        """Verdict and severity in one word."""

    @property
    def text(self) -> str:
        """The finding in a sentence."""

    @property
    def hint(self) -> str:
        """A remedy; empty if there is none."""

    @property
    def place(self) -> str:
        """The position in the declaration; empty if the finding has none."""


def plan_text(
    plan: Plan,
    cost: Cost,
    findings: Sequence[Finding],
    places: Mapping[str, str] = MappingProxyType({}),
    width: int = WIDTH,
) -> str:
    """Return the whole plan as text: what will exist, what it must reach, and why. It ends with a newline.

    `places` gives file and line of a declared field.
    """
    described = [make(plan, width) for make in SECTIONS]
    sections = [
        _warned(findings, width),
        *described,
        _cost(cost, width),
        finding_lines(findings, places, width),
        _reasons(plan, width),
    ]
    return "\n\n".join("\n".join(map(printable, lines)) for lines in sections if lines) + "\n"


def _warned(findings: Sequence[Finding], width: int) -> list[str]:
    """Return a first line for a cloud that can only be planned. The rule repeats it, with a hint."""
    found = [finding.text for finding in findings if finding.id == NOT_STAMPED]
    return paragraph(f"plan only: {found[0]}", width, "") if found else []


def _headline(plan: Plan, width: int) -> list[str]:
    versions = ", ".join(f"{part} {version}" for part, version in (*plan.release.versions, *plan.release.kubernetes))
    named = [f"{pool.counts} x {pool.machine.name}" for pool in plan.pools]
    named += [f"{pool.count} x {pool.machine.name} for scheduling only" for pool in plan.scheduling_only]
    simulated = " (simulated)" if any(pool.machine.simulated for pool in plan.pools) else ""
    place = " ".join(filter(None, (plan.cloud, plan.region)))
    return [
        *paragraph(f"cluster {plan.name} on {place}: {', '.join(named)}{simulated}", width, ""),
        *paragraph(f"release {plan.release.name}: {versions}", width, ""),
        f"fingerprint {fingerprint(plan)}: the same for all siblings",
    ]


def _groups(plan: Plan, width: int) -> list[str]:
    header = ("group", "nodes", "machine", "accelerators", "cores", "memory", "rails", "zone", "bought")
    rows = [
        (
            group.name + (" (scheduling only)" if group.role == "scheduling only" else ""),
            _nodes(group),
            group.machine.name,
            _accelerators(group.machine),
            _known(group.machine.cores),
            _memory(group.machine.memory_mib),
            "unknown" if group.rails is None else group.rails,
            group.zone or ("any" if plan.region else ""),
            _bought(group),
        )
        for group in plan.groups
    ]
    named = all(group.nodes for group in plan.groups)
    return ["Groups" if named else f"Groups ({plan.cloud} names their nodes)", *sparse(header, rows, width)]


def _nodes(group: Group) -> str:
    names = fold(node.name for node in group.nodes)
    return f"{names}, {group.counts} run" if names and group.elastic else names or group.counts


def _bought(group: Group) -> str:
    """Return how the nodes are bought; empty for machines that the user owns."""
    how = "" if group.purchase == "owned" else group.purchase
    own = f"{how}: {group.reservation}" if group.reservation else how
    return ", else ".join([own, *(each.name for each in group.fallbacks)])


def _accelerators(machine: Machine) -> str:
    if not machine.accelerators:
        return ""
    return f"{machine.accelerators} x {machine.accelerator}, {_known(machine.accelerator_memory_gib, ' GiB')}"


def _known(fact: int | None, unit: str = "") -> str:
    return "unknown" if fact is None else f"{fact}{unit}"


def _memory(mib: int | None) -> str:
    return f"{mib // 1024} GiB" if mib and mib % 1024 == 0 else _known(mib, " MiB")


def _networks(plan: Plan, width: int) -> list[str]:
    if not plan.network.gateway:
        return _subnets(plan, width)
    gateway = ("gateway", [plan.network.gateway])
    management = [gateway, *((group.name, [node.address for node in group.nodes]) for group in plan.running)]
    rows = [("management", plan.network.management_cidr, "-", _spans(management))]
    rows += [(each.name, each.cidr, "-", "numbered as management") for each in plan.network.subnets]
    rows += [
        (rail.interface, rail.cidr or "-", _rate(rail.rate_mbps), _spans(_rail_addresses(plan, rail)) or "none")
        for rail in plan.fabric.rails
    ]
    return [f"Networks in {plan.network.cidr}", *table(("network", "range", "rate", "addresses"), rows, width)]


def _subnets(plan: Plan, width: int) -> list[str]:
    """Return the subnets from which a cloud assigns addresses, and the rails, most of which have none."""
    network = plan.network
    rows = [
        (
            *(each.name, each.cidr, each.size, each.reserved, _known(each.needed), _known(each.room)),
            *([network.existing.subnet(each.name).id] if network.existing else []),
        )
        for each in network.subnets
    ]
    named = ["existing"] if network.existing else []
    header = ("subnet", "range", "addresses", "kept by the cloud", "needed", "free", *named)
    lines = [f"Subnets of {plan.network.cidr}", *table(header, rows, width)] if rows else []
    rails = [
        f"Rails ({plan.fabric.kind}): {fold(rail.interface for rail in same)}, {_rate(rate)} each"
        for rate, same in ((rate, list(its)) for rate, its in groupby(plan.fabric.rails, lambda rail: rail.rate_mbps))
    ]
    return [*lines, *([""] if lines and rails else []), *rails]


def _pods(plan: Plan, width: int) -> list[str]:
    pods = plan.network.pods
    if pods is None:
        unknown = plan.scheduler.traits.runs_pods
        return ["Pods and services: the source of their addresses is unknown"] if unknown else []
    own = pods.cidr or f"subnet {pods.subnet}"
    nodes = sum(group.count for group in plan.running)
    rows = [
        ("pods", own, f"{pods.node_addresses} for {pods.per_node} pods", nodes, pods.nodes_max),
        ("services", pods.services_cidr, "-", "-", "-"),
    ]
    header = ("what", "range", "a node takes", "nodes", "nodes at most")
    return [f"Pods and services ({pods.way})", *table(header, rows, width)]


def _rate(mbps: int) -> str:
    return f"{mbps // 1000} Gb/s" if mbps >= 1000 and mbps % 1000 == 0 else f"{mbps} Mb/s"


def _rail_addresses(plan: Plan, rail: Rail) -> list[tuple[str, list[str]]]:
    return [
        (
            group.name,
            [each for node in group.nodes for each in node.rail_addresses[rail.index : rail.index + 1] if each],
        )
        for group in plan.groups
    ]


def _spans(addresses: list[tuple[str, list[str]]]) -> str:
    """Return the first and last address of each owner. Addresses of a group are consecutive."""
    return ", ".join(f"{who} {have[0]}" + (f"-{have[-1]}" if have[1:] else "") for who, have in addresses if have)


def _fabric(plan: Plan, width: int) -> list[str]:
    fabric = plan.fabric
    if not fabric.leaves:
        return []
    title = f"Leaves and trunks ({fabric.kind} fabric, {fabric.oversubscription}:1)"
    short = len(fabric.leaves) <= LEAVES_SHOWN_ONE_BY_ONE
    rows = [_leaf_row(plan, leaves) for leaves in _alike(plan, short)]
    sizes = [line for each in plan.reasons if each.path == SWITCHES for line in paragraph(each.why, width)]
    return [title, *table(("leaf", "trunk of each rail", "nodes"), rows, width), *sizes]


def _alike(plan: Plan, one_by_one: bool) -> Iterable[list[Leaf]]:
    leaves = plan.fabric.leaves
    if one_by_one:
        return [[leaf] for leaf in leaves]
    pool_of = {node.name: group.name for group in plan.groups for node in group.nodes}
    spine_of = {trunk.leaf: trunk.to for rail in plan.fabric.rails for trunk in rail.trunks}

    def alike(leaf: Leaf) -> tuple[str, int, str]:
        return pool_of[leaf.nodes[0]], len(leaf.nodes), spine_of.get(leaf.name, "")

    return [list(same) for _, same in groupby(leaves, key=alike)]


def _leaf_row(plan: Plan, leaves: list[Leaf]) -> tuple[str, str, str]:
    nodes = fold(name for leaf in leaves for name in leaf.nodes)
    each = f", {len(leaves[0].nodes)} a leaf" if len(leaves) > 1 else ""
    trunks = {
        rail.interface: (trunk.rate_mbps, trunk.to)
        for rail in plan.fabric.rails
        for trunk in rail.trunks
        if trunk.leaf == leaves[0].name
    }
    rates = [
        f"{fold(rails)} {_rate(rate)}" + (f" to {to}" if to != SPINE else "")
        for (rate, to), rails in groupby(trunks, key=trunks.__getitem__)
    ]
    return fold(leaf.name for leaf in leaves), ", ".join(rates) or "none", nodes + each


def _storage(plan: Plan, width: int) -> list[str]:
    if not plan.storage:
        return []
    header = ("name", "kind", "tier", "capacity", "reads", "writes", "mount", "protected", "with")
    numbers = {each.name: f"{each.value:g} {each.unit}" for each in plan.expectations}
    rows = []
    for each in plan.storage:
        kind = catalog.file_systems()[each.kind]
        capacity = f"{each.capacity} {kind.capacity_unit}" if each.capacity else ""
        missing = "" if kind.mount == "directory" else "unknown"  # a directory is as fast as its disk
        rates = [numbers.get(f"{each.name}.{way}_gbs", missing) for way in ("read", "write")]
        protected = "yes" if each.protect else "no"
        more = ", ".join(filter(None, (*each.bought, each.expires)))
        rows.append((each.name, each.kind, each.tier, capacity, *rates, each.mount, protected, more))
    return ["Storage", *sparse(header, rows, width)]


def _scheduler(plan: Plan, width: int) -> list[str]:
    scheduler = plan.scheduler
    blocks = f" of {counted(scheduler.block_nodes, 'node')}" if scheduler.block_nodes else ""
    title = (
        f"Scheduler {scheduler.kind}: topology {scheduler.topology}{blocks}, preemption {scheduler.preemption}, "
        f"accounting {'on' if scheduler.accounting else 'off'}, drains wait {scheduler.drain_timeout_minutes} min"
    )
    if any(pool.elastic for pool in plan.pools):
        title += f", nodes without work end after {scheduler.idle_minutes} min"
    rows = [
        (
            queue.name + (" (default)" if queue.default else ""),
            ", ".join(queue.pools),
            f"{queue.time_limit_minutes} min" if queue.time_limit_minutes else "",
            queue.priority,
        )
        for queue in scheduler.queues
    ]
    table_ = sparse(("queue", "pools", "time limit", "priority"), rows, width)
    return [*paragraph(title, width, ""), *table_, *_access(plan, width)]


def _access(plan: Plan, width: int) -> list[str]:
    """Return the administrators of a Kubernetes that a cloud runs, and the networks that reach it."""
    if not plan.managed:
        return []
    reached = ", ".join(("the cluster's network", *plan.scheduler.api_from))
    admins = ", ".join(("its creator", *plan.scheduler.admins))
    return [
        *paragraph(f"Its server is reached from: {reached}", width, ""),
        *paragraph(f"Its administrators: {admins}", width, ""),
    ]


def _priorities(plan: Plan, width: int) -> list[str]:
    if not plan.scheduler.priorities:
        return []
    rows = [(each.name, str(each.weight), ", ".join(each.preempts)) for each in plan.scheduler.priorities]
    return ["Priorities", *sparse(("priority", "weight", "preempts"), rows, width)]


def _accounts(plan: Plan, width: int) -> list[str]:
    if not plan.scheduler.accounts:
        return []
    rows = [(each.name, each.share, each.accelerators_max, ", ".join(each.users)) for each in plan.scheduler.accounts]
    return ["Accounts", *sparse(("account", "share", "accelerators at most", "users"), rows, width)]


INSTALLED: Mapping[str, str] = {"helm": "Helm", "cloud": "the cloud", "hand": "hand"}
"""Installers of an add-on, in words that follow "by"."""


def addons_text(plan: Plan, width: int) -> list[str]:
    """Return the table of add-ons; empty without any."""
    if not plan.scheduler.addons:
        return []
    header = ("add-on", "version", "installed by", "namespace", "description")
    rows = [
        (each.name, each.version or "below", INSTALLED[each.by], each.namespace, each.what)
        for each in plan.scheduler.addons
    ]
    own = ", ".join(f"{each.name} {each.version or '(not looked up)'}" for each in plan.scheduler.parts)
    brought = paragraph(f"parts of the cloud's Kubernetes: {own}", width, "  ") if own else []
    return ["Add-ons", *table(header, rows, width), *brought]


def _training(plan: Plan, width: int) -> list[str]:
    told = plan.training
    among = f" among {told.tensor_parallel} ranks" if told.layout == "tp" else ""
    tracker = f"{told.tracker.kind}{told.tracker.url and f' at {told.tracker.url}'}"
    where = told.checkpoints.directory or "each run's folder"
    text = (
        f"Training by default: layout {told.layout}{among}, {told.steps} steps of {told.batch} samples, "
        f"tracker {tracker}, {told.checkpoints.keep} checkpoints in {where}"
    )
    return paragraph(text, width, "")


def _budget(plan: Plan, width: int) -> list[str]:
    budget = plan.budget
    if not budget.monthly_usd and not budget.notify:
        return []
    limit = f"{budget.monthly_usd:,} USD a month" if budget.monthly_usd else "no limit"
    return paragraph(f"Budget: {limit}; mail to {', '.join(budget.notify) or 'nobody'}", width, "")


def _logs(plan: Plan, width: int) -> list[str]:
    if not plan.logs.days:
        return []
    return paragraph(f"Logs: kept in {log_group(plan.name)} for {plan.logs.days} days", width, "")


def _expectations(plan: Plan, width: int) -> list[str]:
    of_fabric = [each for each in plan.expectations if not each.name.startswith(OF_TRAINING)]
    floors = any(each.name.endswith("_min") for each in of_fabric)
    title = (
        "Expected performance (max), and the limit below which something is broken (min)"
        if floors
        else "Expected performance (max)"
    )
    return [title, *_reached(of_fabric, plan, width)] if of_fabric else []


def _of_training(plan: Plan, width: int) -> list[str]:
    found = [each for each in plan.expectations if each.name.startswith(OF_TRAINING)]
    return ["Training of the declared model", *_reached(found, plan, width)] if found else []


def _reached(expectations: Sequence[Expectation], plan: Plan, width: int) -> list[str]:
    """Return a table for each set of pools, rails or storage with equal values, then each derivation once."""
    numbers: dict[str, int] = {}
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for head, ends in _of_heads(expectations).items():
        there = [end for end in ENDS if any(end in found for found in ends.values())]
        rows = [("", *(ENDS[end] for end in there), "unit", "because")]
        for what, found in ends.items():
            values = (_figure(found[end].value) if end in found else "-" for end in there)
            because = dict.fromkeys(numbers.setdefault(each.why, len(numbers) + 1) for each in found.values())
            rows.append((what, *values, next(iter(found.values())).unit, ", ".join(map(str, because))))
        alike.setdefault(tuple(rows), []).append(head)
    lines = []
    for (header, *rows), heads in alike.items():
        lines += table((fold(heads), *header[1:]), rows, width)
        lines += [
            line for each in plan.reasons if each.path in heads for line in paragraph(each.why, width, INDENT * 2)
        ]
    return [*lines, f"{INDENT}because", *table(("", ""), [(number, why) for why, number in numbers.items()], width)[1:]]


def _of_heads(expectations: Sequence[Expectation]) -> dict[str, dict[str, dict[str, Expectation]]]:
    """Group expectations by subject (a pool, a rail, a storage; training on a pool), then by quantity, then by end."""
    found: dict[str, dict[str, dict[str, Expectation]]] = {}
    for each in expectations:
        training = OF_TRAINING if each.name.startswith(OF_TRAINING) else ""
        head, _, tail = each.name.removeprefix(training).rpartition(".") if training else each.name.partition(".")
        end = next((end for end in ENDS if end and each.name.endswith(end)), "")
        of_head = found.setdefault(f"{training}{head}".removesuffix("."), {})
        of_head.setdefault(tail.removesuffix(end), {})[end] = each
    return found


def _figure(value: float) -> str:
    """Format a number without an exponent, which is hard to read at a glance."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"


def _cost(cost: Cost, width: int) -> list[str]:
    """Return the cost table; nothing if no part has a price."""
    if not any(each.sold for each in cost.charges):
        return []
    rows = [(each.what, usd(each.usd_per_hour_min, each.usd_per_hour)) for each in cost.charges]
    texts = [f"{each.basis}; {each.why}" for each in cost.charges]
    rows.append(("all", usd(cost.usd_per_hour_min, cost.usd_per_hour)))
    return ["Costs, in USD an hour", *explained(rows, [*texts, uncounted(cost)], width)]


def _reasons(plan: Plan, width: int) -> list[str]:
    """Return the reasons, except those of fabrics and of training, which are shown there."""
    shown = {SWITCHES, *_of_heads([each for each in plan.expectations if each.name.startswith(OF_TRAINING)])}
    rows = [(each.path, each.why) for each in plan.reasons if each.path not in shown]
    return ["Why", *table(("what", "because"), rows, width)]


def finding_lines(findings: Sequence[Finding], places: Mapping[str, str], width: int) -> list[str]:
    """Return the findings, the worst first. Those that do not pass have their place and a hint below."""
    if not findings:
        return []
    outcomes = [finding.outcome for finding in findings]
    worst = [outcome for outcome in get_args(Outcome) if outcome in outcomes]
    rows = []
    for finding in sorted(findings, key=lambda finding: worst.index(finding.outcome)):
        rows.append((finding.outcome.upper(), finding.id, finding.text))
        if finding.place and finding.outcome in ("fail", "warn"):
            rows.append(("", "", " ".join(filter(None, ("at:", places.get(finding.place, ""), finding.place)))))
        rows += [("", "", f"hint: {finding.hint}")] if finding.hint else []
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in worst)
    return [f"Rules: {counts}", *table(("", "", ""), rows, width)[1:]]


def _extras(plan: Plan, width: int) -> list[str]:
    rows = [("role", role.name, role.path, ", ".join(role.groups)) for role in plan.extras.roles]
    rows += [("check", check.name, check.path, ", ".join(check.pools)) for check in plan.extras.checks]
    return ["Roles and checks of your own", *table(("kind", "name", "path", "on"), rows, width)] if rows else []


SECTIONS: tuple[Callable[[Plan, int], list[str]], ...] = (
    _headline,
    _groups,
    hosts.listed,
    _networks,
    _pods,
    launches.lines,
    existing.lines,
    _fabric,
    _storage,
    _scheduler,
    _priorities,
    _accounts,
    addons_text,
    people,
    groups_of_people,
    directory,
    _budget,
    _logs,
    _training,
    _extras,
    _expectations,
    _of_training,
)
