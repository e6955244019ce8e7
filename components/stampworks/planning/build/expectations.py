"""Expect the rates that the finished cluster can reach, each number with its derivation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stampworks import catalog
from stampworks.physics import links
from stampworks.physics.bounds import Bound, UnknownFactError, rounded
from stampworks.physics.collectives import Operation
from stampworks.physics.links import LeafLoad
from stampworks.physics.machines import collective_on_machines
from stampworks.plan import Expectation, Fabric, Group, Rail
from stampworks.planning.build.fabric import leaves_of_rail
from stampworks.planning.build.notes import Notes
from stampworks.text.amounts import counted

OPERATIONS: tuple[Operation, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def expect(fabric: Fabric, groups: tuple[Group, ...], notes: Notes) -> tuple[Expectation, ...]:
    """Return expectations; for an unknown fact of a machine, note a reason that names the fact."""
    if fabric.kind != "simulated":
        return tuple(
            each for group in groups if group.role == "worker" for each in _machine_expectations(group, fabric, notes)
        )
    kind = catalog.fabrics()[fabric.kind]
    loads = [(rail, _loads(rail, fabric, groups)) for rail in fabric.rails]
    shared = [(rail, leaves) for rail, leaves in loads if sum(leaf.nodes for leaf in leaves) > 1]
    spanning = [(rail, leaves) for rail, leaves in shared if rail.trunks]
    return (
        *(_busbw(rail.interface, links.ring_ceiling(rail.rate_mbps, leaves, kind)) for rail, leaves in shared),
        *(
            _busbw(f"{rail.interface}.worst_order", links.worst_ring_ceiling(rail.rate_mbps, leaves, kind))
            for rail, leaves in spanning
        ),
        *(each for group in groups for each in _pool_expectations(group, fabric, kind)),
        *_bisection(shared),
    )


def _machine_expectations(group: Group, fabric: Fabric, notes: Notes) -> Iterator[Expectation]:
    """Expect the bounds of a node and of the whole pool, from the vendors' link rates: the maximum, and the minimum of
    a healthy machine."""
    row = catalog.machines()[group.machine.name]
    leaves = _trunks_of(group, fabric)
    for who, nodes in ((f"{group.name}.node", 1), (group.name, group.count)):
        if row.accelerators * nodes < 2 or (nodes == 1 and who == group.name):
            continue
        for operation in OPERATIONS:
            name = f"{who}.{operation.replace('_', '')}_busbw_gbs"
            try:
                bounds = collective_on_machines(operation, nodes, None, row, leaves=leaves if nodes > 1 else ())
            except UnknownFactError as error:
                notes.reason(name, f"unknown: {error}")
                continue
            yield Expectation(f"{name}_max", rounded(bounds.ceiling.value), "GB/s", bounds.ceiling.why)
            yield Expectation(f"{name}_min", rounded(bounds.floor.value), "GB/s", bounds.floor.why)


def _trunks_of(group: Group, fabric: Fabric) -> list[LeafLoad]:
    """Return a pool's leaves, each with the sum of its trunks on all rails; none when the fabric belongs to a cloud."""
    trunks: Counter[str] = Counter()
    for rail in fabric.met_by(group):
        trunks.update({trunk.leaf: trunk.rate_mbps for trunk in rail.trunks})
    return links.leaf_loads((node.leaf for node in group.nodes), trunks)


def _pool_expectations(group: Group, fabric: Fabric, kind: catalog.Fabric) -> Iterator[Expectation]:
    rails = fabric.met_by(group)
    if not rails or group.count < 2:
        return
    ceilings = [links.ring_ceiling(rail.rate_mbps, _loads(rail, fabric, (group,)), kind) for rail in rails]
    total = Bound(
        sum(ceiling.value for ceiling in ceilings),
        f"{len(rails)} x {rounded(ceilings[0].value):g} GB/s: a node's data split over its rails, all nodes of the "
        "pool in leaf order",
    )
    yield _busbw(group.name, total)


def _bisection(shared: list[tuple[Rail, list[LeafLoad]]]) -> Iterator[Expectation]:
    halves = [(rail, leaves, links.bisection_mbps(rail.rate_mbps, leaves)) for rail, leaves in shared]
    for rail, leaves, mbps in halves:
        nodes = sum(leaf.nodes for leaf in leaves)
        middle = "over the trunks where their leaves differ" if rail.trunks else "through their leaf"
        why = f"{nodes // 2} of {nodes} nodes, in leaf order, send to the others {middle}; bits of one direction"
        yield Expectation(f"{rail.interface}.bisection_gbps", rounded(mbps / 1000), "Gb/s", why)
    if halves:
        total = sum(mbps for _, _, mbps in halves)
        yield Expectation(
            "fabric.bisection_gbps", rounded(total / 1000), "Gb/s", f"the sum of {counted(len(halves), 'rail')}"
        )


def _loads(rail: Rail, fabric: Fabric, groups: tuple[Group, ...]) -> list[LeafLoad]:
    leaves = leaves_of_rail(groups, fabric.leaves, rail.index)
    trunks = {trunk.leaf: trunk.rate_mbps for trunk in rail.trunks}
    return links.leaf_loads((leaf.name for leaf in leaves for _ in leaf.nodes), trunks)


def _busbw(who: str, ceiling: Bound) -> Expectation:
    return Expectation(f"{who}.allreduce_busbw_gbs_max", rounded(ceiling.value), "GB/s", ceiling.why)
