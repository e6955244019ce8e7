"""A measured row, how pairs are compared, and how much a handful of runs can tell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Measure = Callable[[], float]
PAIRS = 8


@dataclass(frozen=True)
class Row:
    """A line of the table and an object of the file. None leaves a cell empty."""

    what: str
    ours: float
    baseline: float | None
    unit: str
    ratio: float | None
    low: float | None
    high: float | None
    """Interval of the ratio if there is a baseline, else of `ours`."""
    target: float | None
    met: bool | None
    """Whether the high end of the interval meets the target; less is better in every row."""


def compared(what: str, unit: str, ours: Measure, baseline: Measure, target: float | None, pairs: int = PAIRS) -> Row:
    """Compare two alternating measurements in the order ABBA, so that other load affects both."""
    found: list[tuple[float, float]] = []
    for number in range(pairs):
        if number % 2:
            other = baseline()
            found.append((ours(), other))
        else:
            mine = ours()
            found.append((mine, baseline()))
    ratios = [mine / other for mine, other in found]
    low, high = interval(ratios)
    return Row(
        what,
        statistics.median(mine for mine, _ in found),
        statistics.median(other for _, other in found),
        unit,
        statistics.median(ratios),
        low,
        high,
        target,
        None if target is None else high <= target,
    )


def of_means(what: str, unit: str, pairs: Sequence[Sequence[float]], target: float | None) -> Row:
    """Compare the means of both sides, if single pairs differ too much.

    The 95 % confidence interval follows from its changes when one pair after the other is left out (the jackknife),
    times Student's t.
    """
    count, (mine, other) = len(pairs), (sum(each) for each in zip(*pairs, strict=True))
    without = [(mine - one) / (other - its) for one, its in pairs]
    error = math.sqrt((count - 1) ** 2 / count * statistics.variance(without))
    ratio, half = mine / other, _student(count - 1) * error
    met = None if target is None else ratio + half <= target
    return Row(what, mine / count, other / count, unit, ratio, ratio - half, ratio + half, target, met)


def _student(freedom: int) -> float:
    """The t of 95 % confidence, to 1 % from five degrees of freedom on (Abramowitz and Stegun, 26.7.5)."""
    z = 1.96
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def measured(what: str, unit: str, values: Sequence[float], target: float | None = None) -> Row:
    """Something that is compared with a target, or with nothing."""
    low, high = interval(values)
    met = None if target is None else high <= target
    return Row(what, statistics.median(values), None, unit, None, low, high, target, met)


def counted(what: str, unit: str, wrong: int, of: int, target: float | None = None) -> Row:
    """Return a row about failures among many tries. The target is the allowed share, compared with the count itself."""
    low, high = wilson(wrong, of)
    met = None if target is None else high <= target if target else not wrong
    return Row(what, wrong, of, unit, wrong / of, low, high, target, met)


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share, by Wilson: 0 of 300 may still mean 1 in 80."""
    z = 1.96
    part, weight = count / of, 1 + z * z / of
    middle = (part + z * z / (2 * of)) / weight
    half = z / weight * math.sqrt(part * (1 - part) / of + z * z / (4 * of * of))
    return max(middle - half, 0.0) if count else 0.0, min(middle + half, 1.0)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median for any distribution; the whole range below nine values.

    The k-th smallest and the k-th largest of n enclose the median unless fewer than k values fall on one side of it.
    """
    ordered = sorted(values)
    skipped = 0
    while _outside(len(ordered), skipped + 1) <= 0.05:
        skipped += 1
    return ordered[skipped], ordered[len(ordered) - 1 - skipped]


def _outside(count: int, skipped: int) -> float:
    """Return the probability that the median lies outside when `skipped` values are left out at both ends."""
    below, chance = 0.0, 0.5**count
    for k in range(skipped + 1):
        below += chance
        chance *= (count - k) / (k + 1)
    return 2 * below
