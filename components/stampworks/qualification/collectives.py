"""Whether all nodes together reach on each rail what the slowest link of a ring allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stampworks import catalog
from stampworks.physics.bounds import Bounds
from stampworks.physics.links import leaf_loads
from stampworks.physics.rails import collective_on_rails
from stampworks.plan import Rail
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import Finding, Measured, Verdict
from stampworks.qualification.results import Heard, Value
from stampworks.qualification.subject import Subject

QUANTITY = "all_reduce_busbw"
UNIT = "GB/s"
SECONDS = 0.3
"""Of one all-reduce of the size that is judged, at least; and of each of its rounds, so that latency hides nothing:"""
ROUND_SECONDS = 0.045
"""three times what a round may take on a crowded machine, which leaves a floor above half of the ceiling."""
SIZE_MIN, SIZE_MAX = 1 << 20, 1 << 30
SAMPLES = 3
_STARTUP_S = 40.0


def standard(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """One all-reduce of each rail in leaf order, and in the worst order where there are trunks to feel."""
    rails = [rail for rail in subject.fabric.rails if len(subject.on_rail(rail, nodes)) == len(nodes)]
    if len(nodes) < 2 or not rails:
        return
    size = max(_size(rail, len(nodes)) for rail in rails)
    sizes = (size >> 6, size >> 3, size)  # the last one is judged, the others show how latency gives way
    yield from _in_order(subject, rails, _leaf_order(subject, nodes), False, sizes, evidence)
    if len({subject.leaf(node) for node in nodes}) > 1:
        yield from _in_order(subject, rails, _worst_order(subject, nodes), True, (size,), evidence)


def burn_in(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """The same over many sizes."""
    rails = [rail for rail in subject.fabric.rails if len(subject.on_rail(rail, nodes)) == len(nodes)]
    if len(nodes) < 2 or not rails:
        return
    sizes = tuple(SIZE_MIN << step for step in range(6))
    yield from _in_order(subject, rails, _leaf_order(subject, nodes), False, sizes, evidence)


def _in_order(
    subject: Subject,
    rails: Sequence[Rail],
    order: tuple[str, ...],
    worst: bool,
    sizes: tuple[int, ...],
    evidence: Evidence,
) -> Campaign:
    options = {
        "collectives": {
            "operations": ["all_reduce"],
            "bytes": list(sizes),
            "rails": [rail.interface for rail in rails],
            "order": list(order),
            "seconds": SAMPLES * _seconds(len(order)),
        }
    }
    kind = catalog.fabrics()[subject.fabric.kind]

    def bounds(rail: Rail, size: int) -> Bounds:
        trunks = {trunk.leaf: trunk.rate_mbps for trunk in rail.trunks}
        loads = leaf_loads(map(subject.leaf, order), trunks)
        return collective_on_rails("all_reduce", size, rail.rate_mbps, loads, kind, worst_order=worst)

    seconds = sum(
        4 * _seconds(len(order)) * (SAMPLES + 1) * size / _size(rail, len(order)) for rail in rails for size in sizes
    )
    how = "in the worst order" if worst else "in leaf order"
    what = f"all-reduce of {len(order)} nodes on {len(rails)} rails, {how}"
    ask = Ask(("collectives",), order, options, _STARTUP_S + len(order) + seconds, what)
    judged: dict[str, Finding] = {}
    for _ in range(2):  # once may be noise
        heard = yield ask
        for rail in rails:
            found = [value for value in _values(heard, len(order)) if value.rail == rail.interface]
            if rail.interface not in judged or judged[rail.interface].verdict != "pass":
                largest = [value for value in found if value.bytes == _whole(sizes[-1], len(order))]
                judged[rail.interface] = _judged(heard, rail, largest, bounds(rail, sizes[-1]), len(order), how)
            evidence.add([], [_measured(value, bounds(rail, value.bytes), worst) for value in found if value.bytes])
        if all(finding.verdict == "pass" for finding in judged.values()):
            break
    evidence.add(list(judged.values()))


def _judged(heard: Heard, rail: Rail, found: Sequence[Value], bounds: Bounds, nodes: int, how: str) -> Finding:
    name = rail.interface
    value = found[0] if found else None
    floor, ceiling = round(bounds.floor.value, 6), bounds.ceiling
    if value is None:
        said = [problem.what for result in heard.of("collectives") for problem in result.problems]
        why = f"{name}: {'; '.join([*said, *heard.unreadable][:3]) or 'no answer'}"
        return Finding("collectives", "unknown", (), name, QUANTITY, UNIT, 0, None, floor, why, False, ceiling.why)
    reached = f"all-reduce of {nodes} nodes reaches {value.value:.3g} of {ceiling.value:.3g} GB/s"
    why = f"{name} {how}: {reached}"
    verdict: Verdict = "pass" if value.value >= floor else "fail"
    if value.value > ceiling.value:
        verdict, why = "unknown", f"{why}: more than can be, so that something else was measured"
    derivation = f"at most: {ceiling.why}; at least: {bounds.floor.why}"
    return Finding(
        "collectives", verdict, (), name, QUANTITY, UNIT, value.bytes, value.value, floor, why, False, derivation
    )


def _measured(value: Value, bounds: Bounds, worst: bool) -> Measured:
    return Measured(
        f"{QUANTITY}.worst_order" if worst else QUANTITY, value.unit, "", "", value.rail, value.bytes,
        value.value, value.low, value.high, value.samples, round(bounds.ceiling.value, 6), value.simulated,
    )  # fmt: skip


def _values(heard: Heard, ranks: int) -> Iterator[Value]:
    """What the first rank says, if as many took part as were asked: of fewer it would be another measurement."""
    for result in heard.of("collectives"):
        if result.rank == 0 and result.ranks == ranks:
            yield from (value for value in result.values if value.quantity == QUANTITY and value.unit == UNIT)


def _whole(size: int, ranks: int) -> int:
    """The size that was measured: a multiple of the ranks, in numbers of four bytes."""
    return 4 * ranks * max(1, size // 4 // ranks)


def _seconds(nodes: int) -> float:
    return max(SECONDS, 2 * (nodes - 1) * ROUND_SECONDS)


def _size(rail: Rail, nodes: int) -> int:
    """The next power of two above what takes half as long: a collective moves its data up to twice."""
    wanted = int(rail.rate_mbps * 1e6 / 8 * _seconds(nodes) / 2)
    return max(SIZE_MIN, min(SIZE_MAX, 1 << wanted.bit_length()))


def _leaf_order(subject: Subject, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes of a leaf beside each other: a ring crosses every trunk once."""
    leaves = list(dict.fromkeys(subject.leaf(node) for node in nodes))
    return tuple(sorted(nodes, key=lambda node: leaves.index(subject.leaf(node))))


def _worst_order(subject: Subject, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes of a leaf as far apart as their number allows: dealt out, the largest leaf first."""
    leaves: dict[str, list[str]] = {}
    for node in nodes:
        leaves.setdefault(subject.leaf(node), []).append(node)
    in_turn = [node for leaf in sorted(leaves.values(), key=len, reverse=True) for node in leaf]
    ring: list[str] = [""] * len(in_turn)
    places = [*range(0, len(in_turn), 2), *range(1, len(in_turn), 2)]
    for place, node in zip(places, in_turn, strict=True):
        ring[place] = node
    return tuple(ring)
