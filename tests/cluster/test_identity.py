"""Users of a team on a real Kubernetes server: the objects that each may create, read and end."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from stampworks.schedulers import identity

from tests.cluster.kubernetes import KubernetesStack, gang

pytestmark = pytest.mark.cluster

ALICE, CAROL = 2001, 2003


def made(uid: int, **context: Any) -> dict[str, Any]:
    """A JobSet of a user of research, with more of its pod's security context."""
    found = gang("hers", "research", 1)
    found["metadata"]["annotations"] = {identity.USER: {ALICE: "alice", CAROL: "carol"}[uid]}
    pod = pod_of(found)
    pod["securityContext"] = {"runAsUser": uid, "runAsGroup": uid, **context}
    pod["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False}
    return found


def pod_of(jobset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return found


def asked(stack: KubernetesStack, user: str, verb: str, *words: str, given: Any = None) -> str:
    """Return the server's refusal; empty if it accepts. A dry run stores nothing."""
    dry = ["--dry-run=server"] if verb in ("create", "apply") else []
    text = "" if given is None else json.dumps(given)
    done = stack.stampworks("kubectl", "--", verb, *words, *dry, f"--as={user}", text=text)
    return "" if done.returncode == 0 else str(done.stderr)


def creates(stack: KubernetesStack, user: str, given: Any) -> str:
    return asked(stack, user, "create", "--filename=-", given=given)


def test_pods_of_a_user_run_as_that_user(kubernetes: KubernetesStack) -> None:
    """Pods do not run as root or as another user, have no other groups, and cannot gain privileges."""
    assert creates(kubernetes, "alice", made(ALICE)) == ""
    assert creates(kubernetes, "alice", made(ALICE, supplementalGroups=[3001])) == ""
    wrong: list[dict[str, Any]] = [
        {"runAsUser": 0},
        {"runAsUser": CAROL},
        {"runAsGroup": 0},
        {"supplementalGroups": [3002]},
    ]
    for each in [*wrong, {"runAsUser": None}, {"runAsGroup": None}, {"fsGroup": ALICE}]:
        assert identity.AS_OTHERS in creates(kubernetes, "alice", made(ALICE, **each)), each
    assert identity.AS_OTHERS in creates(kubernetes, "carol", made(CAROL, supplementalGroups=[3001])), "not in nlp"
    for more in ({"allowPrivilegeEscalation": True}, {}, {"allowPrivilegeEscalation": False, "runAsUser": 0}):
        for where in ("containers", "initContainers"):
            jobset = made(ALICE)
            pod = pod_of(jobset)
            pod.setdefault(where, [{"name": "first", "image": "none"}])
            pod[where][0]["securityContext"] = more
            assert identity.RISES in creates(kubernetes, "alice", jobset), (more, where)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": made(ALICE)["metadata"]}
    job["spec"] = made(ALICE, runAsUser=0)["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert identity.AS_OTHERS in creates(kubernetes, "alice", job)


def test_a_pod_sees_no_secret_of_another_user(kubernetes: KubernetesStack) -> None:
    """The secret can be neither mounted nor read. Secrets without a user's job belong to the team."""
    for name, may in (("train-u2001-secrets", True), ("train-u2003-secrets", False), ("of-the-team", True)):
        ways: list[dict[str, Any]] = [
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "A"}}}]},
            {"envFrom": [{"secretRef": {"name": name}}]},
        ]
        volumes: list[dict[str, Any]] = [
            {"secret": {"secretName": name}},
            {"projected": {"sources": [{"secret": {"name": name}}]}},
        ]
        for way in (*ways, *volumes):
            jobset = made(ALICE)
            pod = pod_of(jobset)
            if way in volumes:
                pod["volumes"] = [{"name": "v", **way}]
            else:
                pod["containers"][0] |= way
            said = creates(kubernetes, "alice", jobset)
            assert (said == "") == may, (name, way, said)
            assert may or identity.NOT_HERS in said


def test_secrets_are_made_and_never_read(kubernetes: KubernetesStack) -> None:
    """Each secret belongs to one user, even if a member of the team tries to replace it."""
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "stringData": {"TOKEN": "x"}}
    for name, kind, may in (
        ("train-u2001-secrets", "Opaque", True),
        ("train-u2003-secrets", "Opaque", False),
        ("train", "Opaque", False),
        ("train-u2001-secrets", "kubernetes.io/service-account-token", False),
    ):
        notes = {"kubernetes.io/service-account.name": "default"}
        metadata = {"name": name, "namespace": "research", "annotations": notes}
        said = creates(kubernetes, "alice", {**secret, "type": kind, "metadata": metadata})
        assert (said == "") == may, (name, said)
        assert may or identity.MADE_SECRET in said
    hers = {**secret, "metadata": {"name": "train-u2003-secrets", "namespace": "research"}}
    kubernetes.kubectl("create", "--filename=-", text=json.dumps(hers))
    words = ("secret", "train-u2003-secrets", "--namespace=research", "--wait=false")
    try:
        assert identity.MADE_SECRET in asked(kubernetes, "alice", "delete", *words)
        for verb in (["get", "secrets"], ["get", "secret", "train-u2003-secrets"], ["describe", "secrets"]):
            assert "(Forbidden)" in asked(kubernetes, "carol", *verb, "--namespace=research"), verb
    finally:
        assert asked(kubernetes, "carol", "delete", *words) == ""


def test_users_cannot_end_or_change_runs_of_others(kubernetes: KubernetesStack) -> None:
    """Pods of the user run scripts from a ConfigMap: another user who could change it would run as her."""
    jobset = made(CAROL)
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": copy.deepcopy(jobset["metadata"]),
        "data": {"a": "b"},
    }
    script["metadata"].pop("labels")
    theirs = {"apiVersion": "v1", "kind": "List", "items": [jobset, script]}
    assert asked(kubernetes, "alice", "create", "--filename=-", given=theirs) != ""
    kubernetes.kubectl("create", "--filename=-", "--as=carol", text=json.dumps(theirs))
    patch = ("--type=merge", "--namespace=research", '--patch={"metadata":{"annotations":{"stampworks/user":"alice"}}}')
    try:
        for kind in ("jobset", "configmap"):
            said = asked(kubernetes, "alice", "delete", kind, "hers", "--namespace=research")
            assert identity.OF_ANOTHER in said, (kind, said)
            said = asked(kubernetes, "alice", "patch", kind, "hers", *patch)
            assert identity.OF_ANOTHER in said, (kind, said)
    finally:
        for kind in ("jobset", "configmap"):
            assert asked(kubernetes, "carol", "delete", kind, "hers", "--namespace=research") == ""


def test_a_program_starts_in_pods_of_ones_own_alone(kubernetes: KubernetesStack) -> None:
    """The names of these pods are reserved for their user."""
    for pod, may in (("files-u2001-abc-1", True), ("files-u2003-abc-1", False), ("files-u20011-a", False)):
        way = f"--raw=/api/v1/namespaces/research/pods/{pod}/exec?command=true&stdout=true"
        said = asked(kubernetes, "alice", "get", way)
        assert ("(NotFound)" in said) == may, said
    for name, may in (("files-u2001-x", True), ("files-u2003-x", False), ("files-u2003", False)):
        jobset = made(ALICE)
        jobset["metadata"]["name"] = name
        said = creates(kubernetes, "alice", jobset)
        assert (said == "") == may, said
        assert may or identity.CALLED in said
