"""Leaves: the number of nodes on each, and their names."""

from __future__ import annotations

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.plan import Group, Leaf
from stampworks.planning.fat_tree.tree import FabricError, NoFatTreeError, design

SIMULATED_LEAF_NODES = 2
REAL_LEAF_NODES = 32
"""Default if no switch in the catalog fits the NICs: half the ports of a switch with 64; the other half are uplinks."""


def joined_nodes(row: catalog.Machine) -> int:
    """Return the number of nodes that share links between their accelerators; 1 when unknown."""
    return row.nvlink_nodes if isinstance(row.nvlink_nodes, int) else 1


def leaf_size(declaration: Declaration) -> int:
    """Return the number of nodes that share a leaf; with several kinds of NICs, that of the smallest switch."""
    if declaration.fabric.leaf_nodes:
        return declaration.fabric.leaf_nodes
    rows = [catalog.machines()[pool.machine] for pool in declaration.pools if not pool.scheduling_only]
    real = [row for row in rows if catalog.known_nics(row) and not row.simulated]
    return min((unit_of(row, declaration.fabric.oversubscription) for row in real), default=SIMULATED_LEAF_NODES)


def unit_of(row: catalog.Machine, oversubscription: int) -> int:
    """Return the number of nodes of a machine on a leaf."""
    try:
        return design(row, 1, oversubscription=oversubscription).unit
    except (FabricError, NoFatTreeError):
        return REAL_LEAF_NODES


def leaves_of(pools: list[Group]) -> tuple[Leaf, ...]:
    """Return the leaves with their nodes; scheduling-only pools are on no fabric."""
    leaves: dict[str, list[str]] = {}
    for node in (node for pool in pools if pool.role == "worker" for node in pool.nodes if node.leaf):
        leaves.setdefault(node.leaf, []).append(node.name)
    return tuple(Leaf(name, tuple(nodes)) for name, nodes in leaves.items())
