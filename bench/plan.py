"""`stampworks plan` against the mere import of the engine's SDK, which every Pulumi program pays; and of a fleet."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.machine import quiet, timed
from bench.rows import Row, compared, measured

FILE = Path(__file__).parents[1] / "stacks" / "Pulumi.local.yaml"
FLEET = """\
version: 1
name: fleet
cloud: hosts
network: {cidr: 10.0.0.0/8}
pools: [{name: gpu, machine: dgx-h100, count: 2048}]
"""
RUNS, PAIRS = 9, 20
SMALL = {"RUNS": 1, "PAIRS": 1}


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "fleet.yaml"
        fleet.write_text(FLEET)
        found = [_planned(fleet) for _ in range(RUNS)]
    return [
        compared(
            "stampworks plan, against import pulumi",
            "s",
            lambda: timed(lambda: quiet(sys.executable, "-m", "stampworks.cli.main", "plan", str(FILE))),
            lambda: timed(lambda: quiet(sys.executable, "-c", "import pulumi")),
            target=1.5,
            pairs=PAIRS,
        ),
        measured("stampworks plan of 16,384 GPUs, each node by name", "s", [seconds for seconds, _ in found], 2.0),
        measured("memory of the same", "MiB", [mib for _, mib in found], 300),
    ]


def _planned(file: Path) -> tuple[float, float]:
    """Seconds, and the maximum memory of a run."""
    argv = [sys.executable, "-m", "stampworks.cli.main", "plan", str(file), "--json"]
    used: list[float] = []

    def run() -> None:
        with Path(os.devnull).open("w") as nowhere:
            pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)])
            _, status, usage = os.wait4(pid, 0)
        if status:
            raise RuntimeError(f"{file}: cannot be planned")
        used.append(usage.ru_maxrss / 1024)

    return timed(run), used[0]
