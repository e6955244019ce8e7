"""Summarize samples as a value with its spread."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FEW = 20
"""Below so many samples a percentile is a guess, and the least and the greatest are given instead."""
FEW_NOTE = "low and high are the least and the greatest"
SETTLING = 0.2
"""The part of a transfer that is left out: slow start, and the burst that a shaper lets pass."""


@dataclass(frozen=True)
class Spread:
    """The median of some samples, and the range of nine tenths of them."""

    value: float
    low: float
    high: float
    samples: int
    note: str = ""

    def scaled(self, factor: float) -> Spread:
        """Return the spread in another unit."""
        return Spread(self.value * factor, self.low * factor, self.high * factor, self.samples, self.note)


def spread(samples: Sequence[float]) -> Spread:
    """Return the median with the 5th and 95th percentile; for few samples with minimum and maximum, as the note
    says."""
    if not samples:
        raise ValueError("nothing was measured")
    ordered = sorted(samples)
    if len(ordered) >= FEW:
        return Spread(quantile(ordered, 0.5), quantile(ordered, 0.05), quantile(ordered, 0.95), len(ordered))
    note = FEW_NOTE if len(ordered) > 1 else ""
    return Spread(quantile(ordered, 0.5), ordered[0], ordered[-1], len(ordered), note)


def quantile(ordered: Sequence[float], part: float) -> float:
    """Interpolate linearly between the two neighbouring samples."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def without_waiting() -> float:
    """Return the seconds of a clock that stops while this thread waits for a CPU.

    A CPU quota makes a thread wait as well, so that it is not seen on this clock. The kernel adds up the waiting from
    time to time: this clock may go back a little.
    """
    try:
        waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:  # a kernel that does not count it
        waited = 0.0
    return time.perf_counter() - waited


def repeat(work: Callable[[], None], seconds: float, least: int = 3, most: int = 1000) -> list[float]:
    """Return the duration of each round: as many rounds as the time allows, but at least `least`."""
    took: list[float] = []
    begun = before = time.perf_counter()
    while len(took) < most and (len(took) < least or before - begun < seconds):
        work()
        after = time.perf_counter()
        took.append(after - before)
        before = after
    return took


def paces(took: Sequence[float], width: float) -> list[float]:
    """Return the rounds per second in consecutive samples of this width, from the duration of each round."""
    found, count, seconds = list[float](), 0, 0.0
    for each in took:
        count, seconds = count + 1, seconds + max(0.0, each)
        if seconds >= width:
            found.append(count / seconds)
            count, seconds = 0, 0.0
    return found or ([count / seconds] if seconds else [])


def rates(marks: Sequence[tuple[float, int]], windows: int) -> list[float]:
    """Bytes a second in equal windows of a transfer, from marks (seconds since its begin, bytes until then).

    Its first part is left out. A window ends at the mark that comes at or after its end, and lasts until that mark.
    """
    if not marks or windows < 1:
        return []
    end = marks[-1][0]
    width = end * (1 - SETTLING) / windows
    edges = [end * SETTLING + number * width for number in range(windows + 1)]
    met, found = iter(marks), []
    for edge in edges:
        found.append(next((mark for mark in met if mark[0] >= edge - 1e-9), marks[-1]))
    pairs = itertools.pairwise(found)
    return [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairs if after[0] > before[0]]


def windows_of(took: Sequence[float], rates: Sequence[float], count: int) -> list[list[float]]:
    """Return the rates in `count` equal parts of the time, in order; empty if a part would have no rate."""
    parts: list[list[float]] = [[] for _ in range(count)]
    took = [max(0.0, each) for each in took]  # a clock without waiting may go back a little
    whole, begun = sum(took), 0.0
    if not whole:
        return []
    for each, rate in zip(took, rates, strict=True):
        parts[min(count - 1, int(count * (begun + each / 2) / whole))].append(rate)
        begun += each
    return parts if count > 1 and all(parts) else []
