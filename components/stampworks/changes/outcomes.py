"""The outcome of a rule, as one word, and the rule whose finding stands above all others."""

from __future__ import annotations

from typing import Final, Literal

Outcome = Literal["fail", "warn", "unknown", "pass"]
"""What a rule says, the worst first: the cluster cannot work as declared, it will be worse than it could, nobody can
tell, or all is well."""
NOT_STAMPED: Final = "cloud.stamped"
"""Id of the rule that says that a plan is all there can be."""
