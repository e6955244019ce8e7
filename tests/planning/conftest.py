"""Declarations and plans for the tests of planning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_file, load_value
from stampworks.plan import Plan

STACKS = Path(__file__).resolve().parents[2] / "stacks"

Planner = Callable[..., Plan]


@pytest.fixture(scope="session")
def stacks() -> Path:
    return STACKS


@pytest.fixture(scope="session")
def plan_of() -> Planner:
    """Plans a declaration that has only the given fields beside the required ones."""

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
