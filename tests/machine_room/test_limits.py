"""A machine that allows no more processes or open files: the error, and the next run that continues."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks import machine_room as room

from tests.machine_room.ordinary import ordinary

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PROGRAM = """
import sys
from pathlib import Path
from stampworks.machine_room import NodeImage, RoomError
from tests.machine_room.stamping import Stamp

image, private, public, limit = sys.argv[1:]
stamp = Stamp("limited", eval(image), Path(private).read_text(), Path(public).read_text())
try:
    stamp.ensure_room(4)
    Path(limit).write_text("5")
    stamp.ensure_nodes(4)
except RoomError as error:
    print(error)
Path(limit).write_text("max")
stamp.up(4)
print("drift:", *stamp.drift(4))
stamp.remove()
"""

ROOM = """
import sys
from stampworks.machine_room import NodeImage, RoomError
from tests.machine_room.stamping import Stamp

stamp = Stamp("limited", NodeImage("", (), ""), "private", "public")
try:
    stamp.ensure_room(4) if sys.argv[1] == "ensure" else stamp.remove()
    print("done")
except RoomError as error:
    print(error)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of the test's own: root has no other limit on processes."""
    hierarchies = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
    places = [place for place in hierarchies if (place / "cgroup.procs").exists()]
    if os.geteuid() != 0 or not places:
        pytest.skip("only root may make a control group that limits processes")
    made = places[0] / f"stampworks-{uuid.uuid4().hex[:8]}"
    made.mkdir()
    yield made
    made.rmdir()


def test_a_limit_of_processes_is_named(
    image: room.NodeImage, key: tuple[str, str], group: Path, state: Path, tmp_path: Path
) -> None:
    """The error lists the limits that apply; with higher limits all nodes start."""
    state.mkdir(exist_ok=True)
    for name, text in (("key", key[0]), ("key.pub", key[1])):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / "key"), str(tmp_path / "key.pub"), str(group / "pids.max")]
    command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, repr(image), *files],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^(cluster limited|gpu-\d+): .*(Resource temporarily unavailable|Cannot fork)", done.stdout), done
    hint = (
        "^  hint: end other processes or raise the limit .*: ulimit -u says .*, and pids.max of a control group counts"
    )
    assert re.search(hint, done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.splitlines()[-1] == "drift:"


def said(home: Path, verb: str, *prefix: str) -> str:
    """Return the output of a command on a room, run behind the prefix."""
    environment = {**os.environ, "STAMPWORKS_STATE": str(home / "state"), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*prefix, sys.executable, "-c", ROOM, verb]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_an_ordinary_users_own_limit_is_named(tmp_path: Path, limit: int) -> None:
    """The limit is named wherever it is met. A running room keeps the limit: the message says how to change that,
    too."""
    home = tmp_path / "home"
    user = ordinary(home)
    refused = said(home, "ensure", *user, "prlimit", f"--nproc={limit}:")
    assert re.match(r"cluster limited: cannot .*Resource temporarily unavailable\n  hint: end other ", refused), refused
    assert f"ulimit -u says {limit}, and " in refused
    again = said(home, "ensure", *user)
    if kept := re.search(rf"; the room keeps the {limit} with which it was started, and so: kill -9 (\d+) ", again):
        os.kill(int(kept[1]), signal.SIGKILL)
        again = said(home, "ensure", *user)
    assert again == "done\n"
    assert said(home, "remove", *user) == "done\n"
    assert [path.name for path in (home / "state/rooms").iterdir()] == []
    assert left_of(home) == []


def left_of(home: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            found += [str(path)] if str(home) in path.read_text() else []
        except OSError:
            continue  # it ended meanwhile
    return found


@pytest.mark.parametrize("limit", [5, 8, 11])
def test_a_limit_of_open_files_is_named(tmp_path: Path, limit: int) -> None:
    """Root has such a limit as well."""
    refused = said(tmp_path, "ensure", "prlimit", f"--nofile={limit}:")
    hint = rf"  hint: raise the limit \(ulimit -n says {limit}\) and run the same command again: it continues\n"
    assert re.fullmatch(rf"cluster limited: cannot .*: Too many open files\n{hint}", refused), refused
    assert said(tmp_path, "ensure") == "done\n"
    assert said(tmp_path, "remove") == "done\n"
