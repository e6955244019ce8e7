"""Clusters shared by several test files: stamped once, lent to one test at a time, and checked after each.

A test returns the cluster unchanged. Tests that kill nodes or change the declaration use a cluster of their own, the
fixture `stack`. Files that share a cluster run in the same process: `TOGETHER` in tests/conftest.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kubernetes import KubernetesStack
from tests.cluster.stack import Stack
from tests.project import wait_for

IDLE_S = 60
LEAF_NODES = 8
SLURM = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    network: {{cidr: 10.99.0.0/16}}
    pools:
      - {{name: gpu, machine: sim-h100, count: 4}}
    fabric: {{kind: simulated, rail_rate_mbps: 200, leaf_nodes: 2, oversubscription: 1}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    users:
      - {{name: alice, uid: 2001, accounts: [research], groups: [nlp], keys: [{{file: alice.pub}}]}}
      - {{name: bob, uid: 2002, accounts: [research], groups: [nlp], keys: [{{file: bob.pub}}]}}
      - {{name: dave, uid: 2004, accounts: [research], keys: []}}
    groups: [{{name: nlp, gid: 3001}}]
    scheduler:
      accounting: true
      accounts: [{{name: research}}]
      login_nodes: 1
      drain_timeout_minutes: 1
      protect: false
    proof: {{level: none}}
"""


def key_of(stack: Stack, name: str) -> Path:
    """The private key of a user of the shared Slurm cluster."""
    return stack.folder / "stacks" / name


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Stamp four nodes on two leaves, with accounting, two users with keys and a login node."""
    stack = Stack.make(tmp_path_factory.mktemp("slurm"), f"s{os.getpid()}")
    for name in ("alice", "bob"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@laptop", "-f", str(key_of(stack, name))]
        subprocess.run(make, check=True, timeout=60)
    stack.declare(SLURM.format(cluster=stack.cluster))
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture
def slurm(slurm_cluster: Stack) -> Iterator[Stack]:
    """Lend the Slurm cluster to a test, and check that it is unchanged afterwards."""
    before = _condition(slurm_cluster)
    yield slurm_cluster
    wait_for(lambda: not slurm_cluster.shell("head", "squeue --noheader --all"), IDLE_S)
    after = _condition(slurm_cluster)
    assert after == before, f"the test has not left the shared cluster as it was: {before} before, {after} after"


def _condition(stack: Stack) -> dict[str, Any]:
    machines = {name: (node["instance"], node["state"]) for name, node in stack.nodes().items()}
    return {"declaration": stack.file.read_text(), "machines": machines, "nodes": stack.node_states()}


@pytest.fixture(scope="session")
def kubernetes_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    """Stamp 64 nodes for scheduling only, on eight leaves, and two teams."""
    stack = KubernetesStack.of(tmp_path_factory.mktemp("gangs"), f"g{os.getpid()}", 64, LEAF_NODES)
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture
def kubernetes(kubernetes_cluster: KubernetesStack) -> Iterator[KubernetesStack]:
    """Lend the Kubernetes cluster to a test, end its gangs, and check that the rest is unchanged."""
    before = kubernetes_cluster.file.read_text()
    yield kubernetes_cluster
    kubernetes_cluster.clear()
    assert kubernetes_cluster.file.read_text() == before, "the test has changed the shared declaration"
    nodes = kubernetes_cluster.listed("nodes")
    assert not [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
    assert len(nodes) == 64
