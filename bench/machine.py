"""Limits of this machine, measured beside every benchmark: a slow machine shows here first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.rows import Row, measured

RUNS = 5


def ceilings() -> list[Row]:
    """Return rows without targets, which show the machine's limits."""
    return [
        measured("machine: cores", "", [os.cpu_count() or 0]),
        measured("machine: load before", "", [os.getloadavg()[0]]),
        measured("machine: memory free", "GiB", [_memory_free_gib()]),
        measured("machine: hash 64 MiB on one core", "s", [timed(_hash) for _ in range(RUNS)]),
        measured("machine: start a program that does nothing", "s", [timed(_start_true) for _ in range(RUNS)]),
        measured("machine: start an empty Python", "s", [timed(_start_python) for _ in range(RUNS)]),
        measured("machine: write and sync 16 MiB", "s", [timed(_write) for _ in range(RUNS)]),
    ]


def timed(action: Callable[[], object]) -> float:
    """Return the duration in seconds."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def quiet(*argv: str) -> None:
    """Run a command without its output; a failure ends the benchmark."""
    subprocess.run(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60, check=True)


def _hash() -> None:
    hashlib.sha256(bytes(64 << 20)).digest()


def _start_true() -> None:
    quiet("true")


def _start_python() -> None:
    quiet(sys.executable, "-I", "-S", "-c", "")


def _write() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(16 << 20))
        file.flush()
        os.fsync(file.fileno())


def _memory_free_gib() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    [kib] = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kib / (1 << 20)
