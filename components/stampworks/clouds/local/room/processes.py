"""Processes that are not our children: who they are, whether they live, and ending them for certain."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from stampworks.clouds.local.room.errors import RoomError


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one that got the same number."""

    pid: int
    start: int
    """Clock ticks after boot at which it began: field 22 of /proc/PID/stat."""

    @property
    def instance(self) -> str:
        return f"{self.pid}-{self.start}"

    @property
    def alive(self) -> bool:
        return self._state not in ("", "Z", "X")

    @property
    def frozen(self) -> bool:
        return self._state in ("T", "t")

    @property
    def _state(self) -> str:
        """The kernel's letter for what it does now; empty when it is gone."""
        state, start = _stat(self.pid)
        return state if start == self.start else ""

    def end(self, where: str, timeout: float = 10) -> None:
        """Kills it and returns when it is gone; if it began a pid namespace, so is everything in there."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if not self.alive:  # asked after opening: from here on the handle cannot mean another process
                return
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not select.select([handle], [], [], timeout)[0]:
                raise RoomError(where, f"process {self.pid} does not end", f"it was killed {timeout:g} s ago")
        finally:
            os.close(handle)


def identify(pid: int) -> Process | None:
    """The process that has this number now."""
    _, start = _stat(pid)
    return Process(pid, start) if start >= 0 else None


def from_instance(text: str) -> Process | None:
    """The inverse of Process.instance."""
    pid, _, start = text.partition("-")
    return Process(int(pid), int(start)) if pid.isdigit() and start.isdigit() else None


def _stat(pid: int) -> tuple[str, int]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "", -1
    fields = text.rpartition(")")[2].split()  # a command's name may hold blanks and parentheses
    return fields[0], int(fields[19])
