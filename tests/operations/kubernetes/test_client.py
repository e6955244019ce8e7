"""Meaning of kubectl's output: an answer, a refusal, or silence, and a remedy for that."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from stampworks.operations.errors import UnknownError
from stampworks.operations.kubernetes import client as kubernetes
from stampworks.operations.kubernetes import status as kubernetes_status
from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError

from tests.operations.kubernetes.test_nodes import on_eks

LOCAL = "pulumi up repairs it"
SIGN_IN = "sign in by `aws configure`, `aws sso login` or AWS_PROFILE; docs/reference/aws-rights.md lists the rights"
ENTER = (
    "its creator, scheduler.admins, and the roles of declared users have access: `aws sts get-caller-identity` shows "
    "your identity"
)
REACH = (
    "connect from a place that reaches the cluster's network, or write your public range into scheduler.api_from: "
    "see docs/how-to/aws-eks.md"
)
MAKE = "run `pulumi up` from a machine that reaches its server: it creates the missing parts"


class Kubectl:
    """A program in the place of kubectl with a fixed output."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        program = folder / "kubectl"
        program.write_text(f'#!/bin/sh\ncat "{folder}/out"\ncat "{folder}/said" >&2\nexit "$(cat "{folder}/code")"\n')
        program.chmod(stat.S_IRWXU)
        monkeypatch.setattr(kubernetes, "reach", lambda *_: (str(program),))
        self.says()

    def says(self, out: bytes = b'{"items": []}', said: str = "", code: int = 0) -> None:
        (self._folder / "out").write_bytes(out)
        (self._folder / "said").write_text(said)
        (self._folder / "code").write_text(str(code))


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    return Kubectl(tmp_path, monkeypatch)


# Output of kubectl 1.34.2 for this request, after lines of its own log.
LOG = 'E1125 20:39:47.179532   14127 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API group"\n'
NO_PROGRAM = "Unable to connect to the server: getting credentials: exec: executable aws not found"
ADVICE = "\n\nIt looks like you are trying to use a credential plugin.\n\n      https://kubernetes.io/docs/reference\n"
ENDED = "Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255"
OUTSIDE = "Unable to connect to the server: dial tcp 10.0.1.7:443: i/o timeout"
CLOSED = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
NOBODY = "error: You must be logged in to the server (the server has asked for the client to provide credentials)"


@pytest.mark.parametrize(
    ("said", "why", "hint"),
    [
        (NO_PROGRAM + ADVICE, f"does not answer: {NO_PROGRAM}", SIGN_IN),
        (ENDED, f"does not answer: {ENDED}", SIGN_IN),
        (OUTSIDE, f"does not answer: {OUTSIDE}", REACH),
        (CLOSED, f"does not answer: {CLOSED}", REACH),
        (NOBODY, f"does not accept the credentials: {NOBODY}", ENTER),
    ],
    ids=["no-program", "login-ended", "outside", "closed", "nobody"],
)
def test_hint_for_a_silent_server_is_the_clouds(kubectl: Kubectl, said: str, why: str, hint: str) -> None:
    """Users in another network, or with an expired login, are not told to change the cluster."""
    kubectl.says(b"", LOG + said, code=1)
    for cloud, what in (("aws", hint), ("local", LOCAL)):
        with pytest.raises(UnknownError) as caught:
            KubernetesApi("k", cloud, "us-east-1").nodes()
        assert str(caught.value) == f"the Kubernetes of cluster k {why}\n  hint: {what}"


def test_silent_server_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "reach", lambda *_: ("sleep", "60"))
    for cloud, hint in (("aws", REACH), ("local", LOCAL)):
        with pytest.raises(UnknownError) as caught:
            KubernetesApi("k", cloud, "").said([], limit_s=0.1)
        assert str(caught.value) == f"the Kubernetes of cluster k does not answer within 0.1 s\n  hint: {hint}"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Error from server (Forbidden): nodes is forbidden: User cannot list resource", ENTER),
        ('error: the server doesn\'t have a resource type "clusterqueues"', MAKE),
    ],
)
def test_denied_status_is_unknown(kubectl: Kubectl, said: str, hint: str) -> None:
    """The cluster may be healthy, so that its state is unknown; other commands are refused."""
    kubectl.says(b"", said, code=1)
    with pytest.raises(UnknownError) as caught:
        kubernetes_status.status(on_eks())
    assert str(caught.value) == f"the Kubernetes of cluster k refused: {said}\n  hint: {hint}"
    with pytest.raises(RefusedError) as refused:
        KubernetesApi("k", "aws", "").said(["delete", "pod", "one"])
    assert str(refused.value) == f"the Kubernetes of cluster k refused: {said}\n  hint: stampworks status"


@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b'{"items": 3}', b"[" * 200_000, b"\xff", b"null"])
def test_an_answer_that_is_no_list_is_unknown(kubectl: Kubectl, answer: bytes) -> None:
    kubectl.says(answer)
    with pytest.raises(UnknownError) as caught:
        KubernetesApi("k", "aws", "").nodes()
    assert str(caught.value) == (
        "the answer of the Kubernetes of cluster k is not a list of nodes\n"
        "  hint: see its answer: stampworks kubectl -- get nodes --output=json"
    )


def test_pod_output_may_be_binary(kubectl: Kubectl) -> None:
    kubectl.says(b"one \xff two")
    assert KubernetesApi("k", "aws", "").said(["logs", "one"]) == "one \ufffd two"


def test_where_a_gang_is_placed_is_said_in_parts() -> None:
    """Kueue writes the common prefix of node names once for each level; names are in rank order."""
    levels = ["topology.stampworks/rack", "kubernetes.io/hostname"]
    roots = {"prefix": "gpu-", "suffix": ".example", "roots": ["003", "001"]}
    many = {"domainCount": 2, "valuesPerLevel": [{"universal": "rack-1"}, {"individual": roots}]}
    single = {"domainCount": 1, "valuesPerLevel": [{"universal": "rack-2"}, {"universal": "gpu-009"}]}
    bare = {"domainCount": 1, "valuesPerLevel": [{"universal": "rack-2"}, {"individual": {"roots": ["other"]}}]}
    assigned: dict[str, Any] = {"topologyAssignment": {"levels": levels, "slices": [many, single, bare]}}
    workload = {"status": {"admission": {"podSetAssignments": [assigned]}}}
    assert kubernetes.placed(workload) == ("gpu-003.example", "gpu-001.example", "gpu-009", "other")
    assigned["topologyAssignment"]["levels"] = levels[:1]
    assert kubernetes.placed(workload) == ()
