"""Results of each node and each of its accelerators alone: the spread over all, with lowest and highest."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.qualification import Certificate, Measured
from stampworks.qualification.peers import ACCELERATOR, place
from stampworks.qualification.rails import QUANTITY
from stampworks.text.amounts import counted
from stampworks.views.report import curves, tree
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import number, simulated_mark, tick_label, ticks
from stampworks.views.report.tree import e

TITLE = "Single nodes"
_NONE = "Nothing was measured of single nodes."
_HEADER = ("quantity", "values", "lowest", "median", "highest", "at most")
_WIDTH, _HEIGHT = 160.0, 34.0
_LEFT, _RIGHT, _AXIS = 18.0, 142.0, 18.0


@dataclass(frozen=True)
class NodeValue:
    """A value of a node or of one of its accelerators."""

    node: str
    value: float
    device: str
    """Accelerator of the node."""

    @property
    def where(self) -> str:
        """Node and accelerator in words."""
        return place(self.node, self.device) or "all together"


@dataclass(frozen=True)
class QuantitySpread:
    """All values of one quantity, for a row of the table."""

    quantity: str
    unit: str
    rail: str
    device: str
    """Directory, if a node has several."""
    simulated: bool
    expected: float | None
    """Highest value that it can reach, if known for the machine."""
    median: float
    values: tuple[NodeValue, ...]
    """Values, the lowest first."""


def of(certificate: Certificate) -> tuple[QuantitySpread, ...]:
    """Collect the section's data from a certificate."""
    by_quantity: dict[tuple[str, str, str, str, bool, float | None], list[Measured]] = {}
    for each in certificate.measured:
        if each.quantity != QUANTITY and not curves.is_point(each):
            directory = "" if each.device.startswith(ACCELERATOR) else each.device
            key = (each.quantity, each.unit, each.rail, directory, each.simulated, each.expected)
            by_quantity.setdefault(key, []).append(each)
    return tuple(
        QuantitySpread(
            *key,
            median=statistics.median(each.value for each in its),
            values=tuple(
                NodeValue(each.node, each.value, each.device if each.device.startswith(ACCELERATOR) else "")
                for each in sorted(its, key=lambda each: each.value)
            ),
        )
        for key, its in by_quantity.items()
    )


def _words(spread: QuantitySpread) -> tuple[str, ...]:
    lowest, highest = (f"{number(each.value)} ({each.where})" for each in (spread.values[0], spread.values[-1]))
    expected = "" if spread.expected is None else number(spread.expected)
    return str(len(spread.values)), lowest, number(spread.median), highest, expected


def name(spread: QuantitySpread) -> str:
    where = "".join(f" on {place}" for place in (spread.rail, spread.device) if place and place != "cpu")
    return f"{curves.name(spread.quantity)}{where}"


def _titled(spread: QuantitySpread) -> str:
    return f"{name(spread)}, {spread.unit}"


def html(spreads: tuple[QuantitySpread, ...]) -> Element:
    """Return the section as elements of the page."""
    if not spreads:
        return e("section", e("h2", TITLE), e("p", _NONE))
    rows = [
        (
            e("td", _titled(spread), " ", simulated_mark(spread.simulated)),
            *map(tree.figure, _words(spread)),
            e("td", _strip(spread), class_="strip"),
        )
        for spread in spreads
    ]
    return e("section", e("h2", TITLE), tree.table((*_HEADER, "each value"), rows, "spreads"))


def _strip(spread: QuantitySpread) -> Element:
    """Return a mark for each value above a scale in the unit of the quantity."""
    values = [each.value for each in spread.values]
    scale = ticks(values[0], values[-1], most=3)

    def x(value: float) -> str:
        return f"{_LEFT + (_RIGHT - _LEFT) * (value - scale[0]) / (scale[-1] - scale[0]):.1f}"

    many = counted(len(values), "value")
    return e(
        "svg",
        e("line", x1=_LEFT, x2=_RIGHT, y1=_AXIS, y2=_AXIS, class_="axis"),
        *(e("line", x1=x(at), x2=x(at), y1=_AXIS, y2=_AXIS + 4, class_="axis") for at in scale),
        *(e("text", tick_label(at, scale), x=x(at), y=_HEIGHT - 2, class_="middle") for at in (scale[0], scale[-1])),
        e("text", spread.unit, x=_WIDTH / 2, y=_HEIGHT - 2, class_="middle"),
        *(e("line", x1=x(value), x2=x(value), y1=3, y2=_AXIS - 2, class_="tick") for value in values),
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        width=f"{_WIDTH:.0f}",
        role="img",
        aria_label=f"{many} from {number(values[0])} to {number(values[-1], spread.unit)}",
    )


def markdown(spreads: tuple[QuantitySpread, ...]) -> list[str]:
    """Return the section as lines of Markdown."""
    rows = [(_titled(spread) + " (simulated)" * spread.simulated, *_words(spread)) for spread in spreads]
    return [f"## {TITLE}", "", *(table(_HEADER, rows) if rows else [plain(_NONE)])]
