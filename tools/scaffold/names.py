"""Legal names of new things."""

from __future__ import annotations

import keyword
import re

from .files import ScaffoldError

MODULE, MODULE_RULE = r"[a-z][a-z0-9_]{0,31}", "1 to 32 small letters, digits and '_', from a letter on"
DASHED, DASHED_RULE = r"[a-z][a-z0-9-]{0,30}[a-z0-9]", "2 to 32 small letters, digits and '-', from a letter on"
DOTTED, DOTTED_RULE = r"[a-z][a-z0-9._-]{0,62}[a-z0-9]", "2 to 64 small letters, digits, '.', '_' and '-'"


def check(kind: str, name: str, pattern: str, rule: str) -> None:
    """Refuse a name that does not fit its pattern, or that Python keeps for itself."""
    if not re.fullmatch(pattern, name):
        raise ScaffoldError(f"{name!r} is not a legal name of a {kind}: use {rule}")
    if keyword.iskeyword(name):
        raise ScaffoldError(f"{name!r} is a word of Python's own: use another name for the {kind}")


def module(name: str) -> str:
    """Return the name as that of a module."""
    return re.sub(r"[^a-z0-9]", "_", name)
