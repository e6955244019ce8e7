"""An error that is an answer: as people read it, and as programs do."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from stampworks.text.printable import printable, printable_lines

FIELDS = ("file", "line", "column", "path", "message", "hint")


def text(error: Exception) -> str:
    """Return the text of an error: place, problem, reason and remedy."""
    if isinstance(error, OSError) and error.filename:
        return printable(f"{error.filename}: {error.strerror}")
    if render := getattr(error, "render", None):  # a declaration's errors have colours for a terminal
        return str(render(colour=sys.stderr.isatty() and "NO_COLOR" not in os.environ))
    return printable_lines(str(error))


def problems(error: Exception) -> list[dict[str, Any]]:
    """Return all problems with their places, as data; an unknown value is None."""
    if located := getattr(error, "problems", None):  # a declaration's
        return [{name: getattr(each, name) or None for name in FIELDS} for each in located]
    message, _, hint = text(error).partition("\n  hint: ")
    file = str(error.filename) if isinstance(error, OSError) and error.filename else None
    return [{**dict.fromkeys(FIELDS), "file": file, "message": message, "hint": hint or None}]


def as_json(error: Exception) -> str:
    """Return an error as JSON, which a verb prints instead of its answer."""
    return json.dumps({"error": {"problems": problems(error)}}, indent=2)
