"""The pure step: turn a declaration into a complete plan, and judge the plan by rules."""

from stampworks.planning.build.planner import plan
from stampworks.planning.judging import judged
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.registry import rules

__all__ = ["Facts", "Finding", "judged", "plan", "rules"]
