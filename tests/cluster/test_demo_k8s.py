"""`make demo-k8s`, twice, and `make demo-k8s-down`: as root with nodes that run pods, as an ordinary user without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster import test_readme
from tests.cluster.stack import ROOT, Stack
from tests.docs import pages
from tests.machine_room.ordinary import ordinary
from tests.project import listening

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PLACES = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet")
"""Folders of the container runtime on a machine without isolation."""


@pytest.mark.long
def test_as_root(tmp_path: Path) -> None:
    """A second run succeeds, also with running gangs, and leaves clone and machine unchanged."""
    if os.geteuid():
        pytest.skip("nodes that run pods divide control groups, which takes root")
    before, files, heard = machine(), test_readme.changed_files(), listening()
    try:
        for _ in range(2):
            said = run(tmp_path, "make demo-k8s")
            assert said.count(": finished\n") == 1, said
            opened = listening() - heard
            assert opened
            assert {address for address, _ in opened} == {"127.0.0.1"}, opened
    finally:
        run(tmp_path, "make demo-k8s-down")
    assert Stack(tmp_path, "local-k8s").traces() == []
    assert (machine(), test_readme.changed_files()) == (before, files)


def test_as_an_ordinary_user(tmp_path: Path) -> None:
    """Users without the rights for nodes that run pods get the other nodes, with the reason."""
    home = tmp_path / "home"
    user = ordinary(home, *((Path(sys.prefix) / name).resolve() for name in ("engine", "kubernetes")))
    clone = copied(home)
    try:
        said = run(home, ". tools/env.sh && tools/demo-k8s up", clone, user)
        assert "No node runs pods: it would divide control groups among them, which takes root." in said
        assert " of 64 " in said
    finally:
        run(home, ". tools/env.sh && tools/demo-k8s down", clone, user)
    assert Stack(home, "local-queues").traces() == []


def run(folder: Path, command: str, clone: Path = ROOT, prefix: Sequence[str] = ()) -> str:
    """Return the output of the command; clusters of the user are left alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    own = {"HOME": str(folder)} if prefix else {}
    environment = {**kept, **own, "STAMPWORKS_STATE": str(folder / "state")}
    return pages.run(command, environment, test_readme.TIMEOUT_S, clone, prefix)


def copied(home: Path) -> Path:
    """Copy tracked and new files of this clone for another user; builds are the same for all."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True, timeout=60).stdout.split("\0")
    clone = home / "clone"
    for name in filter(None, names):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    (clone / ".venv").symlink_to(sys.prefix)
    owner = home.stat()
    subprocess.run(["chown", "-hR", f"{owner.st_uid}:{owner.st_gid}", clone], check=True, timeout=60)
    return clone


def machine() -> list[str]:
    """Return the state of this machine that a cluster must not change."""
    links = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True, timeout=60).stdout
    return [line.split(": ")[1] for line in links.splitlines()] + [
        str(path) for place in PLACES for path in sorted(Path(place).rglob("*"))
    ]
