"""A node beside its peers: what most of them have is right until somebody knows better."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from stampworks.qualification.results import Heard, Value

PART_MIN = 0.5
"""A limit below this part of what is usual among the peers is one that somebody has set by mistake."""


def values(heard: Heard, quantity: str) -> list[Value]:
    """What every node says of one quantity; an entry without a node is about the rank that said it."""
    return [value for result in heard.results for value in result.values if value.quantity == quantity]


def usual(of: Mapping[str, str]) -> str | None:
    """What more than half of them have; None when there is no such majority."""
    [(text, count)] = Counter(of.values()).most_common(1) or [("", 0)]
    return text if 2 * count > len(of) else None


def low(of: Mapping[str, float], part: float = PART_MIN) -> tuple[list[str], float]:
    """Those below this part of the median, and the median."""
    if len(of) < 2:
        return [], 0.0
    median = statistics.median(of.values())
    return [name for name, value in of.items() if value < part * median], median


def apart(of: Mapping[str, float], most: float) -> tuple[list[str], float]:
    """Those further than this from the median, and the median."""
    median = statistics.median(of.values())
    return [name for name, value in of.items() if abs(value - median) > most], median


def missing(heard: Heard, workload: str, nodes: Sequence[str]) -> list[str]:
    """Those of these nodes of which nothing was heard, neither from themselves nor from who gathered the answers."""
    results = heard.of(workload)
    answered = {value.node for result in results for value in result.values}
    answered |= {text.node for result in results for text in result.texts}
    return [node for node in nodes if node not in answered]
