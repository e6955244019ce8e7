"""Text for a terminal, whoever wrote it. Standard library only, so that every room may import it."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without anything that could move a terminal's cursor, hide characters or reverse their order."""
    return "".join(map(visible, text))


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.splitlines()))


def visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
