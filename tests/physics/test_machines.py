"""Collectives of accelerators: published figures lie between floor and ceiling, and the arithmetic is that
of a network cut."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.physics.bounds import UnknownFactError
from stampworks.physics.collectives import Operation
from stampworks.physics.links import LeafLoad
from stampworks.physics.machines import collective_on_machines

from tests.physics.published import PUBLISHED, PUBLISHED_OF_OTHERS, modelled

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

NAMES = catalog.machine_names()
REAL = [row.name for row in modelled()]
MIB, GIB = 1 << 20, 1 << 30
OPERATIONS: list[Operation] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]


@pytest.mark.parametrize(
    ("machine", "nodes", "mib", "busbw_gbs"),
    [(machine, nodes, mib, busbw) for machine, nodes, sweep in PUBLISHED for mib, busbw in sweep.items()],
)
def test_healthy_machines_lie_between_the_bounds(machine: str, nodes: int, mib: float, busbw_gbs: float) -> None:
    """No measurement is above the ceiling, and no healthy one below the floor."""
    bounds = collective_on_machines("all_reduce", nodes, int(mib * MIB), NAMES[machine])
    assert bounds.floor.value < busbw_gbs < bounds.ceiling.value


@pytest.mark.parametrize(
    ("machine", "operation", "nodes", "mib", "busbw_gbs"),
    [(*others[:3], mib, busbw) for others in PUBLISHED_OF_OTHERS for mib, busbw in others[3].items()],
)
def test_so_do_other_collectives(machine: str, operation: Operation, nodes: int, mib: float, busbw_gbs: float) -> None:
    """Operations that no switch adds up stay below its links."""
    bounds = collective_on_machines(operation, nodes, int(mib * MIB), NAMES[machine])
    assert bounds.floor.value < busbw_gbs < bounds.ceiling.value


@pytest.mark.parametrize(
    ("machine", "nodes", "mib", "busbw_gbs"),
    [("p5", 1, 16384, 483.4), ("p5", 2, 16384, 487.3), ("p5", 2, 1024, 441), ("p5", 1, 64, 359.7)],
)
def test_a_ceiling_is_no_more_than_what_it_takes(machine: str, nodes: int, mib: int, busbw_gbs: float) -> None:
    """The best published value is close to it: a much higher ceiling would refuse nothing."""
    assert collective_on_machines("all_reduce", nodes, mib * MIB, NAMES[machine]).ceiling.value < 1.15 * busbw_gbs


@pytest.mark.parametrize(
    ("machine", "nodes", "ceiling_gbs"),
    [
        pytest.param("BM.GPU.H100.8", 1, 495, id="in-switch reduction on NVLink of 450"),
        pytest.param("BM.GPU.H100.8", 2, 495, id="NICs would carry 50 x 15/1 = 750, NVLink does not"),
        pytest.param("BM.GPU.H100.8", 16, 0.99 * 50 * 127 / 15, id="NICs: 419, so 440 is impossible"),
        pytest.param("ND96isr_H100_v5", 16, 495, id="the switches between the nodes add up, too"),
        pytest.param("p4d", 1, 297, id="a switch that only copies"),
        pytest.param("p4d", 2, 0.99 * 6.25 * 15, id="4 NICs for 8 accelerators"),
        pytest.param("p6-b300", 4, 990, id="two NICs for each"),
        pytest.param("GB200.4", 18, 990, id="a rack is one NVLink domain"),
        pytest.param("GB200.4", 36, 990, id="72 accelerators share the way out: 50 x 143/1"),
    ],
)
def test_the_ceiling_of_a_large_all_reduce(machine: str, nodes: int, ceiling_gbs: float) -> None:
    """The lower of two limits counts: NVLink, or the NICs through which (m-1)/(n-1) of busbw leaves each
    accelerator."""
    assert collective_on_machines("all_reduce", nodes, None, NAMES[machine]).ceiling.value == pytest.approx(ceiling_gbs)


@pytest.mark.parametrize(
    ("operation", "nodes", "ceiling_gbs"),
    [
        ("all_gather", 1, 445.5), ("reduce_scatter", 2, 445.5), ("all_gather", 16, 0.99 * 50 * 127 / 15),
        ("all_to_all", 1, 445.5), ("all_to_all", 2, 0.99 * 50 * 15 / 8), ("all_to_all", 16, 0.99 * 50 * 127 / 120),
        ("send_recv", 1, 445.5), ("send_recv", 2, 49.5),
    ],
)  # fmt: skip
def test_the_ceilings_of_other_collectives(operation: Operation, nodes: int, ceiling_gbs: float) -> None:
    """Switches do not reduce these; an all-to-all counts the traffic that leaves the node."""
    bounds = collective_on_machines(operation, nodes, None, NAMES["p5"])
    assert bounds.ceiling.value == pytest.approx(ceiling_gbs)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_trunks_bound_what_passes_between_leaves(operation: Operation) -> None:
    """At 4:1 an all-to-all and pairs across leaves get a quarter of the NICs' rate; a ring crosses each trunk once."""
    leaves = [LeafLoad(48, 8 * 12 * 400_000)] * 20
    free = collective_on_machines(operation, 960, None, NAMES["dgx-h100"])
    thin = collective_on_machines(operation, 960, None, NAMES["dgx-h100"], leaves=leaves)
    k, n, trunks_gbs = 48 * 8, 960 * 8, 8 * 12 * 50
    if operation == "all_to_all":
        assert thin.ceiling.value == pytest.approx(0.99 * trunks_gbs * (n - 1) / (k * (n - k)))
        assert thin.floor.value == pytest.approx(0.35 * trunks_gbs * (n - 1) / (k * (n - k)))
    elif operation == "send_recv":
        assert (thin.ceiling, thin.floor.value) == (free.ceiling, 0.5 * trunks_gbs / k)
    else:
        assert thin == free
    assert ("half of the uplinks" in thin.floor.why) == (operation in ("all_to_all", "send_recv"))


