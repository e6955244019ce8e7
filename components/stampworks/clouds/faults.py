"""Faults: their kinds, places and severities, and the checks that must notice them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Place = Literal["node", "rail", "trunk", "shared directory", "accelerators"]
"""Place that a fault needs: any node, a node's rail, a leaf's trunk, a node with a shared directory or accelerators."""

ON_RAILS: tuple[Place, ...] = ("rail", "trunk")


@dataclass(frozen=True)
class Severity:
    """Severity of a fault: a number from a range in which the check must still notice it."""

    what: str
    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True)
class Fault:
    """A kind of fault."""

    name: str
    does: str
    check: str
    """The check that must find it: a check of a proof; `health`, the program on the nodes; `status`, through the
    scheduler; or `training`, the affected run."""
    place: Place = "node"
    severity: Severity | None = None
    simulated: bool = False
    """Whether only the output of a program changes. Such a fault tests parsing and policy alone."""
    slurm: bool = False
    """Whether the fault concerns Slurm, or settings that only Slurm's daemons give to jobs."""
    once: bool = False
    """Whether the fault is a single event, which affects only running programs and cannot be cleared."""


@dataclass(frozen=True)
class Injected:
    """A fault at its place."""

    fault: str
    where: str
    """Node, or leaf of a trunk."""
    rail: str
    """Interface of the rail; empty if the fault is not on a rail."""
    severity: float | None

    @property
    def place(self) -> str:
        """The node or leaf, with the rail if the fault is on one."""
        return f"{self.where} {self.rail}".rstrip()


def chosen(fault: Fault, places: Sequence[tuple[str, str]], severity: float | None, seed: int) -> Injected:
    """Choose a place (node or leaf, rail), and a severity if none is given. The seed decides."""
    dice = random.Random(f"{seed} {fault.name}")  # noqa: S311 (to be repeated, not to be secret)
    where, rail = dice.choice(sorted(places))
    if severity is None and fault.severity:
        severity = _drawn(fault.severity, dice)
    return Injected(fault.name, where, rail, severity)


def _drawn(severity: Severity, dice: random.Random) -> float:
    if severity.whole:
        return dice.randint(round(severity.low), round(severity.high))
    return float(f"{dice.uniform(severity.low, severity.high):.3g}")
