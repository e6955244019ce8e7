"""The facts that rules need besides the plan, and the findings that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stampworks.changes.outcomes import Outcome

if TYPE_CHECKING:  # most plans are judged without an account
    from stampworks.planning.rules.account import Account

Verdict = Literal["pass", "fail", "unknown"]
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Facts:
    """What was measured or looked up about the machine or the account of the cluster; None where nothing was."""

    loopback_mbps: int | None = None
    account: Account | None = None
    account_why: str = ""
    """Why no account says anything about the plan."""
    as_of: str | None = None
    """Today, as 2026-11-22."""


@dataclass(frozen=True)
class Finding:
    """One sentence of a rule about a plan."""

    id: str
    verdict: Verdict
    text: str
    """Its sentence, with the arithmetic."""
    hint: str
    """Advice; empty where there is nothing to do."""
    place: str = ""
    """The field of the declaration that changes it; empty for the whole."""
    severity: Severity = "error"
    """Meaning of a fail: the cluster cannot work as declared, or it will be worse than it could."""
    subject: str = ""
    """The pool, storage or limit that it is about; empty for the whole."""

    @property
    def refusal(self) -> str:
        """Return the finding as a problem of the declaration."""
        return f"{self.text} ({self.id})"

    @property
    def outcome(self) -> Outcome:
        """Return one word: a fail that is no error is a warning."""
        return "warn" if self.verdict == "fail" and self.severity == "warning" else self.verdict