@pytest.mark.parametrize("operation", OPERATIONS[:3])
def test_a_ring_has_no_more_than_the_trunk_that_it_crosses(operation: Operation) -> None:
    """The trunk is thinner than a node's NICs, and the ceiling counts all traffic that must cross it."""
    bounds = collective_on_machines(operation, 4, None, NAMES["dgx-h100"], leaves=[LeafLoad(2, 800_000)] * 2)
    assert bounds.floor.value == pytest.approx(0.5 * 100)
    assert bounds.ceiling.value == pytest.approx(0.99 * 100 * 31 / 16)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_trunks_of_leaves_as_wide_as_their_nodes_change_nothing(operation: Operation) -> None:
    """At a ratio of 1:1 trunks do not limit. Trunks without traffic, or below an NVLink fabric, do not count either."""
    row, full = NAMES["dgx-h100"], [LeafLoad(32, 8 * 32 * 400_000)] * 2
    assert collective_on_machines(operation, 64, None, row, leaves=full) == collective_on_machines(
        operation, 64, None, row
    )
    rack, torn = NAMES["dgx-gb200"], [LeafLoad(9, 400_000)] * 2
    used = collective_on_machines(operation, 18, None, rack, nvlink_used=True)
    within = collective_on_machines(operation, 18, None, rack, nvlink_used=True, leaves=torn)
    assert within.ceiling == used.ceiling
    if operation not in ("all_to_all", "send_recv"):
        assert within == used


