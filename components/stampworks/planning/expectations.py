"""What the finished cluster can be expected to reach, each number with its derivation."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.physics import links
from stampworks.physics.links import Ceiling, LeafLoad
from stampworks.plan import Expectation, Fabric, Group, Rail
from stampworks.planning.fabric import leaves_of_rail


def expect(fabric: Fabric, groups: tuple[Group, ...]) -> tuple[Expectation, ...]:
    kind = catalog.fabrics()[fabric.kind]
    loads = [(rail, _loads(rail, fabric, groups)) for rail in fabric.rails]
    shared = [(rail, leaves) for rail, leaves in loads if sum(leaf.nodes for leaf in leaves) > 1]
    return (
        *(each for rail, leaves in shared for each in _of_rail(rail, leaves, kind)),
        *(each for group in groups for each in _of_pool(group, fabric, kind)),
        *_bisection(shared),
    )


def _of_rail(rail: Rail, leaves: list[LeafLoad], kind: catalog.Fabric) -> Iterator[Expectation]:
    name = f"{rail.interface}.allreduce"
    yield _busbw(f"{name}.busbw_gbs_max", links.ring_ceiling(rail.rate_mbps, leaves, kind))
    if rail.trunks:
        yield _busbw(f"{name}.worst_order.busbw_gbs_max", links.worst_ring_ceiling(rail.rate_mbps, leaves, kind))


def _of_pool(group: Group, fabric: Fabric, kind: catalog.Fabric) -> Iterator[Expectation]:
    rails = fabric.rails[: len(group.nodes[0].rail_addresses)] if group.nodes else ()
    if not rails or group.count < 2:
        return
    ceilings = [links.ring_ceiling(rail.rate_mbps, _loads(rail, fabric, (group,)), kind) for rail in rails]
    total = Ceiling(
        sum(ceiling.value for ceiling in ceilings),
        f"the data of a node split over its {len(rails)} rails, {ceilings[0].value:.4g} GB/s each, all nodes of the "
        "pool in leaf order",
    )
    yield _busbw(f"{group.name}.allreduce.busbw_gbs_max", total)


def _bisection(shared: list[tuple[Rail, list[LeafLoad]]]) -> Iterator[Expectation]:
    halves = [(rail, leaves, links.bisection_mbps(rail.rate_mbps, leaves)) for rail, leaves in shared]
    for rail, leaves, mbps in halves:
        nodes = sum(leaf.nodes for leaf in leaves)
        middle = "through the trunks between them" if rail.trunks else "through their leaf"
        why = f"{nodes // 2} of {nodes} nodes, in leaf order, send to the others {middle}; bits of one direction"
        yield Expectation(f"{rail.interface}.bisection_gbps", _round(mbps / 1000), "Gb/s", why)
    if halves:
        total = sum(mbps for _, _, mbps in halves)
        yield Expectation("fabric.bisection_gbps", _round(total / 1000), "Gb/s", f"the sum of {len(halves)} rails")


def _loads(rail: Rail, fabric: Fabric, groups: tuple[Group, ...]) -> list[LeafLoad]:
    trunks = {trunk.leaf: trunk.rate_mbps for trunk in rail.trunks}
    leaves = leaves_of_rail(groups, fabric.leaves, rail.index)
    if len(leaves) == 1:
        trunks = {}
    return [LeafLoad(len(leaf.nodes), trunks.get(leaf.name, 0)) for leaf in leaves]


def _busbw(name: str, ceiling: Ceiling) -> Expectation:
    return Expectation(name, _round(ceiling.value), "GB/s", ceiling.why)


def _round(value: float) -> float:
    """Four significant digits: more than any measurement has."""
    return float(f"{value:.4g}")
