"""Text for a terminal, whoever wrote it. Standard library only, so that every room may import it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

SECRET_MIN = 6
"""A shorter line of a secret could not be told from a word."""


def printable(text: str) -> str:
    """The text without anything that could move a terminal's cursor, hide characters or reverse their order."""
    return "".join(map(visible, text))


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.splitlines()))


def masking(secrets: Iterable[str]) -> Callable[[str], str]:
    """Takes secrets and their lines out of a text, whole ones: whoever shortens a text does it afterwards."""
    lines = {line for secret in secrets for line in (secret, *secret.splitlines()) if len(line) >= SECRET_MIN}
    known = sorted(lines, key=len, reverse=True)
    return lambda text: functools.reduce(lambda masked, secret: masked.replace(secret, "[secret]"), known, text)


def visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
