"""The facts that rules need besides the plan, and the findings that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stampworks.changes.outcomes import Outcome

if TYPE_CHECKING:  # most plans are judged without an account
    from stampworks.plan.host_facts import HostsSurvey
    from stampworks.planning.rules.account import Account

Verdict = Literal["pass", "fail", "unknown"]
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Facts:
    """Measured or looked-up facts about the machine or the account of the cluster; None when missing."""

    loopback_mbps: int | None = None
    account: Account | None = None
    account_why: str = ""
    """Why no account can be used for this plan."""
    hosts: HostsSurvey | None = None
    """Answers of machines that exist."""
    hosts_why: str = ""
    """Why no such answers can be used for this plan."""
    as_of: str | None = None
    """Today's date, like 2026-11-22."""


@dataclass(frozen=True)
class Finding:
    """One statement of a rule about a plan."""

    id: str
    verdict: Verdict
    text: str
    """The statement, with its arithmetic."""
    hint: str
    """Advice; empty when there is nothing to do."""
    place: str = ""
    """The field of the declaration that changes it; empty for the whole declaration."""
    severity: Severity = "error"
    """Meaning of a fail: the cluster cannot work as declared, or it will be worse than it could."""
    subject: str = ""
    """The pool, storage or limit that it is about; empty for the whole plan."""

    @property
    def refusal(self) -> str:
        """Return the finding as a problem of the declaration."""
        return f"{self.text} ({self.id})"

    @property
    def outcome(self) -> Outcome:
        """Return the verdict, but `warn` for a failure that is not an error."""
        return "warn" if self.verdict == "fail" and self.severity == "warning" else self.verdict
