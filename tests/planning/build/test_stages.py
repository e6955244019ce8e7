"""The stages of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import load_file
from stampworks.planning.build import planner


@pytest.mark.parametrize("part", ["choices", "placed", "fabric", "scheduler"])
def test_a_stage_that_reads_a_later_part_fails(part: str, stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage in the wrong place is a bug of the toolkit: it must not look like a problem of the declaration."""
    late = sorted(planner.STAGES, key=lambda stage: stage[0] == part)
    monkeypatch.setattr(planner, "STAGES", tuple(late))
    with pytest.raises((AttributeError, TypeError)):
        planner.draft(load_file(stacks / "Pulumi.local.yaml"))
