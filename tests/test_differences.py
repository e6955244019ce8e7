"""Differences of two plans, and irrelevant order."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from stampworks.changes.differences import differences
from stampworks.plan import Plan, fingerprint, settled

from tests.planning.test_fingerprint import DECLARED, planned

MEANINGLESS = (
    "users",
    "scheduler.queues",
    "scheduler.queues.0.pools",
    "scheduler.priorities",
    "scheduler.accounts",
)
ON_AWS: dict[str, Any] = {
    "version": 1,
    "name": "one",
    "cloud": "aws",
    "region": "us-east-1",
    "release": "2026.11",
    "tags": [{"name": "owner", "value": "research"}, {"name": "cost-centre", "value": "42"}],
    "budget": {"monthly_usd": 300, "notify": ["b@example.com", "a@example.com"]},
    "pools": [
        {"name": "gpu", "machine": "p5", "count": 4, "zone": "us-east-1a"},
        {"name": "cpu", "machine": "g6-8xlarge", "count": 1, "zone": "us-east-1a"},
    ],
    "storage": [
        {"name": name, "kind": "efs", "tier": "regional", "mount": f"/{name}"} for name in ("first", "third", "second")
    ],
    "users": [{"name": "bob", "uid": 2002}, {"name": "alice", "uid": 2001}],
    "scheduler": {
        "accounting": True,
        "priorities": [{"name": "normal", "weight": 100}, {"name": "high", "weight": 200, "preempts": ["normal"]}],
    },
}
MEANT = ("pools", "users.0.accounts")
"""Addresses follow the order of pools; the first account is the one that a job is charged to."""


def reversed_at(path: str) -> dict[str, Any]:
    """Return the declaration with a reversed list of at least two entries."""
    data = copy.deepcopy(DECLARED)
    data["users"][0]["accounts"] = ["research", "product"]
    here: Any = data
    *way, last = path.split(".")
    for step in way:
        here = here[int(step)] if step.isdigit() else here[step]
    assert len(here[last]) > 1
    here[last] = here[last][::-1]
    return data


def made_of(plan: Plan) -> Plan:
    """Return the plan after its way through the engine."""
    return replace(settled(plan), reasons=())


@pytest.mark.parametrize("path", MEANINGLESS)
def test_an_order_that_means_nothing_is_no_difference(path: str) -> None:
    """This holds for comparisons, the fingerprint, and created resources."""
    once, twice = planned(reversed_at("users")), planned(reversed_at(path))
    assert not differences(once, twice)
    assert fingerprint(once) == fingerprint(twice)
    assert made_of(once) == made_of(twice)


@pytest.mark.parametrize("path", ["pools", "storage", "users", "tags", "budget.notify", "scheduler.priorities"])
def test_on_a_cloud_that_numbers_no_ports_pools_have_no_order(path: str) -> None:
    """Neither file systems after the first nor other lists have an order."""
    data = copy.deepcopy(ON_AWS)
    *way, last = path.split(".")
    here = data[way[0]] if way else data
    first = 1 if path == "storage" else 0
    here[last] = [*here[last][:first], *here[last][first:][::-1]]
    once, twice = planned(ON_AWS), planned(data)
    assert data != ON_AWS
    assert not differences(once, twice)
    assert made_of(once) == made_of(twice)


@pytest.mark.parametrize("path", MEANT)
def test_an_order_that_means_something_is_one(path: str) -> None:
    """A changed order is reported, and changes the fingerprint."""
    once, twice = planned(reversed_at("users")), planned(reversed_at(path))
    assert differences(once, twice)
    assert fingerprint(once) != fingerprint(twice)
