"""Where roles note that a node must be started anew: gone by itself when it was."""

from __future__ import annotations

from pathlib import Path

MARKS = Path("/run/stampworks/reboot")
ASKED = Path("/var/lib/stampworks/reboot")
"""The same notes, which a start does not forget: one that did not help is asked for once."""


def marked() -> dict[str, str]:
    """Why, by the role that says so."""
    paths = sorted(MARKS.glob("*")) if MARKS.is_dir() else []
    return {path.name: path.read_text().strip() for path in paths}
