"""The checks of each level, ordered by how much they reveal for their time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stampworks.plan import Level
from stampworks.qualification import alone, collectives, fabric, rails, rates
from stampworks.qualification.asking import Campaign, Evidence
from stampworks.qualification.subject import Subject


@dataclass(frozen=True)
class CheckStep:
    """Checks that one campaign step makes together."""

    checks: tuple[str, ...]
    """Names under which it reports findings."""
    campaign: Callable[[Subject, tuple[str, ...], Evidence], Campaign]
    level: Level
    """The lowest level that includes it; higher levels include it too."""
    tells: float
    """Number of 419 interruptions of a published run (Llama 3, arXiv 2407.21783, table 5) that relate to its subject.
    It only ranks checks."""
    seconds: float
    """Duration without faults, measured with four nodes on two cores. A step starts only if this time is left."""
    of_rails: bool = False
    """Whether it judges whole rails and names no node. Such a step says nothing about a rail that has failed."""


_LEVELS: tuple[Level, ...] = ("none", "quick", "standard", "burn-in")

_ALL = (
    # accelerators and their memory 148 + 72 + 19 + 17, software 54, heat 6, power 3: all reported by the node itself
    CheckStep(("limits", "inventory"), alone.quick, "quick", 319, 3),
    # failures of this kind: switches and cables 35, NICs 7
    CheckStep(("rails", "trunks"), rails.pairs, "standard", 42, 6),
    # failures of this kind: disks 3, other services 2
    CheckStep(("clocks", "storage", "checkpoint"), alone.standard, "standard", 5, 3),
    # failures of this kind in the published data: silent corruption 6, overheating 6, processors 2
    CheckStep(("matmul",), alone.arithmetic, "standard", 14, 9),
    # failures of this kind: NICs 7; the check only sees whether they are used at all
    CheckStep(("fabric",), fabric.used, "standard", 7, 5),
    # endless waits in a collective 7
    CheckStep(("collectives",), collectives.standard, "standard", 7, 14, of_rails=True),
    # memory 2, mainboards 2, chassis 2, disks 3
    CheckStep(("memory", "copies", "loading"), rates.of_devices, "burn-in", 9, 17),
    # disks 3, other services 2, under load from all nodes at once
    CheckStep(("checkpoint", "tools"), rates.of_storms, "burn-in", 5, 6),
    # repeats the arithmetic for longer, and the collectives in all variants
    CheckStep(("matmul",), alone.burn_in, "burn-in", 14, 70),
    CheckStep(("collectives",), collectives.burn_in, "burn-in", 7, 120, of_rails=True),
)


def steps(level: Level) -> tuple[CheckStep, ...]:
    """Return the checks of a level, those that reveal most for each second first."""
    made = [step for step in _ALL if _LEVELS.index(step.level) <= _LEVELS.index(level)]
    return tuple(sorted(made, key=lambda step: step.tells / step.seconds, reverse=True))
