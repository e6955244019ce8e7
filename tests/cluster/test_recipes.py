"""Recipes on a stamped Slurm, submitted from the clone: to their end, and again from a checkpoint after a lost node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from tests.cluster.recipes import ENDS, has_gone_on, has_saved, submit
from tests.cluster.shared import SLURM
from tests.cluster.stack import Stack
from tests.project import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.long]

MINE = "/shared/home/alice/runs"
SOON_S = 180


@pytest.fixture(scope="module")
def alices(stack: Stack) -> Stack:
    """A cluster with accounting and homes, whose nodes may be killed."""
    for name in ("alice", "bob"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(stack.folder / "stacks" / name)]
        subprocess.run(make, check=True, timeout=60)
    stack.declare(SLURM.format(cluster=stack.cluster))
    stack.up()
    return stack


@pytest.fixture
def empty(alices: Stack) -> Iterator[Stack]:
    """The cluster with all nodes, without a job or a run of hers."""
    yield alices
    alices.shell("head", "scancel --user=alice")
    wait_for(lambda: not alices.shell("head", "squeue --noheader"), SOON_S)
    alices.shell("head", f"rm -rf {MINE}")
    alices.passes("up", "--yes", "--skip-preview", "--refresh")


@pytest.mark.parametrize(("name", "which"), [*((name, -1) for name in ENDS), ("torchrun-ddp", 0)])
def test_a_lost_node(name: str, which: int, empty: Stack) -> None:
    """The job starts again on other nodes, from its checkpoint. The first node has the job's script."""
    shell = partial(empty.shell, "head")
    submit(empty, name, "--env", "STEPS=100000")
    wait_for(lambda: has_saved(shell, MINE, name), SOON_S)
    number, nodes = shell("squeue --noheader --format='%i %N'").split()
    empty.kill(shell(f"scontrol show hostnames '{nodes}'").split()[which])
    # Slurm takes a minute to miss the node, and lets the job wait for two more.
    wait_for(lambda: shell(f"squeue --noheader --jobs={number} --format=%r") == "BeginTime", SOON_S)
    wait_for(lambda: not shell("squeue --noheader --states=completing"), SOON_S)
    shell(f"scontrol update jobid={number} starttime=now+2")
    wait_for(lambda: has_gone_on(shell, MINE, name, f"/shared/runs/{name}.alice/log"), SOON_S)


def test_an_evaluation(empty: Stack) -> None:
    """It reads the last checkpoint of another recipe."""
    submit(empty, "torchrun-ddp", "--env", "STEPS=60", "--wait")
    found = json.loads(submit(empty, "evaluation", "--wait").splitlines()[-1])
    assert found["samples"] == 1024
    assert 0 < found["loss"] < 1


@pytest.mark.parametrize("name", ENDS)
def test_to_its_end(name: str, empty: Stack) -> None:
    """Nodes reach no package index; packages come with the job."""
    assert ENDS[name] in submit(empty, name, "--env", "STEPS=60", "--wait")
