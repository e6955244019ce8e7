"""Text of others on a page that a forge renders: shown unchanged, and always as text.

A comment on a pull request appears under its author's name. Text from the change under review must not link, mention
people, load images, or leave its cell. A backslash is not enough: a forge looks for @names and #123 after Markdown, but
not in code.
"""

from __future__ import annotations

import re

from stampworks.text.printable import printable

LENGTH_MAX = 160
"""Characters of a value. Longer ones are cut, to leave room for others."""
PROSE_MAX = 800
_BARE = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*|\d{1,6}(?:\.\d{1,6})?%?|[GM]b/s|[GMT]B/s|TFLOP/s")
"""Words, numbers and units that have no meaning to Markdown or a forge at any place."""
_OPERATOR = frozenset({"=", "/", "+", "x"})
_ORDINAL = re.compile(r"\d+[.)]")
"""Numbers that begin a list at the start of a line."""
_AROUND = re.compile(r"([(]?)(.*?)([).,;:?]*)")
_CODE = re.compile(r"`([^`]+)`")
_HASH = re.compile(r"[0-9A-Fa-f]{7,}")
"""Text that a forge takes for a commit."""


def quoted(text: str) -> str:
    """Return text as code. Escape characters that would end the code or its cell, as unprintable ones are."""
    shown = printable(text).replace("`", r"\x60").replace("|", r"\x7c").strip()
    return f"`{_short(shown, LENGTH_MAX)}`" if shown else "-"


def prose(text: str) -> str:
    """Return sentences with plain words as they are, and everything else, and text in backticks, as code."""
    parts = enumerate(_CODE.split(_short(printable(text), PROSE_MAX)))
    return " ".join(word for i, part in parts for word in ([quoted(part)] if i % 2 else _words(part)))


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in text.split():
        before, bare, after = _AROUND.fullmatch(word).groups()  # type: ignore[union-attr]
        if (words and word in _OPERATOR) or _is_plain(bare, word, first=not words):
            words.append(word)
        else:
            words.append(f"{before}{quoted(bare)}{after}" if bare else quoted(word))
    return words


def _is_plain(bare: str, word: str, first: bool) -> bool:
    return bool(_BARE.fullmatch(bare)) and not _HASH.fullmatch(bare) and not (first and _ORDINAL.fullmatch(word))


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
