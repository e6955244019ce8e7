"""The stand-in cluster as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operations.slurm.standin import StandIn


@pytest.fixture
def cluster(tmp_path: Path) -> StandIn:
    folder = tmp_path / "a cluster"  # a path with a blank: everything must be quoted
    folder.mkdir()
    return StandIn(folder)
