"""The outer process of a room."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.machine_room import outer
from stampworks.machine_room.processes import Process


@pytest.mark.cluster
def test_a_room_whose_starter_dies_before_knowing_it_ends_by_itself(tmp_path: Path) -> None:
    """No process runs without a record of it."""
    known: list[Process] = []

    def die(process: Process) -> None:
        known.append(process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outer.start("here", "here", die, leashed=False)
    known[0].wait("here")
