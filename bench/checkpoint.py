"""What a checkpoint costs training, against torch's own that waits, and how near the disk's rate it is written."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.rows import PAIRS, Row, compared

ROOT = Path(__file__).parents[1]
TORCH = ROOT / ".venv" / "training" / "bin" / "python"
RANKS, MIB = 2, 1024
TIMEOUT_S = 600


def rows() -> list[Row]:
    """Three ways of writing the same bytes in turns, and in the opposite order the next time."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder, saving(Path(folder)) as save:
        sequential, name = writer(Path(folder) / "sequential")
        ways: list[Callable[[], Any]] = [lambda: save("async"), lambda: save("plain"), sequential]
        for way in ways:
            way()  # what is done for the first time takes longer
        found: list[list[Any]] = [[], [], []]
        for number in range(PAIRS):
            for turn in (0, 1, 2) if number % 2 == 0 else (2, 1, 0):
                found[turn].append(ways[turn]())
    ours, plain, disk = found
    stall = f"stall of a save, {RANKS} ranks, {MIB} MiB, warm, against torch's own that waits"
    written = f"until it is published, against {name} of as many bytes"
    return [
        pairs(stall, "s", of(ours, "blocked"), of(plain, "blocked"), 0.1),
        pairs("the same without what either waits for a processor", "s", of(ours, "ran"), of(plain, "ran"), 0.1),
        pairs("CPU time of the same, with digests, against without", "s", of(ours, "cpu"), of(plain, "cpu"), None),
        pairs(written, "s", of(ours, "seconds"), disk, 1 / 0.9),
        pairs("the same of torch's own, without digests", "s", of(plain, "seconds"), disk, None),
    ]


def of(answers: list[dict[str, float]], key: str) -> list[float]:
    return [answer[key] for answer in answers]


def pairs(what: str, unit: str, ours: list[float], baseline: list[float], target: float | None) -> Row:
    """What was measured in turns already."""
    one, other = iter(ours), iter(baseline)
    return compared(what, unit, lambda: next(one), lambda: next(other), target, pairs=len(ours))


@contextlib.contextmanager
def saving(folder: Path) -> Iterator[Callable[[str], dict[str, float]]]:
    """Ranks that have a state, and save it when they are told how."""
    if not TORCH.exists():
        raise SystemExit(f"{TORCH} is not there: python3 -m tools.prepare --training")
    argv = [str(TORCH), "-W", "ignore", "-m", "bench.saving", str(folder), str(RANKS), str(MIB)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'workloads'}", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        argv, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin  # noqa: S101  (for the type checker: they are pipes)
        assert process.stdout  # noqa: S101

        def save(how: str) -> dict[str, float]:
            print(how, file=process.stdin, flush=True)
            said = process.stdout.readline() if process.stdout else ""
            if not said:
                raise SystemExit(f"the ranks ended with {process.wait(TIMEOUT_S)} at '{how}'")
            return dict(json.loads(said))

        yield save
        process.stdin.close()


def writer(folder: Path) -> tuple[Callable[[], float], str]:
    """Seconds that the disk takes for the same bytes with fsync, by fio where there is one."""
    folder.mkdir()
    if not shutil.which("fio"):
        return lambda: plainly(folder), "a sequential write with fsync"
    return lambda: fio(folder), "a sequential write of fio with fsync"


def fio(folder: Path) -> float:
    size = f"--size={MIB // RANKS}M"
    how = ["--rw=write", "--bs=1M", "--ioengine=psync", "--end_fsync=1", f"--numjobs={RANKS}", "--group_reporting"]
    argv = ["fio", "--name=sequential", f"--directory={folder}", size, *how, "--output-format=json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    emptied(folder)
    return float(json.loads(done.stdout)["jobs"][0]["write"]["runtime"]) / 1000


def plainly(folder: Path) -> float:
    """One program a rank, as ranks are."""
    begun = time.perf_counter()
    dd = ["dd", "if=/dev/zero", "bs=1M", f"count={MIB // RANKS}", "conv=fsync", "status=none"]
    started = [subprocess.Popen([*dd, f"of={folder}/{number}"]) for number in range(RANKS)]
    if any(each.wait(TIMEOUT_S) for each in started):
        raise SystemExit(f"{folder}: cannot be written")
    took = time.perf_counter() - begun
    emptied(folder)
    return took


def emptied(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()
