"""What can be said about a plan with facts that a plan must not depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.declaration.values import DIRECTORY
from stampworks.physics.bounds import figure
from stampworks.physics.checkpoints import write_seconds
from stampworks.physics.failures import goodput, mtbf_range_hours
from stampworks.physics.memory import GIB
from stampworks.plan import ACCELERATOR, CLIENTS, Group, Plan, Storage, declared_pools
from stampworks.planning.build import file_systems, fitting, launching, storage
from stampworks.planning.build.addons import DRIVER, GPU_OPERATOR, addons
from stampworks.planning.build.addresses import MANAGEMENT, AddressMap
from stampworks.planning.build.leaves import joined_nodes
from stampworks.planning.build.ports import taken_by
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import BOUGHT_BEFORE, MONTH_HOURS, NoPrice, by_use, cost, price_of, price_of_storage
from stampworks.planning.rules import preflight
from stampworks.planning.rules.findings import Facts, Finding, Rule, Severity, Verdict
from stampworks.planning.rules.managed import managed
from stampworks.planning.rules.queues import queues
from stampworks.text.amounts import counted

LOOPBACK = "fabric.loopback"
MEMORY = "memory.fit"
GROUP_UNSAID_MIN = 1000
"""Smaller groups than this one no cloud refuses of which a limit was found."""
PRICE_MONTHS_MAX = 3
LOST_SHARE_MAX = 0.1
"""Llama 3 lost less of its time to everything together, on 16,384 accelerators (arXiv 2407.21783, 3.3.4)."""
HEADROOM = 2
"""All rails at once must fit this many times: shapers that compete with jobs for the cores miss their rates."""


def rules(plan: Plan, facts: Facts | None, as_of: str | None = None) -> tuple[Finding, ...]:
    """The findings of all rules, in a fixed order; without the day, as without a fact, what needs it is unknown."""
    known = known_of(plan, facts, as_of)
    return tuple(finding for rule in RULES for finding in rule(plan, known))


def known_of(plan: Plan, facts: Facts | None, as_of: str | None) -> Facts:
    """What rules go by."""
    return preflight.of_this(plan, replace(facts or Facts(), as_of=as_of))


def loopback(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether this machine can carry all simulated rails at their declared rates at once, and as much again."""
    if plan.fabric.kind != "simulated":
        return
    links = [
        rail.rate_mbps
        for group in plan.groups
        for node in group.nodes
        for rail in plan.fabric.rails[: len(node.rail_addresses)]
    ]
    if not links:
        yield Finding(LOOPBACK, "pass", "the plan has no simulated rails for this machine to carry", "")
        return
    need = HEADROOM * sum(links)
    sum_text = f"{counted(len(links), 'simulated link')} x {links[0]} Mb/s x {HEADROOM} for headroom = {need} Mb/s"
    measured = facts.loopback_mbps
    if measured is None:
        text = f"{sum_text}, and nobody has measured what this machine carries"
        yield Finding(LOOPBACK, "unknown", text, "run `stampworks facts`")
    elif need <= measured:
        yield Finding(LOOPBACK, "pass", f"{sum_text}, and this machine carries {measured} Mb/s", "")
    else:
        text, hint = f"{sum_text}, but this machine carries {measured} Mb/s", _what_fits(measured, links)
        yield Finding(LOOPBACK, "fail", text, hint, "fabric.rail_rate_mbps")


