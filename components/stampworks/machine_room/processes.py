"""Processes that are not our children: who they are, whether they live, and ending them for certain."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room.errors import AGAIN, RoomError

END_TIMEOUT_S = 10


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
    def parent(self) -> Process | None:
        """Who started it, or whoever inherited it since."""
        found = _stat(self.pid)
        return identify(found.parent) if found and found.start == self.start else None

    @property
    def program(self) -> str:
        """The name of what it runs, at most 15 characters of it."""
        found = _stat(self.pid)
        return found.program if found and found.start == self.start else ""

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal; fine when it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:  # asked after opening, as below
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)

    def end(self, where: str) -> None:
        """Kills it and returns when it is gone; if it began a pid namespace, so is everything in there."""
        self._await_end(where, kill=True)

    def wait(self, where: str) -> None:
        """Returns when it is gone."""
        self._await_end(where, kill=False)

    @property
    def _state(self) -> str:
        """The kernel's letter for what it does now; empty when it is gone."""
        found = _stat(self.pid)
        return found.state if found and found.start == self.start else ""

    def _await_end(self, where: str, *, kill: bool) -> None:
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Asked after opening: from here on the handle cannot mean another process. One whose first thread has ended
            # is no longer alive, and still holds what it has until its last one has: the handle knows.
            if not self._state:
                return
            if kill:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not select.select([handle], [], [], END_TIMEOUT_S)[0]:
                raise RoomError(where, f"process {self.pid} does not end", f"waited {END_TIMEOUT_S} s", AGAIN)
        finally:
            os.close(handle)


def identify(pid: int) -> Process | None:
    """The process that has this number now."""
    found = _stat(pid)
    return Process(pid, found.start) if found else None


def children(process: Process) -> list[Process]:
    """Those that it has started and that are there."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = [(_stat(number), number) for number in numbers]
    return [Process(number, stat.start) for stat, number in found if stat and stat.parent == process.pid]


def from_instance(text: str) -> Process | None:
    """The inverse of Process.instance."""
    pid, _, start = text.partition("-")
    return Process(int(pid), int(start)) if pid.isdigit() and start.isdigit() else None


@dataclass(frozen=True)
class _Stat:
    program: str
    state: str
    parent: int
    start: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    before, _, after = text.rpartition(")")  # a program's name may hold blanks and parentheses
    fields = after.split()
    return _Stat(before.partition("(")[2], fields[0], int(fields[1]), int(fields[19]))
