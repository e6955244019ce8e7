"""The network between the GPUs: rails, leaves and trunks."""

from __future__ import annotations

from stampworks.declaration import Declaration
from stampworks.plan import Fabric, Group, Leaf, Rail, Trunk
from stampworks.planning.layout import Layout
from stampworks.planning.notes import Notes


def build(declaration: Declaration, layout: Layout, notes: Notes) -> Fabric:
    declared = declaration.fabric
    trunk_mbps = -(-declared.leaf_nodes * declared.rail_rate_mbps // declared.oversubscription)
    rails = tuple(
        Rail(
            index=index,
            interface=f"rail{index}",
            cidr=str(cidr),
            rate_mbps=declared.rail_rate_mbps,
            trunks=_trunks(leaves_of_rail(layout.groups, layout.leaves, index), trunk_mbps),
        )
        for index, cidr in enumerate(layout.address_map.networks[1:])
    )
    fabric = Fabric(
        kind=declared.kind,
        oversubscription=declared.oversubscription,
        leaf_nodes=declared.leaf_nodes,
        rails=rails,
        leaves=layout.leaves,
    )
    _check_accelerators(layout, notes)
    _say_why(fabric, layout, trunk_mbps, notes)
    return fabric


def leaves_of_rail(groups: tuple[Group, ...], leaves: tuple[Leaf, ...], rail: int) -> tuple[Leaf, ...]:
    """The leaves that have nodes on a rail: nodes of a machine with fewer NICs meet the first rails only."""
    there = {node.leaf for group in groups for node in group.nodes if rail < len(node.rail_addresses)}
    return tuple(leaf for leaf in leaves if leaf.name in there)


def _trunks(leaves: tuple[Leaf, ...], rate_mbps: int) -> tuple[Trunk, ...]:
    return tuple(Trunk(leaf.name, rate_mbps) for leaf in leaves) if len(leaves) > 1 else ()


def _check_accelerators(layout: Layout, notes: Notes) -> None:
    for index, pool in enumerate(group for group in layout.groups if group.role != "controller"):
        if pool.machine.accelerators and pool.count > 1 and not pool.nodes[0].leaf:
            notes.problem(
                f"pools[{index}].machine",
                f"{pool.machine.name} has {pool.machine.accelerators} accelerators and no NIC on the fabric: the "
                f"{pool.count} nodes of pool {pool.name} cannot train together",
                "choose a machine with NICs, or make it a pool of one node",
            )


def _say_why(fabric: Fabric, layout: Layout, trunk_mbps: int, notes: Notes) -> None:
    if not fabric.rails:
        notes.reason("fabric.rails", "none: no pool's machine has a NIC on the fabric")
        return
    widest = next(
        group for group in layout.groups for node in group.nodes if len(node.rail_addresses) == len(fabric.rails)
    )
    notes.reason(
        "fabric.rails",
        f"{len(fabric.rails)}: {widest.machine.name} of pool {widest.name} has that many NICs on the fabric, and no "
        "machine has more",
    )
    notes.reason(
        "fabric.leaves",
        f"the nodes of a pool in runs of {fabric.leaf_nodes}; leaf2-1 is the first leaf of the second pool, so that "
        "growth of one pool renames nothing in another",
    )
    if any(rail.trunks for rail in fabric.rails):
        rate = fabric.rails[0].rate_mbps
        notes.reason(
            "fabric.trunks",
            f"{fabric.leaf_nodes} nodes x {rate} Mb/s / {fabric.oversubscription} = {trunk_mbps} Mb/s from a leaf to "
            "the spine, counted for a full leaf, so that growth changes no trunk",
        )
    else:
        notes.reason("fabric.trunks", "none: one leaf holds all nodes, so that no spine is needed")
