"""Memory of an idle node: the proportional share of all its processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.rows import Row, measured
from bench.stack import NAME, Stack, stack

NODES = 4
SMALL = {"NODES": 1}
PIDS = f"""
import json
from stampworks.machine_room import read_nodes
print(json.dumps({{node.name: node.pid for node in read_nodes({NAME!r})}}))
"""


def rows() -> list[Row]:
    with stack(NODES) as found:
        found.up_until_idle()
        memory = {name: pss_mib(pid) for name, pid in _first_processes(found).items()}
    workers = [mib for name, mib in memory.items() if name != "head"]
    return [
        measured("memory of an idle node", "MiB", workers),
        measured("memory of the head", "MiB", [memory["head"]]),
    ]


def total_mib(found: Stack) -> float:
    """All nodes of a stack together."""
    return sum(pss_mib(pid) for pid in _first_processes(found).values())


def _first_processes(found: Stack) -> dict[str, int]:
    pids: dict[str, int] = json.loads(found.run(sys.executable, "-c", PIDS))
    return pids


def pss_mib(first: int) -> float:
    """Return the memory of all processes in the namespace of a node's first process."""
    namespace = (Path("/proc") / str(first) / "ns/pid").readlink()
    total_kib = 0
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and (process / "ns/pid").readlink() == namespace:
                total_kib += _pss_kib(process)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended meanwhile, or belongs to another user
    return total_kib / 1024


def _pss_kib(process: Path) -> int:
    lines = (process / "smaps_rollup").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
