"""Users who may bypass the refusals for teams, judged by a real kube-apiserver with RBAC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_stack
from stampworks.schedulers import kubernetes

from tests.project import wait_for
from tests.schedulers.apiserver import ApiServer, api_server

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CREATOR = "arn:aws:sts::123456789012:assumed-role/ops/alice"
"""EKS's name of the creator, which has no meaning and no group in Kubernetes."""
REFUSED = "objects of teams must not name an owner"
EVERYTHING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "as-the-policy-of-eks-lets-it"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": CREATOR}],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """Yield a server with the namespaces of teams, their roles, and the admission policies."""
    kinds = {"Namespace", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    made = kubernetes.objects(planning.plan(load_stack("aws-p5en-eks", ROOT / "stacks")))
    with api_server(tmp_path, "--authorization-mode=RBAC") as found:
        for each in (EVERYTHING, *(one for one in made if one["kind"] in kinds)):
            found.run("kubectl", "create", "--filename=-", text=json.dumps(each))
        wait_for(lambda: REFUSED in owned(found, "alice"), BOUND_S)
        yield found


BOUND_S = 30
"""Seconds until a server applies a policy."""


def owned(server: ApiServer, user: str) -> str:
    """Return the message to a user who creates a job of another user; empty if it is accepted."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example.com/c"}]}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "holder", "uid": "0"}
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "part-", "namespace": "research", "ownerReferences": [owner]},
        "spec": {"template": {"spec": pod}},
    }
    return server.ended("kubectl", "create", "--filename=-", f"--as={user}", text=json.dumps(job)).stderr


def test_administrators_may_do_what_teams_may_not(server: ApiServer) -> None:
    """Administrators may change admission policies, however the server identifies them: on EKS they are in no group."""
    assert owned(server, CREATOR) == ""
    assert REFUSED in owned(server, "alice")
    assert "cannot create resource" in owned(server, "bob"), "of another team"
