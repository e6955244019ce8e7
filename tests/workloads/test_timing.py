"""Samples and their spread."""

from __future__ import annotations

import subprocess
import sys

import pytest
from validation import timing

from tests.workloads.conftest import ROOT


def test_few_samples_show_their_ends_with_a_note() -> None:
    """A percentile of five samples would be a guess."""
    assert timing.spread([3, 1, 2, 5, 4]) == timing.Spread(3, 1, 5, 5, timing.FEW_NOTE)
    assert timing.spread([7]) == timing.Spread(7, 7, 7, 1, "")


def test_many_samples_show_nine_tenths() -> None:
    """An outlier does not move the ends."""
    found = timing.spread([*range(1, 101), 10_000])
    assert (found.value, found.low, found.high, found.note) == (51, 6, 96, "")


def test_a_median_lies_between_two() -> None:
    """With an even number of samples, the median is the mean of the middle two."""
    assert timing.spread([1, 2, 3, 10]).value == 2.5


def test_nothing_measured_is_no_value() -> None:
    """Rather an error than a 0."""
    with pytest.raises(ValueError, match="nothing was measured"):
        timing.spread([])


def test_rates_leave_out_the_begin_of_a_transfer() -> None:
    """A burst of 50 MB in the first instant is not the rate of the rest."""
    marks = [(0.0, 0), *((step / 100, 50_000_000 + step * 10_000) for step in range(1, 101))]
    found = timing.rates(marks, 8)
    assert len(found) == 8
    assert all(rate == pytest.approx(1e6) for rate in found)


def test_a_pace_is_one_of_several_rounds() -> None:
    """A delay in one round of five appears in each; remaining samples count only if there are no others."""
    assert timing.paces([1, 1, 1, 1, 6] * 2 + [1], 10) == [0.5, 0.5]
    assert timing.paces([2, 2], 10) == [0.5]


BUSY = """
import os, sys, time
from validation.timing import without_waiting
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
neighbour = os.fork()
while not neighbour:
    pass
time.sleep(0.1)
begun, own = time.perf_counter(), without_waiting()
while time.perf_counter() < begun + 0.5:
    pass
print((without_waiting() - own) / (time.perf_counter() - begun))
begun, own = time.perf_counter(), without_waiting()
time.sleep(0.2)
print((without_waiting() - own) / (time.perf_counter() - begun))
os.kill(neighbour, 9)
os.wait()
"""


def test_waiting_for_a_processor_is_left_out() -> None:
    """Processes on a shared core are measured by their own CPU time; other delays count."""
    done = subprocess.run(
        [sys.executable, "-c", BUSY], cwd=ROOT / "workloads", capture_output=True, text=True, timeout=60, check=True
    )
    spinning, sleeping = map(float, done.stdout.split())
    assert 0 < spinning < 0.8
    assert 0.8 < sleeping <= 1


def test_rates_show_a_transfer_that_becomes_slow() -> None:
    """The windows differ, so that the spread shows it."""
    marks = [(step / 100, step * 1000 if step < 60 else 60_000 + (step - 60) * 10) for step in range(101)]
    found = timing.spread(timing.rates(marks, 10))
    assert found.low == pytest.approx(1e3, rel=0.1)
    assert found.high == pytest.approx(1e5, rel=0.1)


@pytest.mark.parametrize("marks", [[], [(0.0, 0)], [(0.0, 0), (0.0, 5)]])
def test_a_transfer_without_time_has_no_rates(marks: list[tuple[float, int]]) -> None:
    """A duration of zero gives no rate."""
    assert timing.rates(marks, 10) == []


def test_rounds_are_repeated_at_least_so_often() -> None:
    """The minimum holds even without time."""
    done: list[int] = []
    assert len(timing.repeat(lambda: done.append(1), 0, least=3)) == 3
    assert len(timing.repeat(lambda: done.append(1), 5, most=7)) == 7
    assert len(done) == 10


def test_windows_are_parts_of_the_time() -> None:
    """Later windows of a slowing series have fewer samples; an empty window makes all of them worthless."""
    took = [1.0] * 6 + [2.0] * 3
    assert timing.windows_of(took, [1 / each for each in took], 2) == [[1.0] * 6, [0.5] * 3]
    assert timing.windows_of([1.0, 9.0], [1.0, 1.0], 5) == []
    assert timing.windows_of([1.0], [1.0], 1) == []


def test_windows_of_a_clock_that_goes_back_a_little() -> None:
    """A round that took no time, or less, is in the window where it began."""
    assert timing.windows_of([1.0, -0.5, 1.0, 1.0, -0.5, 1.0], [1.0] * 6, 2) == [[1.0] * 3, [1.0] * 3]
    assert timing.windows_of([-1.0, 2.0, 2.0, -1.0], [1.0] * 4, 2) == [[1.0] * 2, [1.0] * 2]
    assert timing.windows_of([0.0, 0.0], [1.0, 1.0], 2) == []
    assert timing.paces([1.0, -0.5, 1.0], 2.0) == [1.5]
    assert timing.paces([-1.0, 0.0], 2.0) == []
