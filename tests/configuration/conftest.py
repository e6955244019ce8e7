"""The plans and rosters of the schedulers' tests serve here, too."""

from __future__ import annotations

from tests.schedulers.conftest import case_of, golden, stack

__all__ = ["case_of", "golden", "stack"]
