"""Real runs on this machine: agents on loopback that act as nodes, and their remains."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "workloads"
TORCH = ROOT / ".venv" / "training" / "bin" / "python"
WAIT_S = 300.0
SMALL = {"layers": 2, "width": 32, "heads": 4, "length": 32}


class Run:
    """A run with nodes n0, n1, ..."""

    def __init__(
        self, folder: Path, nodes: int = 1, ranks: int = 2, accelerated: bool = False, **settings: Any
    ) -> None:
        self.folder, self.nodes, self.attempt = folder, nodes, 0
        self.accelerated = accelerated
        """Whether the run may use this machine's accelerators; it then starts at most one rank for each accelerator."""
        self.settings = {"name": folder.name, "folder": str(folder), "ranks": ranks, "model": SMALL, **settings}
        self.agents: list[subprocess.Popen[str]] = []
        self.kills: list[float] = []
        """Times at which a part was killed."""
        self.said: list[str] = []
        """Output of each agent, after all have ended."""

    def start(self) -> None:
        told = ["--options", json.dumps(self.settings)]
        mine = {"PYTHONPATH": str(WORKLOADS), "SLURM_RESTART_COUNT": str(self.attempt), "SLURM_JOB_ID": "7"}
        if not self.accelerated:
            mine["CUDA_VISIBLE_DEVICES"] = ""
        for place in range(self.nodes):
            seat = {"NODE_NAME": f"n{place}", "RANK": str(place), "WORLD_SIZE": str(self.nodes)}
            command = [str(TORCH), "-m", "training", *told]
            pipes: Mapping[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            self.agents.append(subprocess.Popen(command, env={**os.environ, **mine, **seat}, **pipes))
        self.attempt += 1

    def end(self) -> tuple[list[int], str]:
        """Return the exit status of each agent, and the output of the first."""
        self.said = [agent.communicate(timeout=WAIT_S)[0] for agent in self.agents]
        codes = [agent.returncode for agent in self.agents]
        self.agents = []
        return codes, self.said[0]

    def stop(self) -> None:
        for agent in self.agents:
            with contextlib.suppress(OSError):
                agent.kill()
            agent.communicate()

    def events(self, what: str = "") -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        text = path.read_text() if path.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [event for event in found if what in ("", event["what"])]

    def losses(self) -> dict[int, float]:
        """Return the loss by step; the later value of repeated steps."""
        return {event["step"]: event["loss"] for event in self.events("step")}

    def until(self, true: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WAIT_S
        while not (found := true()):
            assert time.monotonic() < deadline, self.events()[-3:]
            assert any(agent.poll() is None for agent in self.agents), self.events()[-3:]
            time.sleep(0.02)
        return found

    def until_step(self, step: int) -> None:
        self.until(lambda: any(event["step"] >= step for event in self.events("step")))

    def kill_rank(self, rank: int) -> None:
        """Kill a rank of the generation that trains now."""
        _, pid = self.events("ready")[-1]["ranks"][rank]
        self.kills.append(time.time())
        os.kill(pid, signal.SIGKILL)

    def kill_node(self, place: int) -> None:
        """Kill its agent, which ends all of its ranks."""
        self.kills.append(time.time())
        self.agents[place].kill()

    def last(self) -> dict[str, Any]:
        [end] = self.events("end")[-1:]
        return end


@contextlib.contextmanager
def running(folder: Path, nodes: int = 1, ranks: int = 2, **settings: Any) -> Iterator[Run]:
    folder.mkdir(exist_ok=True)
    run = Run(folder, nodes, ranks, **settings)
    try:
        run.start()
        yield run
    finally:
        run.stop()


def finished(folder: Path, nodes: int = 1, ranks: int = 2, **settings: Any) -> Run:
    """Return an undisturbed run."""
    with running(folder, nodes, ranks, **settings) as run:
        codes, said = run.end()
        assert codes == [0] * nodes, said
    return run


def until_gone(pids: Iterable[int]) -> None:
    """Wait until these processes are gone: an ended one may not be reaped yet."""
    deadline = time.monotonic() + WAIT_S
    while left := [pid for pid in pids if Path("/proc", str(pid)).exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
