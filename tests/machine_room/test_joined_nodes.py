"""Nodes that run pods: unproven nodes take no pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from stampworks.machine_room.kubernetes import control_plane, joined

TAINT = "stampworks/unproven"


class Server:
    """A server that knows two nodes; the second one is not proven."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def listed(self, *_: str) -> list[dict[str, Any]]:
        taints = [{"key": "other", "effect": "NoSchedule"}, {"key": TAINT, "effect": "NoSchedule"}]
        specs: dict[str, dict[str, Any]] = {"gpu-001": {}, "gpu-002": {"taints": taints}}
        return [{"metadata": {"name": name}, "spec": spec} for name, spec in specs.items()]

    def said(self, _: str, words: Sequence[str]) -> str:
        self.asked.append(" ".join(words))
        return ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(control_plane, "kubectl", lambda _: made)
    return made


def test_restarted_nodes_take_no_pods(server: Server) -> None:
    """A node unknown to Kubernetes joins with its own taint; a never-proven node keeps it through the roll."""
    joined.taint("c", ["gpu-001", "gpu-002", "gpu-003"], TAINT, "again")
    joined.taint("c", ["gpu-003"], TAINT, "again")
    assert server.asked == [f"taint node gpu-001 {TAINT}=again:NoSchedule"]


def test_unproven_clusters_take_pods(server: Server) -> None:
    """A missing taint cannot be taken away: kubectl would call that an error."""
    joined.untaint("c", ["gpu-001", "gpu-002"], TAINT)
    joined.untaint("c", ["gpu-001"], TAINT)
    assert server.asked == [f"taint node gpu-002 {TAINT}-"]
