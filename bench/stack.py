"""A private cluster for a benchmark: project, state and room in a temporary folder, the image from the cache."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ending import room_for_one, run_to_end

ROOT = Path(__file__).parents[1]
NAME = "bench"
UP_TIMEOUT_S = 600

PROJECT = f"""\
name: stampworks-bench
runtime: {{name: python, options: {{virtualenv: {sys.prefix}}}}}
main: stacks
stackConfigDir: stacks
plugins:
  providers: [{{name: stampworks, path: {sys.prefix}/share/stampworks}}]
"""
ALL_LINKS_MBPS = 800
"""Rate of one rail of all nodes together, so that more nodes do not exceed this machine's loopback."""
DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: bench
    cloud: local
    pools: [{{name: gpu, machine: sim-h100, count: {nodes}}}]
    fabric:
      kind: simulated
      rail_rate_mbps: {rate_mbps}
      leaf_nodes: {leaf_nodes}
      oversubscription: {oversubscription}
    storage: [{{name: shared, kind: directory, mount: /shared, protect: false}}]
    scheduler: {{protect: false}}
    proof: {{level: none}}
    users: [{{name: alice, uid: 2001}}]
"""


@dataclass(frozen=True)
class Up:
    """Durations of one `pulumi up`."""

    idle_s: float
    """Seconds from the command until every node is idle in Slurm."""
    ansible_s: float
    """Seconds of the playbook in it, as Pulumi reports them: whole ones."""


class Stack:
    def __init__(self, folder: Path, nodes: int, rate_mbps: int, leaf_nodes: int, oversubscription: int) -> None:
        self.folder, self.state = folder, folder / "state"
        (folder / "stacks").mkdir()
        (folder / "Pulumi.yaml").write_text(PROJECT)
        (folder / "stacks" / f"Pulumi.{NAME}.yaml").write_text(
            DECLARATION.format(
                nodes=nodes, rate_mbps=rate_mbps, leaf_nodes=leaf_nodes, oversubscription=oversubscription
            )
        )
        shutil.copy(ROOT / "stacks" / "__main__.py", folder / "stacks")
        (self.state / "pulumi").mkdir(parents=True)
        self.environment = {
            **os.environ,
            "STAMPWORKS_STATE": str(self.state),
            "PULUMI_BACKEND_URL": f"file://{self.state}/pulumi",
            "PULUMI_HOME": f"{self.state}/pulumi/home",
            "PULUMI_CONFIG_PASSPHRASE": NAME,
        }

    def run(
        self,
        *argv: str,
        folder: Path | None = None,
        timeout_s: float = UP_TIMEOUT_S,
        ends_with: tuple[int, ...] = (0,),
    ) -> str:
        """Return the output of a command; if it fails, end the benchmark with its message."""
        done = run_to_end(argv, folder or self.folder, self.environment, timeout_s)
        if done.returncode not in ends_with:
            raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def up(self, folder: Path | None = None) -> str:
        return self.run("pulumi", "up", "--yes", "--skip-preview", "--stack", NAME, folder=folder)

    def up_until_idle(self) -> Up:
        """Start a cluster from nothing, and wait until every node is idle."""
        started = time.perf_counter()
        said = self.up()
        while self.run_status() != 0:
            time.sleep(0.2)
        idle_s = time.perf_counter() - started
        [ansible_s] = re.findall(r"cluster:Playbook \S+ created \(([\d.]+)s\)", said)
        return Up(idle_s, float(ansible_s))

    def run_status(self) -> int:
        command = [sys.executable, "-m", "stampworks.cli.main", "status", "-s", NAME]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, timeout=60, check=False
        ).returncode

    def resources(self) -> list[dict[str, Any]]:
        """Return the resources of the stack's state, with secrets in plain text."""
        state = json.loads(self.run("pulumi", "stack", "export", "--show-secrets", "--stack", NAME))
        found: list[dict[str, Any]] = state["deployment"]["resources"]
        return found

    def destroy(self) -> None:
        self.run("pulumi", "destroy", "--yes", "--skip-preview", "--stack", NAME)


@contextlib.contextmanager
def stack(nodes: int, rate_mbps: int = 0, leaf_nodes: int = 4, oversubscription: int = 1) -> Iterator[Stack]:
    """Yield a declared stack that is not up yet, and remove it in any case."""
    with room_for_one() as folder:
        found = Stack(folder, nodes, rate_mbps or min(50, ALL_LINKS_MBPS // nodes), leaf_nodes, oversubscription)
        found.run("pulumi", "stack", "init", NAME)
        yield found
        found.destroy()
