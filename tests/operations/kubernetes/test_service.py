"""Nodes of Kubernetes that a roll drains and returns. ../test_roll.py has those of Slurm."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from stampworks.operations.drain import RENEWED
from stampworks.operations.errors import OperationError
from stampworks.operations.ground import NodeStanding
from stampworks.operations.kubernetes import service
from stampworks.operations.kubernetes.service import KubernetesService
from stampworks.operations.service import vacate, vacate_for_good
from stampworks.plan import Group, Plan
from stampworks.text.reasons import UNPROVEN, DrainReason

from tests.operations.kubernetes.standin import StandIn, gang, node
from tests.operations.slurm.test_status import the_plan

CABLE = DrainReason("person", "bob", "cable")


def test_how_nodes_serve() -> None:
    server = StandIn(node("gpu-001", taints=["stampworks/unproven"]), node("gpu-002", ready=False), node("gpu-003"))
    server.others = [gang("long", "gpu-003")]
    assert KubernetesService(server).look() == {
        "gpu-001": NodeStanding(held=UNPROVEN, out="held: not proven yet"),
        "gpu-002": NodeStanding(out="it does not answer Kubernetes", silent=True),
        "gpu-003": NodeStanding(busy="run research/long is on it"),
    }


def test_gangs_are_asked_to_start_elsewhere() -> None:
    """Only gangs on these nodes are asked."""
    server = StandIn(node("gpu-001"), node("gpu-002"))
    server.others = [gang("one", "gpu-001"), gang("other", "gpu-002")]

    def progress(_: str) -> None:
        server.others = []

    vacate(KubernetesService(server), {"gpu-001": RENEWED}, 1, progress, again=True)
    assert [line for line in server.told if line.startswith("patch")] == [
        f'patch workload jobset-one --namespace=research --type=merge --patch={{"metadata": {{"annotations": '
        f'{{"stampworks/requeued": {mark}}}}}, "spec": {{"active": {active}}}}}'
        for mark, active in (('"true"', "false"), ("null", "true"))
    ]


def test_a_node_that_is_to_be_proven_has_no_other_reason() -> None:
    """A proof leaves nodes alone that are held for another reason."""
    server = StandIn(node("gpu-001", out=True, held="stampworks: gets a new disk"))
    KubernetesService(server).hold({"gpu-001": UNPROVEN})
    assert server.told == [
        "taint node gpu-001 stampworks/unproven=:NoSchedule --overwrite",
        "uncordon gpu-001",
        "annotate node gpu-001 stampworks/held-",
    ]


def test_forgotten_drain_is_repeated() -> None:
    """Slurm forgets drains of powered-down nodes: they would take jobs while other nodes still run some."""
    one, other = node("gpu-001"), node("gpu-002")
    server, seen = StandIn(one, other), list[str]()
    server.others = [gang("long", "gpu-002")]

    def forgotten(line: str) -> None:
        seen.append(f"{server.there[0]['spec']['unschedulable']}")
        server.there[0] = node("gpu-001")
        if len(seen) == 3:
            server.others = []

    vacate_for_good(KubernetesService(server), dict.fromkeys(("gpu-001", "gpu-002"), RENEWED), 1, forgotten)
    assert seen == ["True"] * 3
    assert [each["spec"]["unschedulable"] for each in server.there] == [True, True]


def test_wait_for_a_node_that_is_resumed_each_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user resumes it each time. The other nodes take jobs again, as after any failed change."""
    server = StandIn(node("gpu-001"), node("gpu-002"))
    told, hold, held = KubernetesService(server), KubernetesService(server).hold, list[str]()

    def given_back(reasons: Mapping[str, DrainReason]) -> None:
        held.extend(reasons)
        assert len(held) < 99
        hold({name: reason for name, reason in reasons.items() if name != "gpu-001"})

    monkeypatch.setattr(told, "hold", given_back)
    with pytest.raises(OperationError) as caught:
        vacate_for_good(told, dict.fromkeys(("gpu-001", "gpu-002"), RENEWED), 1, print)
    assert str(caught.value) == (
        "gpu-001 did not stay held, 5 times: nothing was removed, the nodes take jobs again\n"
        "  hint: find the user or program that returns them, and run it again"
    )
    assert [each["spec"]["unschedulable"] for each in server.there] == [False, False]


def test_only_what_is_ours_is_given_back() -> None:
    server = StandIn(node("gpu-001", out=True, held="stampworks: gets a new disk"), node("gpu-002", out=True))
    KubernetesService(server).give_back_own(["gpu-001", "gpu-002", "gpu-003"])
    assert [each["spec"]["unschedulable"] for each in server.there] == [False, True]


def test_a_person_keeps_a_node_that_is_another_one_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new machine joins like any node, and gets the hold of the old one."""
    server, taken = StandIn(), list[str]()

    class Renewal:
        def take_in(
            self, _: Plan, group: Group, names: Collection[str], labels: Mapping[str, Any], *__: object
        ) -> None:
            assert labels["gpu-001"]["stampworks/pool"] == "gpu"
            taken.append(f"{group.name} {','.join(names)}")
            server.there = [node(name, taints=["stampworks/unproven"]) for name in names]

    monkeypatch.setattr(service, "joined", lambda _: Renewal())
    KubernetesService(server).take_in(the_plan(), ["gpu-001", "gpu-002"], {"gpu-002": CABLE}, print)
    assert taken == ["gpu gpu-001,gpu-002"]
    assert [each["spec"]["unschedulable"] for each in server.there] == [False, True]
    assert server.there[1]["metadata"]["annotations"] == {"stampworks/held": "person bob: cable"}
