"""Places that can be broken, and the copy in which they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.mutations import ROOT, copied, mutations

TEXT = """\
LIMIT = 10
def fits(value: int, names: list[str]) -> bool:
    return value < LIMIT and not names
"""


def test_each_place_can_be_broken() -> None:
    """A mutation changes one expression, and keeps the rest of the file."""
    broken = [each.applied(TEXT) for each in mutations("a.py", TEXT)]
    assert sorted(broken) == sorted(
        TEXT.replace(old, new)
        for old, new in (
            ("10", "(11)"),
            ("value < LIMIT and not names", "(value < LIMIT or not names)"),
            ("value < LIMIT", "(value >= LIMIT)"),
            ("not names", "(names)"),
        )
    )


def test_the_copy_has_the_files_of_the_repository(tmp_path: Path) -> None:
    """Git lists the same files in both: a test that asks it must not fail in every copy."""
    argv = ["git", "ls-files", "-z"]
    here, there = (
        subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True).stdout
        for folder in (ROOT, copied(tmp_path / "copy"))
    )
    assert here == there
