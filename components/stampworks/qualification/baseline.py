"""What is usual among peers, learned from themselves: who is slower than they are, by how much, and beyond what noise.

A baseline stands beside what physics demands and never replaces it: a fleet that is slow as a whole looks as usual as a
fast one. Every number here is of the kind where more is better. Nothing assumes a distribution: medians and the middle
half stay where they are whatever a quarter of the samples, or a third of the nodes, does.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NODES_MIN = 8
"""Fewer do not tell how far apart sound ones are."""
SHORTFALL_MIN = 0.03
"""Below the median of the peers: between what sound nodes of a kind differ by and the 5 % that have to be found."""
DEVIATIONS_MIN = 4.5
"""Robust ones: heavy tails and small fleets reach three and four by chance."""
PART_MAX = 0.25
"""When more than this part of the nodes stands apart, they are of two kinds, and nobody is out of the ordinary."""
APART_MIN = 1.5
"""As far below as the slowest of the usual ones: the end of a long row is no outlier."""
RESOLUTION = 0.001
"""Of the median: peers that are more alike than this are so by chance, or by rounding."""
BLOCKS = 8
"""Parts of a series whose disagreement tells how sure its middle is, although each step may resemble the one before."""
_DEVIATION_OF_MAD = 1.4826
"""The standard deviation of a normal distribution for each unit of its median absolute deviation."""


@dataclass(frozen=True)
class PeerStanding:
    """Where one of many stands beside all others."""

    value: float
    median: float
    """Of its peers, without itself."""
    deviation: float
    """How far its peers, or what is known of each, are usually from that: a robust standard deviation."""
    peers: int

    @property
    def shortfall(self) -> float:
        """The part of the median that is missing; below 0 for one that is better."""
        return 1 - self.value / self.median

    @property
    def deviations(self) -> float:
        return (self.median - self.value) / self.deviation

    @property
    def slow(self) -> bool:
        """By an amount that matters, and that is no noise."""
        return self.shortfall >= SHORTFALL_MIN and self.deviations >= DEVIATIONS_MIN

    @property
    def part_min(self) -> float:
        """The part of the median below which it would be slow."""
        return 1 - max(SHORTFALL_MIN, DEVIATIONS_MIN * self.deviation / self.median)

    @property
    def why(self) -> str:
        side = "below" if self.shortfall >= 0 else "above"
        return (
            f"{100 * abs(self.shortfall):.1f} % {side} the median of {self.peers} peers, "
            f"{abs(self.deviations):.1f} robust deviations"
        )


def standing(of: Mapping[str, float], name: str, error: float = 0.0) -> PeerStanding | None:
    """One beside all others, each known to within this error; None when they are too few to tell, or do nothing."""
    peers = [value for other, value in of.items() if other != name]
    median = statistics.median(peers) if peers else 0.0
    if median <= 0:
        return None
    deviation = statistics.median(abs(value - median) for value in peers)
    return PeerStanding(of[name], median, max(_DEVIATION_OF_MAD * deviation, error, RESOLUTION * median), len(peers))


def slow(of: Mapping[str, float], error: float = 0.0) -> dict[str, PeerStanding]:
    """Those that are slower than their peers, the slowest first: each beside those that are not found yet.

    One after the other, for two that are slow at once make each other look more usual.
    """
    left, found = dict(of), dict[str, PeerStanding]()
    while len(of) >= NODES_MIN and len(found) <= PART_MAX * len(of):
        name = min(left, key=left.__getitem__)
        its = standing(left, name, error)
        if its is None:
            break
        if not its.slow:
            return {each: one for each, one in found.items() if one.shortfall >= APART_MIN * its.shortfall}
        found[name] = its
        del left[name]
    return {}


def slow_over_time(series: Mapping[str, Sequence[float]]) -> dict[str, PeerStanding]:
    """Those that were slow throughout a window, of equally many steps of each, taken at the same times.

    What meets all alike, as a big batch or a room that warms up, is divided out step by step. A neighbour that holds
    one back throughout cannot be told from a fault: whoever is to be blamed has to be slow in another window, too. A
    window too short to tell names nobody.
    """
    of_step = [statistics.median(step) for step in zip(*series.values(), strict=True)]
    if len(of_step) < 2 * BLOCKS or min(of_step) <= 0:
        return {}
    relative = {
        name: [value / usual for value, usual in zip(values, of_step, strict=True)] for name, values in series.items()
    }
    return slow({name: middle(values) for name, values in relative.items()}, _error(relative.values()))


def middle(values: Sequence[float]) -> float:
    """The mean of the middle half: as deaf to single samples as a median, and steadier where there are two modes."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return statistics.fmean(ordered[quarter : len(ordered) - quarter])


def _error(all_series: Iterable[Sequence[float]]) -> float:
    """How far the middle of a series is from what it would be, had it gone on for ever: learned from its parts."""
    apart: list[float] = []
    for values in all_series:
        edges = [len(values) * block // BLOCKS for block in range(BLOCKS + 1)]
        middles = [middle(values[begin:end]) for begin, end in itertools.pairwise(edges)]
        centre = statistics.median(middles)
        apart += [abs(each - centre) for each in middles]
    return _DEVIATION_OF_MAD * statistics.median(apart) / math.sqrt(BLOCKS)
