"""The pod in which a user reads files, with a stand-in for the server. See tests/cluster/test_pods.py for a real
one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from stampworks.operations.errors import InputError, OperationError
from stampworks.operations.kubernetes import user_door
from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError
from stampworks.plan import Plan, Roster, User
from stampworks.schedulers import identity

from tests.operations.kubernetes.standin import StandIn
from tests.operations.kubernetes.test_jobs import on_eks

ALICE = Roster("k", "aws", (), "alice", "/home/alice/k.conf", ())


class Server(StandIn):
    """Created jobs have a pod, which is ready at once."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []
        self.ready = "True"
        self.phase = ""

    def listed(self, kinds: str, *_: str, limit_s: float = 0) -> list[Any]:  # noqa: ARG002
        state = [{"type": self.phase, "status": "True"}] if self.phase else []
        jobs = [{**job, "status": {"conditions": state}} for job in self.made]
        pods = [
            {"metadata": {"name": f"{job['metadata']['name']}-x"}, "status": {"conditions": [self._condition()]}}
            for job in self.made
        ]
        return {"jobs.batch": jobs, "pods": pods}.get(kinds, [])

    def _condition(self) -> dict[str, str]:
        return {"type": "Ready", "status": self.ready}

    def said(self, words: Sequence[str], given: str = "", limit_s: float = 0) -> str:  # noqa: ARG002
        self.told.append(" ".join(words[:2]))
        if words[0] == "create":
            self.made.append(json.loads(given))
            self.phase, self.ready = "", "True"
        if words[0] == "delete":
            self.made = []
        return json.dumps({"items": []}) if words[0] == "get" else "said"


@pytest.fixture
def plan() -> Plan:
    found = on_eks(accounts=[{"name": "research"}])
    accounts = tuple(replace(each, users=("alice",)) for each in found.scheduler.accounts)
    users = (User("alice", 2001, ("research",)), User("bob", 2002, ()))
    return replace(found, users=users, scheduler=replace(found.scheduler, accounts=accounts))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: found)
    monkeypatch.setattr(user_door, "_POLL_S", 0.01)
    monkeypatch.setattr(user_door, "_STARTS_S", 0.1)
    return found


def test_one_pod_serves_many_commands(plan: Plan, server: Server) -> None:
    """The pod belongs to the user, requests little, and has no accelerator."""
    for _ in range(2):
        assert user_door.ask(plan, ALICE, ["ls"], 10.0, "") == "said"
    [job] = server.made
    name = job["metadata"]["name"]
    assert name.startswith(f"{identity.FILES}2001-")
    assert (job["metadata"]["namespace"], job["metadata"]["annotations"]) == ("research", {identity.USER: "alice"})
    spec = job["spec"]["template"]["spec"]
    assert spec["securityContext"] == {"runAsUser": 2001, "runAsGroup": 2001}
    [container] = spec["containers"]
    assert container["resources"] == {"limits": {"cpu": "100m"}}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}
    assert server.told == ["create --filename=-", f"exec {name}-x", f"exec {name}-x"]


@pytest.mark.parametrize("phase", ["Failed", "Complete"])
def test_one_that_has_ended_is_made_anew(phase: str, plan: Plan, server: Server) -> None:
    user_door.ask(plan, ALICE, ["ls"], 10.0, "")
    server.phase, server.ready = phase, "False"
    assert user_door.ask(plan, ALICE, ["ls"], 10.0, "") == "said"
    assert [each.split()[0] for each in server.told] == ["create", "exec", "delete", "create", "exec"]


def test_one_that_does_not_start(plan: Plan, server: Server) -> None:
    user_door.ask(plan, ALICE, ["ls"], 10.0, "")
    server.ready = "False"
    with pytest.raises(OperationError, match=r"does not start within 0.1 s: no reason is known\n  hint: "):
        user_door.ask(plan, ALICE, ["ls"], 10.0, "")


def test_a_user_of_no_team(plan: Plan, server: Server) -> None:
    with pytest.raises(InputError, match="bob is of no account, and so of no team"):
        user_door.ask(plan, replace(ALICE, user="bob"), ["ls"], 10.0, "")
    assert server.told == []


def test_another_command_was_quicker(plan: Plan, server: Server) -> None:
    job = user_door._job(plan, "alice", plan.scheduler.accounts[0])

    class Late(Server):
        def said(self, words: Sequence[str], given: str = "", limit_s: float = 0) -> str:
            if words[0] == "create":
                self.made.append(json.loads(given))
                raise RefusedError('Error from server (AlreadyExists): jobs.batch "x" already exists', "")
            return super().said(words, given, limit_s)

    assert user_door._opened(Late(), job, "--namespace=research") == f"{job['metadata']['name']}-x"
