"""A cluster on machines that are lent: known by address, host key and machine id alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.lent import LentHosts
from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def lent(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LentHosts]:
    """Yield machines that boot the node image, and their list with its lock in the stack."""
    hosts = LentHosts(f"{stack.cluster}-lent", tmp_path_factory.mktemp("lent"), 4)
    with stack.entered():
        hosts.start()
        yield hosts
        stack.run("destroy", "--yes", "--skip-preview")
        hosts.remove()


def names(stack: Stack) -> list[str]:
    """Return the names of the nodes that take jobs, as a job on each says them."""
    ran = stack.stampworks("run", "-s", "test", "--", "hostname")
    assert ran.returncode == 0, ran.stderr
    return sorted(ran.stdout.split())


def test_it_is_stamped_proven_and_stays(stack: Stack, lent: LentHosts) -> None:
    """Jobs run on it, another `up` changes nothing, and the third machine is in reserve."""
    lent.declare(stack, level="quick")
    stack.up()
    assert stack.passes("stack", "output", "verdict").strip() == "pass"
    assert lent.nodes_of() == {"h0": "head", "h1": "gpu-001", "h2": "gpu-002"}
    assert names(stack) == ["gpu-001", "gpu-002"]
    stack.unchanged()


@pytest.mark.long
def test_a_machine_of_the_reserve_replaces_a_dead_one(stack: Stack, lent: LentHosts) -> None:
    """A refresh sees that it does not answer; the next `up` gives its name to another machine."""
    lent.end("h2")
    seen = stack.passes("preview", "--refresh")
    assert "gpu-002: no host that answers is this node" in seen
    stack.up()
    assert lent.nodes_of() == {"h0": "head", "h1": "gpu-001", "h3": "gpu-002"}
    assert names(stack) == ["gpu-001", "gpu-002"]


@pytest.mark.long
def test_a_refused_machine_is_replaced(stack: Stack, lent: LentHosts) -> None:
    """A person refuses a machine. One in reserve becomes the node, and the other is given back and not taken again."""
    rolled = stack.stampworks("roll", "-s", "test", "gpu-001", "--machine", "--reason", "its fans are loud")
    assert rolled.returncode == 0, rolled.stdout + rolled.stderr
    stack.up()
    assert lent.nodes_of() == {"h0": "head", "h1": "", "h3": "gpu-002", "h4": "gpu-001"}
    assert names(stack) == ["gpu-001", "gpu-002"]
    stack.unchanged()


@pytest.mark.long
def test_nodes_leave(stack: Stack, lent: LentHosts) -> None:
    """Their jobs end first, and nothing of the cluster stays on their machines."""
    stack.edit("count: 2", "count: 1")
    stack.up()
    assert lent.nodes_of() == {"h0": "head", "h1": "", "h4": "gpu-001"}


@pytest.mark.long
def test_nodes_come_back_and_too_many_are_refused(stack: Stack, lent: LentHosts) -> None:
    """The error names each machine that could have been the node, and why it is none."""
    stack.edit("count: 1", "count: 3")
    refused = stack.run("up", "--yes", "--skip-preview")
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert "group gpu: no host for gpu-003: " in said
    assert f"127.0.0.1:{lent.port('h2')}: " in said
    assert f"127.0.0.1:{lent.port('h1')}: it is refused: " in said
    assert "list more machines with group: gpu, and run pulumi up again" in said
    stack.edit("count: 3", "count: 2")
    stack.up()
    assert lent.nodes_of() == {"h0": "head", "h1": "", "h3": "gpu-002", "h4": "gpu-001"}


def test_they_are_given_back(stack: Stack, lent: LentHosts) -> None:
    """Files, accounts, services and processes are those that were found; their own key still logs in."""
    stack.destroy()
    assert lent.nodes_of() == {}
    for host in lent.alive():
        assert "\n".join(lent.changed(host)) == ""
    assert not (stack.state / "hosts" / stack.cluster).exists()
