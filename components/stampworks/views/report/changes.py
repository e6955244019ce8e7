"""Figures of two proofs or two runs side by side, with the change from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.views.report import tree
from stampworks.views.report.marks import number, simulated_mark
from stampworks.views.report.tree import e

_LEAST = 0.05
"""Percent or points. Less is shown as no change."""


@dataclass(frozen=True)
class FigureChange:
    name: str
    unit: str
    then: float
    now: float
    simulated: bool = False

    @property
    def percent(self) -> float | None:
        """Return the change as a part of the earlier value; None where that is zero."""
        return round(100 * (self.now - self.then) / abs(self.then), 1) if self.then else None


def words(change: FigureChange) -> tuple[str, str, str]:
    return number(change.then, change.unit), number(change.now, change.unit), _difference(change)


def _difference(change: FigureChange) -> str:
    if change.percent is None and change.now != change.then:
        return "-"
    points = change.now - change.then if change.unit == "%" else change.percent or 0.0
    if abs(points) < _LEAST:
        return "none"
    return f"{points:+.1f} {'points' if change.unit == '%' else '%'}"


def rows(changes: Sequence[FigureChange]) -> list[tuple[str, ...]]:
    return [(each.name + " (simulated)" * each.simulated, *words(each)) for each in changes]


def html(header: Sequence[str], changes: Sequence[FigureChange]) -> Element:
    """Return a table with a row for each figure. `header` has the names of both sides."""
    cells = [
        (e("td", each.name, " ", simulated_mark(each.simulated)), *map(tree.figure, words(each))) for each in changes
    ]
    return tree.table(header, cells, "changes")
