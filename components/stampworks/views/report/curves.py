"""Results of all nodes together for each size of a collective, beside the model's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil, floor, log2, log10
from xml.etree.ElementTree import Element

from stampworks.physics.collectives import size
from stampworks.qualification import Certificate, Measured
from stampworks.views.report import tree
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import figures, number, percent, simulated_mark
from stampworks.views.report.tree import e

TITLE = "All nodes together: measured and expected"
_NONE = "No collective was measured."
_EXPLAINED = (
    "Bus bandwidth of one collective over all nodes, on one rail at a time. A mark is the median, its bar the spread. "
    "The dashed line is the model: what the slowest link allows, before anything is lost. Where a burst passes it, the "
    "line is left out; the table has it."
)
_HEADER = ("rail", "quantity", "size", "measured", "spread", "samples", "expected", "share")
_EXPECTED_MOST = 5.0
"""Factor of the largest measured value above which an expected value is not drawn."""
_WIDTH, _HEIGHT = 322.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 312.0, 12.0, 186.0
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-3.6 -3.6h7.2v7.2h-7.2z",
    "M0 -4.6 4.4 3.4h-8.8z",
    "M0 -5 4.4 0 0 5 -4.4 0z",
)


@dataclass(frozen=True)
class CurvePoint:
    """The result for one size."""

    rail: str
    quantity: str
    unit: str
    bytes: int
    value: float
    low: float
    high: float
    samples: int
    expected: float | None
    share: float | None
    simulated: bool


def is_point(measured: Measured) -> bool:
    """Whether the value is of all nodes together on a rail, at a size."""
    return measured.bytes > 0 and not measured.node and bool(measured.rail)


def of(certificate: Certificate) -> tuple[CurvePoint, ...]:
    """Collect the section's data from a certificate."""
    points = [
        CurvePoint(
            each.rail, each.quantity, each.unit, each.bytes, each.value, each.low, each.high, each.samples,
            each.expected, round(each.value / each.expected, 4) if each.expected else None, each.simulated,
        )
        for each in certificate.measured
        if is_point(each)
    ]  # fmt: skip
    return tuple(sorted(points, key=lambda point: (point.rail, point.unit, point.quantity, point.bytes)))


def name(quantity: str) -> str:
    """Return a quantity in words, such as "all reduce busbw, worst order" for all_reduce_busbw.worst_order."""
    head, _, tail = quantity.partition(".")
    return head.replace("_", " ") + (f", {tail.replace('_', ' ')}" if tail else "")


def _words(point: CurvePoint) -> tuple[str, ...]:
    spread = f"{number(point.low)} to {number(point.high)}"
    share = "unknown" if point.share is None else percent(point.share)
    measured, expected = number(point.value, point.unit), number(point.expected, point.unit)
    return size(point.bytes), measured, spread, str(point.samples), expected, share


def html(points: tuple[CurvePoint, ...]) -> Element:
    """Return the section as elements of the page."""
    if not points:
        return e("section", e("h2", TITLE), e("p", _NONE))
    drawable = _drawable(points)
    of_one = [list(its) for _, its in groupby(drawable, lambda point: (point.rail, point.unit, _operation(point)))]
    drawn = [_figure(its, [point for point in drawable if point.unit == its[0].unit]) for its in of_one]
    rows = [
        (
            point.rail,
            e("td", name(point.quantity), " ", simulated_mark(point.simulated)),
            *map(tree.figure, _words(point)),
        )
        for point in points
    ]
    return e("section", e("h2", TITLE), e("p", _EXPLAINED), figures(drawn), tree.table(_HEADER, rows))


