"""Tests of the chosen interval: its arithmetic, its reaction to events, and its distance from the best one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks_train.interval import Beside, Chooser


def test_the_arithmetic_is_told() -> None:
    """√(2 C M), with M from the failures: (100 · 0.8 + 60 + 30 until now + 30 assumed) / (0.8 + 1 + 0.5) = 86.96."""
    chooser = Chooser(1000.0)
    for seconds in (9.0, 0.2, 0.1):
        chooser.cost(seconds)
    chooser.failed(1100.0)
    chooser.failed(1160.0)
    chosen = chooser.interval(1190.0)
    assert chosen.seconds == pytest.approx(math.sqrt(2 * 0.2 * 200 / 2.3))
    assert chosen.why == (
        "a checkpoint costs 0.2 s (median of the last 3); 2 failures that needed a checkpoint, of which later "
        "ones count more (1.8 in all), and 0.5 assumed, in 200 s are one in 86.96 s; "
        "√(2 · 0.2 s · 86.96 s) = 5.9 s from one to the next"
    )


def test_before_anything_was_seen_it_says_what_it_assumes() -> None:
    chosen = Chooser(0.0).interval(0.0)
    assert chosen.why == (
        "a checkpoint is taken to cost 1 s; no failures that needed a checkpoint, and 0.5 "
        "assumed, in 50 s are one in 100 s; "
        "√(2 · 1 s · 100 s) = 14.1 s from one to the next"
    )


def test_cost_of_a_save_is_the_slowdown_of_steps() -> None:
    """The cost is relative to the steps before it; a save during faster steps costs nothing."""
    beside = Beside()
    beside.step(7.0, saving=True)  # the duration of a step is not known yet
    assert beside.ended() == 0.0
    for seconds in (1.0, 9.0, 1.0):
        beside.step(seconds, saving=False)
    beside.step(1.5, saving=True)
    beside.step(1.25, saving=True)
    assert beside.ended() == 0.75
    beside.step(0.5, saving=True)
    assert beside.ended() == 0.0


def test_it_grows_while_nothing_fails_and_falls_with_each_failure() -> None:
    chooser = Chooser(0.0)
    chooser.cost(0.1)
    chosen = [chooser.interval(float(now)).seconds for now in (0, 60, 3600, 86400)]
    assert chosen == sorted(chosen)
    for at in range(86400, 86440, 10):
        before = chooser.interval(float(at)).seconds
        chooser.failed(float(at))
        assert chooser.interval(float(at)).seconds < before


def test_it_follows_a_rate_that_changes() -> None:
    """A few failures after a long quiet time count, and vice versa."""
    chooser = Chooser(0.0)
    chooser.cost(0.1)
    for number in range(1, 20):
        chooser.failed(number * 10_000.0)
    calm = chooser.interval(190_000.0).seconds
    assert calm == pytest.approx(math.sqrt(2 * 0.1 * 10_000), rel=0.1)
    for number in range(1, 20):
        chooser.failed(190_000.0 + number * 100.0)
    assert chooser.interval(191_900.0).seconds == pytest.approx(
        math.sqrt(2 * 0.1 * 100), rel=0.6
    )  # an interval 50 % too long loses only 8 % more time


@given(
    st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 1e3)), max_size=30),
    st.floats(-1e7, 1e7),
)
def test_interval_is_always_feasible(heard: list[tuple[float, float]], begun: float) -> None:
    """This holds even if clocks go back."""
    chooser = Chooser(begun)
    for at, cost in heard:
        chooser.failed(at)
        chooser.cost(cost)
        assert 0 < chooser.interval(at - 1).seconds < math.inf
