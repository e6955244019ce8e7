"""A cluster on machines that are lent: known by address, host key and machine id alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.declaration import load_value
from stampworks.planning import plan

from tests.cluster.lent import LentHosts
from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster
DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: hosts
    network: {{egress: none}}
    hosts:
      identity_file: {identity_file}
      machines: {machines}
    pools:
      - {{name: gpu, machine: sim-h100, count: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, existing: /exports/shared, protect: false}}
    users: [{{name: alice, uid: 2001}}]
    scheduler: {{drain_timeout_minutes: 1, protect: false}}
    proof: {{level: {level}}}
"""
GROUPS = {"h0": "head", "h1": "gpu", "h2": "gpu", "h3": "gpu"}


@pytest.fixture(scope="module")
def lent(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LentHosts]:
    """Yield machines that boot the node image, and their list with its lock in the stack."""
    hosts = LentHosts(f"{stack.cluster}-lent", tmp_path_factory.mktemp("lent"), len(GROUPS) - 1)
    with stack.entered():
        hosts.start(plan(load_value({**OF_RELEASE}, "test")).release)
        declare(stack, hosts)
        yield hosts
        stack.run("destroy", "--yes", "--skip-preview")
        hosts.remove()


OF_RELEASE = {
    "version": 1,
    "name": "x",
    "cloud": "local",
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
}


def declare(stack: Stack, hosts: LentHosts, level: str = "none") -> None:
    machines = json.dumps([hosts.listed(host, group) for host, group in GROUPS.items()])
    stack.declare(
        DECLARATION.format(cluster=stack.cluster, identity_file=hosts.identity_file, machines=machines, level=level)
    )
    locked = [hosts.locked(host, group) for host, group in GROUPS.items()]
    lock = {"version": 1, "region": "", "images": {}, "hosts": locked}
    (stack.folder / "stacks" / "test.lock.json").write_text(json.dumps(lock))


def names(stack: Stack) -> list[str]:
    """Return the names of the nodes that take jobs, as a job on each says them."""
    ran = stack.stampworks("run", "-s", "test", "--", "hostname")
    assert ran.returncode == 0, ran.stderr
    return sorted(ran.stdout.split())


def hosts_of(hosts: LentHosts) -> dict[str, str]:
    """Return the name of the node that each machine is."""
    found = {}
    for host in hosts.alive():
        mark = hosts.run(host, "sh", "-c", "cat /etc/stampworks/cluster || true").strip()
        if mark:
            found[host] = json.loads(mark)["node"]
    return found


def test_it_is_stamped_proven_and_stays(stack: Stack, lent: LentHosts) -> None:
    """Jobs run on it, another `up` changes nothing, and the third machine is in reserve."""
    declare(stack, lent, level="quick")
    stack.up()
    assert stack.passes("stack", "output", "verdict").strip() == "pass"
    assert hosts_of(lent) == {"h0": "head", "h1": "gpu-001", "h2": "gpu-002"}
    assert names(stack) == ["gpu-001", "gpu-002"]
    stack.unchanged()


def test_a_machine_of_the_reserve_replaces_a_dead_one(stack: Stack, lent: LentHosts) -> None:
    """A refresh sees that it does not answer; the next `up` gives its name to another machine."""
    lent.end("h2")
    seen = stack.passes("preview", "--refresh")
    assert "gpu-002: no host that answers is this node" in seen
    stack.up()
    assert hosts_of(lent) == {"h0": "head", "h1": "gpu-001", "h3": "gpu-002"}
    assert names(stack) == ["gpu-001", "gpu-002"]


def test_nodes_leave(stack: Stack, lent: LentHosts) -> None:
    """Their jobs end first, and nothing of the cluster stays on their machines."""
    stack.edit("count: 2", "count: 1")
    stack.up()
    assert hosts_of(lent) == {"h0": "head", "h1": "gpu-001"}


@pytest.mark.long
def test_nodes_come_back_and_too_many_are_refused(stack: Stack, lent: LentHosts) -> None:
    """The error names each machine that could have been the node, and why it is none."""
    stack.edit("count: 1", "count: 3")
    refused = stack.run("up", "--yes", "--skip-preview")
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert "group gpu: no host for gpu-003: " in said
    assert f"127.0.0.1:{lent.port('h2')}: " in said
    assert "list more machines with group: gpu, and run pulumi up again" in said
    stack.edit("count: 3", "count: 2")
    stack.up()
    assert hosts_of(lent) == {"h0": "head", "h1": "gpu-001", "h3": "gpu-002"}


def test_they_are_given_back(stack: Stack, lent: LentHosts) -> None:
    """Nothing of the cluster is left on them, and their own key still logs in."""
    stack.destroy()
    assert hosts_of(lent) == {}
    for host in lent.alive():
        keys = lent.run(host, "cat", "/root/.ssh/authorized_keys").splitlines()
        assert keys == [lent.identity_file.with_suffix(".pub").read_text().strip()]
    assert not (Path(stack.state) / "hosts" / stack.cluster).exists()