def _drawable(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the points to draw.

    Leave out expected values that are far above all measured ones: the model allows any burst for small sizes.
    """
    shown = [point for point in points if point.value > 0]
    most = _EXPECTED_MOST * max((point.value for point in shown), default=0.0)
    return [replace(point, expected=None) if point.expected and point.expected > most else point for point in shown]


def _operation(point: CurvePoint) -> str:
    """Return the operation, without the order of ranks."""
    return point.quantity.partition(".")[0]


def _figure(points: Sequence[CurvePoint], comparable: Sequence[CurvePoint]) -> Element:
    """Return the figure of one collective on one rail, on the scale of all comparable ones."""
    rail, (x, y) = points[0].rail, _scales(comparable)
    what = name(_operation(points[0]))
    series = [list(its) for _, its in groupby(points, lambda point: point.quantity)]
    drawn = [
        e("g", *_series(its, at % len(_SHAPES), x, y), transform=_aside(at, series)) for at, its in enumerate(series)
    ]
    keys = [_key(its, at % len(_SHAPES)) for at, its in enumerate(series)]
    drawing = e(
        "svg",
        *_axes(comparable, x, y),
        *drawn,
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        width=f"{_WIDTH:.0f}",
        role="img",
        aria_label=f"{what} measured and expected by size on {rail}",
    )
    return e(
        "figure",
        e("figcaption", f"{rail}, {what}, {points[0].unit} by size"),
        drawing,
        e("p", *keys, class_="legend"),
        class_="chart",
    )


def _aside(at: int, series: Sequence[object]) -> str:
    """Shift series so that equal values stand side by side."""
    return f"translate({8 * at - 4 * (len(series) - 1)} 0)"


Scale = Callable[[float], float]


def _scales(points: Sequence[CurvePoint]) -> tuple[Scale, Scale]:
    """Return the scales of sizes and values, both logarithmic, with a margin."""
    sizes = [log2(point.bytes) for point in points]
    values = [value for point in points for value in _values(point)]
    left, right = min(sizes) - 1, max(sizes) + 1
    low, high = log10(min(values)) - 0.08, log10(max(values)) + 0.08
    return (
        lambda bytes_: _LEFT + (log2(bytes_) - left) / (right - left) * (_RIGHT - _LEFT),
        lambda value: _BOTTOM - (log10(value) - low) / (high - low) * (_BOTTOM - _TOP),
    )


def _values(point: CurvePoint) -> list[float]:
    """Return the values of a point that a logarithmic axis can show."""
    return [value for value in (point.value, point.low, point.high, point.expected) if value is not None and value > 0]


def _axes(points: Sequence[CurvePoint], x: Scale, y: Scale) -> Iterator[Element]:
    yield e("rect", x=_LEFT, y=_TOP, width=_RIGHT - _LEFT, height=_BOTTOM - _TOP, class_="field")
    sizes = sorted({point.bytes for point in points})
    for bytes_ in sizes[:: ceil(len(sizes) / 4)]:
        yield e("line", x1=f"{x(bytes_):.1f}", x2=f"{x(bytes_):.1f}", y1=_BOTTOM, y2=_BOTTOM + 4, class_="tick")
        yield e("text", size(bytes_), x=f"{x(bytes_):.1f}", y=_BOTTOM + 15, class_="middle")
    values = [value for point in points for value in _values(point)]
    for value in _ticks(min(values), max(values)):
        if _TOP < y(value) < _BOTTOM:
            yield e("line", x1=_LEFT, x2=_RIGHT, y1=f"{y(value):.1f}", y2=f"{y(value):.1f}", class_="rule")
            yield e("text", number(value), x=_LEFT - 5, y=f"{y(value):.1f}", class_="row")
    yield e("text", "size of the buffer of a rank", x=(_LEFT + _RIGHT) / 2, y=_HEIGHT - 4, class_="middle")


def _ticks(low: float, high: float) -> Iterator[float]:
    """Yield round numbers in the range. More powers of ten have fewer numbers each."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    leads = {2: (1, 1.5, 2, 3, 5, 7), 3: (1, 2, 5), 4: (1, 2, 5)}.get(len(powers), (1,))
    yield from (lead * 10.0**power for power in powers for lead in leads)


def _series(points: Sequence[CurvePoint], look: int, x: Scale, y: Scale) -> Iterator[Element]:
    expected = [(x(point.bytes), y(point.expected)) for point in points if point.expected and point.expected > 0]
    if expected:
        # a line needs two ends: extend a single size a little to both sides
        ends = [(expected[0][0] - 14, expected[0][1]), *expected, (expected[-1][0] + 14, expected[-1][1])]
        line = " ".join(f"{at:.1f},{height:.1f}" for at, height in ends)
        yield e("polyline", points=line, class_=f"model line{look}")
    for point in points:
        at = f"{x(point.bytes):.1f}"
        low, high = (value if value > 0 else point.value for value in (point.low, point.high))
        yield e("line", x1=at, x2=at, y1=f"{y(low):.1f}", y2=f"{y(high):.1f}", class_="spread")
        place = f"translate({at} {y(point.value):.1f})"
        yield e("path", d=_SHAPES[look], transform=place, class_="point simulated" if point.simulated else "point")


def _key(points: Sequence[CurvePoint], look: int) -> Element:
    line = e("polyline", points="0,7 30,7", class_=f"model line{look}")
    mark = e("path", d=_SHAPES[look], transform="translate(15 7)", class_="point")
    sample = e("svg", line, mark, viewBox="0 0 30 14", width=30, height=14, aria_hidden="true")
    simulated = simulated_mark(any(point.simulated for point in points))
    return e("span", sample, name(points[0].quantity), " ", simulated, class_="key")


def markdown(points: tuple[CurvePoint, ...]) -> list[str]:
    """Return the section as lines of Markdown."""
    rows = [(point.rail, name(point.quantity) + " (simulated)" * point.simulated, *_words(point)) for point in points]
    return [f"## {TITLE}", "", *(table(_HEADER, rows) if rows else [plain(_NONE)])]
