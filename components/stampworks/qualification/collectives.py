"""Whether all nodes together reach on each rail what the slowest link of a ring allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stampworks import catalog
from stampworks.physics import links
from stampworks.physics.bounds import Bound
from stampworks.physics.links import LeafLoad
from stampworks.plan import Rail
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import Finding, Measured, Verdict
from stampworks.qualification.results import Heard, Value
from stampworks.qualification.subject import Subject

QUANTITY = "all_reduce_busbw"
UNIT = "GB/s"
SHARE_MIN = 0.8
"""Of the ceiling of a ring, where latency no longer counts."""
SECONDS = 0.3
"""Of one all-reduce of the size that is judged."""
SIZE_MIN, SIZE_MAX = 1 << 20, 1 << 30
SAMPLES = 3
_STARTUP_S = 40.0


def standard(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """One all-reduce of each rail in leaf order, and in the worst order where there are trunks to feel."""
    rails = [rail for rail in subject.fabric.rails if len(subject.on_rail(rail, nodes)) == len(nodes)]
    if len(nodes) < 2 or not rails:
        return
    size = max(_size(rail) for rail in rails)
    yield from _in_order(subject, rails, _leaf_order(subject, nodes), False, (size,), evidence)
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
            "seconds": SAMPLES * SECONDS,
        }
    }
    loads = {rail.interface: _loads(subject, rail, order) for rail in rails}
    kind = catalog.fabrics()[subject.fabric.kind]
    ceilings = {
        rail.interface: (links.worst_ring_ceiling if worst else links.ring_ceiling)(
            rail.rate_mbps, loads[rail.interface], kind
        )
        for rail in rails
    }
    seconds = sum(4 * SECONDS * (SAMPLES + 1) * size / max(_size(rail), 1) for rail in rails for size in sizes)
    how = "in the worst order" if worst else "in leaf order"
    what = f"all-reduce of {len(order)} nodes on {len(rails)} rails, {how}"
    heard = yield Ask(("collectives",), order, options, _STARTUP_S + len(order) + seconds, what)
    evidence.add(list(_judged(heard, ceilings, order, how, sizes[-1])), list(_measured(heard, ceilings, worst)))


def _judged(
    heard: Heard, ceilings: Mapping[str, Bound], order: tuple[str, ...], how: str, size: int
) -> Iterator[Finding]:
    for rail, ceiling in ceilings.items():
        found = [each for each in _values(heard) if each.rail == rail and each.bytes > size // 2]
        value = max(found, key=lambda each: each.bytes, default=None)  # a size is rounded to a multiple of the ranks
        expected = round(SHARE_MIN * ceiling.value, 6)
        if value is None:
            said = [problem.what for result in heard.of("collectives") for problem in result.problems]
            why = f"{rail}: {'; '.join([*said, *heard.unreadable][:3]) or 'no answer'}"
            yield Finding("collectives", "unknown", (), rail, QUANTITY, UNIT, size, None, expected, why, False)
            continue
        verdict: Verdict = "pass" if value.value >= expected else "fail"
        why = f"{rail} {how}: all-reduce of {len(order)} nodes reaches {value.value:.3g} of {ceiling.value:.3g} GB/s; "
        why += ceiling.why
        yield Finding("collectives", verdict, (), rail, QUANTITY, UNIT, size, value.value, expected, why, False)


def _measured(heard: Heard, ceilings: Mapping[str, Bound], worst: bool) -> Iterator[Measured]:
    quantity = f"{QUANTITY}.worst_order" if worst else QUANTITY
    for each in _values(heard):
        ceiling = ceilings.get(each.rail)
        yield Measured(
            quantity, each.unit, "", "", each.rail, each.bytes, each.value, each.low, each.high, each.samples,
            round(ceiling.value, 6) if ceiling else None, each.simulated,
        )  # fmt: skip


def _values(heard: Heard) -> Iterator[Value]:
    for result in heard.of("collectives"):
        yield from (value for value in result.values if value.quantity == QUANTITY and value.unit == UNIT)


def _size(rail: Rail) -> int:
    """A power of two that takes about as long as it shall."""
    wanted = int(rail.rate_mbps * 1e6 / 8 * SECONDS / 2)
    return max(SIZE_MIN, min(SIZE_MAX, 1 << wanted.bit_length() >> 1))


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


def _loads(subject: Subject, rail: Rail, nodes: tuple[str, ...]) -> list[LeafLoad]:
    trunks = {trunk.leaf: trunk.rate_mbps for trunk in rail.trunks}
    leaves: dict[str, int] = {}
    for node in nodes:
        leaves[subject.leaf(node)] = leaves.get(subject.leaf(node), 0) + 1
    if len(leaves) == 1:
        trunks = {}
    return [LeafLoad(count, trunks.get(leaf, 0)) for leaf, count in leaves.items()]
