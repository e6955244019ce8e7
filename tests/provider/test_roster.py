"""The Roster resource waits for members while its cloud expects more."""

from __future__ import annotations

import asyncio
import json
from types import ModuleType

import pytest
from stampworks import operations, plan
from stampworks.clouds.local import members as local
from stampworks.operations import gathering
from stampworks.operations.members import MembersMissingError
from stampworks.provider.handler import Call
from stampworks.provider.handlers.roster import Roster
from stampworks.text.reasons import DrainReason


def members(*names: str) -> plan.Roster:
    found = tuple(plan.Member(name, "gpu", "1", "10.0.0.1", (), "ssh-ed25519 KEY") for name in names)
    return plan.Roster("c", "local", ("enter",), "root", "/key", found)


def call() -> Call:
    groups = [{"name": "gpu", "names": ["gpu-001", "gpu-002", "gpu-003"], "count": 2}]
    told = json.dumps(groups)
    inputs = {"cluster": "c", "cloud": "local", "region": "", "groups": told, "drainTimeoutMinutes": 1}
    return Call("urn", "local/c", inputs)


class World:
    """A fake cloud that lists members at each look, and records joining and leaving nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: plan.Roster) -> None:
        self.looks, self.joined, self.misplaced = list(looks), 0, list[str]()
        self.dismissed, self.vacated = list[str](), list[tuple[str, str]]()
        self.refused: list[tuple[plan.Refusal, ...]] = []
        module = ModuleType("members")
        answers = {"join": self.join, "misplaced": self.who, "dismiss": self.dismiss, "refusals": self.refusals}
        module.__dict__.update(PATIENCE_S=0.1, POLL_S=0.01, **answers)
        monkeypatch.setattr(gathering, "cloud", lambda _: module)
        monkeypatch.setattr(gathering, "members", lambda *_: self.looks.pop(0) if self.looks[1:] else self.looks[0])
        monkeypatch.setattr(gathering, "vacate_for_good", self.vacate)

    def vacate(self, _: object, reasons: dict[str, DrainReason], *__: object) -> None:
        self.vacated += [(name, why.text) for name, why in reasons.items()]

    def refusals(self, cluster: str, region: str, groups: list[str]) -> tuple[plan.Refusal, ...]:
        assert (cluster, region, groups) == ("c", "", ["gpu"])
        return self.refused.pop(0) if self.refused else ()

    def join(self, cluster: str, region: str, names: object) -> None:
        assert (cluster, region, names) == ("c", "", {"gpu": ("gpu-001", "gpu-002")})
        self.joined += 1

    def who(self, cluster: str, region: str, always: object) -> list[str]:
        assert (cluster, region, always) == ("c", "", {"gpu": ("gpu-001", "gpu-002")})
        return self.misplaced

    def dismiss(self, cluster: str, region: str, always: object, names: dict[str, DrainReason]) -> None:
        self.dismissed += self.who(cluster, region, always) and names
        self.misplaced = []


def test_dead_node_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that died after its group was created ends the `up` soon, and the next `up` starts it."""
    World(monkeypatch, members("gpu-001"))
    said = r"gpu: 1 of 2 members after 0 s\n  hint: pulumi up restarts dead nodes"
    with pytest.raises(MembersMissingError, match=said):
        asyncio.run(Roster().ensure(call()))


def refused(at: str, lasting: bool = True, hint: str = "ask for more") -> tuple[plan.Refusal, ...]:
    return (plan.Refusal("gpu", at, "so it is", lasting, hint),)


def test_lasting_refusal_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends after the cloud's second failure: the first may be older than a repair."""
    world = World(monkeypatch, members("gpu-001"))
    world.refused = [refused("1"), refused("1"), refused("2"), refused("3")]
    with pytest.raises(MembersMissingError) as caught:
        asyncio.run(Roster().ensure(call()))
    assert str(caught.value) == (
        "gpu: 1 of 2 members, and waiting does not help\n  gpu, tried at 2: so it is\n  hint: ask for more"
    )
    assert world.refused == [refused("3")]


def test_temporary_refusal_continues_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any number of attempts."""
    world = World(monkeypatch, *[members("gpu-001")] * 4, members("gpu-001", "gpu-002"))
    world.refused = [refused(str(number), lasting=False) for number in range(3)]
    assert len(asyncio.run(Roster().ensure(call()))["members"]) == 2


def test_late_node_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete roster ends the wait at any time. Elastic nodes are neither waited for nor listed."""
    everybody = members("gpu-001", "gpu-002", "gpu-003")
    world = World(monkeypatch, members(), members("gpu-001", "gpu-003"), everybody)
    found = asyncio.run(Roster().ensure(call()))
    assert [member["name"] for member in found["members"]] == ["gpu-001", "gpu-002"]
    assert (world.joined, world.dismissed) == (2, [])


def test_surplus_node_leaves_after_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node stays until then: its group, which removes no node by itself, has a surplus node."""
    world = World(monkeypatch, members("gpu-001", "gpu-002", "gpu-004"), members("gpu-001", "gpu-002"))
    world.misplaced = ["gpu-003", "gpu-004"]
    asyncio.run(Roster().ensure(call()))
    assert world.vacated == [("gpu-003", "gets another machine"), ("gpu-004", "leaves the cluster")]
    assert world.dismissed == ["gpu-003", "gpu-004"]


def test_awaited_node_stays_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drain is repeated at each look while the machine is awaited: a job would start another machine of that name.
    An earlier version of the toolkit kept groups as plain data."""
    world = World(monkeypatch, members("gpu-001"), members("gpu-001"), members("gpu-001", "gpu-002"))
    update = call()
    [group] = json.loads(update.inputs["groups"])
    update.old_inputs = {**update.inputs, "groups": [{**group, "count": 1}]}
    asyncio.run(Roster().ensure(update))
    assert world.vacated == [("gpu-002", "gets another machine")] * 2


def test_capacity_that_ends_is_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refresh and `up` both report it."""
    World(monkeypatch, members("gpu-001", "gpu-002"))
    block = plan.Ending("gpu", "cr-1", "2026-12-01T11:30Z", "")
    monkeypatch.setattr(operations, "endings", lambda *_: (block,))
    monkeypatch.setattr(operations, "members", lambda *_: members("gpu-001", "gpu-002"))
    told = [{"group": "gpu", "reservation": "cr-1", "at": "2026-12-01T11:30Z", "why": ""}]
    assert asyncio.run(Roster().ensure(call()))["endings"] == told
    read = asyncio.run(Roster().read(call()))
    assert read
    assert read["endings"] == told


def test_cost_tags_reach_running_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed tags are deleted; without tags no request is made."""
    World(monkeypatch, members("gpu-001", "gpu-002"))
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(operations, "retag", lambda *what: told.append(what))
    asyncio.run(Roster().ensure(call()))
    assert told == []
    update = call()
    update.inputs = {**update.inputs, "tags": {"owner": "research"}}
    update.old_inputs = {**update.inputs, "tags": {"owner": "platform", "cost-centre": "7"}}
    asyncio.run(Roster().ensure(update))
    update.inputs, update.old_inputs = call().inputs, update.inputs
    asyncio.run(Roster().ensure(update))
    assert told == [("local", "c", "", {"owner": "research"}, {"cost-centre"}), ("local", "c", "", {}, {"owner"})]


def test_the_local_cloud_is_impatient() -> None:
    """Its nodes run as soon as their group exists."""
    assert local.PATIENCE_S < 60
