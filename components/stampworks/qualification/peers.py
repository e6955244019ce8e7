"""A node beside its peers: what most of them have is right until somebody knows better."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stampworks.qualification import baseline
from stampworks.qualification.results import Heard, MeasuredValue

PART_MIN = 0.5
"""A limit below this part of what is usual among the peers is one that somebody has set by mistake."""

ACCELERATOR = "cuda:"
"""How the name of a device begins that is one of a node's accelerators."""


@dataclass(frozen=True)
class Suspect:
    """One that is slower than its peers, as long as a second look says the same: a node, or one of its accelerators."""

    name: str
    peer: str
    """The median one of those that are not suspected: whom to measure it beside."""
    peer_reached: float
    """What that one reached among all: when it is slower beside the suspect, it is held back itself."""
    part_min: float
    """Of what that one reaches: what is less is slow."""
    why: str
    """Where it stands among all; nothing when they are too few to have a baseline."""

    @property
    def node(self) -> str:
        return at_home(self.name)[0]

    @property
    def pair(self) -> tuple[str, ...]:
        """The nodes to measure for that: one when its peer is beside it."""
        return tuple(dict.fromkeys((self.node, at_home(self.peer)[0])))


def values(heard: Heard, quantity: str) -> list[MeasuredValue]:
    """What every node says of one quantity; an entry without a node is about the rank that said it."""
    return [value for result in heard.results for value in result.values if value.quantity == quantity]


def place(node: str, device: str) -> str:
    """Which of a node's accelerators, in words: `gpu-003 accelerator 5`; the node itself where it is none of them."""
    return f"{node} accelerator {device.removeprefix(ACCELERATOR)}" if device.startswith(ACCELERATOR) else node


def at_home(found: str) -> tuple[str, str]:
    """The node of such a place, and what to say before whatever is said of it."""
    node, _, accelerator = found.partition(" ")
    return node, f"{accelerator}: " if accelerator else ""


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


def suspects(of: Mapping[str, float], part: float) -> list[Suspect]:
    """Those that the baseline finds slow, and those below this part of the median, whatever the baseline says."""
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
    """Those further than this from the median, and the median."""
    median = statistics.median(of.values())
    return [name for name, value in of.items() if abs(value - median) > most], median


def missing(heard: Heard, workload: str, nodes: Sequence[str], needed: str) -> list[str]:
    """Those of these nodes of which this quantity was not heard, neither from themselves nor from who gathered it.

    Without a name any will do.
    """
    results = heard.of(workload)
    answered = {value.node for result in results for value in result.values if needed in ("", value.quantity)}
    answered |= {text.node for result in results for text in result.texts if needed in ("", text.quantity)}
    return [node for node in nodes if node not in answered]


def limits(heard: Heard, quantity: str) -> dict[str, float]:
    """A limit of each node, where none is set without end."""
    found = {value.node: value.value for value in values(heard, quantity)}
    texts = [text for result in heard.results for text in result.texts if text.quantity == quantity]
    return found | {text.node: math.inf for text in texts if text.text == "unlimited"}
