"""Declarations and plans for the tests of planning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_file, load_value
from stampworks.plan import Plan
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.rule import Rule

STACKS = Path(__file__).resolve().parents[2] / "stacks"

Planner = Callable[..., Plan]


@pytest.fixture(scope="session", autouse=True)
def listed() -> Iterator[None]:
    """Fail each test in which a rule gives a finding whose id or place is not in its record, and so not on the page."""
    judge = Rule.findings

    def listed_only(rule: Rule, plan: Plan, facts: Facts) -> Iterator[Finding]:
        listed = {each.id: each.points for each in rule.ids}
        for finding in judge(rule, plan, facts):
            assert finding.id in listed, f"{rule.id} does not list {finding}"
            place = re.sub(r"\[[0-9]+\]", "[]", finding.place)
            points = [each.replace("[", "[[]") for each in listed[finding.id]]  # a list's [] is no set of characters
            assert not place or any(fnmatchcase(place, each) for each in points), f"{rule.id} does not list {finding}"
            yield finding

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "findings", listed_only)
        yield


@pytest.fixture(scope="session")
def stacks() -> Path:
    return STACKS


@pytest.fixture(scope="session")
def plan_of() -> Planner:
    """Return the plan of a declaration with the given fields and the required ones."""

    def make(**fields: Any) -> Plan:
        return planning.plan(load_value({"version": 1, "name": "test", "cloud": "local", **fields}, "test"))

    return make


@pytest.fixture
def plan_text_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Plan]:
    """Plans a declaration written as text, so that problems have lines."""

    def make(text: str) -> Plan:
        monkeypatch.chdir(tmp_path)
        Path("cluster.yaml").write_text(text)
        return planning.plan(load_file(Path("cluster.yaml")))

    return make
