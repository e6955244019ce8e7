"""Collectives on shaped rails: measurements lie between floor and ceiling, and faults outside."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.machine_room.network import shape
from stampworks.physics import links
from stampworks.physics.collectives import Operation
from stampworks.physics.links import LeafLoad
from stampworks.physics.rails import collective_on_rails

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

SIMULATED = catalog.fabrics()["simulated"]
MIB = 1 << 20
OPERATIONS: list[Operation] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
FOUR = [LeafLoad(4, 0)]
SPINE = [LeafLoad(2, 200), LeafLoad(2, 200)]


def gbs(mbps: float) -> float:
    return mbps / 8 / 1000


@pytest.mark.parametrize(
    ("measured_mbps", "leaves", "worst"),
    [(191, [LeafLoad(2, 0)], False), (192, FOUR, False), (190, SPINE, False), (92, SPINE, True)],
)
def test_measurements_lie_between_the_bounds(measured_mbps: float, leaves: list[LeafLoad], worst: bool) -> None:
    """Gloo's all-reduce over rails shaped to 200 Mb/s, in leaf order and interleaved."""
    bounds = collective_on_rails("all_reduce", 64 * MIB, 200, leaves, SIMULATED, worst_order=worst)
    assert bounds.floor.value < gbs(measured_mbps) < bounds.ceiling.value


def test_a_rail_at_half_its_rate_is_below_the_floor() -> None:
    """The fault that the floor is for."""
    healthy = collective_on_rails("all_reduce", 64 * MIB, 200, FOUR, SIMULATED)
    halved = collective_on_rails("all_reduce", 64 * MIB, 100, FOUR, SIMULATED)
    assert halved.ceiling.value < healthy.floor.value


def test_a_bad_order_of_ranks_is_below_the_floor_of_a_good_one() -> None:
    """The trunk has the rate of half the rails."""
    good, bad = (
        collective_on_rails("all_reduce", 64 * MIB, 200, SPINE, SIMULATED, worst_order=worst) for worst in (False, True)
    )
    assert bad.ceiling.value < good.floor.value
    assert "2 links of the ring share a trunk of 200 Mb/s" in bad.ceiling.why


def test_rails_add_up() -> None:
    """Two rails carry twice as much, each half of the data."""
    one = collective_on_rails("all_reduce", 32 * MIB, 200, FOUR, SIMULATED)
    two = collective_on_rails("all_reduce", 64 * MIB, 200, FOUR, SIMULATED, rails=2)
    assert two.ceiling.value == pytest.approx(2 * one.ceiling.value)
    assert two.floor.value == pytest.approx(2 * one.floor.value)


def test_a_small_message_may_pass_unshaped() -> None:
    """A small message fits into a shaper's burst and ends before its rate counts; a large one does not."""
    link = links.gbs(200, SIMULATED)
    assert collective_on_rails("all_reduce", 1024, 200, FOUR, SIMULATED).ceiling.value > 0
    assert collective_on_rails("all_reduce", 256 * 1024, 200, FOUR, SIMULATED).ceiling.value > 1.2 * link
    assert collective_on_rails("all_reduce", 256 * MIB, 200, FOUR, SIMULATED).ceiling.value < 1.021 * link


def test_the_burst_is_the_one_of_the_machine_room() -> None:
    """The catalog repeats the value that the machine room sets in the kernel."""
    for rate_mbps in (1, 50, 128, 200, 1000, 10_000):
        [kib] = re.findall(r"burst (\d+)kb", shape("rail0", rate_mbps))
        assert int(kib) * 1024 == max(SIMULATED.burst_bytes_min, rate_mbps * SIMULATED.burst_bytes_per_mbps)


small_leaves = st.lists(st.integers(1, 3), min_size=2, max_size=3)


@relaxed
@given(sizes=small_leaves, trunk_mbps=st.integers(50, 1000))
def test_an_all_to_all_is_as_fast_as_its_fullest_trunk(sizes: list[int], trunk_mbps: int) -> None:
    """A count by hand: every pair exchanges a part, and the parts that leave a leaf share its trunk."""
    leaves = [LeafLoad(size, trunk_mbps) for size in sizes]
    home = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
    n = len(home)
    size_bytes = 1 << 34
    pairs = list(permutations(range(n), 2))
    leaving = max(sum(1 for a, b in pairs if home[a] == leaf != home[b]) for leaf in range(len(sizes)))
    rate_gbs, trunk_gbs = links.gbs(200, SIMULATED), links.gbs(trunk_mbps, SIMULATED)
    seconds = max((n - 1) / n / rate_gbs, leaving / n / trunk_gbs)
    bounds = collective_on_rails("all_to_all", size_bytes, 200, leaves, SIMULATED)
    assert bounds.ceiling.value == pytest.approx((n - 1) / n / seconds, rel=0.03)


@relaxed
@given(
    operation=st.sampled_from(OPERATIONS),
    size_bytes=st.integers(1, 1 << 34),
    rate_mbps=st.sampled_from([10, 200, 1000]),
    nodes=st.integers(2, 64),
    rails=st.integers(1, 4),
    worst=st.booleans(),
)
def test_floors_lie_below_ceilings(
    operation: Operation, size_bytes: int, rate_mbps: int, nodes: int, rails: int, worst: bool
) -> None:
    """This holds for all arguments."""
    leaves = [LeafLoad(nodes, 0)] if nodes < 9 else [LeafLoad(8, 4 * rate_mbps), LeafLoad(nodes - 8, 4 * rate_mbps)]
    bounds = collective_on_rails(operation, size_bytes, rate_mbps, leaves, SIMULATED, rails, worst)
    assert 0 < bounds.floor.value < bounds.ceiling.value


def test_the_words_of_a_ceiling() -> None:
    """The reason contains the arithmetic, which can be checked by hand."""
    bounds = collective_on_rails("all_reduce", 16 * MIB, 200, FOUR, SIMULATED, rails=2)
    assert bounds.ceiling.why == (
        "a ring's busbw is what its slowest link delivers: 200 Mb/s / 8 x 1448/1514, the part of the bytes on the link "
        "that is data (MTU 1500, less 52 of IP and TCP headers; plus 14 of framing); all ranks share a leaf; 2 rails "
        "share the data; 16 MiB take 511.8 ms or more, of which a burst of 100 KiB passes unshaped and a shaper is "
        "exact to 2%"
    )
    assert bounds.floor.why == (
        "0.75 of what the slowest link delivers, less 6 rounds of 15 ms: healthy ones come within 4 % of the ceiling, "
        "and a link at half its rate reaches half of what they do"
    )


@pytest.mark.parametrize(("leaves", "size_bytes"), [([LeafLoad(1, 0)], 1), (FOUR, 0)])
def test_nothing_to_move(leaves: list[LeafLoad], size_bytes: int) -> None:
    """A single rank, or no bytes, is an error of the caller."""
    with pytest.raises(ValueError, match=r"^a collective has at least two ranks and a byte$"):
        collective_on_rails("all_reduce", size_bytes, 200, leaves, SIMULATED)
