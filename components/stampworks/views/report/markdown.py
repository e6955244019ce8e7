"""The parts of Markdown that a report needs. All text is shown unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stampworks.text.printable import printable

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&!#$@]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.", re.IGNORECASE)


def plain(text: str) -> str:
    """Escape text so that Markdown shows it without markup, links or images."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], printable(text))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; cells are escaped."""
    return [_row(map(plain, header)), _row(["---"] * len(header)), *(_row(map(plain, row)) for row in rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell or '-' for cell in cells)} |"


def items(texts: Iterable[str]) -> list[str]:
    """Return a list; its texts are escaped."""
    return [f"- {plain(text)}" for text in texts]
