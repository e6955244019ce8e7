"""Pools, teams and gangs of a Kubernetes: numbers as it writes them, and places by the plan's levels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.operations.kubernetes import status as kubernetes_status
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.operations.kubernetes.status import KubernetesStatus
from stampworks.plan import Domain, Plan
from stampworks.schedulers import kubernetes

from tests.operations.kubernetes.standin import StandIn, gang, node
from tests.operations.kubernetes.test_nodes import on_eks

RESEARCH = {"name": "research", "share": 3, "accelerators_max": 24}


def planned(count: int = 16) -> Plan:
    pools = [{"name": "gpu", "machine": "sim-h100", "count": count, "scheduling_only": True}]
    scheduler = {"kind": "kubernetes", "accounts": [RESEARCH, {"name": "product", "share": 1}]}
    declared = {"version": 1, "name": "k", "cloud": "local", "pools": pools, "scheduler": scheduler}
    return planning.plan(load_value(declared, "test"))


def queue(plan: Plan, team: str, used: object) -> Any:
    [flavor] = kubernetes.flavors(plan).values()
    resources = [{"name": "cpu", "total": "9"}, {"name": "nvidia.com/gpu", "total": used}]
    return {
        "kind": "ClusterQueue",
        "metadata": {"name": f"k-{team}-main"},
        "spec": {"cohortName": f"k-{team}"},
        "status": {"flavorsReservation": [{"name": flavor, "resources": resources}]},
    }


def status(monkeypatch: pytest.MonkeyPatch, plan: Plan, *there: Any) -> KubernetesStatus:
    server = StandIn()
    server.listed = lambda *_, **__: list(there)  # type: ignore[method-assign]
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: server)
    return kubernetes_status.status(plan)


def test_where_nobody_knows_places_there_are_no_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = [{"name": "gpu", "machine": "p5.48xlarge", "count": 1}]
    scheduler = {"kind": "kubernetes", "topology": "flat"}
    declared = {"version": 1, "name": "k", "cloud": "aws", "region": "us-east-1", "pools": pools}
    plan = planning.plan(load_value({**declared, "scheduler": scheduler}, "test"))
    slices = [{"valuesPerLevel": [{"universal": "ip-1"}]}]
    placed = {"topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": slices}}
    gang = {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "jobs"},
        "status": {
            "admission": {"podSetAssignments": [placed]},
            "conditions": [{"type": "Admitted", "status": "True"}],
        },
    }
    [found] = status(monkeypatch, plan, gang).gangs
    assert (found.nodes, found.domains) == (("ip-1",), ())


@pytest.mark.parametrize(("used", "number"), [("8", 8), ("1k", 1000), ("2k", 2000), (16, 16), ("0", 0)])
def test_amounts_are_as_long_as_they_are(monkeypatch: pytest.MonkeyPatch, used: object, number: int) -> None:
    """125 nodes in use are 1k accelerators to Kubernetes."""
    plan = planned(300)
    found = status(monkeypatch, plan, queue(plan, "product", used))
    assert [each.used for each in found.teams] == [0, number]
    assert [each.used for each in found.pools] == [number]


def test_a_team_s_own_is_what_its_quota_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share is twelve nodes, and the limit is lower; the rest is borrowed."""
    plan = planned()
    found = status(monkeypatch, plan, queue(plan, "research", "32"), queue(plan, "product", "32"))
    assert [(each.name, each.own, each.used, each.borrowed) for each in found.teams] == [
        ("research", 24, 32, 8),
        ("product", 32, 32, 0),
    ]


def domains(monkeypatch: pytest.MonkeyPatch, plan: Plan, labels: dict[str, str]) -> tuple[str, ...]:
    there = node("n1")
    there["metadata"]["labels"] = labels
    [found] = status(monkeypatch, plan, there, gang("run", "n1")).gangs
    return found.domains


def test_a_place_is_one_of_the_innermost_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of levels, and their order, do not matter."""
    layers = {f"topology.k8s.aws/network-node-layer-{layer}": f"nn-{layer}" for layer in (1, 2, 3)}
    assert domains(monkeypatch, on_eks(), layers) == ("nn-3",)
    assert domains(monkeypatch, on_eks(), {}) == ()
    plan = planned()
    spine = Domain("spine1", tuple(each.name for each in plan.scheduling_only[0].nodes))
    plan = replace(plan, fabric=replace(plan.fabric, spines=(spine,)))
    labels = kubernetes.node_labels(plan)["gpu-001"]
    assert labels["topology.stampworks/spine"] == "spine1"
    assert domains(monkeypatch, plan, labels) == (labels["topology.stampworks/leaf"],)
