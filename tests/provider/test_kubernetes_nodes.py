"""The KubernetesNodes resource lists nodes, and the end of their capacity."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from stampworks import operations, plan
from stampworks.clouds.aws.errors import AwsError
from stampworks.operations.kubernetes import door as kubernetes_door
from stampworks.operations.kubernetes import nodes as kubernetes_nodes
from stampworks.provider.handler import Call
from stampworks.provider.handlers.kubernetes_nodes import KubernetesNodes

WHERE = {"cluster": "k", "cloud": "aws", "region": "us-east-1"}
MEMBER = plan.Member("ip-1", "gpu", "1/1", "10.0.0.1", (), "")
ROSTER = plan.Roster("k", "aws", (), "", "", (MEMBER,), "us-east-1")


def call(count: int) -> Call:
    groups = [{"name": "gpu", "count": count, "generation": "1"}]
    return Call("urn", "aws/k", {**WHERE, "groups": groups, "claims": {}})


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the clusters whose port-forward was closed."""
    found: list[str] = []

    def endings(*where: str) -> tuple[plan.Ending, ...]:
        assert where == ("aws", "k", "us-east-1")
        return (plan.Ending("gpu", "cr-1", "2026-12-01T11:30Z", ""),)

    monkeypatch.setattr(kubernetes_door, "close", lambda server: found.append(server.cluster))
    monkeypatch.setattr(operations, "endings", endings)
    monkeypatch.setattr(kubernetes_nodes, "gather", lambda *_: ROSTER)
    monkeypatch.setattr(kubernetes_nodes, "roster", lambda *_: ROSTER)
    return found


def test_members_and_their_ends() -> None:
    """Members come from Kubernetes and endings from the cloud, after an `up` and at every look."""
    expected: dict[str, Any] = {
        "members": [plan.to_dict(MEMBER)],
        "drift": [],
        "endings": [{"group": "gpu", "reservation": "cr-1", "at": "2026-12-01T11:30Z", "why": ""}],
    }
    assert asyncio.run(KubernetesNodes().ensure(call(1))) == expected
    assert asyncio.run(KubernetesNodes().read(call(1))) == expected


def test_a_cloud_that_does_not_answer_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes lists the nodes; the known end of capacity stays, and waiting users learn the reason."""
    said: list[str] = []

    def refused(*_: str) -> tuple[plan.Ending, ...]:
        raise AwsError("us-east-1", "the machines of cluster k", "not permitted", "ask for it", "AccessDenied")

    monkeypatch.setattr(operations, "endings", refused)
    known = [{"group": "gpu", "reservation": "cr-1", "at": "2026-12-01T11:30Z", "why": ""}]
    asked = dataclasses.replace(call(1), old_outputs={"endings": known}, say=said.append)
    for found in (asyncio.run(KubernetesNodes().ensure(asked)), asyncio.run(KubernetesNodes().read(asked))):
        assert found is not None
        assert (found["members"], found["endings"]) == ([plan.to_dict(MEMBER)], known)
    told = [one for one in said if one.startswith("the end of its capacity cannot be read: ")]
    assert len(told) == 2
    assert "not permitted" in told[0]


def test_pod_of_a_claim_is_closed_first(closed: list[str]) -> None:
    """An `up` with other claims closes the pod; a look does not."""
    asyncio.run(KubernetesNodes().read(call(1)))
    assert closed == []
    asyncio.run(KubernetesNodes().ensure(call(1)))
    assert closed == ["k"]


def test_missing_node_is_drift() -> None:
    found = asyncio.run(KubernetesNodes().read(call(2)))
    assert found is not None
    assert KubernetesNodes().drift(found) == {"drift": ["Kubernetes: gpu: 1 of 2 nodes"]}
