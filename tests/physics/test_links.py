"""Ceilings of links: closed forms, brute force on small clusters, and published measurements."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.physics import links
from stampworks.physics.links import LeafLoad

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

SIMULATED = catalog.fabrics()["simulated"]


def mbps(gbs: float) -> float:
    return gbs * 8 * 1000


def spine(*sizes: int, rate: int, leaf_nodes: int, oversubscription: int) -> list[LeafLoad]:
    """Leaves of these sizes under a spine."""
    return [LeafLoad(size, leaf_nodes * rate // oversubscription) for size in sizes]


def test_loads_of_leaves() -> None:
    """The count goes over nodes in their order; a trunk counts if another leaf exists."""
    trunks = {"leaf1": 400, "leaf2": 300}
    assert links.leaf_loads(["leaf2", "leaf1", "leaf2"], trunks) == [LeafLoad(2, 300), LeafLoad(1, 400)]
    assert links.leaf_loads(["leaf2", "leaf2"], trunks) == [LeafLoad(2, 0)]
    assert links.leaf_loads(["leaf1", "leaf3"], trunks) == [LeafLoad(1, 400), LeafLoad(1, 0)]
    assert links.leaf_loads([], trunks) == []


def test_efficiency_of_full_packets() -> None:
    """A packet of 1500 bytes has 1448 of data, and the link counts an Ethernet header in addition."""
    assert links.efficiency(SIMULATED).value == pytest.approx(1448 / 1514)
    assert links.efficiency(SIMULATED).why == (
        "1448/1514, the part of the bytes on the link that is data (MTU 1500, less 52 of IP and TCP headers; "
        "plus 14 of framing)"
    )


@pytest.mark.parametrize(
    ("measured_mbps", "trunk_mbps", "worst"),
    [
        pytest.param(191, 0, False, id="2 ranks on a leaf"),
        pytest.param(192, 0, False, id="4 ranks on a leaf"),
        pytest.param(190, 200, False, id="leaf order over a trunk of half the rails"),
        pytest.param(92, 200, True, id="interleaved over a trunk of half the rails"),
        pytest.param(189, 1000, True, id="interleaved over a trunk with room"),
    ],
)
def test_the_model_gives_what_was_measured(measured_mbps: float, trunk_mbps: int, worst: bool) -> None:
    """Gloo's all-reduce over rails shaped to 200 Mb/s came within four percent of these ceilings."""
    leaves = [LeafLoad(2, trunk_mbps), LeafLoad(2, trunk_mbps)] if trunk_mbps else [LeafLoad(4, 0)]
    ceiling = (links.worst_ring_ceiling if worst else links.ring_ceiling)(200, leaves, SIMULATED)
    assert mbps(ceiling.value) == pytest.approx(measured_mbps, rel=0.04)


@pytest.mark.parametrize("oversubscription", [1, 2, 4])
def test_ranks_in_leaf_order_lose_nothing_while_a_trunk_carries_one_rail(oversubscription: int) -> None:
    """A ring in leaf order puts a single rank's traffic on a trunk, for any number of nodes on the leaf."""
    leaves = spine(4, 4, 2, rate=200, leaf_nodes=4, oversubscription=oversubscription)
    assert links.ring_ceiling(200, leaves, SIMULATED).value == links.gbs(200, SIMULATED)


def test_a_trunk_thinner_than_a_rail_is_the_ceiling_in_any_order() -> None:
    """With one node on each leaf, every link of the ring crosses trunks."""
    leaves = spine(1, 1, 1, rate=200, leaf_nodes=1, oversubscription=4)
    ceiling = links.ring_ceiling(200, leaves, SIMULATED)
    assert ceiling.value == links.gbs(50, SIMULATED) == links.worst_ring_ceiling(200, leaves, SIMULATED).value
    assert ceiling.why.endswith("in leaf order it crosses a trunk once in each direction, whose 50 Mb/s are not enough")


def test_the_worst_order_loses_by_the_oversubscription_of_full_leaves() -> None:
    """All nodes of a leaf share its trunk in that order."""
    leaves = spine(4, 4, rate=200, leaf_nodes=4, oversubscription=4)
    ceiling = links.worst_ring_ceiling(200, leaves, SIMULATED)
    assert ceiling.value == pytest.approx(links.gbs(50, SIMULATED))
    assert ceiling.why == (
        "the same with neighbours on different leaves: 4 links of the ring share a trunk of 200 Mb/s, which leaves "
        "each 50 of the 200 Mb/s of its rail"
    )


