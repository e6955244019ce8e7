"""Clusters with nodes that run pods, and what runs there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kubernetes import KubernetesStack
from tests.project import wait_for

TINY = [
    *("--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.length=32"),
    *("--set", "batch=4", "--set", "data.source=synthetic"),
]
RUNS = "/shared/runs"
NODES = ("gpu-001", "gpu-002")
LONG_S = 180
"""Time limit for any wait, also on a busy machine."""
STORAGE = "    storage:\n      - {name: shared, kind: directory, mount: /shared, protect: false}\n"


@contextlib.contextmanager
def running(folder: Path, proof: str, *edits: tuple[str, str]) -> Iterator[KubernetesStack]:
    """The two nodes, with a file system; edits are of the stack's text."""
    if os.geteuid():
        pytest.skip("nodes that run pods divide control groups, which takes root")
    stack = KubernetesStack.of(folder, f"{folder.name[:2]}{os.getpid()}", len(NODES), len(NODES))
    stack.edit(", scheduling_only: true", "")
    stack.edit("    fabric:", f"{STORAGE}    proof: {{level: {proof}}}\n    fabric:")
    for before, after in edits:
        stack.edit(before, after)
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


def asked(stack: KubernetesStack, *argv: str) -> Any:
    done = stack.stampworks(*argv, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def of_run(stack: KubernetesStack, name: str) -> dict[str, Any]:
    """Return the entry of `stampworks jobs` for a run."""
    [found] = [job for job in asked(stack, "jobs")["jobs"] if job["name"] == name]
    return dict(found)


def told(stack: KubernetesStack, name: str, *kinds: str) -> list[dict[str, Any]]:
    there = next(node for node, found in stack.nodes().items() if found["state"] == "up")
    lines = stack.shell(there, f"cat {RUNS}/{name}/events.jsonl || true").splitlines()
    return [event for event in map(json.loads, lines) if event["what"] in kinds]


def soon(stack: KubernetesStack, name: str, true: Callable[[], Any]) -> None:
    try:
        wait_for(true, LONG_S)
    except AssertionError:
        said = stack.kubectl("get", "jobsets,jobs,workloads,pods", "--all-namespaces", "--output=wide")
        raise AssertionError(said + stack.shell(NODES[0], f"cat {RUNS}/{name}/log || true")) from None


def until(stack: KubernetesStack, name: str, step: int) -> None:
    soon(stack, name, lambda: any(event["step"] >= step for event in told(stack, name, "step")))


def through(stack: KubernetesStack, name: str) -> None:
    """Follow a run to its end, which must be a success."""
    followed = stack.stampworks("logs", name, "--follow")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert followed.stderr.endswith(f"run {name}: finished\n"), followed.stderr


def out_of_service(stack: KubernetesStack) -> list[str]:
    return [node["metadata"]["name"] for node in stack.listed("nodes") if node["spec"].get("unschedulable")]
