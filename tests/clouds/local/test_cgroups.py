"""Control groups of nodes that run pods: below our own, usable at once, and gone with the node."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from stampworks.clouds.local.room import RoomError, cgroups

root = pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's to divide")


@root
def test_a_node_gets_groups_that_processes_may_enter(tmp_path: Path) -> None:
    """Of every controller, with what a group inherits; they go with all that was made in them."""
    record = tmp_path / cgroups.RECORD
    name = f"test-{os.getpid()}"
    made = cgroups.make(record, "test", name)
    try:
        assert made
        assert json.loads(record.read_text()) == [folder for folder, _, _ in made]
        for folder, _, options in made:
            assert Path(folder).name == name
            if options == "cpuset":
                assert Path(folder, "cpuset.cpus").read_text().strip()
            Path(folder, "of a pod").mkdir()
    finally:
        cgroups.remove(record, "test")
    assert not [folder for folder, _, _ in made if Path(folder).exists()]
    assert not record.exists()
    cgroups.remove(record, "test")  # fine when there is nothing


def test_a_host_without_any_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_hierarchies", list)
    with pytest.raises(RoomError, match="no control groups are mounted on this host"):
        cgroups.make(tmp_path / cgroups.RECORD, "test", "gpu-001")
    assert not (tmp_path / cgroups.RECORD).exists()
