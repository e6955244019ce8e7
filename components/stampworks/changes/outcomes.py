"""The outcome of a rule, as one word."""

from __future__ import annotations

from typing import Literal

Outcome = Literal["fail", "warn", "unknown", "pass"]
"""What a rule says, the worst first: the cluster cannot work as declared, it will be worse than it could, nobody can
tell, or all is well."""
