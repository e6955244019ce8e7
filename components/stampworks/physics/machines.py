"""Bounds of collectives on all accelerators of some nodes, by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, sqrt

from stampworks import catalog
from stampworks.physics.bounds import Bound, Bounds, UnknownFactError, figure, known
from stampworks.physics.collectives import Operation, bus_factor, size
from stampworks.physics.links import LeafLoad
from stampworks.text.amounts import counted

WIRE_SHARE = 0.99
"""The maximum share of data on a link; the rest is packet headers."""
REDUCED_SHARE = 1.1
"""Factor for in-network reduction, one percent above the published value: busbw of 487 GB/s on NVLink of 450 (2 x
p5)."""
BROKEN_SHARE = 0.5
"""Share of a plain ring that a machine with half of its links dead can still reach."""
BROKEN_NVLINK_SHARE = 0.45
"""Share of NVLink that a machine with half of its links dead can still reach; protocols leave a tenth or more
unused."""
BROKEN_ALL_TO_ALL_SHARE = 0.35
"""Share for an all-to-all, in which healthy fabrics lose much more than in a ring."""
_STEP_BY_STEP = ("all_gather", "reduce_scatter", "all_to_all")
NEARLY_ALL = 0.98
SLOW_START_US = 150.0
"""Start time of a healthy but slow fabric, added again for each doubling of the nodes."""
SLOW_STEP_US = 5.0
"""Start time for each rank instead, where data goes around a ring or to all ranks: only an all-reduce uses trees."""


@dataclass(frozen=True)
class Latency:
    """The time of a transfer besides its bytes: a start, and the time to fill its pipeline.

    A transfer of d steps, cut into the best number of pieces, takes 2 sqrt(fill x bytes) longer than its start and its
    bytes. The addition stops growing when the pieces cannot get larger. So two parameters are not enough. The numbers
    of a ceiling are chosen so that no published measurement is faster, those of a floor so that none is slower.
    """

    start_us: float
    fill_us: float
    fill_us_max: float

    def time_us(self, bytes_us: float) -> float:
        """Return the time of a collective, given the time of its bytes at the full rate."""
        return self.start_us + bytes_us + min(2 * sqrt(self.fill_us * bytes_us), self.fill_us_max)


INSIDE = Latency(start_us=4, fill_us=3.5, fill_us_max=75)
SLOW_INSIDE = Latency(start_us=60, fill_us=3, fill_us_max=90)
"""A healthy but slow node; a start of 48 us is published."""


def collective_on_machines(
    operation: Operation,
    nodes: int,
    size_bytes: int | None,
    machine: catalog.Machine,
    nvlink_used: bool = False,
    leaves: Sequence[LeafLoad] = (),
) -> Bounds:
    """Return the bounds of a collective on all accelerators of some nodes. Raises UnknownFactError when the catalog
    lacks a fact, and for a single accelerator, which has no other rank to talk to.

    Nodes that share an NVLink fabric may leave it unused on purpose, unless `nvlink_used` is set. Known leaves, each
    with the trunks of all its rails together, bound the traffic between them.
    """
    run = _Run(nodes, machine, tuple(leaves))
    _check(run)
    highest, level = _ceiling(operation, run), ceil(log2(run.domains))
    trips = 2 if operation == "all_reduce" else 1
    latency = Latency(4 + 4 * trips * level, 7 * trips * level, 75 * trips * level) if level else INSIDE
    plainest = _plainest(operation, run, nvlink_used)
    if size_bytes is None:
        return Bounds(highest, plainest.floor)
    moved = bus_factor(operation, run.ranks) * size_bytes
    quickest_us = latency.time_us(moved / highest.value / 1000)
    steps_us = SLOW_STEP_US * (run.ranks - 1) if operation in _STEP_BY_STEP else 0
    begin_us = SLOW_START_US + max(SLOW_START_US * ceil(log2(nodes)), steps_us)
    slow = SLOW_INSIDE if nodes == 1 else Latency(begin_us, 0, 0)
    slow_us = slow.time_us(moved / plainest.gbs / 1000)
    steps = (
        f": up to {figure(SLOW_STEP_US)} us with each of {run.ranks} ranks"
        if slow.start_us == SLOW_START_US + steps_us
        else ""
    )
    return Bounds(
        _for_size(highest, size_bytes, moved / quickest_us / 1000, f"which takes {figure(quickest_us)} us or more"),
        _for_size(
            plainest.floor, size_bytes, plainest.share * moved / slow_us / 1000, f"which is mostly latency{steps}"
        ),
    )


def _check(run: _Run) -> None:
    """Refuse machines that are not modelled. A machine without links between
    accelerators is refused even with a single accelerator, which needs none."""
    machine = run.machine
    if machine.simulated:
        raise UnknownFactError(
            f"the catalog does not know the rate of a rail of {machine.name}: it is simulated, and declarations give it"
        )
    if not machine.accelerator:
        raise UnknownFactError(f"{machine.name} has no accelerators")
    if run.row.links == "torus":
        raise UnknownFactError(f"of {run.row.name}, linked to its neighbours only, no collective is modelled")
    if run.row.links == "none":
        raise UnknownFactError(f"{run.row.name} has no links of its own, and the way through the host is not modelled")
    if run.ranks == 1:
        raise UnknownFactError(f"{machine.name} has one accelerator, which by itself moves nothing")


def share_nvlink(operation: Operation, nodes: int, machine: catalog.Machine) -> bool:
    """Whether several nodes share an NVLink fabric that this collective can use."""
    run = _Run(nodes, machine)
    return run.domains < nodes and (run.domains == 1 or operation not in ("all_to_all", "send_recv"))


def _for_size(bound: Bound, size_bytes: int, value: float, why: str) -> Bound:
    """Return the bound for a size; words are added only when the size makes a difference."""
    less = f"; {figure(value)} GB/s for {size(size_bytes)}, {why}" if value < NEARLY_ALL * bound.value else ""
    return Bound(value, bound.why + less)


def nics_on_fabric(machine: catalog.Machine) -> int:
    """Return the number of fabric NICs, at least one."""
    count = known(machine.nics, f"the NICs of {machine.name}")
    if not count:
        raise UnknownFactError(f"{machine.name} has no NIC on a fabric")
    return count


@dataclass(frozen=True)
class _Run:
    """Nodes in as few NVLink domains as possible, all of about the same size."""

    nodes: int
    machine: catalog.Machine
    leaves: tuple[LeafLoad, ...] = ()

    @property
    def ranks(self) -> int:
        return self.nodes * self.machine.accelerators

    @property
    def domain_nodes(self) -> int:
        return known(self.machine.nvlink_nodes, f"how far NVLink reaches from a {self.machine.name}")

    @property
    def domains(self) -> int:
        return ceil(self.nodes / self.domain_nodes)

    @property
    def domain_ranks(self) -> int:
        """Return the number of ranks in the smallest domain."""
        return self.nodes // self.domains * self.machine.accelerators

    @property
    def joined(self) -> bool:
        """Whether NVLink carries anything: an accelerator that is alone in its domain uses only the NICs."""
        return self.domain_ranks > 1

    @property
    def row(self) -> catalog.Accelerator:
        return catalog.accelerators()[self.machine.accelerator]

    @property
    def nvlink(self) -> str:
        return "NVLink" if self.row.links == "switched" else "the mesh"

    @property
    def nvlink_gbs(self) -> float:
        return known(self.row.nvlink_gbs, f"the NVLink rate of {self.row.name}")

    def links_gbs(self, operation: Operation) -> float:
        """Return the rate of the links that an operation uses; a pair in a mesh has only its direct link."""
        pairs = self.row.links == "mesh" and operation == "send_recv"
        return self.nvlink_gbs / (self.machine.accelerators - 1) if pairs else self.nvlink_gbs

    @property
    def nic_gbs(self) -> float:
        """Return the rate of the NICs of one accelerator together."""
        count = nics_on_fabric(self.machine)
        rate_gbps = known(self.machine.nic_rate_gbps, f"the rate of a NIC of {self.machine.name}")
        return count * rate_gbps / 8 / self.machine.accelerators

    @property
    def nics(self) -> str:
        machine = self.machine
        return (
            f"{counted(nics_on_fabric(machine), 'NIC')} x {machine.nic_rate_gbps} Gb/s / 8 / "
            f"{counted(machine.accelerators, 'accelerator')} = "
            f"{figure(self.nic_gbs)} GB/s each, {WIRE_SHARE:g} of it data"
        )


def _ceiling(operation: Operation, run: _Run) -> Bound:
    inside = [_inside(operation, run)] if run.joined else []
    across = [_across(operation, run), *_least_trunk(operation, run)] if run.domains > 1 else []
    return min([*inside, *across], key=lambda bound: bound.value)


def _inside(operation: Operation, run: _Run) -> Bound:
    """Return the limit of NVLink."""
    row, links_gbs = run.row, run.links_gbs(operation)
    begin = f"{run.nvlink} of {row.name} carries {figure(links_gbs)} GB/s from an accelerator"
    reduces = operation == "all_reduce" and known(
        row.switch_reduces, f"whether the NVLink switch of {row.name} adds up"
    )
    if reduces:
        value = REDUCED_SHARE * run.nvlink_gbs
        return Bound(
            value, f"{begin}, and its switch adds up: x {REDUCED_SHARE:g}, a percent more than was ever published"
        )
    if operation == "all_to_all" and run.domains > 1:
        share = (run.domain_ranks - 1) / (run.ranks - 1)
        value = WIRE_SHARE * run.nvlink_gbs / share
        return Bound(value, f"{begin}, {WIRE_SHARE:g} of it data, and {figure(share)} of the data stays inside")
    return Bound(WIRE_SHARE * links_gbs, f"{begin}, {WIRE_SHARE:g} of it data")


def _across(operation: Operation, run: _Run) -> Bound:
    """Return the limit of the NICs. Nodes that share an NVLink fabric count as one."""
    n, d, g = run.ranks, run.domains, run.domain_ranks
    data_gbs, places = WIRE_SHARE * run.nic_gbs, "nodes" if run.machine.nvlink_nodes == 1 else "NVLink domains"
    if operation == "send_recv":
        return Bound(data_gbs, run.nics)
    if operation == "all_to_all":
        value = data_gbs * (n - 1) / (n - g)
        return Bound(value, f"{run.nics}; of {n - 1} parts {n - g} leave for other {places}: x {n - 1}/{n - g}")
    reduces = operation == "all_reduce" and known(
        run.machine.fabric_reduces, f"whether the fabric of {run.machine.name} adds up"
    )
    if reduces:
        value = data_gbs * g * 2 * (n - 1) / n
        return Bound(
            value, f"{run.nics}; switches add up, so each carries 1/{g} of the data: x {figure(2 * g * (n - 1) / n)}"
        )
    value = data_gbs * g * d * (n - 1) / (n * (d - 1))
    share = f"x {n - 1}/{d - 1}" if g * d == n else f"x {figure(value / data_gbs)}"
    added = ", nothing is added up on the way" if operation == "all_reduce" else ""
    return Bound(
        value, f"{run.nics}; between {d} {places} {figure(data_gbs / value)} of busbw crosses them: {share}{added}"
    )


def _least_trunk(operation: Operation, run: _Run) -> list[Bound]:
    """Return the limits of trunks in the best order of ranks; none when trunks are unknown or NVLink crosses leaves."""
    torn = any(leaf.nodes % run.domain_nodes for leaf in run.leaves[:-1])
    found = [] if torn else [_trunk_bound(leaf, _least_crossing(operation, leaf, run), run) for leaf in run.leaves]
    return [Bound(WIRE_SHARE * each.value, f"{each.why}, {WIRE_SHARE:g} of it data") for each in found if each]


def _least_crossing(operation: Operation, leaf: LeafLoad, run: _Run) -> float:
    """Return the minimum part of busbw that leaves a leaf in any algorithm."""
    n, k = run.ranks, leaf.nodes * run.machine.accelerators
    if operation == "send_recv":
        return 0
    if operation == "all_to_all":
        return k * (n - k) / (n - 1)
    return n / (2 * (n - 1)) if operation == "all_reduce" else (n - k) / (n - 1)


def _plain_crossing(operation: Operation, leaf: LeafLoad, run: _Run) -> float:
    """Return the part that leaves a leaf in the plainest algorithm: rings in leaf order, and pairs that never share a
    leaf."""
    if operation == "all_to_all":
        return _least_crossing(operation, leaf, run)
    return leaf.nodes * run.machine.accelerators if operation == "send_recv" else 1


def _trunk_bound(leaf: LeafLoad, crossing: float, run: _Run) -> Bound | None:
    if not leaf.trunk_mbps or not crossing:
        return None
    trunk_gbs = leaf.trunk_mbps / 8000
    ranks = leaf.nodes * run.machine.accelerators
    return Bound(
        trunk_gbs / crossing,
        f"the trunks of a leaf with {ranks} of {run.ranks} accelerators carry {figure(trunk_gbs)} GB/s, and "
        f"{figure(crossing)} of busbw crosses them: {figure(trunk_gbs / crossing)} GB/s",
    )


@dataclass(frozen=True)
class _Plainest:
    """The plainest algorithm of a collective, and the share that a machine with half of its links dead still
    reaches."""

    gbs: float
    share: float
    links: str
    dead: str

    @property
    def floor(self) -> Bound:
        return Bound(self.share * self.gbs, f"{self.share:g} x {self.links}: {self.dead} could be dead")


def _plainest(operation: Operation, run: _Run, nvlink_used: bool) -> _Plainest:
    if run.nodes == 1 or (nvlink_used and share_nvlink(operation, run.nodes, run.machine)):
        share = BROKEN_ALL_TO_ALL_SHARE if operation == "all_to_all" else BROKEN_NVLINK_SHARE
        links_gbs = run.links_gbs(operation)
        return _Plainest(links_gbs, share, f"{run.nvlink}'s {figure(links_gbs)} GB/s", "half")
    if operation == "all_to_all":
        gbs, share = run.nic_gbs * (run.ranks - 1) / (run.ranks - run.machine.accelerators), BROKEN_ALL_TO_ALL_SHARE
    elif operation == "send_recv":
        gbs, share = run.nic_gbs, BROKEN_SHARE
    else:
        nics_gbs = run.nic_gbs * run.machine.accelerators
        gbs, share = min(nics_gbs, run.nvlink_gbs) if run.machine.accelerators > 1 else nics_gbs, BROKEN_SHARE
    plain = operation if operation in ("all_to_all", "send_recv") else "a plain ring"
    over = [_trunk_bound(leaf, _plain_crossing(operation, leaf, run), run) for leaf in run.leaves]
    narrow = min((each for each in over if each and each.value < gbs), key=lambda bound: bound.value, default=None)
    if narrow:
        links = f"the {figure(narrow.value)} GB/s of {plain} over trunks ({narrow.why})"
        return _Plainest(narrow.value, share, links, "half of the uplinks")
    dead = "half of the NICs" if run.machine.nics != 1 else "half of the lanes of the NIC"
    return _Plainest(gbs, share, f"the {figure(gbs)} GB/s of {plain}", dead)
