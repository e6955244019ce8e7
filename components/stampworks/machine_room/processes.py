"""Processes that are not children of this one: identify them, check whether they live, and end them reliably."""

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
    """A process, identified so that a later process with the same pid is not mistaken for it."""

    pid: int
    start: int
    """Start of the process in clock ticks after boot: field 22 of /proc/PID/stat."""

    @property
    def instance(self) -> str:
        """An id that a later process with the same number does not have."""
        return f"{self.pid}-{self.start}"

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        return self._state not in ("", "Z", "X")

    @property
    def frozen(self) -> bool:
        """Whether it is stopped by a signal or a debugger."""
        return self._state in ("T", "t")

    @property
    def parent(self) -> Process | None:
        """Parent process: its starter, or its adopter since."""
        found = _stat(self.pid)
        return identify(found.parent) if found and found.start == self.start else None

    @property
    def program(self) -> str:
        """Name of its program, at most 15 characters."""
        found = _stat(self.pid)
        return found.program if found and found.start == self.start else ""

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:  # check after opening, as below
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)

    def end(self, where: str) -> None:
        """Kill the process and wait for its end. If it started a pid namespace, everything in there ends, too."""
        self._await_end(where, kill=True)

    def wait(self, where: str) -> None:
        """Wait for the end of the process."""
        self._await_end(where, kill=False)

    @property
    def _state(self) -> str:
        """State letter of the kernel; empty when the process is gone."""
        found = _stat(self.pid)
        return found.state if found and found.start == self.start else ""

    def _await_end(self, where: str, *, kill: bool) -> None:
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Check after opening: from here on the handle cannot mean another process. A process whose first thread has
            # ended is not alive, and still holds its resources until its last thread ends. The handle waits for that.
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
    """Return the process that has this pid now."""
    found = _stat(pid)
    return Process(pid, found.start) if found else None


def children(process: Process) -> list[Process]:
    """Return the running processes that a process has started."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = [(_stat(number), number) for number in numbers]
    return [Process(number, stat.start) for stat, number in found if stat and stat.parent == process.pid]


def from_instance(text: str) -> Process | None:
    """Return the process that Process.instance describes."""
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
    before, _, after = text.rpartition(")")  # a program's name may contain blanks and parentheses
    fields = after.split()
    return _Stat(before.partition("(")[2], fields[0], int(fields[1]), int(fields[19]))
