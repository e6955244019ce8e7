"""Names that a declaration refers to, and what to say when there is no such name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from stampworks.declaration.wording import did_you_mean, similar
from stampworks.planning.notes import Notes

Row = TypeVar("Row")


def look_up(table: Mapping[str, Row], name: str, path: str, kind: str, notes: Notes) -> Row:
    """The row of that name; if there is none, a problem, and the row that was probably meant."""
    if name in table:
        return table[name]
    notes.problem(path, f"no {kind} is called {name!r}", did_you_mean(name, table))
    return table[similar(name, table) or next(iter(table))]
