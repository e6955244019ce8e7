"""Recipes on a stamped Slurm, submitted from the clone: to their end, and again from a checkpoint after a lost node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.shared import SLURM
from tests.cluster.stack import ROOT, Stack
from tests.project import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.long]

RECIPES = ROOT / "workloads" / "recipes"
HOME = "/shared/home/alice"
SOON_S, LIMIT_S = 180, 600
UNPACK = f"runuser -u alice -- tar --extract --directory {HOME}"


@pytest.fixture(scope="module")
def alices(stack: Stack) -> Stack:
    """A cluster with accounting and homes, whose nodes may be killed."""
    for name in ("alice", "bob"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(stack.folder / "stacks" / name)]
        subprocess.run(make, check=True, timeout=60)
    stack.declare(SLURM.format(cluster=stack.cluster))
    stack.up()
    return stack


@pytest.fixture(scope="module")
def packed(alices: Stack) -> Stack:
    """Install the packages of the recipes in her home, as their README says."""
    uv = Path.home() / ".cache" / "stampworks" / "uv" / "bin"  # the one of `make prepare`, if PATH has none
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{uv}", "UV_SYSTEM_CERTS": "true"}
    there = [sys.executable, "-m", "stampworks.cli.main", "ssh", "-s", "test", "head", "--", UNPACK]
    with subprocess.Popen([str(RECIPES / "pack.sh")], env=environment, stdout=subprocess.PIPE) as pack:
        subprocess.run(
            there, cwd=alices.folder, env=alices.environment(), stdin=pack.stdout, check=True, timeout=LIMIT_S
        )
    assert pack.returncode == 0
    return alices


def submit(stack: Stack, name: str, *options: str) -> str:
    """Return the output of the command, which must pass."""
    done = stack.stampworks("submit", "-s", "test", str(RECIPES / name / "job.yaml"), "--user", "alice", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources(stack: Stack, name: str) -> list[str]:
    """Return the source of a run's state for each generation."""
    text = stack.shell("head", f"cat {HOME}/runs/{name}/events.jsonl 2>/dev/null || true")
    events = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [event["source"] for event in events if event["what"] == "ready"]


def test_a_lost_node_and_then_an_evaluation(alices: Stack) -> None:
    """The job restarts on other nodes from its checkpoint; another recipe reads the last checkpoint."""
    submit(alices, "torchrun-ddp", "--env", "STEPS=20000")
    whole = f"ls {HOME}/runs/torchrun-ddp/checkpoints/*/manifest.json 2>/dev/null || true"
    wait_for(lambda: alices.shell("head", whole), SOON_S)
    number, nodes = alices.shell("head", "squeue --noheader --format='%i %N'").split()
    alices.kill(alices.shell("head", f"scontrol show hostnames '{nodes}'").split()[-1])
    # Slurm takes a minute to miss the node, and lets the job wait for two more.
    wait_for(lambda: alices.shell("head", f"squeue --noheader --jobs={number} --format=%r") == "BeginTime", SOON_S)
    wait_for(lambda: not alices.shell("head", "squeue --noheader --states=completing"), SOON_S)
    alices.shell("head", f"scontrol update jobid={number} starttime=now+2")
    wait_for(lambda: len(sources(alices, "torchrun-ddp")) > 1, SOON_S)
    assert sources(alices, "torchrun-ddp") == ["nothing", "checkpoint"]
    assert alices.stampworks("cancel", "-s", "test", "torchrun-ddp").returncode == 0
    wait_for(lambda: not alices.shell("head", "squeue --noheader"), SOON_S)
    found = json.loads(submit(alices, "evaluation", "--wait").splitlines()[-1])
    assert found["samples"] == 1024
    assert 0 < found["loss"] < 1


def test_tensors_and_stages(alices: Stack) -> None:
    assert "step 50: loss" in submit(alices, "tp-pp", "--env", "STEPS=60", "--wait")


@pytest.mark.parametrize("name", ["accelerate", "hf-trainer"])
def test_recipes_with_packages(name: str, packed: Stack) -> None:
    """Nodes reach no package index, and have the release's torch."""
    submit(packed, name, "--env", "STEPS=40", "--wait")
    assert sources(packed, name) == ["nothing"]


@pytest.mark.parametrize(
    ("name", "last"), [("jax", "step 60: loss"), ("deepspeed", '"stage": 3'), ("ray-train", "finished: {'step': 60")]
)
def test_recipes_with_checkpoints_of_their_own(name: str, last: str, packed: Stack) -> None:
    assert last in submit(packed, name, "--env", "STEPS=60", "--wait")
