"""Learn from the peers themselves which rates are usual: slower nodes, their distance, and the noise to exceed.

A baseline complements the limits of physics and never replaces them: a fleet that is slow as a whole looks as usual as
a fast one. For all numbers here, more is better. No distribution is assumed: outliers of a quarter of the samples, or a
third of the nodes, do not move medians and the middle half.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NODES_MIN = 8
"""Minimum number of nodes: fewer do not show the usual distance of healthy ones."""
SHORTFALL_MIN = 0.03
"""Minimum shortfall below the peers' median: more than sound nodes of a kind differ by, and less than the 5 % that must
be found."""
DEVIATIONS_MIN = 4.5
"""Minimum number of robust deviations: heavy tails and small fleets reach three and four by chance."""
PART_MAX = 0.25
"""Maximum part of the nodes that may stand apart. With more, the nodes are of two kinds, and none is an outlier."""
APART_MIN = 1.5
"""Minimum shortfall relative to that of the slowest usual node: the end of a long row is no outlier."""
RESOLUTION = 0.001
"""Part of the median: peers that differ by less do so by chance, or by rounding."""
BLOCKS = 8
"""Parts of a series. Their disagreement shows how certain its middle is, even when each step resembles the one
before."""
_DEVIATION_OF_MAD = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""


@dataclass(frozen=True)
class PeerStanding:
    """Comparison of a node with all others."""

    value: float
    median: float
    """Median of its peers, without itself."""
    deviation: float
    """A robust standard deviation: the usual distance of the peers from the median, or the uncertainty of each
    value."""
    peers: int

    @property
    def shortfall(self) -> float:
        """Return the missing part of the median; below 0 for a node that is better."""
        return 1 - self.value / self.median

    @property
    def deviations(self) -> float:
        """Robust deviations below the median; negative above it."""
        return (self.median - self.value) / self.deviation

    @property
    def slow(self) -> bool:
        """Return whether the shortfall is large enough to matter and is no noise."""
        return self.shortfall >= SHORTFALL_MIN and self.deviations >= DEVIATIONS_MIN

    @property
    def part_min(self) -> float:
        """Return the part of the median below which the node would be slow."""
        return 1 - max(SHORTFALL_MIN, DEVIATIONS_MIN * self.deviation / self.median)

    @property
    def why(self) -> str:
        """The distance from the median in words, for findings."""
        side = "below" if self.shortfall >= 0 else "above"
        return (
            f"{100 * abs(self.shortfall):.1f} % {side} the median of {self.peers} peers, "
            f"{abs(self.deviations):.1f} robust deviations"
        )


def standing(of: Mapping[str, float], name: str, error: float = 0.0) -> PeerStanding | None:
    """Compare one node with all others, each known to within this error; None with no peers or a median of 0."""
    peers = [value for other, value in of.items() if other != name]
    median = statistics.median(peers) if peers else 0.0
    if median <= 0:
        return None
    deviation = statistics.median(abs(value - median) for value in peers)
    return PeerStanding(of[name], median, max(_DEVIATION_OF_MAD * deviation, error, RESOLUTION * median), len(peers))


def slow(of: Mapping[str, float], error: float = 0.0) -> dict[str, PeerStanding]:
    """Find nodes that are slower than their peers, the slowest first; compare each with the nodes not found yet.

    One node is found at a time, because two slow nodes make each other look more usual.
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
    """Find nodes that were slow throughout a window, with equally many steps of each, taken at the same times.

    Effects on all nodes alike, like a big batch or a room that warms up, are divided out step by step. A neighbour that
    holds a node back throughout cannot be told from a fault. So a node must be slow in another window, too, before it
    is blamed. A window that is too short names no node.
    """
    of_step = [statistics.median(step) for step in zip(*series.values(), strict=True)]
    if len(of_step) < 2 * BLOCKS or min(of_step) <= 0:
        return {}
    relative = {
        name: [value / usual for value, usual in zip(values, of_step, strict=True)] for name, values in series.items()
    }
    return slow({name: middle(values) for name, values in relative.items()}, _error(relative.values()))


def middle(values: Sequence[float]) -> float:
    """Return the mean of the middle half: as robust to single samples as a median, and steadier with two modes."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return statistics.fmean(ordered[quarter : len(ordered) - quarter])


def _error(all_series: Iterable[Sequence[float]]) -> float:
    """Estimate, from parts of each series, how far its middle is from that of an endless series."""
    apart: list[float] = []
    for values in all_series:
        edges = [len(values) * block // BLOCKS for block in range(BLOCKS + 1)]
        middles = [middle(values[begin:end]) for begin, end in itertools.pairwise(edges)]
        centre = statistics.median(middles)
        apart += [abs(each - centre) for each in middles]
    return _DEVIATION_OF_MAD * statistics.median(apart) / math.sqrt(BLOCKS)
