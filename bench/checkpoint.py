"""Cost of checkpoints, against torch's own that blocks, and the share of the disk's rate that they reach."""

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

from bench.rows import Row, compared

ROOT = Path(__file__).parents[1]
TORCH = ROOT / ".venv" / "training" / "bin" / "python"
RANKS, MIB = 2, 1024
SAVES = 12
TIMEOUT_S = 600
SMALL = {"MIB": 64, "SAVES": 1}


def rows() -> list[Row]:
    """Five ways of writing the same bytes in turns, and in the opposite order the next time."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder, saving(Path(folder)) as save:
        name = "fio" if shutil.which("fio") else "dd (fio is not here)"
        ways: list[Callable[[], Any]] = [
            lambda: save("beside"),
            lambda: save("plain"),
            lambda: save("alone"),
            lambda: sequential(Path(folder) / "cached", direct=False),
            lambda: sequential(Path(folder) / "direct", direct=True),
        ]
        for way in ways:
            way()  # a first run takes longer
        found: list[list[Any]] = [[] for _ in ways]
        for number in range(SAVES):
            for turn in range(len(ways))[:: 1 if number % 2 == 0 else -1]:
                found[turn].append(ways[turn]())
    beside, plain, alone, cached, direct = found
    stall = f"stall of a save, {RANKS} ranks, {MIB} MiB, warm, against torch's own that waits"
    written = f"until it is published, with digests, against as many bytes by {name}, sequentially with fsync"
    blocked, took = of(plain, "blocked"), of(alone, "seconds")
    return [
        pairs(stall, "s", of(beside, "blocked"), blocked, 0.1),
        pairs("  what the step beside it takes longer", "s", of(beside, "longer"), blocked, None),
        pairs("  CPU time of the save, with digests, against without", "s", of(beside, "cpu"), of(plain, "cpu"), None),
        pairs("  stall where the next step changes the state at once", "s", of(alone, "blocked"), blocked, None),
        pairs(written, "s", took, cached, 1 / 0.9),
        pairs("  against the same past the page cache, as it is written itself", "s", took, direct, None),
        pairs("  the same of torch's own, without digests", "s", of(plain, "seconds"), cached, None),
    ]


def of(answers: list[dict[str, float]], key: str) -> list[float]:
    return [answer[key] for answer in answers]


def pairs(what: str, unit: str, ours: list[float], baseline: list[float], target: float | None) -> Row:
    """Return the row of measurements that were taken in turns."""
    one, other = iter(ours), iter(baseline)
    return compared(what, unit, lambda: next(one), lambda: next(other), target, pairs=len(ours))


@contextlib.contextmanager
def saving(folder: Path) -> Iterator[Callable[[str], dict[str, float]]]:
    """Yield a function that lets ranks with a state save it in the given way."""
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


def sequential(folder: Path, direct: bool) -> float:
    """Return the seconds of the disk for the same bytes with fsync, by a program for each rank."""
    folder.mkdir(exist_ok=True)
    took = fio(folder, direct) if shutil.which("fio") else dd(folder, direct)
    emptied(folder)
    return took


def fio(folder: Path, direct: bool) -> float:
    size = f"--size={MIB // RANKS}M"
    how = ["--rw=write", "--bs=1M", "--ioengine=psync", "--end_fsync=1", f"--numjobs={RANKS}", "--group_reporting"]
    argv = ["fio", "--name=sequential", f"--directory={folder}", size, *how, f"--direct={int(direct)}"]
    done = subprocess.run(
        [*argv, "--output-format=json"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    return float(json.loads(done.stdout)["jobs"][0]["write"]["runtime"]) / 1000


def dd(folder: Path, direct: bool) -> float:
    begun = time.perf_counter()
    argv = ["dd", "if=/dev/zero", "bs=1M", f"count={MIB // RANKS}", "conv=fsync", "status=none"]
    past = ["oflag=direct"] if direct else []
    started = [subprocess.Popen([*argv, *past, f"of={folder}/{number}"]) for number in range(RANKS)]
    if any(each.wait(TIMEOUT_S) for each in started):
        raise SystemExit(f"{folder}: cannot be written")
    return time.perf_counter() - begun


def emptied(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()
