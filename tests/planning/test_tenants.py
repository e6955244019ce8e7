"""Tenants of a shared fabric."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.planning.fat_tree.tenants import Tenant, neighbours, tenants
from stampworks.planning.fat_tree.tree import FabricError, design

INFINIBAND = design(catalog.machines()["ND96isr_H100_v5"], 64)
ETHERNET = design(catalog.machines()["a4-highgpu-8g"], 64)


def test_partitions_of_infiniband_and_vlans_of_ethernet() -> None:
    """Full members have the upper bit; VLAN 1 is never used."""
    asked = [("red", 32), ("blue", 16)]
    assert tenants(INFINIBAND, asked) == (Tenant("red", 0x8001, 0, 32), Tenant("blue", 0x8002, 32, 16))
    assert [each.key for each in tenants(ETHERNET, asked)] == [2, 3]
    assert tenants(INFINIBAND, asked)[1].node_names == ("node-0033", "node-0048")


@given(st.lists(st.integers(1, 9), max_size=12))
def test_tenants_share_no_node_or_key(sizes: list[int]) -> None:
    """An additional tenant leaves all others unchanged."""
    asked = [(f"tenant{number}", nodes) for number, nodes in enumerate(sizes) if sum(sizes) <= 64]
    placed = tenants(INFINIBAND, asked)
    taken = [node for each in placed for node in range(each.first, each.last + 1)]
    assert len(set(taken)) == len(taken) == sum(nodes for _, nodes in asked)
    assert len({each.key & 0x7FFF for each in placed}) == len(placed)
    assert 0x7FFF not in {each.key & 0x7FFF for each in placed}
    assert tenants(INFINIBAND, asked[:-1]) == placed[:-1]


def test_leaves_of_two_tenants_are_told() -> None:
    assert neighbours(INFINIBAND, tenants(INFINIBAND, [("red", 32), ("blue", 32)])) == ()
    [note] = neighbours(INFINIBAND, tenants(INFINIBAND, [("red", 30), ("blue", 34)]))
    assert "red and blue share the leaves of unit 1" in note


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([("red", 60), ("blue", 5)], "ask for 65 nodes, and there are 64"),
        ([("red", 1), ("red", 1)], "two tenants are called red"),
        ([("red", 0)], "tenant red has no nodes"),
        ([(str(number), 1) for number in range(4094)], "4094 tenants, and ethernet tells 4093 apart"),
    ],
)
def test_refuses_tenants_that_do_not_fit(asked: list[tuple[str, int]], message: str) -> None:
    tree = dataclasses.replace(ETHERNET, nodes=64)
    with pytest.raises(FabricError, match=message):
        tenants(tree, asked)
