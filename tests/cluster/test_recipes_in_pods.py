"""Recipes on nodes that run pods, submitted from the clone: to their end, and again after a lost node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.cluster.kubernetes import KubernetesStack
from tests.cluster.pods import NODES, RUNS, running, soon
from tests.cluster.recipes import ENDS, has_gone_on, has_saved, submit

pytestmark = [pytest.mark.cluster, pytest.mark.long]

MINE = f"{RUNS}/.home.alice/runs"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    with running(tmp_path_factory.mktemp("recipes"), "none") as stack:
        yield stack


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    up.clear()
    shell(up, f"rm -rf {MINE}")


def shell(stack: KubernetesStack, command: str) -> str:
    there = next(node for node, found in stack.nodes().items() if found["state"] == "up")
    return stack.shell(there, command)


@pytest.mark.parametrize("name", ENDS)
def test_to_its_end(name: str, stack: KubernetesStack) -> None:
    """Pods reach no package index; packages come with the job."""
    assert ENDS[name] in submit(stack, name, "--env", "STEPS=60", "--wait")


@pytest.mark.parametrize(("name", "rank"), [*((name, 0) for name in ENDS), ("torchrun-ddp", 1)])
def test_a_lost_node(name: str, rank: int, stack: KubernetesStack) -> None:
    """The job starts again when its node is back, from its checkpoint. At node 0 all others meet."""
    submit(stack, name, "--env", "STEPS=100000")
    soon(stack, f"{name}.alice", lambda: has_saved(partial(shell, stack), MINE, name))
    which = f"--selector=batch.kubernetes.io/job-completion-index={rank}"
    [node] = [pod["spec"]["nodeName"] for pod in stack.listed("pods", "--namespace=research", which)]
    assert node in NODES
    stack.kill(node)
    stack.passes("up", "--yes", "--skip-preview", "--refresh")
    log = f"{RUNS}/{name}.alice/log"
    soon(stack, f"{name}.alice", lambda: has_gone_on(partial(shell, stack), MINE, name, log))


def test_an_evaluation(stack: KubernetesStack) -> None:
    """It reads the last checkpoint of another recipe."""
    submit(stack, "torchrun-ddp", "--env", "STEPS=60", "--wait")
    found = json.loads(submit(stack, "evaluation", "--wait").splitlines()[-1].removeprefix("0: "))
    assert found["samples"] == 1024
    assert 0 < found["loss"] < 1
