"""Looks of the Playbook resource at its cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from stampworks import configuration, operations, plan
from stampworks.configuration import CheckModeResult
from stampworks.operations.slurm.service import SlurmService
from stampworks.provider.handler import Call
from stampworks.provider.handlers.playbook import Playbook
from stampworks.text.reasons import DrainReason

INVENTORY: dict[str, Any] = {"all": {"vars": {}, "hosts": {"head": {}, "gpu-001": {}}, "children": {}}}
OLD = {"changed": 3, "hosts": 2, "drift": ["system: head: /etc/old differs"]}


def roster(*names: str) -> plan.Roster:
    members = tuple(plan.Member(name, name, "1", "10.0.0.1", (), "ssh-ed25519 KEY") for name in names)
    return plan.Roster("c", "local", ("enter",), "root", "/key", members)


def call(**more: Any) -> Call:
    inputs = {
        "playbook": "site.yml",
        "inventory": json.dumps(INVENTORY),
        "roster": plan.to_dict(roster("head", "gpu-001")),
        "roles": [],
        "secrets": {"slurm_key": "s3cret-key"},
        "timeoutMinutes": 60,
        **more,
    }
    return Call("urn", "id", inputs, old_outputs=OLD, mask=lambda text: text.replace("s3cret-key", "[secret]"))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the inspected hosts of each look. Only the head is up, and its output contains a secret."""
    asked: list[Any] = []

    async def look(
        _playbook: str, _inventory: Mapping[str, Any], hosts: list[str], *_: Any, **__: Any
    ) -> CheckModeResult:
        asked.append(hosts)
        return CheckModeResult(drift=(("head", "/etc/hosts differs"), ("head", "unknown: no s3cret-key here")))

    monkeypatch.setattr(operations, "members", lambda *_: roster("head", "stranger"))
    monkeypatch.setattr(configuration, "look", look)
    return asked


def test_a_read_looks_at_the_nodes_that_are_up(looked: list[Any]) -> None:
    """New differences replace earlier ones, and contain no secret from any node."""
    outputs = asyncio.run(Playbook().read(call()))
    assert looked == [["head"]]
    assert outputs == {
        "changed": 3,
        "hosts": 2,
        "drift": [
            "system: head: /etc/hosts differs",
            "system: head: unknown: no [secret] here",
            "runtime: gpu-001: unknown: the node is not up",
            "runtime: head: unknown: it reported nothing",
        ],
    }
    assert Playbook().drift(outputs) == {"drift": outputs["drift"]}


def test_a_stack_that_an_earlier_version_stamped_is_looked_at(looked: list[Any]) -> None:
    """Such a stack has no roles of the user."""
    before = call()
    before.inputs = {name: value for name, value in before.inputs.items() if name != "roles"}
    asyncio.run(Playbook().read(before))
    assert looked == [["head"]]


def test_no_part_of_a_secret_is_left_where_words_are_cut(monkeypatch: pytest.MonkeyPatch, looked: list[Any]) -> None:
    """A half secret could no longer be masked."""

    async def look(*_: Any, **__: Any) -> CheckModeResult:
        return CheckModeResult(drift=(("head", "x" * 235 + "s3cret-key"),))

    monkeypatch.setattr(configuration, "look", look)
    outputs = asyncio.run(Playbook().read(call()))
    assert outputs is not None
    assert outputs["drift"][0] == f"system: head: {'x' * 235}[secr..."


def test_a_room_that_is_gone_is_not_looked_at(looked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started, and the refresh continues."""
    monkeypatch.setattr(operations, "members", lambda *_: roster())
    outputs = asyncio.run(Playbook().read(call()))
    assert looked == []
    assert outputs is not None
    assert outputs["drift"] == ["runtime: gpu-001, head: unknown: the node is not up"]


def test_failed_run_keeps_its_state_without_a_look(looked: list[Any]) -> None:
    """The state keeps what it had; a pass over all nodes after each failure would only delay its message."""
    assert asyncio.run(Playbook().remains(call())) == OLD
    assert looked == []


def test_elastic_nodes_that_leave_finish_their_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in no roster, and Slurm is about to remove them. Nodes that become elastic stay."""

    def told(names: list[str], *nodes: str) -> dict[str, Any]:
        pools = {"gpu": {"nodes": names}} if names else {}
        of = {**INVENTORY["all"], "vars": {"power_settings": {"pools": pools}}, "children": {"slurm_controller": {}}}
        return {"inventory": json.dumps({"all": of}), "roster": plan.to_dict(roster("head", *nodes))}

    order = list[Any]()

    def vacate(service: SlurmService, reasons: Mapping[str, DrainReason], *_: Any) -> None:
        order.append({name: reason.text for name, reason in reasons.items()})

    async def play(*_: Any, **__: Any) -> configuration.Recap:
        order.append("play")
        return configuration.Recap(1, 1, ())

    monkeypatch.setattr(operations, "vacate_for_good", vacate)
    monkeypatch.setattr(configuration, "play", play)
    update = call(drainTimeoutMinutes=1, **told(["gpu-002", "gpu-003"], "gpu-001"))
    update.old_inputs = told(["gpu-004", "gpu-003", "gpu-005"], "gpu-001", "gpu-002", "gpu-006")
    asyncio.run(Playbook().ensure(update))
    assert order == [dict.fromkeys(("gpu-006", "gpu-004", "gpu-005"), "leaves the cluster"), "play"]


def test_only_drift_is_a_reason_to_run_again() -> None:
    """An unchanged cluster is left alone."""
    assert Playbook().drift({"changed": 0, "hosts": 2, "drift": []}) == {}
    assert Playbook().drift({}) == {}
    assert not Playbook.refresh, "a plain preview stays cheap"
