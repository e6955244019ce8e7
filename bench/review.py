"""`stampworks review` of a stack of a thousand nodes, from two revisions of a repository."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.machine import timed
from bench.rows import Row, measured

NODES, RUNS = 1000, 9
SMALL = {"RUNS": 1}
PROJECT = "name: test\nruntime: python\nmain: stacks\nstackConfigDir: stacks\n"
STACK = f"""\
config:
  stampworks:cluster:
    version: 1
    name: large
    cloud: local
    network: {{cidr: 10.0.0.0/8}}
    pools:
      - {{name: gpu, machine: sim-h100, count: {NODES}}}
"""


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        _git(repository, "init", "--quiet")
        (repository / "stacks").mkdir()
        (repository / "Pulumi.yaml").write_text(PROJECT)
        for text in (STACK, STACK.replace(f"count: {NODES}", f"count: {NODES + 24}")):
            (repository / "stacks" / "Pulumi.large.yaml").write_text(text)
            _git(repository, "add", "--all")
            _git(repository, "commit", "--quiet", "--message", "change")
        values = [timed(lambda: _review(repository)) for _ in range(RUNS)]
    return [measured(f"stampworks review of a stack of {NODES} nodes", "s", values, target=2.0)]


def _review(repository: Path) -> None:
    command = [sys.executable, "-m", "stampworks.cli.main", "review", "-s", "large", "--base=HEAD~1", "--head=HEAD"]
    done = subprocess.run(command, cwd=repository, capture_output=True, check=False)
    if b"`pools[gpu].count`" not in done.stdout:
        raise RuntimeError(done.stderr.decode())


def _git(repository: Path, *argv: str) -> None:
    command = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", *argv]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
