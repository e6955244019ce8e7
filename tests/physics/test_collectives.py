"""Properties of every bound of a collective: its text contains its arithmetic, and obstacles never make it faster."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.physics.bounds import Bound
from stampworks.physics.collectives import Operation, all_reduce_moves, bus_factor
from stampworks.physics.links import LeafLoad
from stampworks.physics.machines import collective_on_machines, share_nvlink
from stampworks.physics.rails import collective_on_rails

from tests.physics.published import modelled

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

MACHINES = modelled()
OF_A_NODE = [row for row in MACHINES if row.nvlink_nodes == 1]
SIMULATED = catalog.fabrics()["simulated"]
MIB = 1 << 20
OPERATIONS: list[Operation] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
UNITS = {"byte": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

machines = st.sampled_from(MACHINES)
operations = st.sampled_from(OPERATIONS)
counts = st.integers(1, 600)
sizes = st.one_of(st.none(), st.integers(1, 1 << 35))


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 16, 72])
def test_bus_bandwidth_is_what_a_link_of_a_ring_carries(ranks: int) -> None:
    """A count by steps: each rank passes a part to its neighbour until all ranks are done."""
    held = [{(rank, rank)} for rank in range(ranks)]  # (part, owner of the share): each rank begins with its own part
    sent = 0
    while not all(len(parts) == ranks for parts in held):
        passed = [{max(parts, key=lambda part: (rank - part[0]) % ranks)} for rank, parts in enumerate(held)]
        held = [parts | passed[rank - 1] for rank, parts in enumerate(held)]
        sent += 1
    assert bus_factor("all_gather", ranks) == bus_factor("reduce_scatter", ranks) == pytest.approx(sent / ranks)
    assert bus_factor("all_reduce", ranks) == pytest.approx(2 * sent / ranks)  # a reduce-scatter, then an all-gather
    assert bus_factor("all_to_all", ranks) == pytest.approx(
        (ranks - 1) / ranks
    )  # each rank sends all parts except its own
    assert bus_factor("send_recv", ranks) == 1
    assert all_reduce_moves(ranks, 10 * MIB, ring=True).value == pytest.approx(2 * sent / ranks * 10 * MIB)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 72])
def test_no_way_of_reducing_moves_less_than_what_a_rank_has(ranks: int) -> None:
    """In a chain the first rank only sends and the last one only receives; then the sum is passed back. No rank sends
    less than the whole, and a ring sends no less than the minimum."""
    sent = [2 if 0 < rank < ranks - 1 else 1 for rank in range(ranks)]
    least = all_reduce_moves(ranks, MIB, ring=False).value
    assert least == min(sent) * MIB
    assert least <= all_reduce_moves(ranks, MIB, ring=True).value


def numbers(pattern: str, why: str) -> list[float]:
    """Return the numbers at these places of a text; none if it has no such form."""
    found = re.search(pattern, why)
    return [float(each) for each in found.groups()] if found else []


def ceiling_in_words(why: str) -> float:
    """Compute the arithmetic in the text of a ceiling."""
    share = 0.99 if "0.99 of it data" in why else 1.0
    if nvlink := numbers(r"carries ([\d.]+) GB/s", why):
        [value] = nvlink
        [added] = numbers(r"adds up: x ([\d.]+)", why) or [1.0]
        [inside] = numbers(r"and ([\d.]+) of the data stays inside", why) or [1.0]
        return share * value * added / inside
    nics, rate, accelerators, each = numbers(r"([\d.]+) NICs? x ([\d.]+) Gb/s / 8 / ([\d.]+) .* = ([\d.]+) GB/s", why)
    assert nics * rate / 8 / accelerators == pytest.approx(each, rel=1e-3)
    above, below = numbers(r": x (\d+)/(\d+)", why) or [*(numbers(r": x ([\d.]+)", why) or [1.0]), 1.0]
    return share * each * above / below


def of_size(bound: Bound) -> tuple[float, float, float]:
    """Return the figures in the text: GB/s, bytes, microseconds."""
    gbs, number, us = numbers(r"; ([\d.e+-]+) GB/s for ([\d.]+) \w+, which takes ([\d.]+) us or more$", bound.why)
    [unit] = re.findall(r"for [\d.]+ (\w+), which takes", bound.why)
    return gbs, number * UNITS[unit], us


@relaxed
@given(machine=machines, nodes=counts, operation=operations, size_bytes=sizes)
def test_the_words_of_a_ceiling_are_its_arithmetic(
    machine: catalog.Machine, nodes: int, operation: Operation, size_bytes: int | None
) -> None:
    """The text has link, share and factor; if the size matters, the bytes over the time."""
    assume(nodes * machine.accelerators > 1)
    large = collective_on_machines(operation, nodes, None, machine).ceiling
    assert ceiling_in_words(large.why) == pytest.approx(large.value, rel=2e-3)
    bound = collective_on_machines(operation, nodes, size_bytes, machine).ceiling
    assert bound.why.startswith(large.why)
    if bound.why == large.why:
        assert bound.value >= 0.98 * large.value
    else:
        gbs, moved, us = of_size(bound)
        factor = bus_factor(operation, nodes * machine.accelerators)
        assert gbs == pytest.approx(bound.value, rel=1e-3)
        assert gbs == pytest.approx(factor * moved / us / 1000, rel=3e-3)


@relaxed
@given(machine=machines, nodes=counts, operation=operations, nvlink_used=st.booleans())
def test_the_words_of_a_floor_are_its_arithmetic(
    machine: catalog.Machine, nodes: int, operation: Operation, nvlink_used: bool
) -> None:
    """The floor is a share of the rate of the simplest algorithm."""
    assume(nodes * machine.accelerators > 1)
    floor = collective_on_machines(operation, nodes, None, machine, nvlink_used).floor
    share, value = numbers(r"^([\d.]+) x (?:NVLink's|the mesh's|the) ([\d.]+) GB/s", floor.why)
    assert share * value == pytest.approx(floor.value, rel=1e-3)
    assert ("'s" in floor.why) == (nodes == 1 or (nvlink_used and share_nvlink(operation, nodes, machine)))


@relaxed
@given(machine=st.sampled_from(OF_A_NODE), nodes=counts, operation=operations, size_bytes=sizes)
def test_more_nodes_are_never_faster(
    machine: catalog.Machine, nodes: int, operation: Operation, size_bytes: int | None
) -> None:
    """The busbw of a rank never grows with the number of nodes."""
    assume(nodes * machine.accelerators > 1)
    fewer, more = (collective_on_machines(operation, count, size_bytes, machine) for count in (nodes, nodes + 1))
    slack = 1 + 1 / (nodes * machine.accelerators)  # the busbw of a small message counts (n-1)/n of it
    assert more.ceiling.value <= slack * fewer.ceiling.value
    assert more.floor.value <= slack * fewer.floor.value


@relaxed
@given(machine=machines, nodes=counts, operation=operations, size_bytes=sizes)
def test_nvlink_that_is_used_has_the_higher_floor(
    machine: catalog.Machine, nodes: int, operation: Operation, size_bytes: int | None
) -> None:
    """The ceiling is the same, and the floor stays below it; if only latency counts, both floors are similar."""
    assume(nodes * machine.accelerators > 1)
    plain, used = (collective_on_machines(operation, nodes, size_bytes, machine, nvlink) for nvlink in (False, True))
    assert used.ceiling == plain.ceiling
    assert 0.9 * plain.floor.value <= used.floor.value < used.ceiling.value
    if not share_nvlink(operation, nodes, machine):
        assert used == plain


@relaxed
@given(
    operation=operations,
    size_bytes=st.integers(1, 1 << 33),
    rate_mbps=st.sampled_from([10, 200, 1000]),
    of_leaf=st.lists(st.integers(1, 8), min_size=2, max_size=4),
    oversubscription=st.sampled_from([1, 2, 4]),
    worst=st.booleans(),
)
def test_narrower_rails_are_never_faster(
    operation: Operation, size_bytes: int, rate_mbps: int, of_leaf: list[int], oversubscription: int, worst: bool
) -> None:
    """Trunks with more nodes on each of their links, a slower rail, a worse order, and fewer bytes."""

    def bounds(rate: int, share: int, order: bool, data: int) -> tuple[float, float]:
        leaves = [LeafLoad(nodes, 8 * rate // share) for nodes in of_leaf]
        found = collective_on_rails(operation, data, rate, leaves, SIMULATED, worst_order=order)
        return found.ceiling.value, found.floor.value

    best = bounds(rate_mbps, oversubscription, False, 2 * size_bytes)
    narrower = [
        bounds(rate_mbps, 2 * oversubscription, False, 2 * size_bytes),
        bounds(rate_mbps, oversubscription, worst, 2 * size_bytes),
    ]
    for ceiling, floor in narrower:
        assert ceiling <= best[0] * (1 + 1e-9)
        assert floor <= best[1] * (1 + 1e-9)
    assert bounds(rate_mbps, oversubscription, False, size_bytes)[1] <= best[1] * (1 + 1e-9)


@relaxed
@given(
    operation=operations,
    size_bytes=st.integers(8 * MIB, 1 << 33),
    nodes=st.integers(2, 16),
    rails=st.integers(1, 4),
)
def test_the_words_of_a_rail_are_its_arithmetic(operation: Operation, size_bytes: int, nodes: int, rails: int) -> None:
    """The ceiling is moved bytes over time, as its text says; the floor counts the rounds of its text."""
    bounds = collective_on_rails(operation, size_bytes, 200, [LeafLoad(nodes, 0)], SIMULATED, rails)
    moved = bus_factor(operation, nodes) * size_bytes
    [milliseconds] = numbers(r"take ([\d.]+) ms or more", bounds.ceiling.why)
    assert bounds.ceiling.value == pytest.approx(moved / milliseconds / 1e6, rel=1e-3)
    share, rounds, each_ms = numbers(r"^([\d.]+) of .* less (\d+) rounds of ([\d.]+) ms", bounds.floor.why)
    link_gbs = 200 / 8000 * 1448 / 1514
    seconds = rounds * each_ms / 1000 + moved / rails / (share * link_gbs) / 1e9
    assert bounds.floor.value == pytest.approx(moved / seconds / 1e9, rel=1e-3)


@relaxed
@given(machine=st.sampled_from(OF_A_NODE), nodes=st.integers(2, 600), size_bytes=st.integers(1, 1 << 35))
def test_switches_that_add_up_are_never_slower(machine: catalog.Machine, nodes: int, size_bytes: int) -> None:
    """The same machine is compared with and without in-network reduction."""
    plain, adding = (
        collective_on_machines("all_reduce", nodes, size_bytes, replace(machine, fabric_reduces=reduces))
        for reduces in (False, True)
    )
    assert plain.ceiling.value <= adding.ceiling.value
