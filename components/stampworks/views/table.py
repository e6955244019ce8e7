"""Plain text for a terminal or a pipe: aligned tables and wrapped paragraphs, without colour."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from stampworks.text.printable import printable

GAP = "  "
INDENT = "  "
WRAPPED_MIN = 24
"""Least width of a wrapped column. In a narrower one text would be unreadable, so lines exceed the width instead."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> list[str]:
    """Return the lines of an indented table.

    Columns of numbers are aligned right. The last column wraps into the remaining width.
    """
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    lines = [list(header), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    right = [bool(cells) and all(_is_number(row[column]) for row in cells) for column in range(len(header))]
    widths[-1] = min(widths[-1], max(WRAPPED_MIN, width - len(INDENT) - sum(widths[:-1]) - len(GAP) * len(widths[:-1])))
    return [text for line in lines for text in _line(line, widths, right)]


def sparse(header: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> list[str]:
    """Return a table without empty columns, and with a dash in empty cells."""
    told = [column for column in range(len(header)) if any(row[column] for row in rows)]
    return table([header[column] for column in told], [[row[column] or "-" for column in told] for row in rows], width)


def explained(rows: Sequence[Sequence[str]], texts: Sequence[str], width: int) -> list[str]:
    """Return aligned rows without a header, each followed by its explanation, if any, as an indented paragraph."""
    aligned = table([""] * len(rows[0]), rows, width)[1:] if rows else []
    return [
        line for row, text in zip(aligned, texts, strict=True) for line in (row, *paragraph(text, width, INDENT * 3))
    ]


def paragraph(text: str, width: int, indent: str = INDENT) -> list[str]:
    """Return wrapped lines with the same indent."""
    return _wrap(printable(text), width - len(indent), indent)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    lead = [_pad(cell, size, to_right) for cell, size, to_right in zip(cells, widths, right, strict=True)][:-1]
    first, *more = _wrap(cells[-1], widths[-1]) or [""]
    start = INDENT + GAP.join([*lead, _pad(first, widths[-1], right[-1])])
    hang = " " * (len(INDENT) + sum(len(cell) + len(GAP) for cell in lead))
    return [start.rstrip(), *(hang + text for text in more)]


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    lines = textwrap.wrap(text, max(width, WRAPPED_MIN), break_long_words=False, break_on_hyphens=False)
    return [indent + line for line in lines]


def _pad(cell: str, size: int, to_right: bool) -> str:
    return cell.rjust(size) if to_right else cell.ljust(size)


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"-|\d+(,\d{3})*(\.\d+)?(e-?\d+)?( \S+)?", cell))
