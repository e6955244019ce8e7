"""Measure the time from nothing to idle nodes in Slurm, with an existing node image."""

from __future__ import annotations

from bench.rows import Row, measured
from bench.stack import stack

TARGETS_S = {4: 30, 16: 75, 64: 300}
"""Factor for the time of four times as many nodes: at most four."""
RUNS = {4: 5, 16: 5, 64: 3}
SMALL = {"TARGETS_S": {1: 30}, "RUNS": {1: 1}}


def rows() -> list[Row]:
    return [row for nodes, target_s in TARGETS_S.items() for row in rows_for(nodes, target_s)]


def rows_for(nodes: int, target_s: float) -> list[Row]:
    with stack(nodes) as found:
        runs = []
        for _ in range(RUNS[nodes]):
            runs.append(found.up_until_idle())
            found.destroy()
    return [
        measured(f"warm up until {nodes} nodes are idle", "s", [run.idle_s for run in runs], target_s),
        measured(f"of it Ansible, {nodes} nodes", "s", [run.ansible_s for run in runs]),
    ]
