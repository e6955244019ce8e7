"""Job files on nodes that run pods: arrays, and an order of jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.kubernetes import KubernetesStack
from tests.cluster.pods import of_run, running, soon

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    with running(tmp_path_factory.mktemp("jobs"), "none") as stack:
        yield stack


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    up.clear()


def submit(stack: KubernetesStack, name: str, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (stack.folder / f"{name}.yaml").write_text(text)
    return stack.stampworks("submit", f"{name}.yaml", "--user", "alice", *options)


def tasks_of(stack: KubernetesStack, name: str) -> dict[int, str]:
    return {task["task"]: task["state"] for task in of_run(stack, name)["tasks"]}


def test_tasks(stack: KubernetesStack) -> None:
    """An array ends like its worst task, and all tasks share a secret. A task can be inspected and cancelled alone."""
    text = "array: 0-2\ngpus_per_node: 2\nsecrets: [{name: TOKEN, file: token}]\nrun: echo $ARRAY_INDEX ${#TOKEN}"
    (stack.folder / "token").write_text("s3cr3t")
    done = submit(stack, "many", f"{text}; exit $ARRAY_INDEX\n", "--wait")
    assert done.returncode == 2, done.stdout + done.stderr
    assert {"0: 0: 0 6", "1: 0: 1 6", "2: 0: 2 6"} <= set(done.stdout.splitlines()), done.stdout
    assert stack.stampworks("logs", "many_1").stdout == "1: 0: 1 6\n"
    assert (of_run(stack, "many")["state"], of_run(stack, "many")["exit_code"]) == ("failed", 2)
    soon(stack, "many.alice", lambda: not stack.kubectl("get", "secrets", "--namespace=research", "--output=name"))
    assert submit(stack, "long", "array: 3-4\ngpus_per_node: 2\nrun: sleep 600\n").returncode == 0
    soon(stack, "long.alice", lambda: tasks_of(stack, "long") == {3: "running", 4: "running"})
    cancelled = stack.stampworks("cancel", "long_3")
    assert cancelled.stdout == "job long_3 is cancelled: job research/long-u2001-3\n", cancelled.stderr
    soon(stack, "long.alice", lambda: tasks_of(stack, "long") == {4: "running"})
    busy = submit(stack, "long", "run: x\n")
    assert "job long of alice is at work" in busy.stderr
    assert stack.stampworks("cancel", "long").returncode == 0
    soon(
        stack,
        "long.alice",
        lambda: not stack.listed("jobsets", "--namespace=research", "-l", "stampworks/array=long-u2001"),
    )


def test_an_order(stack: KubernetesStack) -> None:
    """A job is refused when an earlier one has failed. Until then, the cluster has no object of it."""
    assert submit(stack, "bad", "run: exit 3\n", "--wait").returncode == 3
    refused = submit(stack, "after", "depends_on: [bad, nobody]\nrun: x\n")
    assert refused.returncode == 2
    assert "after.yaml:1:14: depends_on[0]: job bad has not ended well" in refused.stderr
    assert "after.yaml:1:19: depends_on[1]: alice has no job nobody" in refused.stderr
    assert submit(stack, "before", "run: sleep 20; echo before\n").returncode == 0
    (stack.folder / "after.yaml").write_text("depends_on: [before]\nrun: echo after\n")
    words = [sys.executable, "-m", "stampworks.cli.main", "submit", "after.yaml", "--user", "alice", "--wait"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=stack.folder, env=stack.environment(), **pipes) as waits:
        soon(stack, "before.alice", lambda: of_run(stack, "before")["state"] == "running")
        assert "after-u2001" not in stack.kubectl("get", "jobsets,workloads", "--namespace=research", "--output=name")
        said, why = waits.communicate(timeout=300)
    assert waits.returncode == 0, said + why
    assert said.splitlines()[-1] == "0: after"
    assert "waits for research/before-u2001" in why
    assert of_run(stack, "before")["state"] == "finished"
