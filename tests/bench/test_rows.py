"""Conclusions from a handful of measurements, and the order in which two things are measured."""

from __future__ import annotations

import itertools
import random
import statistics

import pytest

from bench.rows import compared, counted, interval, measured, of_means, wilson


@pytest.mark.parametrize(
    ("count", "left_out"),
    [(1, 0), (5, 0), (8, 0), (9, 1), (20, 5)],
)
def test_an_interval_is_made_of_the_values_themselves(count: int, left_out: int) -> None:
    """Equal numbers of values are left out at both ends, as 95 % confidence in the median allows. Small samples lose
    none."""
    assert interval(range(count)) == (left_out, count - 1 - left_out)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    """At least 95 % of the intervals of samples from a lopsided distribution contain its median."""
    chance = random.Random(1)  # noqa: S311
    hits = 0
    for _ in range(2000):
        low, high = interval([chance.expovariate(1) for _ in range(20)])
        hits += low <= 0.6931 <= high
    assert hits / 2000 > 0.95


def test_the_interval_of_means_holds_their_ratio_as_often_as_it_says() -> None:
    """A pair alone has no interval."""
    chance = random.Random(1)  # noqa: S311
    pairs = [[(chance.gauss(1.05, 0.3), chance.gauss(1.0, 0.3)) for _ in range(24)] for _ in range(2000)]
    rows = [of_means("x", "s", each, 1.2) for each in pairs]
    assert statistics.median(row.ratio or 0.0 for row in rows) == pytest.approx(1.05, abs=0.01)
    assert sum((row.low or 0.0) <= 1.05 <= (row.high or 0.0) for row in rows) / 2000 == pytest.approx(0.95, abs=0.015)
    assert {row.met == ((row.high or 0.0) <= 1.2) for row in rows} == {True}


def test_pairs_are_measured_in_turns() -> None:
    """ABBA: neither side always comes first."""
    order: list[str] = []
    compared("x", "s", lambda: order.append("a") or 1.0, lambda: order.append("b") or 1.0, None, pairs=4)  # type: ignore[func-returns-value]
    assert "".join(order) == "abbaabba"


@pytest.mark.parametrize(("target", "met"), [(2.0, True), (1.9, False), (None, None)])
def test_met_is_judged_by_the_unfavourable_end(target: float | None, met: bool | None) -> None:
    """A median below the target is not enough."""
    ours = itertools.cycle([1.0, 2.0, 1.0])
    row = compared("x", "s", lambda: next(ours), lambda: 1.0, target, pairs=6)
    assert (row.ratio, row.low, row.high, row.met) == (1.0, 1.0, 2.0, met)
    assert measured("x", "s", [1.0, 1.0, 2.0], target).met is met


def test_medians_are_shown() -> None:
    """One slow run does not change the shown median."""
    assert measured("x", "s", [1.0, 1.0, 9.0]).ours == statistics.median([1.0, 1.0, 9.0])


@pytest.mark.parametrize(
    ("count", "of", "low", "high"), [(0, 300, 0.0, 0.0126), (8, 400, 0.0102, 0.0389), (300, 300, 0.9874, 1.0)]
)
def test_rows_of_counts(count: int, of: int, low: float, high: float) -> None:
    """0 of n and n of n have an interval, too."""
    assert wilson(count, of) == pytest.approx((low, high), abs=1e-4)


def test_a_count_is_judged_by_what_it_can_tell() -> None:
    """0 of 100 does not show that the rate is below 1 in 50."""
    assert [counted("x", "", 0, of, 0.02).met for of in (100, 200)] == [False, True]
    assert (counted("x", "", 3, 600).ratio, counted("x", "", 3, 600).baseline) == (0.005, 600)
    assert [counted("x", "", wrong, 300, 0).met for wrong in (0, 1)] == [True, False]
