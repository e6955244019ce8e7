"""Faults of programs that jobs run."""

from __future__ import annotations

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults.site import Means, Site
from stampworks.machine_room import RoomError

# A rank is a fork of the fork server, which is a child of the agent. Fork and server look alike.
_KILL_A_RANK = """
import os, signal

def read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""

def parent(pid):
    found = read(pid, "stat").rpartition(b")")[2].split()
    return found[1].decode() if found else "0"

alike = [pid for pid in os.listdir("/proc") if pid.isdigit() and b"multiprocessing.forkserver" in read(pid, "cmdline")]
servers = [pid for pid in alike if b"\\0training\\0" in read(parent(pid), "cmdline")]
ranks = [int(pid) for pid in alike if parent(pid) in servers]
if ranks:
    os.kill(min(ranks), signal.SIGKILL)
    print(min(ranks))
"""


def _kill_a_rank(site: Site, one: Injected) -> None:
    if not site.on_node(one.where, "python3", "-IS", "-c", _KILL_A_RANK).strip():
        remedy = "submit one, and wait for its first steps: stampworks submit training NAME"
        raise RoomError(one.where, "cannot kill a rank", "no training run has a rank here now", remedy)


KILLED_RANK = Means(inject=_kill_a_rank, clear=lambda _site, _one: None, there=lambda _site, _one: False)
