"""Connections of users to clusters of clouds, as far as they work without an account."""

from __future__ import annotations

import json

import pytest
from stampworks import planning
from stampworks.clouds.aws import access
from stampworks.declaration import load_value
from stampworks.operations import InputError, login, remote
from stampworks.operations.kubernetes.client import NotRunningError
from stampworks.plan import Member, Plan, Roster

from tests.operations.slurm.standin import KEY

SESSION = ("aws", "ssm", "start-session", "--region", "us-east-1", "--target", "%h")


def plan_of(**scheduler: object) -> Plan:
    declared = {
        "version": 1,
        "name": "prod",
        "cloud": "aws",
        "region": "us-east-1",
        "pools": [{"name": "gpu", "machine": "p5", "count": 1}],
        "users": [{"name": "alice", "uid": 2001}],
        "scheduler": scheduler,
    }
    return planning.plan(load_value(declared, "test"))


def roster() -> Roster:
    members = (
        Member("head", "head", "i-1", "10.0.0.2", (), KEY, "i-1"),
        Member("gpu-001", "gpu", "i-2", "10.0.0.3", (), KEY, "i-2"),
    )
    return Roster("prod", "aws", (), "root", "/root/key", members, "us-east-1", SESSION)


def test_a_user_of_aws_comes_by_session_manager() -> None:
    """The user has her own credentials; the administrator's key is not in the file."""
    found = login.connect(plan_of(), roster(), "alice")
    assert (found.user, found.roster.identity_file, found.kubeconfig) == ("alice", "", "")
    command = remote.ssh_command(found.roster, "head", ["hostname"])
    assert f"ProxyCommand={' '.join(SESSION)}" in command
    assert command[-5:] == ["-l", "alice", "--", "i-1", "hostname"]
    assert remote.ssh_command(found.roster, "gpu-001", ["hostname"])[-2:] == ["i-1", "ssh gpu-001 hostname"]


def test_a_user_who_is_not_declared() -> None:
    with pytest.raises(InputError, match=r"no user is called 'alic' in cluster prod\n  hint: did you mean alice\?"):
        login.connect(plan_of(), roster(), "alic")


def test_a_user_of_eks_comes_with_her_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS identifies the user at each request: the file contains no secret."""

    class Api:
        status = "ACTIVE"

        def __init__(self, region: str) -> None:
            self.region = region

        def ask(self, _: str, name: str) -> dict[str, object]:
            authority = {"data": "QQ=="}
            return {
                "cluster": {"status": self.status, "endpoint": f"https://{name}", "certificateAuthority": authority}
            }

    monkeypatch.setattr(access, "Api", Api)
    nobody = Roster("prod", "aws", (), "", "", (), "us-east-1")
    found = login.connect(plan_of(kind="kubernetes"), nobody, "alice")
    [user] = json.loads(found.kubeconfig)["users"]
    assert user["user"]["exec"]["args"][:4] == ["eks", "get-token", "--cluster-name", "prod"]
    assert (found.roster.user, found.roster.members) == ("alice", ())
    Api.status = "CREATING"
    with pytest.raises(NotRunningError, match="no Kubernetes of cluster prod is running"):
        login.connect(plan_of(kind="kubernetes"), nobody, "alice")
