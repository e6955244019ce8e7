"""The account of a session: its events, and how often it saves. The first rank keeps it."""

from __future__ import annotations

import os
import platform
import socket
import time
from pathlib import Path
from typing import Any

import torch

from . import ledger, record
from .events import EventLog, experienced
from .interval import Beside
from .words import without_secrets

SAY_S = 5.0
"""Minimum seconds between two printed lines about steps."""


class Bookkeeper:
    """Writer of a run's events, from which its record is built. It also decides when to save."""

    def __init__(self, folder: Path, name: str, every_s: float, world: int) -> None:
        self.folder, self._every_s, self._world = folder, every_s, world
        self.path = folder / record.EVENTS
        self._chooser, account = experienced(self.path)
        for failure in account.failures if account else ():
            if failure.kind != "job" and failure.source not in ("memory", ""):
                self._chooser.failed(account.begun + failure.at_us / ledger.US if account else 0.0)
        self._log = EventLog(self.path)
        self._beside = Beside()
        self._saved_at = self._said = time.monotonic()
        self._generation = 1
        restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        again = account is not None and bool(account.attempts) and not account.attempts[-1].end and restarts > 0
        if again and account:
            text = f"a rank was lost, and the launcher has started all of them again ({restarts})"
            step = account.steps[-1].step if account.steps else 0
            lost = {"kind": "rank", "node": "", "rank": None, "step": step, "text": text}
            self._log.put("failure", {"at": _process_start(), **lost})
            self._generation = 1 + len([event for _, event in account.told if event["what"] == "generation"])
            self._failed = True
        else:
            told = {"name": name, "job": os.environ.get("SLURM_JOB_ID", ""), "nodes": _nodes(world), "settings": {}}
            self._log.put("start", {"attempt": len(account.attempts) + 1 if account else 1, **without_secrets(told)})
            self._failed = False

    def ready(self, step: int, source: str, parameters: int, backend: str) -> None:
        """The ranks have their state."""
        number = self._generation
        where = {"source": "memory", "step": step + 1} if source == "memory" else {}
        why = "the launcher has started the ranks again" if number > 1 else "the run begins"
        self._log.put(
            "generation",
            {"number": number, "world": self._world, "nodes": [socket.gethostname()], "why": why, **where},
        )
        versions = {"torch": str(torch.__version__), "python": platform.python_version()}
        about = {"parameters": parameters, "device": _device(), "backend": backend, "versions": versions}
        self._log.put("ready", {"number": number, "step": step, "source": source, "ranks": [], **about})
        if self._failed and source != "memory":
            self._chooser.failed(time.time())
        self._say(f"goes on after step {step}, state from {source}" if step else "begins")

    def stepped(self, step: int, told: dict[str, Any], saving: bool) -> None:
        """Log a finished step. `saving` says that a checkpoint was written meanwhile."""
        stalled = told["stalled"]
        self._beside.step(told["seconds"] - stalled["checkpoint"], saving)
        self._log.put("step", {"step": step, "number": self._generation, **told})
        if time.monotonic() - self._said > SAY_S:
            loss = "" if told["loss"] is None else f": loss {told['loss']:.4f}"
            self._say(f"step {step}{loss}, {told['seconds']:.3g} s")

    def saved(self, step: int, seconds: float, blocked_s: float, size: int, folder: str) -> None:
        """Log a finished checkpoint, and adapt the interval to its cost."""
        slowed = self._beside.ended()
        told = {"seconds": seconds, "blocked_s": blocked_s, "slowed_s": slowed, "bytes": size, "folder": folder}
        self._log.put("checkpoint", {"step": step, **told})
        self._chooser.cost(blocked_s + slowed)
        self._say(f"checkpoint of step {step}: {size / 1e6:.1f} MB in {seconds:.1f} s")

    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        interval = None if self._every_s else self._chooser.interval(time.time())
        every = interval.seconds if interval else self._every_s
        if time.monotonic() - self._saved_at < every:
            return False
        if interval:
            self._log.put("interval", {"seconds": interval.seconds, "why": interval.why})
        self._saved_at = time.monotonic()
        return True

    def notice(self, text: str) -> None:
        """Log and print a line for the user."""
        self._log.put("notice", {"text": text})
        self._say(text)

    def end(self, step: int, why: str) -> None:
        """Log the end of the run, write its record, and print the goodput."""
        if why == "preempted":
            self._log.put("preempted", {"step": step})
        self._log.put("end", {"why": why, "step": step, "text": ""})
        self._log.close()
        record.write(self.folder)
        goodput = ledger.account(ledger.read(self.path)).goodput or 0.0
        self._say(f"{why} after step {step}, goodput {goodput:.1%}")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print(f"stampworks: {text}", flush=True)


def _process_start() -> float:
    """Return the start of this process in seconds since 1970."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _nodes(world: int) -> int:
    return max(1, world // int(os.environ.get("LOCAL_WORLD_SIZE", str(world))))


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
