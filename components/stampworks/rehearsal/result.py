"""What a rehearsal found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class Why:
    """One property because of which something changes."""

    path: str
    replaces: bool
    source: str
    """Who says that it does, or does not, replace; empty where nobody does."""


@dataclass(frozen=True)
class ResourceStep:
    """What the engine does to one resource."""

    op: str
    type: str
    name: str
    why: tuple[Why, ...] = ()
    counted: bool = True
    """Neither a component nor something that is only read: what a scenario's `at` counts, and a list numbers."""


@dataclass(frozen=True)
class Phase:
    """One run of the engine, or some that belong together."""

    name: str
    verdict: Verdict
    found: str
    """In one line."""
    steps: tuple[ResourceStep, ...] = ()
    """In the order in which they were done."""
    notes: tuple[str, ...] = ()
    met: tuple[str, ...] = ()
    """The resources that a failure of the scenario met."""


@dataclass(frozen=True)
class CriticalPath:
    """The chain of creations that takes longest, each waiting for the one before."""

    resources: tuple[str, ...]
    seconds: float
    """Of those of which it is known."""
    unknown: tuple[str, ...]
    """The resources on it of which nobody says how long they take."""


@dataclass(frozen=True)
class Rehearsal:
    stack: str
    packages: Mapping[str, str]
    """The providers that were rehearsed, with their SDKs' versions."""
    phases: tuple[Phase, ...]
    critical_path: CriticalPath
    types_without_rule: tuple[str, ...]
    """Of these nothing beyond their inputs was known, nor what replaces them."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Of the stack, after its first `up`; without what is secret."""
    types_never_met: tuple[str, ...] = ()
    """Types with a latency or a duration in the scenario, of which the stack has no resource."""
    rules_passed_over: tuple[str, ...] = ()
    """Rules that say no to the stack: an `up` of it would stop at them now, and a rehearsal goes on."""

    @property
    def verdict(self) -> Verdict:
        verdicts = {phase.verdict for phase in self.phases}
        return "fail" if "fail" in verdicts else "unknown" if "unknown" in verdicts else "pass"
