"""Start the programs as Slurm does: a process for each rank, on its own loopback address."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from stampworks.qualification import Heard, read

from tests.project import wait_for

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "workloads" / "result.schema.json").read_text())
LIMIT_S = 60


class Start:
    """Some ranks, each acting as a node with a rail on loopback."""

    def __init__(self, world: int, programs: Sequence[str], out: Path, **options: Any) -> None:
        self.names = [f"node-{rank}" for rank in range(world)]
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        rails = {name: [f"127.0.0.{number}"] for number, name in enumerate(self.names, 2)}
        nodes = [{"name": name, "address": "127.0.0.1", "rails": rails[name]} for name in self.names]
        cluster = {"nodes": nodes, "rails": ["lo"], "port": port, "wait": 3, "limit": 40} | options.pop("cluster", {})
        self.out = out
        self.command = [sys.executable, "-m", "validation", *programs, "--out", str(out), "--options"]
        self.command.append(json.dumps({"cluster": cluster, **options}))
        self.processes = [self._rank(rank, world) for rank in range(world)]

    def _rank(self, rank: int, world: int) -> subprocess.Popen[str]:
        own = {"RANK": str(rank), "WORLD_SIZE": str(world), "NODE_NAME": self.names[rank], "MASTER_ADDR": "127.0.0.1"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "MASTER"))}
        return subprocess.Popen(
            self.command,
            env={**kept, **own, "PYTHONPATH": str(ROOT / "workloads")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until_measuring(self, rank: int) -> None:
        """Wait until a transfer from this rank's rail is under way."""
        end = f"{2 + rank:02X}00007F:"  # 127.0.0.x as the kernel writes it
        open_ = Path("/proc/net/tcp")
        wait_for(lambda: any(f": {end}" in line and " 01 " in line for line in open_.read_text().splitlines()), LIMIT_S)

    def kill(self, rank: int) -> None:
        self.processes[rank].send_signal(signal.SIGKILL)

    def freeze(self, rank: int) -> None:
        self.processes[rank].send_signal(signal.SIGSTOP)

    def heard(self) -> Heard:
        """Return the output of all ranks, read as the judge reads it; each result file matches the schema."""
        said = "".join(process.communicate(timeout=LIMIT_S)[0] for process in self.processes if self._runs(process))
        for path in self.out.glob("*.json"):
            jsonschema.validate(json.loads(path.read_text()), SCHEMA)
        heard = read(said)
        assert heard.unreadable == ()
        return heard

    def _runs(self, process: subprocess.Popen[str]) -> bool:
        """Return whether a process runs; one that a test has stopped does not count."""
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


Starter = Callable[..., Start]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Yield a function that starts ranks; end those that still run after the test."""
    started = list[Start]()

    def begin(world: int, *programs: str, **options: Any) -> Start:
        started.append(Start(world, programs, tmp_path / f"out{len(started)}", **options))
        return started[-1]

    yield begin
    for each in started:
        each.end()
