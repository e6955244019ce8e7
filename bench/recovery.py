"""Cost of a failure for a training run: killed ranks, a lost node, another number of ranks. Real runs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.checkpoint import ROOT, TORCH
from bench.rows import Row, compared, measured
from tests.training.runs import Run, finished, running

RANKS, KILLS, RUNS, NODES_LOST = 4, 5, 4, 3
STEPS = 60
MINUTES = 6
SMALL = {"RANKS": 2, "KILLS": 3, "RUNS": 1, "NODES_LOST": 1, "MINUTES": 1}
SETTINGS: dict[str, Any] = {"steps": STEPS, "batch": 8, "checkpoints": {"every_s": 600.0}}
WAIT_S = 300.0


def rows() -> list[Row]:
    if not TORCH.exists():
        raise SystemExit(f"{TORCH} is not there: python3 -m tools.prepare --training")
    (ROOT / "build").mkdir(exist_ok=True)
    seed = random.randrange(2**32)  # noqa: S311
    chance = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        place = Path(folder)
        whole = finished(place / "undisturbed", ranks=RANKS, **SETTINGS)
        killed = [_killed_run(place / f"killed-{number}", chance) for number in range(RUNS)]
        return [
            *_kill_rows(whole, killed, place),
            *_node_loss_rows(whole, place),
            *_goodput_rows(place, chance, seed),
            *_resharding_rows(place),
        ]


def _kill_rows(whole: Run, killed: list[Run], place: Path) -> Iterator[Row]:
    ours = [seconds for run in killed for seconds in recoveries(run)]
    lost = [again for run in killed for again in done_again(run)]
    unequal = sum(run.last()["digest"] != whole.last()["digest"] for run in killed)
    what = f"{len(ours)} killed ranks of {RANKS}"
    yield measured(f"{what}: from the kill to the next completed step", "s", ours, 3.0)
    with relaunched(place / "relaunched") as again:
        one = iter(ours)
        yield compared(
            "  the same, against torchrun that starts all anew", "s", lambda: next(one), again, None, pairs=3
        )
    yield measured(f"{what}: completed steps that came again, each", "", lost, 1)
    yield measured(f"{what} in {len(killed)} runs: runs whose last weights differ in a bit", "", [unequal], 0)


def _killed_run(folder: Path, chance: random.Random) -> Run:
    with running(folder, ranks=RANKS, **SETTINGS) as run:
        for number in range(1, KILLS + 1):
            run.until(lambda number=number: len(run.events("ready")) == number)  # type: ignore[misc]
            run.until_step(chance.randrange(10 * number - 8, 10 * number))
            time.sleep(chance.random() * 0.3)
            run.kill_rank(chance.randrange(RANKS))
        codes, said = run.end()
        assert codes == [0], said  # noqa: S101
    return run


def recoveries(run: Run) -> list[float]:
    """Seconds from each kill to the next step that is complete."""
    found = []
    for killed in run.kills:
        ready = next(event for event in run.events("ready") if event["at"] > killed)
        step = next(event for event in run.events("step") if event["at"] > ready["at"])
        found.append(step["at"] - killed)
    return found


def done_again(run: Run) -> list[float]:
    """Return for each generation but the first how many steps had been complete before."""
    found, last = [], 0
    for event in run.events():
        if event["what"] == "ready" and event["number"] > 1:
            found.append(float(last - event["step"]) if last > event["step"] else 0.0)
        elif event["what"] == "step":
            last = event["step"]
    return found


def _node_loss_rows(whole: Run, place: Path) -> Iterator[Row]:
    """Two nodes, one of which is lost with everything that runs there."""
    took, apart = [], []
    expected = {event["step"]: event["loss"] for event in whole.events("step")}
    for number in range(NODES_LOST):
        with running(place / f"node-{number}", nodes=2, ranks=RANKS // 2, **SETTINGS) as run:
            run.until_step(STEPS // 3)
            run.kill_node(1)
            run.end()
        took += recoveries(run)
        apart.append(max(abs(event["loss"] / expected[event["step"]] - 1) for event in run.events("step")))
    yield measured("a node of two is killed: until the next completed step", "s", took, 10.0)
    yield measured("  loss with half the ranks, apart from the undisturbed run's, at most", "", apart, 0.01)


def _goodput_rows(place: Path, chance: random.Random, seed: int) -> Iterator[Row]:
    """Kill a rank at a random moment of each minute."""
    settings = {**SETTINGS, "steps": 1_000_000, "checkpoints": {"every_s": 0.0}}
    with running(place / "faults", ranks=RANKS, **settings) as run:
        run.until_step(1)
        begun = time.time()
        for minute in range(MINUTES):
            _until(begun + 60 * (minute + chance.random()))
            run.until(lambda: len(run.events("ready")) > len(run.events("failure")))
            run.kill_rank(chance.randrange(RANKS))
        _until(begun + 60 * MINUTES)
        run.agents[0].send_signal(signal.SIGTERM)
        run.end()
    steps = run.events("step")
    lost = [1 - productive(steps, begun + 60 * minute, begun + 60 * (minute + 1)) / 60 for minute in range(MINUTES)]
    what = f"part of a minute that is lost, where a rank of {RANKS} is killed in each of {MINUTES} (seed {seed})"
    yield measured(what, "", lost, 0.06)
    for name, seconds in json.loads((run.folder / "record.json").read_text())["account"]["bins"].items():
        yield measured(f"  {name}, with start and end", "s", [seconds])


def _until(at: float) -> None:
    time.sleep(max(0.0, at - time.time()))


def productive(steps: list[dict[str, Any]], begin: float, end: float) -> float:
    """Seconds between two computed steps that were not repeated."""
    counts = {event["step"]: event for event in steps}.values()
    within = [event for event in counts if begin <= event["at"] < end]
    return float(sum(event["seconds"] - sum(event["stalled"].values()) for event in within))


def _resharding_rows(place: Path) -> Iterator[Row]:
    """Continue a checkpoint of eight ranks on four and on sixteen."""
    small = {**SETTINGS, "steps": 12, "batch": 16}
    whole = finished(place / "eight", ranks=8, **small)
    expected = {event["step"]: event["loss"] for event in whole.events("step")}
    for ranks in (4, 16):
        with running(place / f"on-{ranks}", ranks=8, **small) as run:
            run.until_step(4)
            run.agents[0].send_signal(signal.SIGTERM)
            run.end()
            run.settings["ranks"] = ranks
            run.start()
            codes, said = run.end()
            assert codes == [0], said  # noqa: S101
        apart = [abs(event["loss"] / expected[event["step"]] - 1) for event in run.events("step")]
        what = f"a checkpoint of 8 ranks gone on with by {ranks}: loss apart from that of 8, at most"
        yield measured(what, "", [max(apart)], 0.01)


@contextlib.contextmanager
def relaunched(folder: Path) -> Iterator[Callable[[], float]]:
    """Yield the usual recovery: torchrun restarts all ranks, which load the last state from disk."""
    folder.mkdir()
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), "--max-restarts", "100"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'workloads'}", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [str(TORCH), *argv, "-m", "bench.relaunched", str(folder)],
        # Without the last variable, restarted ranks read the addresses of killed ones, and hang.
        env={**environment, "GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:

        def steps() -> int:
            path = folder / "steps"
            return len(path.read_text().splitlines()) if path.exists() else 0

        def until(more: int) -> None:
            deadline = time.monotonic() + WAIT_S
            while steps() < more:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise SystemExit("torchrun does not come to its next step")
                time.sleep(0.02)

        def again() -> float:
            until(steps() + 3)
            begun, done = time.monotonic(), steps()
            os.kill(int((folder / "pid-1").read_text()), signal.SIGKILL)
            until(done + 2)  # a step may have been in progress
            return time.monotonic() - begun

        yield again
        process.terminate()
