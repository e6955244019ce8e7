"""A full disk below the state folder: the error, and the next run that continues."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stampworks import machine_room as room
from stampworks.machine_room.commands import CONTAINED

pytestmark = [pytest.mark.cluster, pytest.mark.long]

MOUNT = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
PROGRAM = """
import os, sys
from pathlib import Path
from stampworks.machine_room import NodeImage, RoomError, read_nodes
from tests.machine_room.stamping import Stamp

state, when, image, private, public = Path(os.environ["STAMPWORKS_STATE"]), *sys.argv[1:3], *sys.argv[3:5]
stamp = Stamp("full", eval(image), Path(private).read_text(), Path(public).read_text())

def fill():
    ballast = os.open(state / "ballast", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(ballast, bytes(4096))
    except OSError:
        os.close(ballast)

try:
    for moment, step in (("room", lambda: stamp.ensure_room(2)), ("nodes", lambda: stamp.ensure_nodes(2)),
                         ("more nodes", lambda: stamp.ensure_nodes(3))):
        if moment == when:
            fill()
        step()
except RoomError as error:
    print(error)
    print("up:", *sorted(node.name for node in read_nodes("full") if node.alive))
(state / "ballast").unlink()
stamp.up(3)
print("drift:", *stamp.drift(3))
stamp.remove()
print("left:", *(path.name for path in state.rglob("*") if path.is_file()))
"""


@pytest.mark.parametrize(
    ("when", "what", "up"),
    [
        ("room", "full/owner: cannot write it", []),
        ("nodes", "gpu-001: cannot make an ssh key", []),
        ("more nodes", "gpu-003: cannot make an ssh key", ["gpu-001", "gpu-002"]),
    ],
)
def test_a_full_state_folder_is_named(
    image: room.NodeImage, key: tuple[str, str], tmp_path: Path, when: str, what: str, up: list[str]
) -> None:
    """The error names file, reason and remedy; running nodes continue; with free space everything is created."""
    state, private, public = tmp_path / "state", tmp_path / "key", tmp_path / "key.pub"
    state.mkdir()
    private.write_text(key[0])
    public.write_text(key[1])
    arguments = [sys.executable, "-c", PROGRAM, when, repr(image), str(private), str(public)]
    environment = {**os.environ, "STAMPWORKS_STATE": str(state), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*CONTAINED, "sh", "-c", MOUNT, str(state), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    said = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"{what}: (.*: )?No space left on device", "\n".join(said)), said
    hint = rf"  hint: make room: .*{state}\S* has 0 MiB and \d+ files left.*; then run the same command again: .*"
    assert any(re.fullmatch(hint, line) for line in said), said
    assert said[-3:] == [" ".join(["up:", *up]), "drift:", "left:"], said


SHARED = """
import os, subprocess
from pathlib import Path
from stampworks.machine_room import NodeImage, RoomError
from tests.machine_room.stamping import Stamp

exports = Path(os.environ["STAMPWORKS_STATE"]) / "rooms/full/exports"
stamp = Stamp("full", NodeImage("", (), ""), "", "")
stamp.ensure_room(0)
subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=3,size=1m", "none", exports], check=True)
(exports / "one").touch()
(exports / "two").touch()
try:
    stamp.ensure_folder("exports", "shared")
except RoomError as error:
    print(error)
(exports / "two").unlink()
print(stamp.ensure_folder("exports", "shared").is_dir())
try:
    stamp.remove()
except RoomError as error:
    print(error)
subprocess.run(["umount", exports], check=True)
stamp.remove()
print(exports.parent.exists())
"""


def test_a_disk_of_its_own_for_what_nodes_share_is_named(tmp_path: Path) -> None:
    """The file system is out of inodes; while it is mounted the room cannot be removed."""
    environment = {**os.environ, "STAMPWORKS_STATE": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*CONTAINED, sys.executable, "-c", SHARED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    exports, again = tmp_path / "rooms/full/exports", "then run the same command again: it continues"
    assert done.stdout.splitlines() == [
        f"{exports}/shared: cannot make the directory: No space left on device",
        f"  hint: make room: {exports} has 1 MiB and 0 files left; {again}",
        "True",
        f"cluster full: cannot remove {exports}: rm: cannot remove '{exports}': Device or resource busy",
        f"  hint: something is mounted there (findmnt shows what): unmount it, {again}",
        "False",
    ]
