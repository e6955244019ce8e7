"""Find nodes that are slower than their peers window by window, or that slow down while their peers do not.

A node that is warm, or about to fail, shows it after a while and not at once. One window says little, so that a node is
blamed only when two rounds find it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stampworks.qualification import peers
from stampworks.qualification.asking import Evidence
from stampworks.qualification.baseline import middle, slow_over_time
from stampworks.qualification.certificate import Measured

WINDOW = "_window"
"""Suffix of quantities that have one value for each window."""
BLOCKS = 5
"""Parts of a series: the first shows the initial rate, the last the current one."""
WINDOWS_MIN = 8 * BLOCKS
"""Fewer windows do not show the noise well enough."""
FALL_MIN = 0.1
"""Minimum loss since the beginning, both relative to the peers and by itself: among a few nodes, another one may only
have become faster."""
FALL_DEVIATIONS_MIN = 6.0
"""Minimum loss in units of the noise between parts. Neighbours on a host come and go, and a few parts show little of
that noise."""

Series = Mapping[str, Sequence[float]]
"""Rates of each node or accelerator in each window, all at the same times."""
Round = Mapping[str, Sequence[Measured]]
"""Windows of a round, for each place with the full number of windows."""


class OverTime:
    """Rates of nodes over several rounds; each node is compared with those of its group."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._groups = groups
        self._rounds: list[Round] = []
        self._suspects: dict[str, str] = {}

    def end_of_round(self, evidence: Evidence) -> dict[str, str]:
        """Return nodes that were slow in this round and in their previous one, with the reason.

        The windows are removed from the measurements: they are many, and meaningful only together.
        """
        self._rounds.append(_round(evidence.measured))
        evidence.measured[:] = [each for each in evidence.measured if not each.quantity.endswith(WINDOW)]
        before = self._suspects
        # A place without an answer in this round keeps its suspicion.
        self._suspects = {place: why for place, why in before.items() if place not in self._rounds[-1]}
        found: dict[str, list[str]] = {}
        for group in self._groups:
            for place, why in _slow_now(self._rounds, group).items():
                self._suspects[place] = why
                if place in before:
                    node, accelerator = peers.at_home(place)
                    found.setdefault(node, []).append(accelerator + why)
        return {node: "; ".join(its) for node, its in found.items()}

    def measured(self) -> list[Measured]:
        """Return the median of all windows of each place, with the minimum and the maximum."""
        said: dict[str, list[Measured]] = {}
        for each in self._rounds:
            for place, its in each.items():
                said.setdefault(place, []).extend(its)
        return [
            replace(
                its[0],
                quantity=its[0].quantity.removesuffix(WINDOW) + ".over_time",
                value=statistics.median(each.value for each in its),
                low=min(each.value for each in its),
                high=max(each.value for each in its),
                samples=len(its),
            )
            for its in said.values()
        ]


def _round(measured: Sequence[Measured]) -> Round:
    said: dict[str, list[Measured]] = {}
    for each in measured:
        if each.quantity.endswith(WINDOW):
            said.setdefault(peers.place(each.node, each.device), []).append(each)
    most = max(map(len, said.values()), default=0)
    return {place: its for place, its in said.items() if len(its) == most}


def _slow_now(rounds: Sequence[Round], group: Sequence[str]) -> dict[str, str]:
    """Find places in this group that were slow in the latest round, or are slowing down over their rounds.

    Each place is compared with those that took part in the same rounds, so that a missed round does not end the watch.
    """
    attended: dict[str, tuple[int, ...]] = {}
    for place in rounds[-1]:
        if peers.at_home(place)[0] in group:
            attended[place] = tuple(number for number, each in enumerate(rounds) if place in each)
    found = slow(_series(rounds[-1:], list(attended)))
    for times in dict.fromkeys(attended.values()):
        those = [place for place, its in attended.items() if set(times) <= set(its)]
        its = slowing(_series([rounds[number] for number in times], those))
        found |= {place: why for place, why in its.items() if attended[place] == times and place not in found}
    return found


def _series(rounds: Sequence[Round], places: Sequence[str]) -> Series:
    return {place: [each.value for its in rounds for each in its[place]] for place in places}


def slow(series: Series) -> dict[str, str]:
    """Return slow nodes with reasons; none when there are too few windows."""
    throughout = slow_over_time(series) if _are_equally_long(series) else {}
    return {node: f"{standing.why}, over {len(series[node])} windows" for node, standing in throughout.items()} | {
        node: why for node, why in slowing(series).items() if node not in throughout
    }


def slowing(series: Series) -> dict[str, str]:
    """Return nodes that lost more than the noise explains, compared with their peers at the same time."""
    if len(series) < 2 or not _are_equally_long(series) or len(next(iter(series.values()))) < WINDOWS_MIN:
        return {}
    blocks = {node: _blocks(_relative_to_others(series, node)) for node in series}
    noise = statistics.median(abs(bend) for its in blocks.values() for bend in _bends(its)) / math.sqrt(3)
    falls = {node: _fall(its) for node, its in blocks.items()}
    return {
        node: f"it fell by {fall:.0%} relative to its peers, over {len(series[node])} windows"
        for node, fall in falls.items()
        if min(fall, _fall(_blocks(series[node]))) >= FALL_MIN
        and fall >= FALL_DEVIATIONS_MIN * noise
        and blocks[node][-1] == min(blocks[node])
    }


def _fall(blocks: Sequence[float]) -> float:
    return 1 - blocks[-1] / blocks[0]


def _are_equally_long(series: Series) -> bool:
    return len({len(values) for values in series.values()}) == 1 and all(
        value > 0 for values in series.values() for value in values
    )


def _relative_to_others(series: Series, node: str) -> list[float]:
    others = zip(*(values for name, values in series.items() if name != node), strict=True)
    return [own / statistics.median(each) for own, each in zip(series[node], others, strict=True)]


def _bends(values: Sequence[float]) -> list[float]:
    """Return the distance of each value from the line between its neighbours, which a steady fall does not change."""
    return [one - 2 * two + three for one, two, three in zip(values, values[1:], values[2:], strict=False)]


def _blocks(values: Sequence[float]) -> list[float]:
    edges = [len(values) * block // BLOCKS for block in range(BLOCKS + 1)]
    return [middle(values[begin:end]) for begin, end in itertools.pairwise(edges)]
