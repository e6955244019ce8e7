"""Fabrics: rails, NICs, and the catalog's facts about machines."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.plan import Plan
from stampworks.planning.build.leaves import joined_nodes
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.pools import by_name, running
from stampworks.text.amounts import counted

LOOPBACK = "fabric.loopback"
HEADROOM = 2
"""Factor by which all rails together must fit. Shapers that compete with jobs for cores miss their rates."""


def loopback(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """This machine can carry all simulated rails at twice their declared rates at once."""
    if plan.fabric.kind != "simulated":
        return
    links = [
        rail.rate_mbps
        for group in plan.groups
        for node in group.nodes
        for rail in plan.fabric.rails[: len(node.rail_addresses)]
    ]
    if not links:
        yield Finding(LOOPBACK, "pass", "the plan has no simulated rails", "")
        return
    need = HEADROOM * sum(links)
    sum_text = f"{counted(len(links), 'simulated link')} x {links[0]} Mb/s x {HEADROOM} for headroom = {need} Mb/s"
    measured = facts.loopback_mbps
    if measured is None:
        text = f"{sum_text}, and the capacity of this machine was not measured"
        yield Finding(LOOPBACK, "unknown", text, "run `stampworks facts`")
    elif need <= measured:
        yield Finding(LOOPBACK, "pass", f"{sum_text}, and this machine carries {measured} Mb/s", "")
    else:
        text, hint = f"{sum_text}, but this machine carries {measured} Mb/s", _rate_hint(measured, links)
        yield Finding(LOOPBACK, "fail", text, hint, "fabric.rail_rate_mbps")


def _rate_hint(measured_mbps: int, links: list[int]) -> str:
    """Return a hint with the rate that would fit."""
    rate = measured_mbps // (HEADROOM * len(links))
    if rate < 1:
        return f"take nodes out: not even 1 Mb/s a rail would fit for {counted(len(links), 'link')}"
    return (
        f"write fabric.rail_rate_mbps: {rate} or less, or take nodes out; was the machine busy? `stampworks facts` "
        "measures again"
    )


def fabrics(plan: Plan) -> Iterator[Finding]:
    """The catalog knows the NICs of nodes that train together."""
    for where, pool in running(plan):
        row = catalog.machines()[pool.machine.name]
        if row.accelerators and row.nics is UNKNOWN and pool.count > joined_nodes(row):
            text = (
                f"whether {pool.count} x {row.name} of pool {pool.name} can train together: their NICs are not "
                "published"
            )
            hint = f"ask {plan.cloud} about the fabric between them"
            yield Finding("fabric.nics", "unknown", text, hint, f"{where}.machine", subject=pool.name)


def one_fabric(plan: Plan) -> Iterator[Finding]:
    """Jobs can share all pools: their NICs speak one protocol at one rate."""
    rows = {pool.name: catalog.machines()[pool.machine.name] for pool in by_name(plan) if pool.rails != 0}
    if unsaid := [name for name, row in rows.items() if row.nics is UNKNOWN]:
        if len(rows) > 1:
            text = f"whether jobs can share {', '.join(rows)}: the NICs of {', '.join(unsaid)} are not published"
            yield Finding("fabric.mixed", "unknown", text, f"ask {plan.cloud} about the fabric between them", "pools")
        return
    ways = {name: (row.nic, row.nics, row.nic_rate_gbps) for name, row in rows.items() if not row.simulated}
    if len({*ways.values()}) < 2:
        return
    said = ", ".join(f"{name} has {count} x {rate} Gb/s of {nic}" for name, (nic, count, rate) in ways.items())
    text = f"pools have different NICs ({said}): a job over several of them is as slow as the slowest, or fails"
    hint = "give each pool a queue of its own, or declare clusters of their own"
    spoken = {catalog.protocol_of(rows[name]) for name in ways}
    if len(spoken) > 1 and "infiniband" in spoken:
        others = ", ".join(sorted(spoken - {"infiniband"}))
        text = f"pools have different NICs ({said}): no rail joins InfiniBand with {others}"
        yield Finding("fabric.mixed", "fail", text, "declare clusters of their own", "pools")
        return
    yield Finding("fabric.mixed", "fail", text, hint, "pools", "warning")


def known_facts_of_machines(plan: Plan) -> Iterator[Finding]:
    """The catalog knows every fact about a machine from which the plan derives figures."""
    for where, pool in running(plan):
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
            text = f"the catalog lacks facts of {row.name}: {', '.join(missing)}; results that need them are missing"
            hint = f"look it up and write it into catalog/machines/{row.cloud}.yaml"
            yield Finding("machine.facts", "unknown", text, hint, f"{where}.machine", subject=pool.name)
