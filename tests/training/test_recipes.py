"""Recipes, run as their job files say, on this machine's processors with two processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "workloads" / "recipes"
TRAINING, OWN = (ROOT / ".venv" / name / "bin" for name in ("training", "recipes"))
NAMES = sorted(path.parent.name for path in RECIPES.glob("*/job.yaml"))
FIELDS = {"name", "nodes", "gpus_per_node", "env", "workdir", "setup", "run", "checkpoint"}
WAIT_S = 400


def job(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((RECIPES / name / "job.yaml").read_text())
    return found


@contextlib.contextmanager
def started(name: str, folder: Path, programs: Path, **own: str) -> Iterator[subprocess.Popen[str]]:
    """The command of a job, with the variables that a job of one node gets; all of it ends with the block."""
    told = job(name)
    environment = {
        **{key: str(value) for key, value in told.get("env", {}).items()},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "workloads"),
        "CHECKPOINT_PATH": str(folder),
        "HOME": str(folder.parent),
        "NNODES": "1",
        "WORLD_SIZE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_STANDALONE": "1",
        "GPUS_PER_NODE": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1",
        **own,
    }
    command = ["bash", "-ec", told["run"]]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=RECIPES / name, env=environment, start_new_session=True, **pipes)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(name: str, folder: Path, programs: Path = OWN, **own: str) -> str:
    """The output of a recipe that came to its end."""
    with started(name, folder, programs, **own) as process:
        said, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, said
    return said


def events(folder: Path, what: str) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in found if event["what"] == what]


def ranks_of(launcher: int) -> list[int]:
    """The processes below a launcher, without those that keep snapshots."""
    below = [launcher]
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent in below and b"stampworks_train.node" not in (stat.parent / "cmdline").read_bytes():
                below.append(int(stat.parent.name))
    return below[1:]


def killed_in_the_middle(name: str, folder: Path, after: int, programs: Path = OWN, **own: str) -> str:
    """The output of a run of which the last rank was killed after some step."""
    with started(name, folder, programs, **own) as process:
        deadline = time.monotonic() + WAIT_S
        while not [event for event in events(folder, "step") if event["step"] >= after]:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(max(ranks_of(process.pid)), signal.SIGKILL)
        said, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, said
    return said


def model(folder: Path) -> dict[str, Any]:
    """The weights of the last checkpoint."""
    last = max((folder / "checkpoints").glob("step-*"))
    dcp_to_torch_save(last, folder / "whole.pt")
    found: dict[str, Any] = torch.load(folder / "whole.pt", weights_only=False)["model"]
    return found


def assert_same_bits(one: Path, other: Path) -> None:
    first, second = model(one), model(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", NAMES)
def test_job_files_have_known_fields(name: str) -> None:
    told = job(name)
    assert set(told) <= FIELDS
    assert told["name"] == name
    readme = (RECIPES / name / "README.md").read_text()
    assert readme.count("\n") <= 45
    assert f"[{name}]({name}/README.md)" in (RECIPES / "README.md").read_text()


def test_torchrun_ddp_survives_a_killed_rank(tmp_path: Path) -> None:
    """Without a step from disk, and with the same bits."""
    run("torchrun-ddp", tmp_path / "one", TRAINING, STEPS="60")
    said = killed_in_the_middle("torchrun-ddp", tmp_path / "two", 8, TRAINING, STEPS="60")
    assert [event["source"] for event in events(tmp_path / "two", "ready")] == ["nothing", "memory"], said
    assert_same_bits(tmp_path / "one", tmp_path / "two")