@relaxed
@given(name=st.sampled_from(REAL), nodes=st.integers(2, 300), operation=st.sampled_from(OPERATIONS[:4]))
def test_no_ceiling_moves_more_through_a_node_than_its_nics_carry(name: str, nodes: int, operation: Operation) -> None:
    """At the ceiling's rate, the bytes that any algorithm must move out of an NVLink domain fit through its NICs."""
    machine = NAMES[name]
    n = nodes * machine.accelerators
    domains = -(-nodes // int(machine.nvlink_nodes))  # type: ignore[arg-type]
    inside = nodes // domains * machine.accelerators
    ceiling = collective_on_machines(operation, nodes, None, machine).ceiling.value
    seconds = (2 if operation == "all_reduce" else 1) * (n - 1) / n / ceiling  # seconds for one GB
    leaving = {
        "all_reduce": (1 if machine.fabric_reduces is True else 2 * (domains - 1) / domains),
        "all_to_all": inside * (n - inside) / n,
    }.get(operation, (domains - 1) / domains)
    nics_gbs = inside / machine.accelerators * int(machine.nics_rate_gbps) / 8  # type: ignore[arg-type]
    assert domains == 1 or leaving / seconds <= nics_gbs


@relaxed
@given(
    name=st.sampled_from(REAL),
    nodes=st.integers(1, 300),
    size_bytes=st.integers(1, 1 << 40),
    operation=st.sampled_from(OPERATIONS),
)
def test_floors_lie_below_ceilings_and_both_grow_with_the_size(
    name: str, nodes: int, size_bytes: int, operation: Operation
) -> None:
    """A larger payload is never slower, and never faster than an infinite one."""
    machine = NAMES[name]
    assume(nodes * machine.accelerators > 1)
    small, double = (collective_on_machines(operation, nodes, size, machine) for size in (size_bytes, 2 * size_bytes))
    large = collective_on_machines(operation, nodes, None, machine)
    assert 0 < small.floor.value < small.ceiling.value < inf
    assert small.ceiling.value <= double.ceiling.value <= large.ceiling.value
    assert small.floor.value <= double.floor.value <= large.floor.value


@relaxed
@given(name=st.sampled_from(REAL), nodes=st.integers(1, 300), operation=st.sampled_from(OPERATIONS))
def test_half_of_a_healthy_machine_is_at_the_floor(name: str, nodes: int, operation: Operation) -> None:
    """The floor is never more than half of the ceiling, so that published values lie above it."""
    assume(nodes * NAMES[name].accelerators > 1)
    bounds = collective_on_machines(operation, nodes, None, NAMES[name])
    assert bounds.floor.value <= 0.506 * bounds.ceiling.value


def test_the_words_of_a_ceiling() -> None:
    """The reason contains the arithmetic, which can be checked by hand."""
    bounds = collective_on_machines("all_reduce", 16, 16 * MIB, NAMES["p5"])
    assert bounds.ceiling.why == (
        "32 NICs x 100 Gb/s / 8 / 8 accelerators = 50 GB/s each, 0.99 of it data; between 16 nodes 0.1181 of busbw "
        "crosses them: x 127/15, nothing is added up on the way; 133.8 GB/s for 16 MiB, which takes 248.8 us or more"
    )
    assert bounds.floor.why == (
        "0.5 x the 400 GB/s of a plain ring: half of the NICs could be dead; 19.98 GB/s for 16 MiB, which is mostly "
        "latency"
    )


def test_simulated_machines_have_no_ceiling() -> None:
    """Their rails have the declared rate."""
    with pytest.raises(UnknownFactError, match=r"^the catalog does not know the rate of a rail of sim-h100: it is "):
        collective_on_machines("all_reduce", 2, None, NAMES["sim-h100"])


def test_a_fabric_of_which_nobody_knows_whether_it_adds_up() -> None:
    """It has no ceiling for an all-reduce; other collectives do not depend on it."""
    with pytest.raises(UnknownFactError, match=r"^the catalog does not know whether the fabric of a3-ultragpu-8g adds"):
        collective_on_machines("all_reduce", 2, None, NAMES["a3-ultragpu-8g"])
    assert collective_on_machines("all_gather", 2, None, NAMES["a3-ultragpu-8g"]).ceiling.value > 300


@pytest.mark.parametrize(
    ("operation", "nodes", "size_bytes", "healthy_gbs"),
    [
        ("all_gather", 128, 256 * MIB, 61.6),
        ("all_gather", 1024, 1024 * MIB, 33.4),
        ("all_to_all", 1024, 256 * MIB, 8.5),
    ],
)
def test_the_floor_of_rings_and_of_sends_to_everybody(
    operation: Operation, nodes: int, size_bytes: int, healthy_gbs: float
) -> None:
    """They take a step for each rank, which on many nodes takes longer than the transfer."""
    floor = collective_on_machines(operation, nodes, size_bytes, NAMES["p5"]).floor
    assert floor.value < healthy_gbs
    assert f"mostly latency: up to 5 us with each of {8 * nodes} ranks" in floor.why


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("v6e", "of tpu-v6e, linked to its neighbours only, no collective is modelled"),
        ("trn2", "of trainium2, linked to its neighbours only, no collective is modelled"),
        ("g6", "l4 has no links of its own, and the way through the host is not modelled"),
        ("m7i", "m7i has no accelerators"),
    ],
)
def test_no_ceiling_without_mesh_or_switch(name: str, why: str) -> None:
    """The model covers a ring over all links of an accelerator."""
    with pytest.raises(UnknownFactError, match=f"^{why}$"):
        collective_on_machines("all_reduce", 1, None, replace(NAMES[name], nvlink_nodes=1))