def test_the_order_of_ranks_on_one_leaf_is_no_question() -> None:
    """Without trunks no worst order exists, and asking for one is an error of the caller."""
    with pytest.raises(ValueError, match=r"^ranks on a single leaf meet no trunk in any order$"):
        links.worst_ring_ceiling(200, [LeafLoad(4, 0)], SIMULATED)


small_leaves = st.lists(st.integers(1, 3), min_size=2, max_size=4).filter(lambda sizes: 2 <= sum(sizes) <= 6)


@relaxed
@given(sizes=small_leaves, leaf_nodes=st.integers(1, 4), oversubscription=st.sampled_from([1, 2, 4]))
def test_no_order_of_ranks_is_worse_than_the_worst_or_better_than_leaf_order(
    sizes: list[int], leaf_nodes: int, oversubscription: int
) -> None:
    """All orders of small rings, each with its slowest link computed by hand."""
    leaves = spine(*sizes, rate=400, leaf_nodes=leaf_nodes, oversubscription=oversubscription)
    home = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
    rates = [slowest_link(order, leaves) for order in permutations(home)]
    assert mbps(links.ring_ceiling(400, leaves, SIMULATED).value) == pytest.approx(
        max(rates) * links.efficiency(SIMULATED).value
    )
    assert mbps(links.worst_ring_ceiling(400, leaves, SIMULATED).value) == pytest.approx(
        min(rates) * links.efficiency(SIMULATED).value
    )


def slowest_link(ring: tuple[int, ...], leaves: list[LeafLoad]) -> float:
    """Return the rate of a ring's slowest link, at most 400 Mb/s; `ring` lists the leaf of each node."""
    neighbours = list(zip(ring, ring[1:] + ring[:1], strict=True))
    leaving = [sum(1 for here, there in neighbours if here == leaf != there) for leaf in range(len(leaves))]
    return min([400.0, *(leaves[leaf].trunk_mbps / count for leaf, count in enumerate(leaving) if count)])


def test_the_bisection_of_full_leaves_is_half_of_their_trunks() -> None:
    """The textbook case."""
    assert links.bisection_mbps(200, spine(4, 4, 4, 4, rate=200, leaf_nodes=4, oversubscription=1)) == 1600
    assert links.bisection_mbps(200, spine(4, 4, 4, 4, rate=200, leaf_nodes=4, oversubscription=4)) == 400


def test_the_bisection_of_one_leaf_is_half_of_its_rails() -> None:
    """A leaf switch does not block; the odd node has no partner."""
    assert links.bisection_mbps(200, [LeafLoad(4, 0)]) == 400
    assert links.bisection_mbps(200, [LeafLoad(5, 0)]) == 400


@relaxed
@given(
    full=st.integers(1, 3), size=st.integers(1, 3), rest=st.integers(0, 2), oversubscription=st.sampled_from([1, 2, 4])
)
def test_no_cut_into_halves_is_narrower_than_the_bisection(
    full: int, size: int, rest: int, oversubscription: int
) -> None:
    """All cuts of a small pool are tested: full leaves, and a partly filled last one."""
    sizes = [size] * full + ([min(rest, size)] if rest else [])
    leaves = spine(*sizes, rate=400, leaf_nodes=size, oversubscription=oversubscription)
    leaves = [LeafLoad(sizes[0], 0)] if len(sizes) == 1 else leaves
    home = [leaf for leaf, nodes in enumerate(sizes) for _ in range(nodes)]
    cuts = combinations(range(len(home)), len(home) // 2)
    narrowest = min(cut_mbps(cut, home, leaves) for cut in cuts)
    assert links.bisection_mbps(400, leaves) == narrowest


def cut_mbps(half: tuple[int, ...], home: list[int], leaves: list[LeafLoad]) -> int:
    """Return the rate between two halves of the nodes: traffic within leaves first, the rest over trunks."""
    inside = sent = received = 0
    for leaf, load in enumerate(leaves):
        here = sum(1 for node in half if home[node] == leaf)
        there = load.nodes - here
        inside += min(here, there) * 400
        sent += min(load.trunk_mbps, max(here - there, 0) * 400)
        received += min(load.trunk_mbps, max(there - here, 0) * 400)
    return inside + min(sent, received)
