"""Homes never move by themselves: changes that would leave users with empty homes are refused, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.declaration import load_value
from stampworks.plan import Plan
from stampworks.planning import plan

from tests.planning.changes.test_changes import reviewed

SHARED = {"name": "shared", "kind": "directory", "mount": "/shared"}
DATA = {"name": "data", "kind": "directory", "mount": "/data"}
HERE, THERE = {**SHARED, "homes": True}, {**DATA, "homes": True}
MOVED = (
    "homes and folders of groups are on shared, and users would find empty ones on data: write homes: true at shared"
)
PEOPLE = [{"name": "alice", "uid": 2001}]


def planned(*storage: dict[str, Any], **fields: Any) -> Plan:
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 1}]
    value = {"version": 1, "name": "x", "cloud": "local", "pools": pools, "users": PEOPLE, **fields}
    return plan(load_value({**value, "storage": list(storage)}, "test"))


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ((SHARED, DATA), (SHARED, THERE), {"storage[].homes"}),
        ((HERE, DATA), (SHARED, THERE), {"storage[].homes"}),
        ((SHARED, DATA), (DATA, SHARED), {"storage"}),
        ((SHARED,), (DATA, SHARED), {"storage"}),
        ((SHARED,), (SHARED, THERE), {"storage"}),
    ],
    ids=["chosen", "chosen elsewhere", "another order", "a new first one", "a new one with homes"],
)
def test_changes_that_move_homes(before: Any, after: Any, fields: set[str]) -> None:
    """Each change that decides the place of homes names the others, and how to keep them."""
    for people in ({}, {"users": [], "groups": [{"name": "nlp", "gid": 3001}]}):
        found = reviewed(planned(*before, **people), planned(*after, **people))
        assert {(each.field, each.policy, each.why) for each in found.changes} >= {
            (field, "refuse", MOVED) for field in fields
        }
        assert found.verdict == "fail"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((SHARED, DATA), (HERE, DATA)),
        ((HERE, DATA), (SHARED, DATA)),
        ((SHARED,), (SHARED, DATA)),
        ((HERE,), (DATA, HERE)),
        ((HERE, DATA), (DATA, HERE)),
    ],
    ids=["said", "not said any more", "a second one", "a first one without", "another order"],
)
def test_changes_that_keep_homes(before: Any, after: Any) -> None:
    found = reviewed(planned(*before), planned(*after))
    assert {each.policy for each in found.changes} <= {"in place", "roll"}
    assert found.changes


def test_where_nobody_has_a_home() -> None:
    found = reviewed(planned(SHARED, DATA, users=[]), planned(SHARED, THERE, users=[]))
    assert [(each.field, each.policy) for each in found.changes] == [("storage[].homes", "in place")]
