"""Processes: find those that a cluster has left, and end them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
INTERPRETERS = re.compile("python|perl|bash$|dash$|sh$")
STARTED = 19
"""Place of the start time after the name of the program (proc_pid_stat(5))."""
TERM_S, KILL_S = 5.0, 5.0


@dataclass(frozen=True)
class Process:
    """A process of this host's own namespace of processes."""

    pid: int
    parent: int
    uid: int
    programs: tuple[str, ...]
    """The program, and its script if it is an interpreter."""
    identity: str = ""
    """Boot, number and start, which no other process has."""


def processes() -> dict[int, Process]:
    """Return the processes that are in no container of their own."""
    own = (PROC / "self/ns/pid").readlink()
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    found = {}
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if (folder / "ns/pid").readlink() != own:
                continue
            lines = (folder / "status").read_text(errors="replace").splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            words = (folder / "cmdline").read_text(errors="replace").split("\0")[1:3]
            program = str((folder / "exe").readlink()).removesuffix(" (deleted)")
            pid, uid = int(folder.name), int(status["Uid"].split()[0])
            interprets = INTERPRETERS.match(program.rpartition("/")[2])
            started = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[STARTED]
            identity = f"{boot}-{pid}-{started}"
            found[pid] = Process(pid, int(status["PPid"]), uid, (program, *(words if interprets else ())), identity)
    return found


def left_over(found: dict[int, Process], uids: Collection[int], files: Collection[str], pid: int) -> list[int]:
    """Return processes of users and programs that go, with what they started, but nothing that this process is of."""
    spared = {1, *_ancestors(found, pid)}
    chosen: set[int] = set()
    for process in found.values():
        if process.uid in uids or any(program in files for program in process.programs):
            chosen.add(process.pid)
    chosen -= spared
    while more := {each.pid for each in found.values() if each.parent in chosen} - chosen - spared:
        chosen |= more
    return sorted(chosen)


def end(uids: Collection[int], files: Collection[str], known: Collection[str]) -> list[str]:
    """End processes that are left over, or known from an earlier look. Return the reasons of those that stay."""

    def left(found: dict[int, Process]) -> list[int]:
        ours = {process.pid for process in found.values() if process.identity in known}
        return sorted({*left_over(found, uids, files, os.getpid()), *ours})

    waits = ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S))
    for number, wait_s in waits:
        until = time.monotonic() + wait_s
        for pid in left(processes()):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        while left(processes()) and time.monotonic() < until:
            time.sleep(0.1)
    found = processes()
    return [f"process {pid} ({found[pid].programs[0]}) does not end" for pid in left(found)]


def _ancestors(found: dict[int, Process], pid: int) -> set[int]:
    chain: set[int] = set()
    while pid and pid not in chain:
        chain.add(pid)
        pid = found[pid].parent if pid in found else 0
    return chain
