"""Nodes that are slower window by window, or get slower: in two rounds running, or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from random import Random

import pytest
from stampworks.qualification import Evidence, Measured
from stampworks.qualification.windows import OverTime, slowing

NODES = tuple(f"gpu-{number:03}" for number in range(1, 9))
Rate = Callable[[int], float]


def steady(turn: int) -> float:
    return 1.0


def falling(part: float, turn: int) -> float:
    return part


def series(count: int, of: Mapping[str, Rate], nodes: tuple[str, ...] = NODES, seed: int = 1) -> dict[str, list[float]]:
    chance = Random(seed)  # noqa: S311
    return {node: [100 * of.get(node, steady)(turn) * chance.gauss(1, 0.02) for turn in range(count)] for node in nodes}


def a_round(of: Mapping[str, Rate], seed: int) -> Evidence:
    return Evidence([], [
        Measured("matmul_fp32_window", "GFLOP/s", node, "", "", 0, value, value, value, 1, None, False)
        for node, values in series(20, of, seed=seed).items() for value in values
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("rounds", "found"),
    [("s", []), ("sw", []), ("sws", []), ("ss", ["gpu-003"]), ("wss", ["gpu-003"]), ("s-", []), ("s-s", ["gpu-003"])],
)
def test_once_may_be_a_neighbour(rounds: str, found: list[str]) -> None:
    """A node is named if it was slow in this round and in the previous round with windows of it."""
    over_time = OverTime([NODES])
    said: list[str] = []
    for seed, each in enumerate(rounds):
        measured = a_round({"gpu-003": lambda _: 0.8} if each == "s" else {}, seed)
        said = list(over_time.end_of_round(without("gpu-003", measured) if each == "-" else measured))
    assert said == found


@pytest.mark.parametrize("missed", [(), (1,), (1, 2)])
def test_a_missed_round_does_not_end_the_watch(missed: tuple[int, ...]) -> None:
    """The fastest node that falls back among the others is found over the rounds in which it took part."""
    over_time, said = OverTime([NODES]), list[str]()
    for turn in range(6):
        measured = a_round({"gpu-003": functools.partial(falling, 1.4 - 0.08 * turn)}, turn)
        said += over_time.end_of_round(without("gpu-003", measured) if turn in missed else measured)
    assert set(said) == {"gpu-003"}


def without(node: str, evidence: Evidence) -> Evidence:
    return Evidence([], [each for each in evidence.measured if each.node != node])


def test_windows_are_summed_up() -> None:
    """Many windows are summarized together."""
    over_time, evidence = OverTime([NODES]), a_round({}, 1)
    over_time.end_of_round(evidence)
    assert evidence.measured == []
    first = over_time.measured()[0]
    assert (first.quantity, first.node, first.samples) == ("matmul_fp32.over_time", "gpu-001", 20)
    assert first.low < first.value < first.high


def test_groups_are_compared_with_themselves() -> None:
    """Each group has its own usual rate."""
    slower = {node: (lambda _: 0.5) for node in NODES[4:]}
    together, apart = OverTime([NODES]), OverTime([NODES[:4], NODES[4:]])
    for seed in range(3):
        found = [each.end_of_round(a_round({**slower, "gpu-001": lambda _: 0.9}, seed)) for each in (together, apart)]
    assert found[1] == {}


def test_recovered_nodes_have_not_fallen() -> None:
    """The node was slower for a while, and is as fast as before."""
    assert list(slowing(series(60, {"gpu-002": lambda turn: 1 - 0.005 * turn}))) == ["gpu-002"]
    assert slowing(series(60, {"gpu-002": lambda turn: 0.6 if 20 < turn < 45 else 0.88 if turn >= 45 else 1.0})) == {}


def test_overtaken_nodes_have_not_fallen() -> None:
    """With three nodes, a faster one moves the median of the others."""
    three = NODES[:3]
    assert slowing(series(60, {"gpu-001": lambda turn: 1 + 0.01 * turn}, three)) == {}
    assert list(slowing(series(60, {"gpu-001": lambda turn: 1 - 0.005 * turn}, three))) == ["gpu-001"]


def test_too_little_tells_nothing() -> None:
    """Examples are too few windows, a single node, or a window without a rate."""
    falls = {"gpu-002": lambda turn: 1 - 0.01 * turn}
    assert slowing(series(30, falls)) == {}
    assert slowing(series(60, falls, ("gpu-002",))) == {}
    assert slowing({**series(60, falls), "gpu-001": [0.0] * 60}) == {}
