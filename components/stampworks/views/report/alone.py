"""Results of each node and each of its accelerators alone: the spread over all, with lowest and highest."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.qualification import Certificate, Measured
from stampworks.qualification.peers import ACCELERATOR, place
from stampworks.qualification.rails import QUANTITY
from stampworks.views.report import curves, tree
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import number, simulated_mark
from stampworks.views.report.tree import e

TITLE = "Each node by itself"
_NONE = "Nothing was measured of single nodes."
_HEADER = ("quantity", "values", "lowest", "median", "highest", "at most")
_WIDTH, _HEIGHT = 150.0, 16.0


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


def _name(spread: QuantitySpread) -> str:
    where = "".join(f" on {place}" for place in (spread.rail, spread.device) if place and place != "cpu")
    return f"{curves.name(spread.quantity)}{where}, {spread.unit}"


def html(spreads: tuple[QuantitySpread, ...]) -> Element:
    """Return the section as elements of the page."""
    if not spreads:
        return e("section", e("h2", TITLE), e("p", _NONE))
    rows = [
        (
            e("td", _name(spread), " ", simulated_mark(spread.simulated)),
            *map(tree.figure, _words(spread)),
            e("td", _strip([each.value for each in spread.values]), class_="strip"),
        )
        for spread in spreads
    ]
    return e("section", e("h2", TITLE), tree.table((*_HEADER, "lowest to highest"), rows))


def _strip(values: Sequence[float]) -> Element:
    """Return a tick for each value, placed between the lowest and the highest."""
    extent = values[-1] - values[0]
    ticks = []
    for value in values:
        at = f"{4 + (_WIDTH - 8) * ((value - values[0]) / extent if extent else 0.5):.1f}"
        ticks.append(e("line", x1=at, x2=at, y1=2, y2=_HEIGHT - 2, class_="tick"))
    base = e("line", x1=4, x2=_WIDTH - 4, y1=_HEIGHT / 2, y2=_HEIGHT / 2, class_="rule")
    box = f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"
    return e("svg", base, *ticks, viewBox=box, width=f"{_WIDTH:.0f}", aria_hidden="true")


def markdown(spreads: tuple[QuantitySpread, ...]) -> list[str]:
    """Return the section as lines of Markdown."""
    rows = [(_name(spread) + " (simulated)" * spread.simulated, *_words(spread)) for spread in spreads]
    return [f"## {TITLE}", "", *(table(_HEADER, rows) if rows else [plain(_NONE)])]
