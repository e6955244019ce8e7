"""Results of each pair of nodes on each rail: a matrix of senders and receivers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.qualification import Certificate
from stampworks.qualification.rails import QUANTITY
from stampworks.views.report import tree
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import figures, hatched, legend, number, percent, short, simulated_mark, step
from stampworks.views.report.tree import e

TITLE = "Pairs of nodes"
_NONE = "No pair of nodes was measured."
_EXPLAINED = (
    "The row sends, the column receives. A pair that is as fast as it should be clears both of its nodes, so that few "
    "pairs tell about all. A place is empty where a pair was not measured, or nothing arrived: then a finding says so."
)
_WELL = "No pair that was measured is too slow."
_HEADER = ("rail", "sender", "receiver", "measured", "expected", "share")
_NUMBERS_MAX = 16
"""Largest number of nodes whose cells have room for a number. A list below the matrix has the slow pairs."""
_SIDE = 30.0
_NUMBERED, _CROWDED = 400.0, 560.0
_LETTER = 6.6


@dataclass(frozen=True)
class Pair:
    """A rate from one node to another on one rail."""

    rail: str
    sender: str
    receiver: str
    value: float
    unit: str
    expected: float | None
    """Rate that the links between them must deliver."""
    share: float | None
    simulated: bool


@dataclass(frozen=True)
class Pairs:
    """All measured pairs."""

    nodes: tuple[str, ...]
    rails: tuple[str, ...]
    measured: tuple[Pair, ...]


def of(certificate: Certificate) -> Pairs:
    """Collect the section's data from a certificate."""
    measured = tuple(
        Pair(
            each.rail, each.node, each.peer, each.value, each.unit, each.expected,
            round(each.value / each.expected, 4) if each.expected else None, each.simulated,
        )
        for each in certificate.measured
        if each.quantity == QUANTITY
    )  # fmt: skip
    nodes = [node.name for node in certificate.nodes]
    nodes += [name for pair in measured for name in (pair.sender, pair.receiver)]
    return Pairs(tuple(dict.fromkeys(nodes)), tuple(sorted({pair.rail for pair in measured})), measured)


def _slow(pairs: Pairs) -> list[Pair]:
    return [pair for pair in pairs.measured if pair.share is not None and hatched(step(pair.share))]


def _words(pair: Pair) -> tuple[str, str, str]:
    share = "unknown" if pair.share is None else percent(pair.share)
    return number(pair.value, pair.unit) + " (simulated)" * pair.simulated, number(pair.expected, pair.unit), share


def html(pairs: Pairs) -> Element:
    """Return the section as elements of the page."""
    if not pairs.measured:
        return e("section", e("h2", TITLE), e("p", _NONE))
    drawn = [_figure(pairs.nodes, rail, [pair for pair in pairs.measured if pair.rail == rail]) for rail in pairs.rails]
    rows = [(pair.rail, pair.sender, pair.receiver, *map(tree.figure, _words(pair))) for pair in _slow(pairs)]
    below = tree.table(_HEADER, rows) if rows else e("p", _WELL)
    return e("section", e("h2", TITLE), e("p", _EXPLAINED), legend(), figures(drawn), below)


def _figure(nodes: tuple[str, ...], rail: str, measured: Sequence[Pair]) -> Element:
    room = _NUMBERED if len(nodes) <= _NUMBERS_MAX else _CROWDED
    side, place = min(_SIDE, room / len(nodes)), {name: at for at, name in enumerate(nodes)}
    margin = _LETTER * max(len(short(name)) for name in nodes) + 8
    height, width = (
        f"{margin + side * len(nodes) + more:.0f}" for more in (1, margin / 2)
    )  # the last name leans outwards
    every = -(-10 // side)  # a label is ten points high
    labels = [
        label for name, at in place.items() if not at % every for label in _labels(name, margin, side * (at + 0.5))
    ]
    cells = [_cell(pair, side * place[pair.receiver], side * place[pair.sender], side, len(nodes)) for pair in measured]
    field = e("rect", width=f"{side * len(nodes):.1f}", height=f"{side * len(nodes):.1f}", class_="field")
    grid = e("g", *_grid(len(nodes), side), *cells, field, transform=f"translate({margin:.0f} {margin:.0f})")
    drawing = e(
        "svg", *labels, grid, viewBox=f"0 0 {width} {height}", width=width, role="img", aria_label=f"pairs on {rail}"
    )
    simulated = simulated_mark(any(pair.simulated for pair in measured))
    return e("figure", e("figcaption", f"{rail}, {len(measured)} pairs ", simulated), drawing)


def _labels(name: str, margin: float, at: float) -> tuple[Element, Element]:
    edge, middle = f"{margin - 5:.0f}", f"{margin + at:.1f}"
    turn = f"translate({middle} {edge}) rotate(-60)"
    return e("text", short(name), x=edge, y=middle, class_="row"), e("text", short(name), transform=turn)


def _grid(nodes: int, side: float) -> Iterator[Element]:
    """Yield guide lines if the cells leave room for them, and the diagonal, which has no pairs."""
    end = f"{side * nodes:.1f}"
    for at in range(1, nodes if nodes <= _NUMBERS_MAX else 0):
        yield e("line", x1=f"{side * at:.1f}", x2=f"{side * at:.1f}", y1=0, y2=end, class_="rule")
        yield e("line", y1=f"{side * at:.1f}", y2=f"{side * at:.1f}", x1=0, x2=end, class_="rule")
    yield e("line", x1=0, y1=0, x2=end, y2=end, class_="rule")


def _cell(pair: Pair, x: float, y: float, side: float, nodes: int) -> Element:
    look = "unknown" if pair.share is None else f"step{step(pair.share)}"
    box = {"width": f"{side:.2f}", "height": f"{side:.2f}"}
    value, expected, share = _words(pair)
    title = e("title", f"{pair.sender} to {pair.receiver}: {value} of {expected}, {share}")
    hatch = e("rect", **box, class_="hatch") if pair.share is not None and hatched(step(pair.share)) else None
    middle = f"{side / 2:.1f}"
    label = e("text", share.removesuffix(" %"), x=middle, y=middle, class_="value") if nodes <= _NUMBERS_MAX else None
    return e("g", title, e("rect", **box), hatch, label, class_=f"pair {look}", transform=f"translate({x:.2f} {y:.2f})")


def markdown(pairs: Pairs) -> list[str]:
    """Return the section as lines of Markdown."""
    rows = [(pair.rail, pair.sender, pair.receiver, *_words(pair)) for pair in pairs.measured]
    return [f"## {TITLE}", "", *(table(_HEADER, rows) if rows else [plain(_NONE)])]
