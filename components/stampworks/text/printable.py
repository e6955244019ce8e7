"""Text that is safe for a terminal. Standard library only, so that every room may import it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

SECRET_MIN = 6
"""Characters of a line that can be masked. A shorter line of a secret may be an ordinary word."""


def printable(text: str) -> str:
    """Escape characters that could move a terminal's cursor, hide text or reverse its order."""
    return "".join(map(visible, text))


def printable_lines(text: str) -> str:
    """Make a text with several lines printable, and keep its lines."""
    return "\n".join(map(printable, text.splitlines()))


def masking(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks secrets and their lines. Mask before shortening a text, because only whole secrets
    are found."""
    lines = {line for secret in secrets for line in (secret, *secret.splitlines()) if len(line) >= SECRET_MIN}
    known = sorted(lines, key=len, reverse=True)
    return lambda text: functools.reduce(lambda masked, secret: masked.replace(secret, "[secret]"), known, text)


def visible(character: str) -> str:
    """Return a character, or its escape sequence if a terminal would not print it."""
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
