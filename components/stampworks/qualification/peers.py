"""Compare a node with its peers: the majority is right until better knowledge exists."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stampworks.qualification import baseline
from stampworks.qualification.results import Heard, MeasuredValue

PART_MIN = 0.5
"""Minimum part of the peers' usual limit; a lower limit is a mistake in the configuration."""

ACCELERATOR = "cuda:"
"""Prefix of the name of a device that is an accelerator of a node."""


@dataclass(frozen=True)
class Suspect:
    """A node or accelerator that is slower than its peers and must be measured again."""

    name: str
    peer: str
    """The median place among those not suspected: the suspect is measured beside it."""
    peer_reached: float
    """The peer's value in the first measurement. If it is slower beside the suspect, the peer itself is held back."""
    part_min: float
    """Minimum part of the peer's value; a lower value is slow."""
    why: str
    """Its comparison with all others; empty if there are too few peers for a baseline."""

    @property
    def node(self) -> str:
        """Name of the node that the suspect item belongs to."""
        return at_home(self.name)[0]

    @property
    def pair(self) -> tuple[str, ...]:
        """Return the nodes to measure again: one when the peer is on the same node."""
        return tuple(dict.fromkeys((self.node, at_home(self.peer)[0])))


def values(heard: Heard, quantity: str) -> list[MeasuredValue]:
    """Return the values of one quantity from all nodes; a value without a node describes the whole run."""
    return [value for result in heard.results for value in result.values if value.quantity == quantity]


def place(node: str, device: str) -> str:
    """Name an accelerator of a node in words, `gpu-003 accelerator 5`; other devices get the node's name."""
    return f"{node} accelerator {device.removeprefix(ACCELERATOR)}" if device.startswith(ACCELERATOR) else node


def at_home(found: str) -> tuple[str, str]:
    """Split such a name into the node and a prefix for messages about it."""
    node, _, accelerator = found.partition(" ")
    return node, f"{accelerator}: " if accelerator else ""


def usual(of: Mapping[str, str]) -> str | None:
    """Return the text that more than half of the nodes have; None when there is no such majority."""
    [(text, count)] = Counter(of.values()).most_common(1) or [("", 0)]
    return text if 2 * count > len(of) else None


def low(of: Mapping[str, float], part: float = PART_MIN) -> tuple[list[str], float]:
    """Return the names below this part of the median, and the median."""
    if len(of) < 2:
        return [], 0.0
    median = statistics.median(of.values())
    return [name for name, value in of.items() if value < part * median], median


def suspects(of: Mapping[str, float], part: float) -> list[Suspect]:
    """Return names that the baseline finds slow, and names below this part of the median, whatever the baseline
    says."""
    slow = baseline.slow(of)
    found = list(dict.fromkeys([*slow, *low(of, part)[0]]))
    others = sorted((name for name in of if name not in found), key=of.__getitem__)
    peer = others[len(others) // 2] if others else ""
    return [
        Suspect(name, peer, of[peer], max(part, slow[name].part_min), slow[name].why)
        if name in slow
        else Suspect(name, peer, of[peer], part, "")
        for name in found
    ]


def apart(of: Mapping[str, float], most: float) -> tuple[list[str], float]:
    """Return the names further than this from the median, and the median."""
    median = statistics.median(of.values())
    return [name for name, value in of.items() if abs(value - median) > most], median


def missing(heard: Heard, workload: str, nodes: Sequence[str], needed: str) -> list[str]:
    """List the nodes for which no value of this quantity was reported, neither by the node nor by the rank that gathers
    values.

    An empty name stands for any quantity.
    """
    results = heard.of(workload)
    answered = {value.node for result in results for value in result.values if needed in ("", value.quantity)}
    answered |= {text.node for result in results for text in result.texts if needed in ("", text.quantity)}
    return [node for node in nodes if node not in answered]


def limits(heard: Heard, quantity: str) -> dict[str, float]:
    """Return a limit of each node; infinity when it is unlimited."""
    found = {value.node: value.value for value in values(heard, quantity)}
    texts = [text for result in heard.results for text in result.texts if text.quantity == quantity]
    return found | {text.node: math.inf for text in texts if text.text == "unlimited"}
