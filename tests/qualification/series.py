"""Series of steps of healthy nodes: synthetic with realistic noise, and recorded.

A series has the rate of a node in each step. Tests slow nodes down themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

STEPS = 128
NODES = 16
SLOW = 1 / 1.05
"""Rate of a node that takes 5 % longer."""
RECORDED = Path(__file__).parent / "recorded"
SLOWED = "8"
"""The column of a recording that had 5 % more to do."""

Fleet = dict[str, list[float]]
Seconds = Callable[[Random, int], float]
"""Duration of a step, by its number."""


def log_normal(chance: Random, _: int) -> float:
    return chance.lognormvariate(0, 0.05)


def heavy_tailed(chance: Random, _: int) -> float:
    """Now and then many times as long: Student's distribution with two degrees of freedom, upwards."""
    return 1 + 0.02 * abs(chance.gauss(0, 1)) / math.sqrt(chance.expovariate(1))


def drifting(chance: Random, step: int) -> float:
    """A room that warms up, and a load that swings: the same for all."""
    return (1 + 0.002 * step + 0.05 * math.sin(step / 5)) * chance.lognormvariate(0, 0.02)


def bimodal(chance: Random, _: int) -> float:
    """About every third step takes a slower path."""
    return chance.lognormvariate(0, 0.015) * (1.08 if chance.random() < 0.3 else 1)


def fleet(chance: Random, seconds: Seconds, nodes: int = NODES) -> Fleet:
    return {f"n{node}": [1 / seconds(chance, step) for step in range(STEPS)] for node in range(nodes)}


def one_big_sample(chance: Random) -> Fleet:
    """Return a fleet whose nodes each have a step that takes up to fifty times as long."""
    made = fleet(chance, lambda chance, _: chance.lognormvariate(0, 0.03))
    for steps in made.values():
        steps[chance.randrange(STEPS)] /= chance.uniform(3, 50)
    return made


def resembling(chance: Random) -> Fleet:
    """Return a fleet with correlated noise, which lasts for many steps."""
    made: Fleet = {}
    for node in range(NODES):
        noise, steps = chance.gauss(0, 0.015), list[float]()
        for _ in range(STEPS):
            noise = 0.8 * noise + chance.gauss(0, 0.009)
            steps.append(math.exp(noise))
        made[f"n{node}"] = steps
    return made


def differing(chance: Random, spread: float = 0.005) -> Fleet:
    """Nodes with permanent differences, as between chips of the same kind."""
    made = fleet(chance, lambda chance, _: chance.lognormvariate(0, 0.02))
    return {name: scaled(steps, chance.gauss(1, spread)) for name, steps in made.items()}


def two_kinds(chance: Random) -> Fleet:
    """Every other node is of a batch that is 3 % slower."""
    made = fleet(chance, lambda chance, _: chance.lognormvariate(0, 0.02))
    return {name: scaled(steps, 0.97 if number % 2 else 1.0) for number, (name, steps) in enumerate(made.items())}


def accelerators(chance: Random) -> Fleet:
    """Four nodes of eight accelerators, each a series; a slow node slows its eight equally."""
    made: Fleet = {}
    for node in range(4):
        of_node = [chance.lognormvariate(0, 0.01) for _ in range(STEPS)]
        for index in range(8):
            made[f"n{node}:{index}"] = [each / chance.lognormvariate(0, 0.03) for each in of_node]
    return made


NOISE: Mapping[str, Callable[[Random], Fleet]] = {
    "log-normal": lambda chance: fleet(chance, log_normal),
    "heavy-tailed": lambda chance: fleet(chance, heavy_tailed),
    "drifting": lambda chance: fleet(chance, drifting),
    "bimodal": lambda chance: fleet(chance, bimodal),
    "one big sample": one_big_sample,
    "resembling": resembling,
    "differing": differing,
    "one accelerator of eight": accelerators,
}
"""Noise in which a slow node has to be found."""


def scaled(steps: list[float], part: float) -> list[float]:
    return [part * each for each in steps]


def slowed(of: Fleet, *names: str) -> Fleet:
    return {name: scaled(steps, SLOW if name in names else 1.0) for name, steps in of.items()}


def recorded(name: str) -> list[Fleet]:
    """Windows of nine processes that hashed in turns on a busy machine.

    The files have the durations in tenths of a microsecond; the last process had 5 % more to hash. On `one_core` all
    shared a core, so that other load affected them equally; on `two_cores` they did not.
    """
    lines = (RECORDED / f"{name}.csv").read_text().splitlines()
    steps = [[1e7 / int(ticks) for ticks in line.split(",")] for line in lines]
    windows = [steps[begin : begin + STEPS] for begin in range(0, len(steps) - STEPS + 1, STEPS)]
    return [{str(number): list(each) for number, each in enumerate(zip(*window, strict=True))} for window in windows]


def without_slowed(of: Fleet) -> Fleet:
    return {name: steps for name, steps in of.items() if name != SLOWED}