def memory_fit(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether the declared model fits into the memory of its accelerators, laid out as declared."""
    for fit in fitting.fits(plan):
        yield Finding(MEMORY, fit.verdict, fit.text, fit.hint, "training.layout", fit.severity)


def idle(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether a step has work for every copy of the declared model."""
    for each in fitting.idle(plan):
        yield Finding("training.idle", each.verdict, each.text, each.hint, "training.batch", each.severity)


def _what_fits(measured_mbps: int, links: list[int]) -> str:
    rate = measured_mbps // (HEADROOM * len(links))
    if rate < 1:
        return f"take nodes out: not even 1 Mb/s a rail would fit for {counted(len(links), 'link')}"
    return (
        f"write fabric.rail_rate_mbps: {rate} or less, or take nodes out; was the machine busy? `stampworks facts` "
        "measures again"
    )


def addresses(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001  (its answer is in the plan)
    """How many more nodes there are addresses for, and what is full first."""
    for pool in plan.pools:
        fits = [
            (
                subnet.room // each,
                f"subnet {subnet.name} is full: {subnet.size} addresses, {subnet.reserved} kept by the cloud, "
                f"{subnet.needed} needed now, {'1 address' if each == 1 else f'{each} addresses'} a node",
                "network.cidr",
            )
            for subnet, each in taken_by(plan, pool)
            if subnet.room is not None
        ]
        if any(node.address for node in pool.nodes):
            fits = [_of_slot(plan, pool)]
        if not fits:
            continue
        if (planned := plan.network.pods) and planned.cidr:
            more = planned.nodes_max - _nodes(plan)
            fits.append((more, f"{planned.cidr}, the range of pods, is full", "network.pods_cidr"))
        more, full, place = min(fits, key=lambda fit: fit[0])
        text = f"pool {pool.name} can grow by {counted(more, 'node')}, then {full}"
        yield Finding("addresses.room", "pass", text, "", place, subject=pool.name)


def storage_addresses(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """What is too little by all that is published is refused before there is a plan; here is what nobody can tell."""
    largest = max(1 << (32 - p) for each in catalog.file_system_subnets().values() for _, p in each.prefixes)
    for subnet in plan.network.subnets:
        if subnet.needed is None and subnet.size < largest:
            text = (
                f"whether subnet {subnet.name}, {subnet.cidr} with {subnet.size} addresses, has room for its file "
                f"systems: how many they take is not published; the largest that is has {largest}"
            )
            hint = "ask the cloud, or write a larger range: no file system moves to another subnet later"
            yield Finding("addresses.storage", "unknown", text, hint, "network.cidr", subject=subnet.name)


def _of_slot(plan: Plan, pool: Group) -> tuple[int, str, str]:
    """The same where each pool has a slot of every network, the first one being the infrastructure's."""
    cut = AddressMap({MANAGEMENT: IPv4Network(plan.network.management_cidr)})
    room = cut.capacity(plan.groups.index(pool))
    full = f"its part of each network is full: {room} addresses, so that no pool's growth moves another"
    return room - pool.count, full, "network.cidr"


def pods(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001  (its answer is in the plan)
    """How many nodes the pods of a Kubernetes have addresses for, where they have a range of their own."""
    if not plan.scheduler.traits.runs_pods:
        return
    id_, planned = "addresses.pods", plan.network.pods
    if planned is None:
        text = f"where a Kubernetes on {plan.cloud} has the addresses of its pods from: nobody has found out"
        yield Finding(id_, "unknown", text, f"ask {plan.cloud}, before the ranges of other networks are chosen")
    elif planned.cidr:
        text = (
            f"the pods of {planned.nodes_max} nodes have addresses, then {planned.cidr} is full: "
            f"{planned.node_addresses} a node, {_nodes(plan)} nodes with the head now"
        )
        yield Finding(id_, "pass", text, "", "network.pods_cidr")


def _nodes(plan: Plan) -> int:
    """All that there are, which those for scheduling only are not."""
    return sum(group.count for group in plan.running)


def _by_name(plan: Plan) -> list[Group]:
    """The order of pools may say nothing, and then no rule says anything else for it."""
    return sorted(plan.pools, key=lambda pool: pool.name)


def region(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """A region that a cloud does not have is refused before there is a plan; here is what nobody can tell."""
    if plan.region and plan.cloud not in catalog.regions() and plan.fabric.leaf_nodes is None:
        text = f"whether {plan.cloud} has a region {plan.region}: the catalog has no list of its regions"
        yield Finding("placement.region", "unknown", text, f"look it up at {plan.cloud}", "region", "warning")
    if why := CLOUDS[plan.cloud].region_apart(plan.region):
        yield Finding("placement.region", "fail", why, "take a region of the others", "region")


def zones(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """A fabric ends where its zone does."""
    pools = [pool for pool in _by_name(plan) if pool.rails]
    if not plan.region or not pools or plan.fabric.leaf_nodes is not None:
        return  # where the plan places the nodes, nobody else chooses
    named = {pool.name: pool.zone for pool in pools if pool.zone}
    if len({*named.values()}) > 1:
        where = ", ".join(f"{name} in {zone}" for name, zone in named.items())
        text = (
            f"pools of one fabric are in several zones ({where}): no fabric leaves its zone, and jobs cannot share it"
        )
        yield Finding("placement.zones", "fail", text, "put them into one zone, or into clusters of their own", "pools")
    elif missing := [pool.name for pool in pools if not pool.zone]:
        text = f"{', '.join(missing)} names no zone, and whether all nodes come into one is for the cloud to choose"
        yield Finding("placement.zones", "unknown", text, "write the zone at the pool", "pools")
    else:
        yield Finding("placement.zones", "pass", f"all pools of the fabric are in {pools[0].zone}", "", "pools")


def subnets_of_nodes(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Where the plan makes the network, nodes share a subnet, and that is in one zone."""
    if not plan.network.egress:
        return
    for where, pool in _running(plan):
        if pool.zone != plan.network.zone:
            chosen = plan.network.zone or "the one that the cloud chooses"
            text = (
                f"pool {pool.name} is to be in {pool.zone or 'whichever zone the cloud chooses'}, and the subnet of "
                f"nodes is in {chosen}, as the first pool is: no subnet is in two zones"
            )
            hint = "write the same zone at all pools, or declare a second cluster"
            yield Finding("placement.subnet", "fail", text, hint, f"{where}.zone", subject=pool.name)


def _running(plan: Plan) -> Iterator[tuple[str, Group]]:
    """The pools whose nodes run jobs, each with where it is declared."""
    declared = enumerate(declared_pools(plan.groups))
    return ((f"pools[{index}]", pool) for index, pool in declared if pool.role == "worker")


def without_queue(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whoever declares queues says which pools they have, and a pool that none has says nothing by itself."""
    queued = {name for queue in plan.scheduler.queues for name in queue.pools}
    for index, pool in enumerate(declared_pools(plan.groups)):
        if pool.name not in queued:
            text = f"pool {pool.name} is in no queue: its nodes take no jobs"
            hint = f"write it into the pools of a queue: {', '.join(each.name for each in plan.scheduler.queues)}"
            yield Finding("pools.queue", "fail", text, hint, f"pools[{index}]", "warning", pool.name)


_BOUGHT_BEFORE = {"block": "a block of capacity", "reserved": "capacity that was reserved"}


def purchases(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """What is bought has to fit what is done with it."""
    for where, pool in _running(plan):
        place = f"{where}.purchase"
        if pool.purchase in _BOUGHT_BEFORE and not pool.reservation:
            text = f"pool {pool.name} is to start in {_BOUGHT_BEFORE[pool.purchase]}, and which one is not written"
            hint = "write its reservation, as the cloud calls it"
            yield Finding(f"purchase.{pool.purchase}", "fail", text, hint, place, subject=pool.name)
        in_block = any(offer.purchase == "block" for offer in pool.offers)
        if in_block and CLOUDS[plan.cloud].told and not plan.budget.notify:
            text = f"the nodes of pool {pool.name} go with their block, half an hour before it ends, and nobody is told"
            hint = "write who gets mail, as in budget: {notify: [ops@example.com]}"
            yield Finding("purchase.end", "fail", text, hint, "budget.notify", "warning", pool.name)
        if pool.purchase == "spot" and not plan.storage:
            text = (
                f"the cloud may take the nodes of pool {pool.name} back at any time, and no storage outlives them: "
                "checkpoints are lost with the nodes"
            )
            hint = "declare a storage, or write purchase: on-demand"
            yield Finding("purchase.spot", "fail", text, hint, place, "warning", pool.name)


def shapes(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Some machines are sold in whole racks or slices only, and not in every way."""
    for where, pool in _running(plan):
        shape, joined = catalog.shapes().get(pool.machine.name), joined_nodes(catalog.machines()[pool.machine.name])
        what = f"{counted(pool.count, 'node')} of {pool.machine.name} in pool {pool.name}"
        if shape is None:
            if plan.region and joined > 1 and pool.count % joined:
                text = f"whether {what} can be had: {joined} of them are a rack, and nobody says that part of one can"
                hint = f"ask {plan.cloud}, or write a multiple of {joined}"
                yield Finding("machine.shape", "unknown", text, hint, f"{where}.count", subject=pool.name)
            continue
        verdict, text, hint = _of_shape(shape, pool.count, what)
        yield Finding("machine.shape", verdict, text, hint, f"{where}.count", subject=pool.name)
        if shape.purchases and pool.purchase not in shape.purchases:
            text = f"{pool.machine.name} of pool {pool.name} is {pool.purchase}, and sold as {shape.purchases[0]} only"
            hint = f"write purchase: {shape.purchases[0]}"
            yield Finding("machine.shape", "fail", text, hint, f"{where}.purchase", subject=pool.name)


def _of_shape(shape: catalog.Shape, count: int, what: str) -> tuple[Verdict, str, str]:
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


def group_sizes(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """A pool is one group of its cloud, which takes so many nodes and no more."""
    choices = CLOUDS[plan.cloud]
    own = choices.runs(plan.scheduler.kind)
    limit = own.group_size if own else choices.group_size
    for where, pool in _running(plan):
        said: tuple[Verdict, str] | None = None
        if limit is None:
            if choices.subnets and pool.count > GROUP_UNSAID_MIN:
                said = "unknown", f"how many a group of {plan.cloud} can have: nobody has found it"
        elif pool.count > limit.nodes_max:
            said = "fail", f"a {limit.what} of {plan.cloud} has {limit.nodes_max} at most"
        elif pool.rails and limit.rails_nodes_max and pool.count > limit.rails_nodes_max:
            text = f"a {limit.what} of {plan.cloud} has its nodes on one fabric for sure up to {limit.rails_nodes_max}"
            said = "unknown", text
        if said:
            verdict, text = said
            hint = f"ask {plan.cloud}" if verdict == "unknown" else "make several pools of it"
            what = f"{counted(pool.count, 'node')} of pool {pool.name}: {text}"
            yield Finding("group.size", verdict, what, hint, f"{where}.count", subject=pool.name)


def drivers(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether a release has what the accelerators of a pool need."""
    for where, pool in _running(plan):
        if pool.machine.simulated or not pool.machine.accelerator:
            continue
        id_, place, name = "release.accelerator", f"{where}.machine", pool.machine.accelerator
        if not plan.scheduler.traits.equips_nodes:
            yield _driver_of_pods(plan, pool, place)
        elif "driver" in pool.hardware:
            text = f"release {plan.release.name} has a driver for {name} of pool {pool.name}"
            yield Finding(id_, "pass", text, "", place, subject=pool.name)
        else:
            text = f"whether nodes of pool {pool.name} have a driver for {name}: release {plan.release.name} has none"
            hint = "bring it with a role of your own, or start the nodes from an image that has it"
            yield Finding(id_, "unknown", text, hint, place, subject=pool.name)


def _driver_of_pods(plan: Plan, pool: Group, place: str) -> Finding:
    """On Kubernetes an image of nodes has it, or an operator brings it: for accelerators of NVIDIA alone, which those
    are that its operator is for."""
    name = catalog.machines()[pool.machine.name].accelerator
    if name not in catalog.releases()[plan.release.name].addons[GPU_OPERATOR].accelerators:
        text = (
            f"pods ask Kubernetes for {ACCELERATOR} here, and {pool.machine.name} of pool {pool.name} has none: its "
            f"accelerators are {name}, and no job would start there"
        )
        hint = "choose a machine with accelerators of NVIDIA, or write scheduler.kind: slurm"
        return Finding("release.accelerator", "fail", text, hint, place, subject=pool.name)
    what, brought = f"a driver for {pool.machine.accelerator}", CLOUDS[plan.cloud].brings.get(DRIVER, "")
    operator = next((each for each in plan.scheduler.addons if each.name == GPU_OPERATOR), None)
    if operator and operator.driver:
        text = f"the GPU operator brings nodes of pool {pool.name} {what}, {operator.driver}"
    elif brought:
        text = f"nodes of pool {pool.name} have {what}: {brought}"
    else:
        text = f"whether nodes of pool {pool.name} have {what}: nothing here brings one"
        hint = "take scheduler.addons.gpu_driver out, or start the nodes from an image that has it"
        return Finding("release.accelerator", "unknown", text, hint, place, subject=pool.name)
    return Finding("release.accelerator", "pass", text, "", place, subject=pool.name)


def clients(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether a release has what mounts a file system."""
    brought = {software.name for software in plan.release.clients}
    for index, each in enumerate(plan.storage):
        client = catalog.file_systems()[each.kind].mount
        if not plan.scheduler.traits.equips_nodes or client not in CLIENTS:
            continue
        id_, place, what = "release.client", f"storage[{index}].kind", f"{each.name} ({each.kind})"
        called = CLIENTS[client]
        if client in brought:
            text = f"release {plan.release.name} has the {called} that mounts {what}"
            yield Finding(id_, "pass", text, "", place, subject=each.name)
        else:
            text = f"whether nodes can mount {what}: release {plan.release.name} has no {called}"
            hint = f"none is known for {plan.release.suite}: bring it with a role of your own, or in the image"
            yield Finding(id_, "unknown", text, hint, place, subject=each.name)


def provable(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether a release has what the checks measure with; where it has, the rule says nothing."""
    if not plan.scheduler.traits.equips_nodes or plan.proof.level == "none" or "torch" in dict(plan.release.versions):
        return
    for where, pool in _running(plan):
        if "torch" not in pool.hardware:
            of = f"nodes of pool {pool.name} can be proven at level {plan.proof.level}"
            text = f"whether {of}: release {plan.release.name} has no torch for them"
            hint = f"{plan.release.suite} has none: bring it with a role of your own, or in the image"
            yield Finding("release.torch", "unknown", text, hint, f"{where}.machine", subject=pool.name)


def elastic(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """What follows from nodes that start and stop by themselves."""
    for where, pool in _running(plan):
        if not pool.elastic:
            continue
        place, all_ = f"{where}.count_min", f"{pool.counts} nodes of pool {pool.name} run"
        if not plan.release.boot:
            text = f"{all_}, and none that starts can configure itself: release {plan.release.name} has no Ansible"
            hint = "take count_min out, or another release"
            yield Finding("elastic.boot", "fail", text, hint, place, "error", pool.name)
        if pool.purchase in BOUGHT_BEFORE and not pool.fallbacks:  # which only pools with a count_min can have
            text = f"{all_}, and {pool.purchase} capacity is paid for whether it runs or not: all {pool.count} are"
            hint = "take count_min out, or buy them as they run"
            yield Finding("elastic.purchase", "fail", text, hint, place, "warning", pool.name)
        if plan.proof.level == "none":
            continue
        if pool.count_min > 1 or (pool.count_min and pool.rails == 0):
            text = (
                f"{all_}: the first proof measures {pool.count_min}, others are proven before their first job, and "
                f"what they reach together holds while all {pool.count} run"
            )
            yield Finding("elastic.proof", "pass", text, "", place, subject=pool.name)
        else:
            text = f"{all_}: the first proof measures {pool.count_min or 'none'}, and nothing between two of them"
            hint = "write count_min: 2 or more, or `stampworks qualify` when more of them run"
            yield Finding("elastic.proof", "unknown", text, hint, place, subject=pool.name)


def fabrics(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Nodes of which nobody says what NICs they have may not be able to train together."""
    for where, pool in _running(plan):
        row = catalog.machines()[pool.machine.name]
        if row.accelerators and row.nics is UNKNOWN and pool.count > joined_nodes(row):
            text = (
                f"whether {pool.count} x {row.name} of pool {pool.name} can train together: nobody says what NICs they "
                "have"
            )
            hint = f"ask {plan.cloud} for the fabric between them"
            yield Finding("fabric.nics", "unknown", text, hint, f"{where}.machine", subject=pool.name)


def one_fabric(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Pools whose NICs do not understand each other are clusters of their own."""
    rows = {pool.name: catalog.machines()[pool.machine.name] for pool in _by_name(plan) if pool.rails != 0}
    if unsaid := [name for name, row in rows.items() if row.nics is UNKNOWN]:
        if len(rows) > 1:
            text = f"whether jobs can share {', '.join(rows)}: nobody says what NICs {', '.join(unsaid)} have"
            yield Finding("fabric.mixed", "unknown", text, f"ask {plan.cloud} for the fabric between them", "pools")
        return
    ways = {name: (row.nic, row.nics, row.nic_rate_gbps) for name, row in rows.items() if not row.simulated}
    if len({*ways.values()}) < 2:
        return
    said = ", ".join(f"{name} has {count} x {rate} Gb/s of {nic}" for name, (nic, count, rate) in ways.items())
    text = f"pools have different NICs ({said}): a job over several of them goes at the pace of the slowest, if at all"
    hint = "give each pool a queue of its own, or declare clusters of their own"
    spoken = {catalog.protocol_of(rows[name]) for name in ways}
    if len(spoken) > 1 and "infiniband" in spoken:
        others = ", ".join(sorted(spoken - {"infiniband"}))
        text = f"pools have different NICs ({said}): no rail joins InfiniBand with {others}"
        yield Finding("fabric.mixed", "fail", text, "declare clusters of their own", "pools")
        return
    yield Finding("fabric.mixed", "fail", text, hint, "pools", "warning")


def known_facts_of_machines(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """What nobody has published of a machine is missing in everything that follows from it."""
    for where, pool in _running(plan):
        row = catalog.machines()[pool.machine.name]
        if row.simulated:
            continue
        accelerator = catalog.accelerators()[row.accelerator] if row.accelerator else None
        facts_of = {
            "cores": row.cores,
            "memory": row.memory_mib,
            "NICs": row.nics,
            "rate of a NIC": row.nic_rate_gbps if catalog.known_nics(row) else 0,
            "NVLink": row.nvlink_nodes if row.accelerators > 1 else 0,
            "accelerator memory": accelerator.memory_gib if accelerator else 0,
            "accelerator peak": accelerator.bf16_dense_tflops if accelerator else 0,
        }
        missing = [name for name, fact in facts_of.items() if isinstance(fact, catalog.Unknown)]
        if missing:
            text = f"the catalog does not know of {row.name}: {', '.join(missing)}; what follows from that is missing"
            hint = f"look it up and write it into catalog/machines/{row.cloud}.yaml"
            yield Finding("machine.facts", "unknown", text, hint, f"{where}.machine", subject=pool.name)


def file_systems_of(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """What cannot be is refused before there is a plan; here is what nobody can tell, and what nodes wait for."""
    for index, one in enumerate(plan.storage):
        if one.kind == DIRECTORY:
            continue
        place = f"storage[{index}]"
        for finding in file_systems.check(storage.options(one), plan.cloud):
            text, where = f"{one.name}: {finding.text}", f"{place}.{finding.option}"
            yield Finding("storage.legal", finding.verdict, text, finding.hint, where, subject=one.name)
        yield from _efa(plan, one, place)
        yield from _fleet(plan, one, place)
        yield from _zone_of(plan, one)


def runs(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether the first storage can have their folders; where it can, the rule says nothing."""
    holds = [one for one in plan.storage if one.kind == DIRECTORY or catalog.file_systems()[one.kind].posix]
    if not plan.storage or plan.storage[0] in holds:
        return
    text = (
        f"runs have their folders on the first storage, and {plan.storage[0].name} is a bucket: it appends to no file"
    )
    place, id_ = "storage[0]", "storage.runs"
    if holds:
        yield Finding(id_, "fail", text, f"declare {holds[0].name} before it", place)
    else:
        hint = "declare a file system before it; without one `submit` refuses every run"
        yield Finding(id_, "fail", text, hint, place, "warning")


def kept(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether checkpoints can be where they are declared; where they can, the rule says nothing."""
    directory = plan.training.checkpoints.directory
    for one in plan.storage:
        if not directory or not f"{directory}/".startswith(f"{one.mount}/"):
            continue
        if one.kind != DIRECTORY and not catalog.file_systems()[one.kind].posix:
            text = f"checkpoints are to be in {directory}, and {one.name} is a bucket: it renames no folder"
            hint = "write a directory on a file system, or leave it out"
            yield Finding("storage.checkpoints", "fail", text, hint, "training.checkpoints.directory")


def vouched(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether the head learns whose certificate its database may show; where it does, the rule says nothing."""
    if plan.scheduler.database == "managed" and plan.network.egress == "none":
        text = "whether slurmdbd believes its database: who vouches for it is published where no node gets to"
        hint = "have a role of your own write /etc/slurm/database-authorities.pem, or write egress: nat"
        yield Finding("scheduler.database", "unknown", text, hint, "scheduler.database")


def _zone_of(plan: Plan, one: Storage) -> Iterator[Finding]:
    row, named = file_systems.resolve(storage.options(one)), {pool.zone for pool in plan.pools}
    if row is None or row.zone != "zone" or len(named) < 2:
        return
    if "" in named:
        text = f"{one.name} stands in one zone, and not every pool says in which it is"
        yield Finding("storage.zone", "unknown", text, "write the zone at each pool", "pools", "warning", one.name)
    else:
        text = f"{one.name} stands in one zone and the pools in {len(named)}: nodes elsewhere wait longer and pay"
        yield Finding("storage.zone", "fail", text, "put all pools into one zone", "pools", "warning", one.name)


def _efa(plan: Plan, one: Storage, place: str) -> Iterator[Finding]:
    """Whether the nodes can reach over EFA what is declared with it."""
    machines = {pool.name: catalog.machines()[pool.machine.name] for _, pool in _running(plan)}
    asked, takes = storage.options(one), catalog.efa_clients().get(one.kind)
    nodes = sum(pool.count for _, pool in _running(plan) if file_systems.over_efa(asked, machines[pool.name]))
    if takes and nodes > takes.connections:
        text = f"{one.name} takes {takes.connections:,} nodes over EFA, and there are {nodes:,}: all reach it over TCP"
        hint = "take efa out, or share the nodes among more clusters"
        yield Finding("storage.efa", "fail", text, hint, f"{place}.efa", "warning", one.name)
    without = [name for name, row in machines.items() if not file_systems.over_efa(asked, row)]
    if not one.efa or not without:
        return
    have = ", ".join(f"{machines[name].name} of pool {name}" for name in without)
    text = f"{one.name} is to be reached over EFA, which {have} cannot: over TCP a node reaches less"
    hint = "take efa out, or take machines that have it"
    severity: Severity = "error" if len(without) == len(machines) else "warning"
    yield Finding("storage.efa", "fail", text, hint, f"{place}.efa", severity, one.name)


def _fleet(plan: Plan, one: Storage, place: str) -> Iterator[Finding]:
    """How much time is lost where all accelerators save all that they hold, as often as is best."""
    pools = [pool for _, pool in _running(plan) if pool.machine.accelerators]
    accelerators = sum(pool.count * pool.machine.accelerators for pool in pools)
    if not accelerators:
        return
    mounted = storage.mounted(one, plan.groups, plan.cloud)
    what = f"how long {accelerators} accelerators write down their memory to {one.name}"
    held = [pool.count * pool.machine.accelerators * (pool.machine.accelerator_memory_gib or 0) for pool in pools]
    if isinstance(mounted.delivered.write, catalog.Unknown) or not all(held):
        missing = mounted.delivered.notes.get("write", "the catalog does not know how large it is")
        hint = "measure it, or ask its vendor"
        yield Finding("storage.fleet", "unknown", f"{what}: {missing}", hint, place, subject=one.name)
        return
    rate = mounted.writes([(catalog.machines()[pool.machine.name], pool.count) for pool in pools])
    takes = write_seconds(sum(held) * GIB, rate)
    often, rarely = mtbf_range_hours(accelerators, catalog.deployments().values())
    least, most = (1 - goodput(takes.value, 0, each.value * 3600).value for each in (rarely, often))
    text = (
        f"{what}: {figure(takes.value)} s, {takes.why}; at the best interval that takes, with work done again, "
        f"{least:.1%} to {most:.1%} of the time, for so many fail once in {figure(rarely.value)} h ({rarely.why}) to "
        f"{figure(often.value)} h ({often.why}); {LOST_SHARE_MAX:.0%} is too much"
    )
    if most <= LOST_SHARE_MAX:
        yield Finding("storage.fleet", "pass", text, "", place, subject=one.name)
    else:
        verdict: Verdict = "fail" if least > LOST_SHARE_MAX else "unknown"
        hint = "buy more throughput or capacity, or save less: not all that is in memory belongs to a checkpoint"
        yield Finding("storage.fleet", verdict, text, hint, place, "warning", one.name)


def prices(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Prices of accelerators have moved by half within a quarter: one that is older says little."""
    told = set()
    for what, place, price in _priced(plan):
        if isinstance(price, NoPrice) or what in told:
            continue  # that it is missing, the cost says
        told.add(what)
        verdict, text, hint = _age(what, price.as_of, facts.as_of)
        yield Finding("price.age", verdict, text, hint, place, "warning", what)


def budget(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether what is declared costs no more than it may."""
    limit, charges = plan.budget.monthly_usd, [each for each in cost(plan).charges if each.sold]
    if not limit or not charges:
        return
    least = MONTH_HOURS * sum(each.usd_per_hour_min or 0 for each in charges)
    most = MONTH_HOURS * sum(each.usd_per_hour or 0 for each in charges)
    unpriced = [each.what for each in charges if each.usd_per_hour is None]
    range_ = f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    used = by_use(plan)
    left_out = [f"{', '.join(unpriced)}, of which no price is known"] if unpriced else []
    left_out += [f"what storage {', '.join(used)} holds and moves"] if used else []
    without = f" without {', and '.join(left_out)}" if left_out else ""
    text = f"a month of {MONTH_HOURS} hours costs {range_} USD{without}; the budget is {limit:,} USD"
    place, more = "budget.monthly_usd", f"write {math.ceil(most)} or more, or take nodes out"
    if least > limit:
        yield Finding("cost.budget", "fail", text, more, place)
    elif unpriced:
        yield Finding("cost.budget", "unknown", text, "ask the cloud what it costs, and renew the catalog", place)
    elif most > limit:
        text += ", which is spent before the month ends where all nodes run"
        yield Finding("cost.budget", "fail", text, more, place, "warning")
    elif used:
        yield Finding("cost.budget", "unknown", text, "reckon by the data that you expect there", place)
    else:
        yield Finding("cost.budget", "pass", text, "", place)


def told(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001
    """Whether there is something to tell the people of; where there is, the rule says nothing."""
    in_block = any(offer.purchase == "block" for pool in plan.pools for offer in pool.offers)
    if plan.budget.notify and CLOUDS[plan.cloud].told and not plan.budget.monthly_usd and not in_block:
        text = "nobody gets any mail: there is no budget that could be spent, and no block of capacity that ends"
        hint = "write budget.monthly_usd, or take notify out"
        yield Finding("cost.notify", "fail", text, hint, "budget.notify", "warning")


def _priced(plan: Plan) -> Iterator[tuple[str, str, catalog.Price | catalog.StoragePrice | NoPrice]]:
    """What is sold, where that is declared, and its price."""
    places = {pool.name: f"{where}.machine" for where, pool in _running(plan)}
    for group in plan.running:
        place = places.get(group.name, "")
        yield f"{group.machine.name} ({group.purchase})", place, price_of(plan, group)
    for index, one in enumerate(plan.storage):
        yield " ".join(filter(None, (one.kind, one.tier))), f"storage[{index}]", price_of_storage(plan, one)


def _age(what: str, as_of: str | catalog.Unknown, today: str | None) -> tuple[Verdict, str, str]:
    if isinstance(as_of, catalog.Unknown):
        return "unknown", f"the price of {what}: its source says no date", "ask the cloud"
    text = f"the price of {what} is of {as_of}"
    if today is None:
        return "unknown", f"{text}, and nobody said what day it is", ""
    if _months(as_of, today) <= PRICE_MONTHS_MAX:
        return "pass", text, ""
    return "fail", f"{text}: more than {PRICE_MONTHS_MAX} months before {today}", "ask the cloud, and renew the catalog"


def _months(earlier: str, later: str) -> int:
    (year, month), (now, this) = (map(int, text.split("-")[:2]) for text in (earlier, later))
    return (now - year) * 12 + this - month


RULES: tuple[Rule, ...] = (
    loopback,
    addresses,
    storage_addresses,
    pods,
    queues,
    without_queue,
    managed,
    addons,
    region,
    zones,
    subnets_of_nodes,
    purchases,
    shapes,
    group_sizes,
    drivers,
    clients,
    provable,
    elastic,
    *preflight.RULES,
    fabrics,
    one_fabric,
    known_facts_of_machines,
    memory_fit,
    idle,
    file_systems_of,
    runs,
    kept,
    vouched,
    prices,
    budget,
    told,
    launching.lookups,  # what is no mistake of whoever declares comes after what is
)
