"""Running clusters for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from stampworks.plan import Plan

from tests.clouds.aws.conftest import aws, environment, groups, plan, server
from tests.clouds.aws.simulated import Simulated
from tests.clouds.hosts.conforming import OnHosts
from tests.cluster.lent import LentHosts
from tests.cluster.stack import Stack, host
from tests.conformance.clouds import CONFORMING
from tests.conformance.running import OnAws, Running, Stamped, on_aws

__all__ = ["aws", "environment", "groups", "plan", "server"]
STAMPED = [
    pytest.param(cloud, marks=pytest.mark.cluster) for cloud, entry in CONFORMING.items() if entry.running == "on_stack"
]
"""Clouds whose clusters are stamped here for real."""
MARKS = {"on_stack": [pytest.mark.cluster], "on_hosts": [pytest.mark.cluster, pytest.mark.long]}
RUNNING = [
    pytest.param(cloud, marks=MARKS.get(entry.running, [])) for cloud, entry in CONFORMING.items() if entry.running
]


@pytest.fixture(scope="module")
def before() -> str:
    """Return what this machine had before any cluster."""
    return host()


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory, before: str) -> Iterator[Callable[[str], Stack]]:
    """Yield a function that makes the stack of a cloud, once; whatever is left of the stacks is ended."""
    made: dict[str, Stack] = {}

    def of(cloud: str) -> Stack:
        if cloud not in made:
            make = CONFORMING[cloud].stack
            assert make
            made[cloud] = make(tmp_path_factory.mktemp(cloud), f"{cloud[:1]}{os.getpid()}")
        return made[cloud]

    yield of
    for stack in made.values():
        stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture(params=STAMPED)
def cloud(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stack(cloud: str, stacks: Callable[[str], Stack]) -> Stack:
    """Return the stack of a cloud that is stamped here."""
    return stacks(cloud)


@pytest.fixture(name="on_aws")
def _on_aws(aws: Simulated, groups: None, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> OnAws:
    return on_aws(aws, plan, monkeypatch)


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnHosts]:
    """Yield a cluster on machines that are lent, two of them in reserve."""
    stack = Stack.make(tmp_path_factory.mktemp("hosts"), f"h{os.getpid()}")
    machines = LentHosts(f"{stack.cluster}-lent", tmp_path_factory.mktemp("lent"), 4)
    with stack.entered():
        machines.start()
        machines.declare(stack)
        stack.up()
        yield OnHosts(stack, machines)
        stack.run("destroy", "--yes", "--skip-preview")
        machines.remove()


@pytest.fixture(name="on_hosts")
def _on_hosts(lent: OnHosts, monkeypatch: pytest.MonkeyPatch) -> OnHosts:
    monkeypatch.setenv("STAMPWORKS_STATE", str(lent.stack.state))
    return lent


@pytest.fixture(params=RUNNING)
def running(request: pytest.FixtureRequest, stacks: Callable[[str], Stack], monkeypatch: pytest.MonkeyPatch) -> Running:
    """Return a running cluster of each cloud, and let the toolkit's functions see it."""
    entry = CONFORMING[request.param]
    if entry.running != "on_stack":
        found: Running = request.getfixturevalue(entry.running)
        return found
    stack = stacks(request.param)
    monkeypatch.setenv("STAMPWORKS_STATE", str(stack.state))
    return Stamped(stack)