def with_one_accelerator(name: str, nics: int, nic_rate_gbps: int) -> catalog.Machine:
    rate_gbps = nics * nic_rate_gbps
    return replace(
        NAMES[name], accelerators=1, nics=nics, nic_rate_gbps=nic_rate_gbps, nics_rate_gbps=rate_gbps, nvlink_nodes=1
    )


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("nodes", [2, 3, 100])
@pytest.mark.parametrize(
    ("machine", "nics_gbs"),
    [
        pytest.param(with_one_accelerator("p5", 1, 100), 12.5, id="switched"),
        pytest.param(with_one_accelerator("MI300X.8", 1, 400), 50, id="mesh"),
        pytest.param(with_one_accelerator("p5", 16, 400), 800, id="NICs faster than NVLink"),
    ],
)
def test_an_accelerator_that_is_alone_on_its_node_has_what_its_nics_carry(
    machine: catalog.Machine, nics_gbs: float, nodes: int, operation: Operation
) -> None:
    """Its NVLink has no peer, so that it neither helps nor limits."""
    bounds = collective_on_machines(operation, nodes, None, machine)
    assert bounds.ceiling.value == pytest.approx(0.99 * nics_gbs)
    assert bounds.floor.value == pytest.approx((0.35 if operation == "all_to_all" else 0.5) * nics_gbs)
    assert "NVLink" not in bounds.ceiling.why + bounds.floor.why


def test_the_words_of_one_accelerator_and_one_nic() -> None:
    bounds = collective_on_machines("all_reduce", 2, None, with_one_accelerator("p5", 1, 100))
    assert bounds.ceiling.why == (
        "1 NIC x 100 Gb/s / 8 / 1 accelerator = 12.5 GB/s each, 0.99 of it data; between 2 nodes 1 of busbw crosses "
        "them: x 1/1, nothing is added up on the way"
    )
    assert bounds.floor.why == "0.5 x the 12.5 GB/s of a plain ring: half of the lanes of the NIC could be dead"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_accelerator_by_itself_has_no_ceiling(operation: Operation) -> None:
    """The busbw of one rank is always 0."""
    with pytest.raises(UnknownFactError, match=r"^p5 has one accelerator, which by itself moves nothing$"):
        collective_on_machines(operation, 1, None, with_one_accelerator("p5", 1, 100))


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_accelerator_without_links_is_not_modelled_either(nodes: int) -> None:
    """Its traffic to other nodes also passes through the host."""
    with pytest.raises(UnknownFactError, match=r"^l4 has no links of its own, and the way through the host is not"):
        collective_on_machines("all_reduce", nodes, None, NAMES["g6.8xlarge"])


def test_a_pair_on_a_mesh_has_one_link() -> None:
    """Two of eight MI300X reached 47.7 GB/s where all of them reached 312.9: ml-engineering 744d01e."""
    pair, all_of_them = (
        collective_on_machines(operation, 1, None, NAMES["MI300X.8"]) for operation in ("send_recv", "all_reduce")
    )
    assert pair.floor.value < 47.7 < pair.ceiling.value == pytest.approx(0.99 * 64)
    assert pair.ceiling.why == "the mesh of mi300x carries 64 GB/s from an accelerator, 0.99 of it data"
    assert all_of_them.floor.value < 312.9 < all_of_them.ceiling.value
