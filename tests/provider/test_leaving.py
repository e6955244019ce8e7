"""Machines of a local Kubernetes and simulated nodes never share a name: leaving nodes are removed first."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from stampworks import machine_room as room
from stampworks import operations, plan
from stampworks.machine_room.kubernetes import joined, nodes
from stampworks.operations.drain import BusyError
from stampworks.provider.handler import Call
from stampworks.provider.handlers import local_group
from stampworks.provider.handlers.local_group import LocalGroup
from stampworks.provider.handlers.local_kubernetes import JoinedPool, SimulatedPool

from tests.operations.slurm.test_status import the_plan

NAMES = ("gpu-001", "gpu-002")
MACHINES = " ".join(NAMES)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps in order, in a room with two machines of the pool gpu and one of another."""
    said = list[str]()

    def start(*_: Any) -> dict[str, str]:
        said.append("start")
        return {}

    of_others = ("cpu-001",)
    monkeypatch.setattr(room, "expect_owner", lambda *_: None)
    monkeypatch.setattr(room, "is_ours", lambda *_: True)
    monkeypatch.setattr(room, "read_nodes", lambda _: [state(name) for name in (*of_others, *NAMES)])
    monkeypatch.setattr(room, "end_nodes", lambda *told: said.append(f"end {' '.join(told[2])}"))
    monkeypatch.setattr(room, "new_nodes", lambda *_: NAMES)
    monkeypatch.setattr(room, "starting_nodes", lambda *_: [*NAMES, "gpu-003"])
    monkeypatch.setattr(room, "ensure_nodes", start)
    monkeypatch.setattr(local_group, "ensure_node_image", lambda *_: None)
    monkeypatch.setattr(joined, "renew", lambda _, names: said.append(f"forget {' '.join(names)}"))
    monkeypatch.setattr(joined, "taint", lambda _, names, *taint: said.append(f"taint {' '.join((*names, *taint))}"))
    monkeypatch.setattr(joined, "bury", lambda _, names: said.append(f"bury {' '.join(names)}"))
    monkeypatch.setattr(joined, "members", lambda *_: list(NAMES))
    monkeypatch.setattr(nodes, "members", lambda *_: list(NAMES))
    monkeypatch.setattr(nodes, "leaving", lambda *_: [])
    monkeypatch.setattr(nodes, "delete", lambda _, pool: said.append(f"delete {pool}"))
    monkeypatch.setattr(
        nodes, "ensure", lambda _, __, leave, ___: said.extend([*(f"remove {each}" for each in leave), "simulate"])
    )
    monkeypatch.setattr(
        operations, "vacate", lambda _, names, minutes, __: said.append(f"vacate {' '.join(names)} {minutes}")
    )
    return said


def state(name: str) -> room.NodeState:
    return room.NodeState(name, "up", "i-1", 1, "10.0.0.1", (), (), "", "", ())


def simulated() -> Call:
    inputs = {"cluster": "c", "claim": "", "pool": "gpu", "labels": {}, "capacity": {}, "drainTimeoutMinutes": 3}
    return Call("urn", "c/gpu", inputs)


def test_machines_leave_before_others_have_their_names(done: list[str]) -> None:
    asyncio.run(SimulatedPool().ensure(simulated()))
    assert done == [f"vacate {MACHINES} 3", f"forget {MACHINES}", f"bury {MACHINES}", f"end {MACHINES}", "simulate"]


def test_simulated_jobs_end_before_their_nodes_leave(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduling-only pool behaves like any other when it shrinks or is removed."""
    monkeypatch.setattr(room, "read_nodes", lambda _: [])
    monkeypatch.setattr(nodes, "leaving", lambda *_: ["gpu-020"])
    asyncio.run(SimulatedPool().ensure(simulated()))
    assert done[-3:] == ["vacate gpu-020 3", "remove gpu-020", "simulate"]
    asyncio.run(SimulatedPool().delete(simulated()))
    assert done[-2:] == [f"vacate {MACHINES} 3", "delete gpu"]


def test_machines_that_are_busy_stay(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> None:
        raise BusyError("gpu-001 did not become free", "wait for it")

    monkeypatch.setattr(operations, "vacate", busy)
    with pytest.raises(BusyError):
        asyncio.run(SimulatedPool().ensure(simulated()))
    assert done == []


def test_simulated_jobs_end_before_machines_start(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would run there before they are proven. A returning machine is cordoned before."""
    monkeypatch.setattr(room, "read_nodes", lambda _: [])
    release = dataclasses.replace(the_plan().release, kubernetes=(("kubernetes", "1.35.4"),))
    inputs = {
        "cluster": "c",
        "claim": "",
        "group": plan.to_dict(the_plan().pools[0]),
        "rails": [],
        "image": {"release": plan.to_dict(release), "content": ""},
        "drainTimeoutMinutes": 3,
    }
    asyncio.run(LocalGroup().ensure(Call("urn", "c/gpu", inputs)))
    assert done == [
        "end ",
        f"vacate {MACHINES} 3",
        f"forget {MACHINES}",
        f"bury {MACHINES}",
        "taint gpu-003 stampworks/unproven again",
        "start",
    ]


def test_a_pool_that_goes_leaves_alone_who_has_its_names_by_now(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes with these names belong to another pool by now: they are neither cordoned nor waited for."""
    inputs = {"cluster": "c", "claim": "", "addresses": dict.fromkeys(NAMES, ""), "drainTimeoutMinutes": 3}
    asyncio.run(JoinedPool().delete(Call("urn", "c/gpu", inputs)))
    monkeypatch.setattr(joined, "members", lambda *_: [])
    asyncio.run(JoinedPool().delete(Call("urn", "c/gpu", inputs)))
    assert done == [f"vacate {MACHINES} 3", f"forget {MACHINES}", "forget "]
