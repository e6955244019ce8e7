"""What rules are told besides the plan, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from stampworks.changes.review import Outcome
from stampworks.plan import Plan
from stampworks.planning.rules.account import Account

Verdict = Literal["pass", "fail", "unknown"]
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Facts:
    """What was measured or looked up, of the machine or account that the cluster would run on. None: by nobody."""

    loopback_mbps: int | None = None
    account: Account | None = None
    account_why: str = ""
    """Why there is none that says anything about the plan."""
    as_of: str | None = None
    """The day on which it is asked, as 2026-11-22."""


@dataclass(frozen=True)
class Finding:
    """What a rule has to say about a plan."""

    id: str
    verdict: Verdict
    text: str
    """What was found, with the arithmetic."""
    hint: str
    """What to do about it; empty where there is nothing to do."""
    place: str = ""
    """Where in the declaration it can be changed; empty for the whole."""
    severity: Severity = "error"
    """What a fail means: that the cluster cannot work as declared, or that it will be worse than it could."""
    subject: str = ""
    """Which pool, storage or limit it is about; empty for the whole."""

    @property
    def refusal(self) -> str:
        """Why there is no cluster, as a problem of the declaration."""
        return f"{self.text} ({self.id})"

    @property
    def outcome(self) -> Outcome:
        """In one word: a fail that is no error warns."""
        return "warn" if self.verdict == "fail" and self.severity == "warning" else self.verdict


Rule = Callable[[Plan, Facts], Iterator[Finding]]
"""Says nothing where it does not apply."""
