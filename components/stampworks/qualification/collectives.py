"""Check whether all nodes together reach, on each rail, the rate that the slowest link allows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from stampworks import catalog
from stampworks.physics.bounds import Bound, Bounds
from stampworks.physics.collectives import Operation
from stampworks.physics.links import leaf_loads
from stampworks.physics.rails import collective_on_rails
from stampworks.plan import Rail
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import CheckFinding, Measured, Verdict
from stampworks.qualification.results import BUSY, Heard, MeasuredValue, in_spite_of_the_host
from stampworks.qualification.subject import Subject

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
UNIT = "GB/s"
SECONDS = 0.3
"""Minimum duration of one all-reduce of the judged size."""
ROUND_SECONDS = 0.045
"""Minimum duration of each of its rounds, so that latency hides nothing: three times the duration of a round on a
crowded machine. The floor then stays above half of the ceiling."""
SIZE_MIN, SIZE_MAX = 1 << 20, 1 << 30
SAMPLES = 3
_STARTUP_S = 40.0


Judging = Generator[Ask, Heard, dict[tuple[str, Operation], CheckFinding]]
"""Asks for measurements and returns a finding for each collective on each rail."""


@dataclass(frozen=True)
class _Sweep:
    """Collectives over several sizes. The last size is judged; the others show how latency loses weight."""

    operations: tuple[Operation, ...]
    sizes: tuple[int, ...]
    order: tuple[str, ...]
    worst: bool
    """Whether the order of ranks is the worst one, or that of the leaves."""

    @property
    def how(self) -> str:
        return "in the worst order" if self.worst else "in leaf order"


def standard(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Run one all-reduce on each rail in leaf order, and in the worst order where there are trunks to test."""
    for those, rails in _meeting(subject, nodes).items():
        size = max(_size(rail, len(those)) for rail in rails)
        sizes = (size >> 6, size >> 3, size)
        yield from _swept(subject, rails, _Sweep(("all_reduce",), sizes, _leaf_order(subject, those), False), evidence)
        if len({subject.leaf(node) for node in those}) > 1:
            worst = _Sweep(("all_reduce",), (size,), _worst_order(subject, those), True)
            yield from _swept(subject, rails, worst, evidence)


