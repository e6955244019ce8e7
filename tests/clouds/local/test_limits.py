"""A machine that allows no more processes: what is said, and that the next run goes on from there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.clouds.local import room
from stampworks.plan import to_json

pytestmark = pytest.mark.cluster

PROGRAM = """
import sys
from pathlib import Path
from stampworks.clouds.local.room import Image, RoomError
from stampworks.plan import from_json
from tests.clouds.local.stamping import Stamp

image, private, public, limit = sys.argv[1:]
stamp = Stamp("limited", from_json(Image, image), Path(private).read_text(), Path(public).read_text())
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
    image: room.Image, key: tuple[str, str], group: Path, state: Path, tmp_path: Path
) -> None:
    """With the limits that count; once there are more all nodes come up."""
    state.mkdir(exist_ok=True)
    for name, text in (("key", key[0]), ("key.pub", key[1])):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / "key"), str(tmp_path / "key.pub"), str(group / "pids.max")]
    command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, to_json(image), *files],
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
