"""Two clusters at once on the same machine: of the same user, and of root and an ordinary user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.stack import ROOT, Stack

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PREPARE_AND_UP_S = 1500  # Python packages and a node image of the user's own


@contextlib.contextmanager
def stack(folder: Path, cluster: str) -> Iterator[Stack]:
    folder.mkdir()
    made = Stack.make(folder, cluster)
    try:
        yield made
    finally:
        made.run("destroy", "--yes", "--skip-preview")


def hostnames(stack: Stack) -> list[str]:
    """Return the output of a job on all nodes of a cluster."""
    done = stack.stampworks("run", "-s", "test", "--", "hostname")
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())


def test_two_clusters_of_one_user(tmp_path: Path) -> None:
    """Both are stamped at the same time with the same addresses, and do not affect each other."""
    names = [f"t{os.getpid()}{letter}" for letter in "ab"]
    with stack(tmp_path / "a", names[0]) as one, stack(tmp_path / "b", names[1]) as other:
        other.state.rmdir()
        other.state.symlink_to(one.state)  # a user has one state folder
        with ThreadPoolExecutor() as both:
            for said in both.map(Stack.up, (one, other)):
                assert " created" in said
        assert hostnames(one) == hostnames(other) == ["gpu-001", "gpu-002"]
        one.destroy()
        assert not (one.state / "rooms" / names[0]).exists()
        assert "updated" not in other.up()
        assert hostnames(other) == ["gpu-001", "gpu-002"]
        other.destroy()
    assert one.traces() == []


class User:
    """An ordinary user with a clone of their own, in an empty environment."""

    def __init__(self, name: str) -> None:
        self.name, self.home = name, Path(pwd.getpwnam(name).pw_dir)
        self.clone = self.home / "stampworks"

    def run(self, command: str) -> str:
        own = ["runuser", "-u", self.name, "--", "env", "-i", f"HOME={self.home}", f"PATH={SYSTEM_PATH}"]
        argv = [*own, "sh", "-c", f"cd {self.clone} && {command}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PREPARE_AND_UP_S, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def take_over(self, root: Path) -> None:
        """Copy tracked and new files of this clone, and link the engine, which takes minutes to build."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, capture_output=True, check=True, text=True).stdout.split("\0")
        for name in filter(None, names):
            if (root / name).is_file():
                (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.clone / name)
        engine = (root / ".venv" / "engine").resolve().parent
        shutil.copytree(engine, self.home / ".cache/stampworks" / engine.name)
        subprocess.run(["chown", "-R", f"{self.name}:", self.home], check=True, timeout=60)

    def processes(self) -> list[str]:
        """Return all processes, including those with subordinate ids inside the cluster."""
        ranges = [line.split(":") for line in Path("/etc/subuid").read_text().splitlines()]
        [(first, count)] = [(int(one[1]), int(one[2])) for one in ranges if one[0] == self.name]
        owned = {pwd.getpwnam(self.name).pw_uid, *range(first, first + count)}
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if process.stat().st_uid in owned and ") Z " not in (process / "stat").read_text():
                    found.append((process / "cmdline").read_text())
        return found


@pytest.fixture
def user() -> Iterator[User]:
    """Return an ordinary user: created by root for the test, or the current user."""
    if os.geteuid() != 0:
        pytest.skip("all tests of clusters are run by an ordinary user here")
    name = f"sw{os.getpid()}"
    subprocess.run(["useradd", "--create-home", name], check=True, timeout=60)
    try:
        yield User(name)
    finally:
        subprocess.run(["userdel", "--remove", name], capture_output=True, timeout=120)


@pytest.mark.long
def test_two_users_of_whom_one_is_ordinary(user: User, tmp_path: Path) -> None:
    """`make demo` and `make demo-down` from an empty environment, while root has a cluster of the same name."""
    user.take_over(ROOT)
    declaration = user.clone / "stacks/Pulumi.local.yaml"
    declaration.write_text(declaration.read_text().replace("count: 4", "count: 2"))
    with stack(tmp_path / "root", "local") as other, ThreadPoolExecutor() as both:
        theirs, ours = both.submit(user.run, "make demo"), both.submit(other.up)
        assert " created" in ours.result()
        assert "cluster local on local: pass" in theirs.result()
        assert user.run(". tools/env.sh && stampworks run --user alice -- id -un") == "alice\n" * 2
        assert hostnames(other) == ["gpu-001", "gpu-002"]
        user.run("make demo-down")
        assert "updated" not in other.up()
    deadline = time.monotonic() + 10
    while processes := user.processes():
        assert time.monotonic() < deadline, processes
        time.sleep(0.1)
    assert list((user.home / ".local/state/stampworks/rooms").iterdir()) == []