def burn_in(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Run every collective over many sizes, in both orders."""
    for those, rails in _meeting(subject, nodes).items():
        size = max(_size(rail, len(those)) for rail in rails)
        sizes = (size >> 6, size >> 4, size >> 2, size, min(SIZE_MAX, size << 2))
        yield from _swept(subject, rails, _Sweep(OPERATIONS, sizes, _leaf_order(subject, those), False), evidence)
        if len({subject.leaf(node) for node in those}) > 1:
            yield from _swept(subject, rails, _Sweep(OPERATIONS, sizes, _worst_order(subject, those), True), evidence)


def _meeting(subject: Subject, nodes: tuple[str, ...]) -> dict[tuple[str, ...], list[Rail]]:
    """Group rails by the nodes that meet on them: a machine may have fewer rails than others, or none."""
    found: dict[tuple[str, ...], list[Rail]] = {}
    for rail in subject.fabric.rails:
        if len(those := subject.on_rail(rail, nodes)) > 1:
            found.setdefault(those, []).append(rail)
    return found


def _swept(subject: Subject, rails: Sequence[Rail], sweep: _Sweep, evidence: Evidence) -> Campaign:
    """Measure, and measure failures a second time, because one failure may be noise."""
    judged = yield from _once(subject, rails, sweep, evidence)
    if failed := [key for key, finding in judged.items() if finding.verdict != "pass"]:
        again = replace(sweep, operations=tuple(dict.fromkeys(operation for _, operation in failed)))
        on = {interface for interface, _ in failed}
        second = yield from _once(subject, [rail for rail in rails if rail.interface in on], again, evidence)
        judged |= {key: second[key] for key in failed}
    evidence.add(list(judged.values()))


def _once(subject: Subject, rails: Sequence[Rail], sweep: _Sweep, evidence: Evidence) -> Judging:
    heard = yield _ask(rails, sweep)
    ranks, judged = len(sweep.order), dict[tuple[str, Operation], CheckFinding]()
    for rail, operation in itertools.product(rails, sweep.operations):
        bounds = functools.partial(_bounds, subject, rail, operation, sweep, _backend(heard))
        found = [value for value in _values(heard, operation, ranks) if value.rail == rail.interface]
        evidence.add([], [_measured(value, bounds(value.bytes), sweep) for value in found])
        largest = next((value for value in found if value.bytes == _measured_size(sweep.sizes[-1], ranks)), None)
        if largest:
            how = f"{rail.interface} {sweep.how}: {operation.replace('_', '-')} of {ranks} nodes"
            judged[rail.interface, operation] = _judged(rail, how, largest, bounds(largest.bytes), subject.shared)
        else:
            judged[rail.interface, operation] = _not_heard(rail, operation, heard, bounds(sweep.sizes[-1]))
    return judged


def _ask(rails: Sequence[Rail], sweep: _Sweep) -> Ask:
    ranks = len(sweep.order)
    options = {
        "collectives": {
            "operations": list(sweep.operations),
            "bytes": list(sweep.sizes),
            "rails": [rail.interface for rail in rails],
            "order": list(sweep.order),
            "seconds": SAMPLES * _seconds(ranks),
        }
    }
    each = (4 * _seconds(ranks) * (SAMPLES + 1) * size / _size(rail, ranks) for rail in rails for size in sweep.sizes)
    seconds = _STARTUP_S + ranks + len(sweep.operations) * sum(each)
    what = "all-reduce" if sweep.operations == ("all_reduce",) else f"{len(sweep.operations)} collectives"
    return Ask(
        ("collectives",), sweep.order, options, seconds, f"{what} of {ranks} nodes on {len(rails)} rails, {sweep.how}"
    )


def _backend(heard: Heard) -> str:
    return next((result.backend for result in heard.of("collectives")), "")


def _bounds(subject: Subject, rail: Rail, operation: Operation, sweep: _Sweep, backend: str, size: int) -> Bounds:
    loads = leaf_loads(map(subject.leaf, sweep.order), {trunk.leaf: trunk.rate_mbps for trunk in rail.trunks})
    kind = catalog.fabrics()[subject.fabric.kind]
    halved = (backend, operation) == ("gloo", "reduce_scatter")
    done = "all_reduce" if halved else operation
    bounds = collective_on_rails(done, size, rail.rate_mbps, loads, kind, worst_order=sweep.worst)
    if not halved:
        return bounds
    why = "gloo reduces everything to all and keeps a part, which is half of the busbw of an all-reduce"
    return Bounds(*(Bound(bound.value / 2, f"{why}: {bound.why}") for bound in (bounds.ceiling, bounds.floor)))


def _judged(rail: Rail, how: str, heard: MeasuredValue, bounds: Bounds, shared: bool) -> CheckFinding:
    floor, ceiling = round(bounds.floor.value, 6), bounds.ceiling
    value = in_spite_of_the_host(heard, floor, shared)
    why = f"{how} reaches {value.value:.3g} of {ceiling.value:.3g} GB/s" + (f"; {BUSY}" if value.note == BUSY else "")
    verdict: Verdict = "pass" if value.value >= floor else "fail"
    if value.value > ceiling.value:
        verdict, why = "unknown", f"{why}: more than is possible, so that something else was measured"
    derivation = f"at most: {ceiling.why}; at least: {bounds.floor.why}"
    return CheckFinding(
        "collectives", verdict, (), rail.interface, value.quantity, UNIT, value.bytes, value.value, floor, why, False,
        derivation,
    )  # fmt: skip


def _not_heard(rail: Rail, operation: Operation, heard: Heard, bounds: Bounds) -> CheckFinding:
    said = [problem.what for result in heard.of("collectives") for problem in result.problems]
    why = f"{rail.interface}: {'; '.join([*said, *heard.unreadable][:3]) or 'no answer'}"
    floor = round(bounds.floor.value, 6)
    return CheckFinding(
        "collectives", "unknown", (), rail.interface, f"{operation}_busbw", UNIT, 0, None, floor, why, False,
        bounds.ceiling.why,
    )  # fmt: skip


def _measured(value: MeasuredValue, bounds: Bounds, sweep: _Sweep) -> Measured:
    return Measured(
        f"{value.quantity}.worst_order" if sweep.worst else value.quantity, value.unit, "", "", value.rail, value.bytes,
        value.value, value.low, value.high, value.samples, round(bounds.ceiling.value, 6), value.simulated,
    )  # fmt: skip


def _values(heard: Heard, operation: Operation, ranks: int) -> Iterator[MeasuredValue]:
    """Return the first rank's values if all requested ranks took part: with fewer it is another measurement."""
    for result in heard.of("collectives"):
        if result.rank == 0 and result.ranks == ranks:
            yield from (
                value
                for value in result.values
                if (value.quantity, value.unit) == (f"{operation}_busbw", UNIT) and value.bytes
            )


def _measured_size(size: int, ranks: int) -> int:
    """Return the measured size: a multiple of the ranks, in numbers of four bytes."""
    return 4 * ranks * max(1, size // 4 // ranks)


def _seconds(nodes: int) -> float:
    return max(SECONDS, 2 * (nodes - 1) * ROUND_SECONDS)


def _size(rail: Rail, nodes: int) -> int:
    """Return the power of two above the data of half the duration: a collective moves its data up to twice."""
    wanted = int(rail.rate_mbps * 1e6 / 8 * _seconds(nodes) / 2)
    return max(SIZE_MIN, min(SIZE_MAX, 1 << wanted.bit_length()))


def _leaf_order(subject: Subject, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Put the nodes of a leaf next to each other, so that a ring crosses every trunk once."""
    leaves = list(dict.fromkeys(subject.leaf(node) for node in nodes))
    return tuple(sorted(nodes, key=lambda node: leaves.index(subject.leaf(node))))


def _worst_order(subject: Subject, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Put the nodes of a leaf as far apart as possible by dealing them out, the largest leaf first."""
    leaves: dict[str, list[str]] = {}
    for node in nodes:
        leaves.setdefault(subject.leaf(node), []).append(node)
    in_turn = [node for leaf in sorted(leaves.values(), key=len, reverse=True) for node in leaf]
    ring: list[str] = [""] * len(in_turn)
    places = [*range(0, len(in_turn), 2), *range(1, len(in_turn), 2)]
    for place, node in zip(places, in_turn, strict=True):
        ring[place] = node
    return tuple(ring)
