"""Simulated nodes: the server's objects, compared with the declared ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from stampworks.machine_room.kubernetes import control_plane, nodes

CAPACITY = {"cpu": "1000", "memory": "2048Mi", "nvidia.com/gpu": "8"}


class Server:
    """A server with a single node of this capacity."""

    def __init__(self, capacity: Mapping[str, str], ready: str, *taints: str) -> None:
        self._status = {"capacity": capacity, "conditions": [{"type": "Ready", "status": ready}]}
        self._spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]} if taints else {}

    def listed(self, *_: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "gpu-001"}, "spec": self._spec, "status": self._status}]


def drift(
    monkeypatch: pytest.MonkeyPatch, said: Mapping[str, str], ready: str = "True", *taints: str
) -> list[tuple[str, str]] | None:
    monkeypatch.setattr(control_plane, "answers", lambda _: True)
    monkeypatch.setattr(control_plane, "kubectl", lambda _: Server(said, ready, *taints))
    return nodes.drift("c", nodes.SimulatedPool("gpu", {"gpu-001": {}}, CAPACITY))


@pytest.mark.parametrize(
    "said", [{}, {"memory": "2Gi"}, {"memory": "2147483648"}, {"cpu": "1k"}, {"memory": "2097152Ki", "pods": "110"}]
)
def test_an_amount_is_the_same_however_the_server_writes_it(
    said: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an `up` would wait for a node that is already right."""
    assert drift(monkeypatch, {**CAPACITY, **said}) == []


@pytest.mark.parametrize(
    "said", [{"memory": "2G"}, {"memory": "2048"}, {"memory": "2Ti"}, {"nvidia.com/gpu": "8k"}, {"cpu": "none of ours"}]
)
def test_another_amount_is_another_machine(said: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert drift(monkeypatch, {**CAPACITY, **said}) == [("gpu-001", "without the resources of its machine")]


def test_missing_parts_are_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drift(monkeypatch, {"cpu": "1k", "memory": "2Gi"}) == [("gpu-001", "without the resources of its machine")]


def test_it_is_ready_when_pods_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is ready after its first report, when Kubernetes has removed its own taint; other taints do not
    count."""
    missing = [("gpu-001", "not ready")]
    assert drift(monkeypatch, CAPACITY, "Unknown") == missing
    assert drift(monkeypatch, CAPACITY, "True", "node.kubernetes.io/not-ready") == missing
    assert drift(monkeypatch, CAPACITY, "True", "node.kubernetes.io/unschedulable") == []


@pytest.mark.parametrize(
    ("labels", "capacity", "leave"),
    [
        ({"gpu-001": {}}, CAPACITY, []),
        ({"gpu-001": {}}, {**CAPACITY, "cpu": "2k"}, ["gpu-001"]),
        ({"gpu-002": {}}, CAPACITY, ["gpu-001"]),
    ],
    ids=["as it was", "another machine", "another name"],
)
def test_leaving_nodes_are_known_before(
    labels: Mapping[str, Any], capacity: Mapping[str, str], leave: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their jobs are ended before."""
    monkeypatch.setattr(control_plane, "kubectl", lambda _: Server(CAPACITY, "True"))
    assert nodes.leaving("c", nodes.SimulatedPool("gpu", labels, capacity)) == leave
