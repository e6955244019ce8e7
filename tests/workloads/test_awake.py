"""Loops that keep a processor awake, and their removal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from validation.awake import awake

from tests.workloads.conftest import ROOT


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def until(what: bool, pid: int) -> bool:
    """Wait until a process has reached a state; return whether it did."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            idle = os.sched_getscheduler(pid) == os.SCHED_IDLE
        except ProcessLookupError:
            idle = False
        if idle == what:
            return True
        time.sleep(0.02)
    return False


def test_it_gives_way_to_everything_and_ends_with_what_is_measured() -> None:
    before = children()
    with awake(True):
        [pid] = set(children()) - set(before)
        assert until(True, pid)
    assert children() == before


def test_a_node_with_processors_of_its_own_starts_nothing() -> None:
    before = children()
    with awake(False):
        assert children() == before


def test_it_ends_when_whoever_started_it_is_killed() -> None:
    """Slurm kills the starter of a step that takes too long."""
    program = "import time\nfrom validation.awake import awake\nwith awake(True): time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT / "workloads") as starter:
        listed = Path(f"/proc/{starter.pid}/task/{starter.pid}/children")
        end = time.monotonic() + 30
        while not (found := listed.read_text().split()) and time.monotonic() < end:
            time.sleep(0.02)
        pid = int(found[0])
        assert until(True, pid)
        starter.kill()
        starter.wait()
        assert until(False, pid)
