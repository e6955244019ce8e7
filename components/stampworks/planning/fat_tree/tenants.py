"""Tenants of one fabric: their nodes, and the number that separates their traffic.

InfiniBand has partitions: a P_Key of 15 bits, with one more bit for full members; 0x7fff is the partition of the subnet
managers. Ethernet has VLANs from 1 to 4094; 1 is the default VLAN of all ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from stampworks.planning.fat_tree.tree import FabricError, FatTree, node_name

FULL_MEMBER: Final = 0x8000
KEYS: Final = {"infiniband": range(1, 0x7FFF), "ethernet": range(2, 4095)}


@dataclass(frozen=True)
class Tenant:
    """Consecutive nodes that share a partition of the fabric."""

    name: str
    key: int
    """P_Key with the full-member bit, or VLAN."""
    first: int
    """Index of the first node, counted from 0."""
    nodes: int

    @property
    def last(self) -> int:
        """Index of the last node, counted from 0."""
        return self.first + self.nodes - 1

    @property
    def node_names(self) -> tuple[str, str]:
        """Return the names of its first and last node."""
        return node_name(self.first), node_name(self.last)


def tenants(tree: FatTree, asked: Sequence[tuple[str, int]]) -> tuple[Tenant, ...]:
    """Assign nodes and numbers in the requested order, so that a later tenant moves no earlier one."""
    names = [name for name, _ in asked]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise FabricError(f"two tenants are called {twice}", "give each a name of its own")
    if wrong := next((name for name, nodes in asked if nodes < 1), None):
        raise FabricError(f"tenant {wrong} has no nodes", "give it at least one, or leave it out")
    keys = KEYS[tree.switch.kind]
    if len(asked) > len(keys):
        raise FabricError(f"{len(asked)} tenants, and {tree.switch.kind} tells {len(keys)} apart", "fewer tenants")
    if (total := sum(nodes for _, nodes in asked)) > tree.nodes:
        raise FabricError(f"tenants ask for {total} nodes, and there are {tree.nodes}", "fewer nodes for them, or more")
    member = FULL_MEMBER if tree.switch.kind == "infiniband" else 0
    placed, first = [], 0
    for (name, nodes), key in zip(asked, keys, strict=False):
        placed.append(Tenant(name, key | member, first, nodes))
        first += nodes
    return tuple(placed)


def neighbours(tree: FatTree, placed: Sequence[Tenant]) -> tuple[str, ...]:
    """Describe tenants that share a unit's leaves: partitions separate their traffic, but not its bandwidth."""
    return tuple(
        f"tenants {one.name} and {other.name} share the leaves of unit {tree.unit_of(one.last) + 1}, and with them "
        "their uplinks: a partition divides no bandwidth"
        for one, other in pairwise(placed)
        if tree.unit_of(one.last) == tree.unit_of(other.first)
    )
