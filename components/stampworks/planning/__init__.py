"""The pure step: a declaration in, a complete plan out; and what rules say about a plan."""

from stampworks.planning.build.planner import plan
from stampworks.planning.judging import judged
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.registry import rules

__all__ = ["Facts", "Finding", "judged", "plan", "rules"]
