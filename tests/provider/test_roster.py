"""The Roster resource waits for members, as long as its cloud says that some may still come."""

from __future__ import annotations

import asyncio

import pytest
from stampworks import operations, plan
from stampworks.provider.handler import Call
from stampworks.provider.handlers import roster
from stampworks.provider.handlers.roster import MembersMissingError, Roster


def members(*names: str) -> plan.Roster:
    found = tuple(plan.Member(name, "gpu", "1", "10.0.0.1", (), "ssh-ed25519 KEY") for name in names)
    return plan.Roster("c", "local", ("enter",), "root", "/key", found)


def call() -> Call:
    return Call("urn", "local/c", {"cluster": "c", "cloud": "local", "groups": [{"name": "gpu", "count": 2}]})


def test_who_does_not_come_by_himself_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that died after its group was made ends the `up` soon, and the next one starts it."""
    monkeypatch.setattr(operations, "members", lambda *_: members("gpu-001"))
    monkeypatch.setattr(operations, "patience_s", lambda _: 0.1)
    monkeypatch.setattr(roster, "_POLL_S", 0.01)
    with pytest.raises(MembersMissingError, match=r"gpu: 1 of 2 members after 0 s; pulumi up starts what is dead"):
        asyncio.run(Roster().ensure(call()))


def test_who_comes_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete is complete, however long it took."""
    answers = iter([members("gpu-001"), members("gpu-001", "gpu-002")])
    monkeypatch.setattr(operations, "members", lambda *_: next(answers))
    monkeypatch.setattr(roster, "_POLL_S", 0.01)
    found = asyncio.run(Roster().ensure(call()))
    assert [member["name"] for member in found["members"]] == ["gpu-001", "gpu-002"]


def test_the_local_cloud_is_impatient() -> None:
    """Its nodes are up when their group is made."""
    assert operations.patience_s("local") < 60
