"""Text of others in a page of ours that a forge renders: shown as it is, and never more than text.

A comment on a pull request has readers, and its author's name on it: what comes from the change under review must not
link, call for people, load images, or leave its cell. A backslash does not do, since a forge looks for @names and #123
after Markdown; in code it looks for nothing.
"""

from __future__ import annotations

import re

from stampworks.text.printable import printable

LENGTH_MAX = 160
"""A longer value is cut: a page has room for many, and nobody reads one that fills it."""
PROSE_MAX = 800
_BARE = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*|\d{1,6}(?:\.\d{1,6})?%?|[GM]b/s|[GMT]B/s|TFLOP/s")
"""What means nothing to Markdown, and to a forge, wherever it stands: words, numbers, units."""
_OPERATOR = frozenset({"=", "/", "+", "x"})
_ORDINAL = re.compile(r"\d+[.)]")
"""At the beginning of a line it would begin a list."""
_AROUND = re.compile(r"([(]?)(.*?)([).,;:?]*)")
_CODE = re.compile(r"`([^`]+)`")
_HASH = re.compile(r"[0-9A-Fa-f]{7,}")
"""A forge takes it for a commit."""


def quoted(text: str) -> str:
    """Text as code. What would end it, or the cell that it is in, is escaped as what cannot be printed is."""
    shown = printable(text).replace("`", r"\x60").replace("|", r"\x7c").strip()
    return f"`{_short(shown, LENGTH_MAX)}`" if shown else "-"


def prose(text: str) -> str:
    """Sentences: plain words as they are, everything else as code, and so is what stands in backticks."""
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
