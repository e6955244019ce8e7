"""An `up` succeeds when the cluster is proven: a deviating node is named, held back, and measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stack import Stack

pytestmark = [pytest.mark.engine, pytest.mark.cluster]

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    pools:
      - {{name: gpu, machine: sim-h100, count: 3}}
    scheduler: {{protect: false}}
    extras: {{roles: [{{path: roles/shm, groups: [gpu], variables: {{shm_size: 16m}}}}]}}
    proof: {{level: quick, failed_nodes_max: 0}}
"""
ROLE = """\
- name: Size the shared memory of one node
  ansible.builtin.command: mount -o remount,size={{ shm_size }} /dev/shm
  when: inventory_hostname == 'gpu-002'
  changed_when: true
"""


def certificate(stack: Stack) -> dict[str, Any]:
    return dict(json.loads(stack.resources()[f"Qualification {stack.cluster}"]["outputs"]["certificate"]))


def test_a_node_that_is_not_as_planned_fails_the_up(stack: Stack) -> None:
    """The error names node and reason; the node takes no jobs, and its measurements are kept."""
    tasks = stack.folder / "stacks" / "roles" / "shm" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text(ROLE)
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    failed = stack.run("up", "--yes", "--skip-preview")
    assert failed.returncode != 0
    assert f"cluster {stack.cluster} is not proven: fail" in failed.stdout
    assert "gpu-002 (fail, held back): /dev/shm has 16 MiB, where its peers have" in failed.stdout
    assert stack.node_states()["gpu-002"].startswith("drained proof: /dev/shm has 16 MiB, where its peers have")
    assert [node["verdict"] for node in certificate(stack)["certificate"]["nodes"]] == ["pass", "fail", "pass"]


@pytest.mark.long
def test_fewer_nodes_than_declared_may_do(stack: Stack) -> None:
    """The declaration accepts fewer nodes; the failed node stays held and named."""
    stack.edit("failed_nodes_max: 0", "failed_nodes_max: 1")
    assert '"pass"' in stack.up()
    assert stack.node_states()["gpu-002"].startswith("drained proof:")
    said = stack.preview()
    assert "proof: gpu-002 (fail, held back): /dev/shm has 16 MiB, where its peers have" in said


def test_repaired_node_passes_and_takes_jobs(stack: Stack) -> None:
    """The next `up` after the repair measures it, and others beside it."""
    stack.edit("shm_size: 16m", "shm_size: 50%")
    stack.up()
    assert stack.node_states()["gpu-002"].startswith("idle")
    assert [node["verdict"] for node in certificate(stack)["certificate"]["nodes"]] == ["pass"] * 3
    said = stack.preview()
    assert "proof:" not in said
    assert "unchanged" in said


def test_the_certificate_is_checked_without_the_cluster(stack: Stack, tmp_path: Path) -> None:
    """The stack's key verifies it; a changed certificate or a missing key does not."""
    key, file = tmp_path / "key.pem", tmp_path / "certificate.json"
    key.write_text(stack.run("stack", "output", "verification_key").stdout)
    file.write_text(stack.run("stack", "output", "certificate", "--show-secrets").stdout)
    content = certificate(stack)
    believed = stack.stampworks("verify", str(file), "--key", str(key))
    assert believed.returncode == 0, believed.stdout
    assert believed.stdout.startswith("signature: pass: signed by key ")
    assert stack.stampworks("verify", str(file)).returncode == 3
    content["certificate"]["nodes"][0]["name"] = "gpu-009"
    file.write_text(json.dumps(content))
    changed = stack.stampworks("verify", str(file), "--key", str(key))
    assert changed.returncode == 1
    assert changed.stdout.startswith("signature: fail: it was changed after it was signed")


@pytest.mark.long
def test_growth_proves_what_is_new(stack: Stack) -> None:
    """Jobs continue; a working node from before keeps its proof."""
    job = stack.shell("head", "sbatch --parsable -w gpu-001 --exclusive --output=/dev/null --wrap 'sleep 600'")
    before = {node["name"]: node["proven"] for node in certificate(stack)["certificate"]["nodes"]}
    stack.edit("count: 3", "count: 4")
    stack.up()
    after = {node["name"]: node["proven"] for node in certificate(stack)["certificate"]["nodes"]}
    assert after["gpu-001"] == before["gpu-001"]
    assert after["gpu-004"] > before["gpu-001"]
    assert stack.shell("head", f"squeue -h -j {job} -o %T") == "RUNNING"
    stack.shell("head", f"scancel {job}")
