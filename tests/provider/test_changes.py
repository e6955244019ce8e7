"""Differences of inputs that count as a change of a resource."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import properties
from stampworks.provider.changes import input_changes

BEFORE: dict[str, Any] = {
    "cluster": "one",
    "cloud": "local",
    "groups": [{"name": "gpu", "template": "a"}],
    "plan": "{}",
    "content": "a",
    "playbook": {"content": "a"},
    "programs": "a",
    "fingerprint": "a",
    "secrets": {"key": "a"},
}


def changed(name: str, value: Any) -> list[str]:
    table = properties.ROLL.inputs
    assert BEFORE.keys() == table.keys()
    return [each.path for each in input_changes(table, {}, BEFORE, BEFORE | {name: value})]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plan", '{"name": "one"}'),
        ("content", "b"),
        ("playbook", {"content": "b"}),
        ("programs", "b"),
        ("fingerprint", "b"),
        ("secrets", {"key": "b"}),
    ],
)
def test_the_tools_of_a_roll_are_no_change_of_it(name: str, value: Any) -> None:
    """An edited playbook runs on the nodes as they are: a preview must not announce a roll."""
    assert changed(name, value) == []


def test_another_template_is_a_change_of_a_roll() -> None:
    """Members of the group have to be replaced."""
    assert changed("groups", [{"name": "gpu", "template": "b"}]) == ["groups[0].template"]
