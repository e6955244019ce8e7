"""Names that a declaration refers to, and what to say when there is no such name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from stampworks.planning.notes import Notes

Row = TypeVar("Row")


def look_up(table: Mapping[str, Row], name: str, path: str, kind: str, notes: Notes) -> Row:
    """The row of that name; if there is none, a problem, and the row that was probably meant."""
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of: {', '.join(table)}"
    notes.problem(path, f"no {kind} is called {name!r}", hint)
    return table[near[0] if near else next(iter(table))]
