"""The outcome of a rule as one word, and the rule whose finding is shown above all others."""

from __future__ import annotations

from typing import Final, Literal

Outcome = Literal["fail", "warn", "unknown", "pass"]
"""Outcomes of a rule, worst first: the cluster cannot work, it works worse than it could, unknown, or pass."""
NOT_STAMPED: Final = "cloud.stamped"
"""Id of the rule that reports that a cloud's clusters can only be planned."""
