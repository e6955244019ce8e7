"""Compare the chosen interval between checkpoints with the best one, in simulated runs with unannounced failures."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.rows import Row, counted, measured

sys.path.insert(0, str(Path(__file__).parents[1] / "workloads"))
from stampworks_train.interval import Chooser

SEEDS = 1000
SMALL = {"SEEDS": 20}
FAILURES = 5
DRIFT = 3.0
"""Largest change of the failure rate within the time of five failures."""


@dataclass(frozen=True)
class Run:
    """A run until its last failure: the cost of a checkpoint, the times of failures, and the final rate."""

    cost: float
    failures: tuple[float, ...]
    rate: float


def rows() -> list[Row]:
    runs = [simulated(seed) for seed in range(SEEDS)]
    found = []
    for after in (1, FAILURES):
        target = 1.0 if after == FAILURES else None
        missing = [100 * short_of(run, after) for run in runs]
        found.append(measured(f"goodput below the best interval's, after failure {after}", "%", missing, target))
    found.append(
        counted(f"seeds that miss more than 1 % after failure {FAILURES}", "seeds", beyond(missing), SEEDS, 0.05)
    )
    return found


def beyond(missing: list[float]) -> int:
    return sum(each > 1.0 for each in missing)


def simulated(seed: int) -> Run:
    """Checkpoints of 10 ms to 10 s, and failures from the highest rate that allows training down to a thousandth of
    it."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    cost = 10 ** chance.uniform(-2, 1)
    mean = max(60.0, 100 * cost) * 10 ** chance.uniform(0, 3)
    drift = chance.uniform(-1, 1) * math.log(DRIFT) / (FAILURES * mean)
    # The expected number of failures until a time is (e^(drift t) - 1) / (drift mean): its inverse gives the times.
    at, expected, failures = 0.0, 0.0, list[float]()
    while len(failures) < FAILURES:
        expected += chance.expovariate(1.0)
        grown = 1 + drift * mean * expected
        if grown <= 0.1:  # failures fade out, and none will follow
            return simulated(seed + SEEDS)
        at = math.log(grown) / drift
        failures.append(at)
    return Run(cost, tuple(failures), math.exp(drift * at) / mean)


def short_of(run: Run, after: int) -> float:
    """The part of the best goodput that the interval chosen after so many failures does not reach."""
    chooser = Chooser(0.0)
    chooser.cost(run.cost)
    for at in run.failures[:after]:
        chooser.failed(at)
    chosen = chooser.interval(run.failures[after - 1]).seconds
    return 1 - goodput(chosen, run) / best(run)


def goodput(interval: float, run: Run) -> float:
    """Return the useful share of all time: random failures lose the work since the last checkpoint."""
    return interval * run.rate / math.expm1(run.rate * (interval + run.cost))


def best(run: Run) -> float:
    """Find the best interval by trial, so that it does not depend on the chooser's formula."""
    low, high = math.log(run.cost / 10), math.log(100 / run.rate)
    for _ in range(100):
        third = (high - low) / 3
        if goodput(math.exp(low + third), run) < goodput(math.exp(high - third), run):
            low += third
        else:
            high -= third
    return goodput(math.exp(low), run)
