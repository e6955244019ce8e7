"""Values are frozen: a plan, a row of the catalog or a finding is the same wherever it is read.

Rows of the catalog are cached, and plans are passed to many threads. A class that changes needs a line in CHANGING.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "components" / "stampworks"
CHANGING = {
    "cli/host_lock.py": ("LockRun",),
    "clouds/aws/facts/account.py": ("AccountQuestion",),
    "clouds/hosts/keeping/found.py": ("Ours",),
    "configuration/run.py": ("_State",),
    "operations/qualify.py": ("_Nodes", "_Work"),
    "operations/roll.py": ("_Work",),
    "operations/slurm/reservation.py": ("Lease",),
    "provider/handler.py": ("Call",),
    "qualification/asking.py": ("Evidence",),
    "qualification/campaign.py": ("_Budget",),
    "rehearsal/recording.py": ("World",),
    "views/running.py": ("RunProgress",),
}
"""Dataclasses that hold the state of something in progress, by file."""


def test_only_work_in_progress_changes() -> None:
    """A new entry needs a reason: whoever reads the value may see it change."""
    found = {str(file.relative_to(ROOT)): tuple(_changing(file)) for file in sorted(ROOT.rglob("*.py"))}
    assert {name: classes for name, classes in found.items() if classes} == CHANGING


def _changing(file: Path) -> Iterator[str]:
    """Yield the names of the dataclasses of a file that are not frozen."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            made = [ast.unparse(each) for each in node.decorator_list]
            if any("dataclass" in each and "frozen=True" not in each for each in made):
                yield node.name
