"""Run each benchmark to its end at a small size. An interrupted one leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from tests.project import wait_for

pytestmark = [pytest.mark.long, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]
ROW_S, ROOM_S, GONE_S = 3600, 300, 180


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "bench", "--small", *words]


@pytest.mark.parametrize("name", [*bench.NAMES, *bench.LONG])
def test_a_row_runs_to_its_end(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command(name), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=ROW_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert traces(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_row_takes_its_cluster_down(number: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command("up"), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        # in the middle of its `up`
        wait_for(lambda: [*tmp_path.glob("sw-bench-*/state/rooms/bench/nodes/*/process")], ROOM_S)
        process.send_signal(number)
        said, _ = process.communicate(timeout=GONE_S)
    assert process.returncode == bench.INTERRUPTED, said
    assert traces(tmp_path) == []


def traces(folder: Path) -> list[str]:
    """Return everything that is left of clusters below a folder: folders, processes, mounts."""
    left = [str(path) for path in folder.glob("sw-bench-*")]
    for file in ("mountinfo", "cmdline"):
        for path in Path("/proc").glob(f"[0-9]*/{file}"):
            try:
                found = str(folder).encode() in path.read_bytes()
            except OSError:
                continue  # it has ended meanwhile
            left += [str(path)] if found else []
    return left
