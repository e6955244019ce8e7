"""Faults: what can be broken on purpose, where, how badly, and what must notice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Place = Literal["node", "rail", "trunk", "shared directory", "accelerators"]
"""What it needs: any node, a node's rail, a leaf's trunk, a node with a shared directory or with accelerators."""

ON_RAILS: tuple[Place, ...] = ("rail", "trunk")


@dataclass(frozen=True)
class Severity:
    """How badly something is broken: a number from a range in which the check must still notice it."""

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
    """Who must catch it: a check of a proof; `health`, the program on the nodes; `status`, through the scheduler; or
    `training`, the run that feels it."""
    place: Place = "node"
    severity: Severity | None = None
    simulated: bool = False
    """Only what a program says is changed: nothing feels it, and it shows parsing and policy alone."""
    slurm: bool = False
    """It is about Slurm, or about what only Slurm's daemons give to jobs."""
    once: bool = False
    """It is over when it has happened: there is nothing to clear, and only what runs at that time feels it."""


@dataclass(frozen=True)
class Injected:
    """One fault in one place."""

    fault: str
    where: str
    """A node; the leaf of a trunk."""
    rail: str
    """Its interface; empty for what is not about a rail."""
    severity: float | None

    @property
    def place(self) -> str:
        return f"{self.where} {self.rail}".rstrip()


def chosen(fault: Fault, places: Sequence[tuple[str, str]], severity: float | None, seed: int) -> Injected:
    """One of these places (node or leaf, rail), and a severity if none is given: the same for the same seed."""
    dice = random.Random(f"{seed} {fault.name}")  # noqa: S311 (to be repeated, not to be secret)
    where, rail = dice.choice(sorted(places))
    if severity is None and fault.severity:
        severity = _drawn(fault.severity, dice)
    return Injected(fault.name, where, rail, severity)


def _drawn(severity: Severity, dice: random.Random) -> float:
    if severity.whole:
        return dice.randint(round(severity.low), round(severity.high))
    return float(f"{dice.uniform(severity.low, severity.high):.3g}")
