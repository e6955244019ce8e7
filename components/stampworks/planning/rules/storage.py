"""Storage: valid options, the path to it, and the time that checkpoints take."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.declaration.values import DIRECTORY
from stampworks.physics.bounds import figure
from stampworks.physics.checkpoints import write_seconds
from stampworks.physics.failures import goodput, mtbf_range_hours
from stampworks.physics.memory import GIB
from stampworks.plan import Plan, Storage
from stampworks.planning.build import file_systems, storage
from stampworks.planning.rules.findings import Finding, Severity, Verdict
from stampworks.planning.rules.pools import running

LOST_SHARE_MAX = 0.1
"""Maximum share of time that failures may cost. Llama 3 lost less to all causes together, on 16,384 accelerators (arXiv
2407.21783, 3.3.4)."""


def file_systems_of(plan: Plan) -> Iterator[Finding]:
    """Each file system has valid options, is reachable as declared, fast enough for its fleet, and near its nodes.

    Invalid options are refused before there is a plan. The findings are about unpublished options, and about the time
    that nodes wait.
    """
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


def _efa(plan: Plan, one: Storage, place: str) -> Iterator[Finding]:
    """Judge whether nodes reach storage over EFA where it is declared with EFA."""
    machines = {pool.name: catalog.machines()[pool.machine.name] for _, pool in running(plan)}
    asked, takes = storage.options(one), catalog.efa_clients().get(one.kind)
    nodes = sum(pool.count for _, pool in running(plan) if file_systems.over_efa(asked, machines[pool.name]))
    if takes and nodes > takes.connections:
        text = (
            f"{one.name} takes at most {takes.connections:,} nodes over EFA, and there are {nodes:,}: all "
            "reach it over TCP"
        )
        hint = "take efa out, or share the nodes among more clusters"
        yield Finding("storage.efa", "fail", text, hint, f"{place}.efa", "warning", one.name)
    without = [name for name, row in machines.items() if not file_systems.over_efa(asked, row)]
    if not one.efa or not without:
        return
    have = ", ".join(f"{machines[name].name} of pool {name}" for name in without)
    text = f"{one.name} is declared with EFA, which {have} cannot use: throughput over TCP is lower"
    hint = "take efa out, or take machines that have it"
    severity: Severity = "error" if len(without) == len(machines) else "warning"
    yield Finding("storage.efa", "fail", text, hint, f"{place}.efa", severity, one.name)


def _fleet(plan: Plan, one: Storage, place: str) -> Iterator[Finding]:
    """Judge the time lost when all accelerators save all their memory at the best interval."""
    pools = [pool for _, pool in running(plan) if pool.machine.accelerators]
    accelerators = sum(pool.count * pool.machine.accelerators for pool in pools)
    if not accelerators:
        return
    mounted = storage.mounted(one, plan.groups, plan.cloud)
    what = f"the time to save the memory of {accelerators} accelerators to {one.name}"
    held = [pool.count * pool.machine.accelerators * (pool.machine.accelerator_memory_gib or 0) for pool in pools]
    if isinstance(mounted.delivered.write, catalog.Unknown) or not all(held):
        missing = mounted.delivered.notes.get("write", "the catalog does not know its size")
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
        hint = "buy more throughput or capacity, or save less: a checkpoint needs only a part of the memory"
        yield Finding("storage.fleet", verdict, text, hint, place, "warning", one.name)


def _zone_of(plan: Plan, one: Storage) -> Iterator[Finding]:
    """Judge whether the pools are in the zone of a zonal file system."""
    row, named = file_systems.resolve(storage.options(one)), {pool.zone for pool in plan.pools}
    if row is None or row.zone != "zone" or len(named) < 2:
        return
    if "" in named:
        text = f"{one.name} is in one zone, and not every pool declares its zone"
        yield Finding("storage.zone", "unknown", text, "write the zone at each pool", "pools", "warning", one.name)
    else:
        text = (
            f"{one.name} is in one zone and the pools in {len(named)}: traffic from other zones is slower "
            "and costs money"
        )
        yield Finding("storage.zone", "fail", text, "put all pools into one zone", "pools", "warning", one.name)


def runs(plan: Plan) -> Iterator[Finding]:
    """The first storage can hold the folders of runs.

    Storage that can gets no finding.
    """
    holds = [one for one in plan.storage if one.kind == DIRECTORY or catalog.file_systems()[one.kind].posix]
    if not plan.storage or plan.storage[0] in holds:
        return
    text = (
        f"runs have their folders on the first storage, and {plan.storage[0].name} is a bucket, which cannot "
        "append to files"
    )
    place, id_ = "storage[0]", "storage.runs"
    if holds:
        yield Finding(id_, "fail", text, f"declare {holds[0].name} before it", place)
    else:
        hint = "declare a file system before it; without one `submit` refuses every run"
        yield Finding(id_, "fail", text, hint, place, "warning")


def kept(plan: Plan) -> Iterator[Finding]:
    """Checkpoints can be kept in the declared directory.

    A directory that can hold them gets no finding.
    """
    directory = plan.training.checkpoints.directory
    for one in plan.storage:
        if not directory or not f"{directory}/".startswith(f"{one.mount}/"):
            continue
        if one.kind != DIRECTORY and not catalog.file_systems()[one.kind].posix:
            text = f"checkpoints are declared in {directory}, and {one.name} is a bucket, which cannot rename folders"
            hint = "write a directory on a file system, or leave it out"
            yield Finding("storage.checkpoints", "fail", text, hint, "training.checkpoints.directory")
