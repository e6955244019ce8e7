"""Results of a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class Why:
    """A property that causes a change."""

    path: str
    replaces: bool
    source: str
    """Source of the rule that the property replaces, or does not; empty without a rule."""


@dataclass(frozen=True)
class ResourceStep:
    """A step of the engine on one resource."""

    op: str
    type: str
    name: str
    why: tuple[Why, ...] = ()
    counted: bool = True
    """Whether the step counts for a scenario's `at` and for numbers in lists: not a component, and not only read."""


@dataclass(frozen=True)
class Phase:
    """A run of the engine, or several that belong together."""

    name: str
    verdict: Verdict
    found: str
    """Result in one line."""
    steps: tuple[ResourceStep, ...] = ()
    """Steps in the order in which they were done."""
    notes: tuple[str, ...] = ()
    met: tuple[str, ...] = ()
    """Resources that a failure of the scenario met."""


@dataclass(frozen=True)
class CriticalPath:
    """The chain of dependent creations that takes longest."""

    resources: tuple[str, ...]
    seconds: float
    """Sum of the known durations."""
    unknown: tuple[str, ...]
    """Resources of the chain without a known duration."""


@dataclass(frozen=True)
class Rehearsal:
    """All phases and findings of a rehearsal."""

    stack: str
    packages: Mapping[str, str]
    """Rehearsed providers, with the versions of their SDKs."""
    phases: tuple[Phase, ...]
    critical_path: CriticalPath
    types_without_rule: tuple[str, ...]
    """Types without a rule: only their inputs are known, not their outputs or replacements."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Outputs of the stack after its first `up`, without secrets."""
    types_never_met: tuple[str, ...] = ()
    """Types with a latency or a duration in the scenario of which the stack has no resource."""
    rules_passed_over: tuple[str, ...] = ()
    """Rules that the stack breaks: a real `up` would stop at them, and a rehearsal continues."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all phases."""
        verdicts = {phase.verdict for phase in self.phases}
        return "fail" if "fail" in verdicts else "unknown" if "unknown" in verdicts else "pass"
