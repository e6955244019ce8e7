"""Control groups of nodes that run pods: below the toolkit's own, usable at once, and removed with the node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stampworks.machine_room import RoomError, cgroups

BOOT = """
import json, sys
from stampworks.machine_room import inside
made = json.loads(sys.argv[1])
inside.enter_cgroups(made)
inside.check(inside.libc.unshare(inside.NEW_CGROUPS), "unshare")
inside.settle_in_cgroups(made)
print(*(line for line in open("/proc/self/cgroup") if line.startswith("0::")), sep="", end="")
"""

root = pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's to divide")


@root
def test_a_node_gets_groups_that_processes_may_enter(tmp_path: Path) -> None:
    """Groups have every controller, with inherited settings; they go with all groups inside."""
    record = tmp_path / cgroups.RECORD
    name = f"gpu-{os.getpid()}"
    made = cgroups.make(record, "a room", "test", name)
    try:
        assert made
        assert json.loads(record.read_text()) == [folder for folder, _, _ in made]
        for folder, _, options in made:
            assert Path(folder).name.startswith(f"test-{name}-")
            if options == "cpuset":
                assert Path(folder, "cpuset.cpus").read_text().strip()
            Path(folder, "of a pod").mkdir()
    finally:
        cgroups.remove(record, "test")
    assert not [folder for folder, _, _ in made if Path(folder).exists()]
    assert not record.exists()
    cgroups.remove(record, "test")  # removing again succeeds


@root
def test_clusters_do_not_share_groups(tmp_path: Path) -> None:
    """Node names repeat in all clusters, and cluster names may repeat in separate folders of rooms."""
    made = []
    try:
        for index, where in enumerate(("one", "two", "two")):
            (tmp_path / str(index)).mkdir()
            made.append(
                {
                    folder
                    for folder, _, _ in cgroups.make(tmp_path / str(index) / cgroups.RECORD, "a room", where, "gpu-001")
                }
            )
    finally:
        for index in range(3):
            cgroups.remove(tmp_path / str(index) / cgroups.RECORD, "test")
    one, two, three = made
    assert not one & two
    assert not two & three


@root
def test_containers_of_version_2_are_beside_the_nodes_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node sees its own group as the root, which divides controllers, and is in none that does."""
    point = tmp_path / "unified"
    point.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", point], check=True)
    try:
        ours = cgroups.Hierarchy(point, "cgroup2", "", point / f"test-{os.getpid()}")
        monkeypatch.setattr(cgroups, "_hierarchies", lambda: [ours])
        made = [list(each) for each in cgroups.make(tmp_path / cgroups.RECORD, "a room", "test", "gpu-001")]
        [[folder, _, _]] = made
        booted = subprocess.run(
            [sys.executable, "-c", BOOT, json.dumps(made)], capture_output=True, text=True, check=True
        )
        assert booted.stdout == "0::/init\n"
        divided = Path(folder, "cgroup.subtree_control").read_text().split()
        assert divided == Path(folder, "cgroup.controllers").read_text().split()
    finally:
        cgroups.remove(tmp_path / cgroups.RECORD, "test")
        subprocess.run(["umount", point], check=True)


def test_a_host_without_any_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_hierarchies", list)
    with pytest.raises(RoomError, match="no control groups are mounted on this host"):
        cgroups.make(tmp_path / cgroups.RECORD, "a room", "test", "gpu-001")
    assert not (tmp_path / cgroups.RECORD).exists()
