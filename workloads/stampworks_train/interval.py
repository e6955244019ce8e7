"""Choose the interval between checkpoints from the observed costs of saving and of failures.

With a checkpoint every T seconds at a cost of C, and a failure every M on average, C / T of all time is spent on saving
and T / 2M on repeated work. The sum is least at T = √(2 C M) (Young, and Daly after him).
"""

from __future__ import annotations

import collections
import math
import statistics
from dataclasses import dataclass

COST_FIRST = 1.0
"""Assumed seconds of a checkpoint before the first one."""
COST_LEAST = 1e-3
USUAL = 20
"""Number of steps without a save from which the usual duration is known."""
RECENT = 9
"""Number of recent checkpoints that determine the cost: state or disk may change."""
FADING = 0.8
"""Weight of a failure, with the time before it, after the next one: the rate of failures changes."""
BEFORE = 0.5
"""Assumed number of failures before the first one: neither none nor one."""
BEFORE_COSTS, BEFORE_LEAST = 100, 60.0
"""Time that contains two failures before any were seen: a multiple of a checkpoint's cost, with a minimum in
seconds."""


class Beside:
    """Measures how much longer steps take while a checkpoint is written."""

    def __init__(self) -> None:
        self._usual: collections.deque[float] = collections.deque(maxlen=USUAL)
        self._longer = 0.0

    def step(self, seconds: float, saving: bool) -> None:
        """Add the duration of a step without its stalls. `saving`: a checkpoint was being written."""
        if not saving:
            self._usual.append(seconds)
        elif self._usual:
            self._longer += seconds - statistics.median(self._usual)

    def ended(self) -> float:
        """Return the seconds that the save cost its steps, and reset the count."""
        longer, self._longer = max(0.0, self._longer), 0.0
        return longer


@dataclass(frozen=True)
class Interval:
    """Seconds from one checkpoint to the next, and the arithmetic."""

    seconds: float
    why: str


class Chooser:
    """Chooser of the interval from checkpoint costs and failures; times are seconds on any one clock."""

    def __init__(self, begun: float) -> None:
        self._since = begun
        self._failures = 0
        self._weight = 0.0
        """Number of failures, of which earlier ones count less."""
        self._time = 0.0
        """Weighted time between these failures; each failure has a weight."""
        self._costs: collections.deque[float] = collections.deque(maxlen=RECENT)

    def cost(self, seconds: float) -> None:
        """Record by how much a checkpoint delayed or slowed down training."""
        self._costs.append(max(seconds, COST_LEAST))

    def failed(self, at: float) -> None:
        """Something failed that only a checkpoint mends."""
        gap = max(0.0, at - self._since)
        self._since = max(self._since, at)
        self._failures += 1
        self._weight = self._weight * FADING + 1
        self._time = self._time * FADING + gap

    def interval(self, now: float) -> Interval:
        """Return the interval that loses least, by present knowledge."""
        cost = statistics.median(self._costs) if self._costs else COST_FIRST
        before = max(BEFORE_COSTS * cost, BEFORE_LEAST) * BEFORE
        time = self._time + max(0.0, now - self._since) + before
        mean = time / (self._weight + BEFORE)
        seconds = math.sqrt(2 * cost * mean)
        return Interval(seconds, self._why(cost, mean, time, seconds))

    def _why(self, cost: float, mean: float, time: float, seconds: float) -> str:
        made = len(self._costs)
        costs = f"costs {cost:.3g} s (median of the last {made})" if made else f"is taken to cost {cost:g} s"
        fading = f", of which later ones count more ({self._weight:.3g} in all)" if self._failures > 1 else ""
        needed = "failure that needed a checkpoint" if self._failures == 1 else "failures that needed a checkpoint"
        seen = f"{self._failures or 'no'} {needed}{fading}"
        return (
            f"a checkpoint {costs}; {seen}, and {BEFORE:g} assumed, in {time:.4g} s are one in {mean:.4g} s; "
            f"√(2 · {cost:.3g} s · {mean:.4g} s) = {seconds:.3g} s from one to the next"
        )
