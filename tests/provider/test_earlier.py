"""Resources of an earlier version of the toolkit: their plans lack fields, which is no fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stampworks import plan
from stampworks.provider.handlers import local_group, local_network

EARLIER: dict[str, Any] = {
    "cluster": "a",
    "network": {"cidr": "10.77.0.0/16"},
    "rails": [],
    "group": {"name": "gpu"},
    "image": {},
}


def test_a_network_that_was_planned_earlier() -> None:
    """Its differences are unknown: the declaration has changed, and `up` applies it."""
    state: Any = SimpleNamespace(instance="i-1")
    assert local_network._outputs(state, EARLIER) == {"instance": "i-1", "drift": []}


def test_a_group_that_was_planned_earlier() -> None:
    """The same."""
    assert local_group._drift([], EARLIER) == []


def test_a_roster_that_was_listed_earlier() -> None:
    """Leaving nodes are known by the roster before, and have jobs to finish: it had no places of nodes."""
    member = plan.Member("gpu-001", "gpu", "1", "10.0.0.1", (), "ssh-ed25519 KEY")
    data = plan.to_dict(plan.Roster("c", "local", (), "root", "/key", (member,)))
    del data["members"][0]["places"]
    assert plan.from_dict(plan.Roster, data).members == (member,)
