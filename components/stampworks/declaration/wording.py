"""Turns of phrase that messages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

VALUE_LENGTH_MAX = 60
NAMED_MAX = 12
COMPARED_MAX = 200
"""Maximum number of compared names, because each takes time; above it, only names with the same beginning are
compared."""


def shown(value: str) -> str:
    """A text as messages show it: in quotes, and short."""
    return repr(brief(value))


def brief(text: str) -> str:
    """Return a text cut to VALUE_LENGTH_MAX characters, for a message."""
    return text if len(text) <= VALUE_LENGTH_MAX else text[: VALUE_LENGTH_MAX - 3] + "..."


def similar(word: str, known: Iterable[str]) -> str | None:
    """Return the known spelling nearest to a word, ignoring case and the kind of dash."""
    word = _plain(word[:VALUE_LENGTH_MAX])
    plain = {_plain(name): name for name in sorted(known)}
    candidates = list(plain)
    if len(candidates) > COMPARED_MAX:
        candidates = [name for name in candidates if name[:1] == word[:1]][:COMPARED_MAX]
    near = get_close_matches(word, candidates, n=1)
    return plain[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest spelling, or with all known words if nothing is near."""
    known = sorted(known)
    if near := similar(word, known):
        return f"did you mean '{near}'?"
    return only(known) if known else ""


def only(words: Sequence[str]) -> str:
    """Return the list of all allowed words, for a hint."""
    return f"there {'is only' if len(words) == 1 else 'are'} {alternatives(words, last='and')}"


def alternatives(words: Sequence[str], last: str = "or", most: int = NAMED_MAX) -> str:
    """'a, b or c'; of a long list, the beginning."""
    if len(words) > most:
        return f"{', '.join(words[:most])} {last} {len(words) - most} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
