"""A node with a full disk: the error names the file, and readers never see partial files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.long]

COLLECTIONS = Path(__file__).parents[2] / "playbooks" / "collections"
PROGRAM = """
import json, os, sys
from pathlib import Path
from ansible_collections.stampworks.node.plugins.modules import files

disk = Path(sys.argv[1])
files.RECORDS = disk / "records"
small, large = {"path": f"{disk}/small", "content": "new"}, {"path": f"{disk}/large", "content": "x" * 100_000}
call = {"name": "test", "files": [small, large], "then": []}
(disk / "small").write_text("old")
failed = files.answer(call, check=False)
left = {path.name: path.read_text() for path in disk.iterdir() if path.is_file()}
os.system(f"mount -o remount,size=1m {disk}")
again = files.answer(call, check=False)
print(json.dumps([failed, left, again["changed"], len((disk / "large").read_text())]))
"""


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """The error names the file; earlier changes are undone, and the next run repeats all of them."""
    mount = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(tmp_path)]
    command += [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    failed, left, changed, size = json.loads(done.stdout)
    assert failed["failed"]
    hint = f"make room on this node's disk (df -h {tmp_path}; df -i {tmp_path})"
    assert failed["msg"] == f"{tmp_path}/large: No space left on device: {hint}"
    assert left == {"small": "old"}
    assert (changed, size) == (True, 100_000)
