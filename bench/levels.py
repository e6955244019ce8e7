"""Measure the duration of the levels of a proof, and the cost of the quick level before each job."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Iterator

from stampworks.qualification import read
from stampworks.qualification.levels import steps

from bench.rows import Row, measured
from bench.stack import NAME, Stack, stack

RAIL_MBPS = 200
RUNS = 3
SMALL = {"RUNS": 1}
STANDARD_PART_MAX = 0.25
"""Largest part of the time of all checks."""
QUICK_S = 0.3
PROGRAMS = "PYTHONPATH=/usr/local/lib/stampworks/workloads"
TIMED = """\
import json, subprocess, sys, time
def seconds(*argv):
    begun = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun
empty, health = ("/usr/bin/python3", "-IS", "-c", ""), ("/usr/local/sbin/stampworks-health", "--before-a-job")
print(json.dumps([(seconds(*empty), seconds(*health)) for _ in range(9)]))
"""


def rows() -> list[Row]:
    with stack(4, rate_mbps=RAIL_MBPS, leaf_nodes=2) as found:
        found.up()
        return [*_against_everything(found), *_before_a_job(found), *_node_rows(found)]


def _against_everything(found: Stack) -> Iterator[Row]:
    """Compare the standard level with all checks: a burn-in with time for a single round."""
    once = sum(step.seconds for step in steps("burn-in"))
    everything = _seconds(found, "burn-in", 1 + int(1.5 * once // 60))
    standard = [_seconds(found, "standard", 10) for _ in range(RUNS)]
    yield measured("standard level, 4 nodes", "s", standard)
    yield measured("every check once, 4 nodes", "s", [everything])
    parts = [each / everything for each in standard]
    yield measured("standard level, of the time of every check", "", parts, STANDARD_PART_MAX)


def _seconds(found: Stack, level: str, minutes: int) -> float:
    asked = ["stampworks", "qualify", "--stack", NAME, "--level", level, "--budget", str(minutes), "--json"]
    certificate = json.loads(found.run(*asked, ends_with=(0, 3), timeout_s=60 * minutes + 60))
    begun, ended = (datetime.datetime.fromisoformat(certificate[when]) for when in ("started", "ended"))
    return (ended - begun).total_seconds()


def _before_a_job(found: Stack) -> Iterator[Row]:
    """Measure the prolog on a node, beside an empty program in the same language."""
    timed = shlex.join(["python3", "-c", TIMED])
    pairs = json.loads(found.run("stampworks", "ssh", "--stack", NAME, "gpu-001", "--", timed))
    yield measured(
        "quick level before a job, beyond an empty Python", "s", [own - empty for empty, own in pairs], QUICK_S
    )


def _node_rows(found: Stack) -> Iterator[Row]:
    """Measure the programs of the quick level on a node, after their start."""
    run = ["stampworks", "run", "--stack", NAME, "--nodes", "1", "--", "env", PROGRAMS, "python3", "-m", "validation"]
    heard = [read(found.run(*run, "limits", "inventory")) for _ in range(RUNS)]
    took = [sum(result.seconds for result in each.results) for each in heard]
    yield measured("quick level of a proof, on a node", "s", took, QUICK_S)
