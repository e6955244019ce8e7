"""What a collective reaches on all accelerators of some nodes, by its size."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt

from stampworks import catalog
from stampworks.physics.bounds import Bound, Bounds, UnknownFactError, figure, known
from stampworks.physics.collectives import Operation, bus_factor, size

WIRE_SHARE = 0.99
"""Packets have headers: no link carries more than this as data."""
REDUCED_SHARE = 1.09
"""Published where the switch adds up: 487 GB/s of busbw on NVLink of 450 (2 x p5), 937 on 900 (18 x GB300)."""
BROKEN_SHARE = 0.5
"""What reaches no more than half of a plain ring can have half of its links dead."""
BROKEN_ALL_TO_ALL_SHARE = 0.35
"""Healthy fabrics lose much more of an all-to-all than of a ring."""
NEARLY_ALL = 0.98
SLOW_START_US = 150.0
"""What a healthy but slow fabric takes to begin, once and again with each doubling of the nodes."""


@dataclass(frozen=True)
class Latency:
    """What a transfer takes beside its bytes: a start, and the time in which its pipeline fills.

    A transfer of d steps that is cut into the best number of pieces takes bytes + 2 sqrt(fill x bytes) longer than
    nothing, until the pieces cannot get larger; that is why two parameters are not enough. The numbers are such that no
    published measurement is faster.
    """

    start_us: float
    fill_us: float
    fill_us_max: float

    def time_us(self, bytes_us: float) -> float:
        return self.start_us + bytes_us + min(2 * sqrt(self.fill_us * bytes_us), self.fill_us_max)


INSIDE = Latency(start_us=4, fill_us=5, fill_us_max=100)


def collective_on_machines(
    operation: Operation, nodes: int, size_bytes: int | None, machine: catalog.Machine
) -> Bounds:
    """A collective of all accelerators of some nodes. Raises UnknownFactError where the catalog does not say enough."""
    if machine.simulated:
        raise UnknownFactError(
            f"the catalog does not know the rate of a rail of {machine.name}: it is simulated, and declarations give it"
        )
    run = _Run(nodes, machine)
    highest, level = _ceiling(operation, run), ceil(log2(run.domains))
    trips = 2 if operation == "all_reduce" else 1
    latency = Latency(4 + 4 * trips * level, 10 * trips * level, 100 * trips * level) if level else INSIDE
    lowest = _floor(operation, run)
    if size_bytes is None:
        return Bounds(highest, lowest)
    moved = bus_factor(operation, run.ranks) * size_bytes
    quickest_us = latency.time_us(moved / highest.value / 1000)
    slow_us = SLOW_START_US * (1 + ceil(log2(nodes))) + moved / (lowest.value / _broken_share(operation)) / 1000
    return Bounds(
        _of_size(highest, size_bytes, moved / quickest_us / 1000, f"which takes {figure(quickest_us)} us or more"),
        _of_size(lowest, size_bytes, _broken_share(operation) * moved / slow_us / 1000, "which is mostly latency"),
    )


def _of_size(bound: Bound, size_bytes: int, value: float, why: str) -> Bound:
    """The same for a size; words only where it makes a difference."""
    less = f"; {figure(value)} GB/s for {size(size_bytes)}, {why}" if value < NEARLY_ALL * bound.value else ""
    return Bound(value, bound.why + less)


@dataclass(frozen=True)
class _Run:
    """Nodes in as few NVLink domains as they fit in, all about as large."""

    nodes: int
    machine: catalog.Machine

    @property
    def ranks(self) -> int:
        return self.nodes * self.machine.accelerators

    @property
    def domains(self) -> int:
        return ceil(self.nodes / known(self.machine.nvlink_nodes, f"how far NVLink reaches from a {self.machine.name}"))

    @property
    def domain_ranks(self) -> int:
        """Of the smallest one."""
        return self.nodes // self.domains * self.machine.accelerators

    @property
    def nvlink_gbs(self) -> float:
        row = catalog.accelerators()[self.machine.accelerator]
        return known(row.nvlink_gbs, f"the NVLink rate of {row.name}")

    @property
    def nic_gbs(self) -> float:
        """The NICs of one accelerator together."""
        rate_gbps = known(self.machine.nic_rate_gbps, f"the rate of a NIC of {self.machine.name}")
        return self.machine.nics * rate_gbps / 8 / self.machine.accelerators

    @property
    def nics(self) -> str:
        machine = self.machine
        return (
            f"{machine.nics} NICs x {machine.nic_rate_gbps} Gb/s / 8 / {machine.accelerators} accelerators = "
            f"{figure(self.nic_gbs)} GB/s each, {WIRE_SHARE:g} of it data"
        )


def _ceiling(operation: Operation, run: _Run) -> Bound:
    inside = _inside(operation, run)
    if run.domains == 1:
        return inside
    return min(inside, _across(operation, run), key=lambda bound: bound.value)


def _inside(operation: Operation, run: _Run) -> Bound:
    """What NVLink leaves of it."""
    row = catalog.accelerators()[run.machine.accelerator]
    begin = f"NVLink of {row.name} carries {figure(run.nvlink_gbs)} GB/s from an accelerator"
    reduces = operation == "all_reduce" and known(
        row.switch_reduces, f"whether the NVLink switch of {row.name} adds up"
    )
    if reduces:
        value = REDUCED_SHARE * run.nvlink_gbs
        return Bound(value, f"{begin}, and its switch adds up: x {REDUCED_SHARE:g}, the most that was ever published")
    if operation == "all_to_all" and run.domains > 1:
        share = (run.domain_ranks - 1) / (run.ranks - 1)
        value = WIRE_SHARE * run.nvlink_gbs / share
        return Bound(value, f"{begin}, {WIRE_SHARE:g} of it data, and {figure(share)} of the data stays inside")
    return Bound(WIRE_SHARE * run.nvlink_gbs, f"{begin}, {WIRE_SHARE:g} of it data")


def _across(operation: Operation, run: _Run) -> Bound:
    """What the NICs leave of it. Nodes that share an NVLink fabric count as one."""
    n, d, g = run.ranks, run.domains, run.domain_ranks
    data_gbs, places = WIRE_SHARE * run.nic_gbs, "nodes" if run.machine.nvlink_nodes == 1 else "NVLink domains"
    if operation == "send_recv":
        return Bound(data_gbs, run.nics)
    if operation == "all_to_all":
        value = data_gbs * (n - 1) / (n - g)
        return Bound(value, f"{run.nics}; of {n - 1} parts {n - g} leave for other {places}: x {n - 1}/{n - g}")
    reduces = known(run.machine.fabric_reduces, f"whether the fabric of {run.machine.name} adds up")
    if operation == "all_reduce" and reduces:
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


def _floor(operation: Operation, run: _Run) -> Bound:
    """What a machine reaches that has half of its links left, in the plainest way that the operation can be done.

    A rack's NVLink between nodes may be left unused on purpose; the NICs are then what counts.
    """
    share = _broken_share(operation)
    if run.nodes == 1:
        return Bound(share * run.nvlink_gbs, f"{share:g} x NVLink's {figure(run.nvlink_gbs)} GB/s: half could be dead")
    ring_gbs = run.nic_gbs * run.machine.accelerators
    value = {
        "send_recv": run.nic_gbs,
        "all_to_all": run.nic_gbs * (run.ranks - 1) / (run.ranks - run.machine.accelerators),
    }.get(operation, min(ring_gbs, run.nvlink_gbs))
    plain = "a plain ring" if operation not in ("send_recv", "all_to_all") else operation
    return Bound(share * value, f"{share:g} x the {figure(value)} GB/s of {plain}: half of the NICs could be dead")


def _broken_share(operation: Operation) -> float:
    return BROKEN_ALL_TO_ALL_SHARE if operation == "all_to_all" else BROKEN_SHARE
