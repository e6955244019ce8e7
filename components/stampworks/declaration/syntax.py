"""Errors of the YAML parser in plain words, at the place of the mistake."""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml


class Syntax(NamedTuple):
    """A complaint with its position in the text."""

    at: int
    """Number of characters before the position."""
    message: str
    hint: str


class _Rule(NamedTuple):
    complaint: str
    """Pattern of the parser's message; its first group may be used as {0}."""
    message: str
    hint: str
    at_start: bool = False
    """Point at the beginning of the broken part, and not at the place where the parser stopped."""


COLUMNS = "entries of one mapping or list begin in the same column"
QUOTE = "put the text in quotes"

RULES = (
    _Rule(r"found character '\\t'", "a tab cannot stand here", "write spaces"),
    _Rule(r"found character ['\"](.+)['\"] that cannot", "text cannot begin with '{0}'", QUOTE),
    _Rule(
        r"mapping values are not allowed",
        "a ':' cannot stand here",
        f"{COLUMNS}, and every key has its ':'\na text that holds a ':' needs quotes",
    ),
    _Rule(r"could not find expected ':'", "a ':' is missing", "write an entry as name: value", at_start=True),
    _Rule(r"sequence entries are not allowed", "a list cannot begin here", "begin it in a line of its own"),
    _Rule(r"found unexpected end of stream", "the quote is never closed", "close it, or take it out", at_start=True),
    _Rule(r"unknown escape|escape sequence", "not an escape that YAML knows", "use single quotes to keep a backslash"),
    _Rule(r"expected '<document start>'", "this does not belong to the lines above", COLUMNS),
    _Rule(r"expected <block end>, but found '<scalar>'", "this does not fit the text before it", QUOTE),
    _Rule(r"expected <block end>", "this does not fit the lines above", COLUMNS),
    _Rule(r"the node content, but found '<stream end>'", "the file ends too soon", "write the rest, or take this out"),
    _Rule(r"the node content, but found '(.+)'", "'{0}' cannot stand here", QUOTE),
    _Rule(r"alphabetic or numeric", "text cannot begin with '&' or '*'", QUOTE, at_start=True),
)


def broken(error: yaml.MarkedYAMLError) -> Syntax:
    """Return the fault of the text, and a remedy."""
    complaint = error.problem or "it cannot be read"
    here = error.problem_mark or error.context_mark
    if here is None:
        return Syntax(0, f"this is not YAML: {complaint}", "")
    start = error.context_mark or here
    if closing := re.search(r"expected ',' or '([\]}])'", complaint):
        return _unclosed(closing[1], start, here, "stream end" in complaint)
    for rule in RULES:
        if found := re.search(rule.complaint, complaint):
            return Syntax((start if rule.at_start else here).index, rule.message.format(*found.groups()), rule.hint)
    return Syntax(here.index, f"this is not YAML: {complaint}", "")


def _unclosed(bracket: str, start: yaml.Mark, here: yaml.Mark, at_end: bool) -> Syntax:
    if at_end or here.line > start.line:
        opening = "[" if bracket == "]" else "{"
        return Syntax(start.index, f"the '{opening}' is never closed", f"close it with '{bracket}'")
    hint = f"a text that holds ':', ',' or '{bracket}' needs quotes"
    return Syntax(here.index, f"expected ',' or '{bracket}' here", hint)
