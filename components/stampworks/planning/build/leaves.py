"""Leaves: how many nodes share one, and which nodes are on each."""

from __future__ import annotations

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.plan import Group, Leaf
from stampworks.planning.fat_tree.tree import FabricError, NoFatTreeError, design

SIMULATED_LEAF_NODES = 2
REAL_LEAF_NODES = 32
"""Where no switch of the catalog takes the NICs: half of the ports of one with 64; the other half are uplinks."""


def joined_nodes(row: catalog.Machine) -> int:
    """Return how many nodes share links between their accelerators; 1 where the catalog does not know."""
    return row.nvlink_nodes if isinstance(row.nvlink_nodes, int) else 1


def leaf_size(declaration: Declaration) -> int:
    """Return how many nodes of a pool share a leaf: with several kinds of NICs, as many as the smallest switch takes."""
    if declaration.fabric.leaf_nodes:
        return declaration.fabric.leaf_nodes
    rows = [catalog.machines()[pool.machine] for pool in declaration.pools if not pool.scheduling_only]
    real = [row for row in rows if catalog.known_nics(row) and not row.simulated]
    return min((unit_of(row, declaration.fabric.oversubscription) for row in real), default=SIMULATED_LEAF_NODES)


def unit_of(row: catalog.Machine, oversubscription: int) -> int:
    """Return how many nodes of a machine a leaf takes."""
    try:
        return design(row, 1, oversubscription=oversubscription).unit
    except (FabricError, NoFatTreeError):
        return REAL_LEAF_NODES


def leaves_of(pools: list[Group]) -> tuple[Leaf, ...]:
    """Return the leaves with their nodes; pools for scheduling only are in no fabric."""
    leaves: dict[str, list[str]] = {}
    for node in (node for pool in pools if pool.role == "worker" for node in pool.nodes if node.leaf):
        leaves.setdefault(node.leaf, []).append(node.name)
    return tuple(Leaf(name, tuple(nodes)) for name, nodes in leaves.items())
