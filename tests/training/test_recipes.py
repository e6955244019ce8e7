"""Recipes, run as their job files say, on this machine's processors with two processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import yaml
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "workloads" / "recipes"
TRAINING, OWN = (ROOT / ".venv" / name / "bin" for name in ("training", "recipes"))
NAMES = sorted(path.parent.name for path in RECIPES.glob("*/job.yaml"))
FIELDS = {"name", "nodes", "gpus_per_node", "env", "workdir", "setup", "run", "checkpoint", "retry"}
WAIT_S = 400


def job(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((RECIPES / name / "job.yaml").read_text())
    return found


@contextlib.contextmanager
def started(name: str, folder: Path, programs: Path, **own: str) -> Iterator[subprocess.Popen[str]]:
    """Start the command of a job with the variables of a single-node job; all processes end with the block."""
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
    command = ["bash", "-ec", told["run"].replace("~/recipes/bin:", "")]  # instead of what `setup` makes
    where = (RECIPES / name / told["workdir"]).resolve()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=where, env=environment, start_new_session=True, **pipes)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(name: str, folder: Path, programs: Path = OWN, **own: str) -> str:
    """The output of a complete recipe."""
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
    """Return the processes below a launcher, without keepers of snapshots."""
    below = [launcher]
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent in below and b"stampworks_train.node" not in (stat.parent / "cmdline").read_bytes():
                below.append(int(stat.parent.name))
    return below[1:]


def killed_in_the_middle(name: str, folder: Path, after: int, programs: Path = OWN, **own: str) -> str:
    """Return the output of a run whose last rank was killed after some step."""
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


def workers_of_ray(folder: str) -> list[int]:
    """Return the training processes of the Ray cluster with this folder.

    Its raylet starts them. Their children have the same name for a moment.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (process / "environ").read_bytes().split(b"\0")
            named = (process / "cmdline").read_bytes().startswith(b"ray::RayTrainWorker")
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            by_raylet = b"raylet" in Path("/proc", parent, "cmdline").read_bytes().split(b"\0")[0]
            if named and by_raylet and f"RAY_TMPDIR={folder}".encode() in environment:
                found.append(int(process.name))
    return found


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


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


@pytest.mark.long
def test_torchrun_ddp_survives_a_killed_rank(tmp_path: Path) -> None:
    """No step is read from disk, and the bits are the same."""
    run("torchrun-ddp", tmp_path / "one", TRAINING, STEPS="60")
    said = killed_in_the_middle("torchrun-ddp", tmp_path / "two", 8, TRAINING, STEPS="60")
    assert [event["source"] for event in events(tmp_path / "two", "ready")] == ["nothing", "memory"], said
    assert_same_bits(tmp_path / "one", tmp_path / "two")


@pytest.mark.long
def test_an_evaluation_reads_the_last_checkpoint(tmp_path: Path) -> None:
    """Its number of ranks differs from the writer's."""
    run("torchrun-ddp", tmp_path / "it", TRAINING, STEPS="40")
    run("evaluation", tmp_path / "it", TRAINING, PET_NPROC_PER_NODE="3")
    found = json.loads((tmp_path / "it" / "evaluation.json").read_text())
    assert (found["checkpoint"], found["samples"]) == ("step-00000040", 1024)
    assert 0 < found["loss"] < 1


@pytest.mark.long
@pytest.mark.parametrize("cut", ["1", "2"])
def test_stages_and_cut_matrices_survive_a_killed_rank(cut: str, tmp_path: Path) -> None:
    run("tp-pp", tmp_path / "one", TRAINING, STEPS="40", TP=cut)
    killed_in_the_middle("tp-pp", tmp_path / "two", 8, TRAINING, STEPS="40", TP=cut)
    assert [event["source"] for event in events(tmp_path / "two", "ready")] == ["nothing", "memory"]
    assert {name.split(".")[1] for name in model(tmp_path / "two")} == {"0", "1", "2", "3"}
    assert_same_bits(tmp_path / "one", tmp_path / "two")


@pytest.mark.long
@pytest.mark.parametrize("name", ["accelerate", "hf-trainer"])
def test_hugging_face_survives_a_killed_rank(name: str, tmp_path: Path) -> None:
    run(name, tmp_path / "one", STEPS="40")
    killed_in_the_middle(name, tmp_path / "two", 8, STEPS="40")
    assert [event["source"] for event in events(tmp_path / "two", "ready")] == ["nothing", "memory"]
    assert_same_bits(tmp_path / "one", tmp_path / "two")


@pytest.mark.long
def test_jax_goes_on_from_its_file(tmp_path: Path) -> None:
    """Two processes stand for two nodes; a stopped run ends like an undisturbed one."""

    def both(folder: Path, steps: str) -> str:
        own = {"NNODES": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "STEPS": steps}
        with (
            started("jax", folder, OWN, RANK="0", **own) as first,
            started("jax", folder, OWN, RANK="1", **own) as second,
        ):
            said, other = first.communicate(timeout=WAIT_S)[0], second.communicate(timeout=WAIT_S)[0]
            assert (first.returncode, second.returncode) == (0, 0), said + other
        return said

    assert "step 60: loss" in both(tmp_path / "one", "60")
    both(tmp_path / "two", "30")
    assert "2 devices" in both(tmp_path / "two", "60")
    with numpy.load(tmp_path / "one" / "state.npz") as one, numpy.load(tmp_path / "two" / "state.npz") as two:
        assert all((one[name] == two[name]).all() for name in ("step", "up", "down"))


def known_to_ray(folder: Path) -> bool:
    """Return whether a restarted run continues from a checkpoint: files alone do not suffice."""
    snapshot = folder / "run" / "checkpoint_manager_snapshot.json"
    return snapshot.exists() and '"checkpoint_dir_name"' in snapshot.read_text()


def last_of_ray(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(max((folder / "run").glob("checkpoint_*/state.pt")))
    return found


@pytest.mark.long
def test_ray_train_survives_a_killed_worker(tmp_path: Path) -> None:
    """Ray restarts all workers, which continue from its last checkpoint with the same bits."""
    with tempfile.TemporaryDirectory(prefix="ray") as short:  # sockets have short paths
        # Ray takes 127.0.0.1 for an address of the machine's network.
        own = {"MASTER_ADDR": "127.0.0.2", "NODE_RANK": "0", "PET_NPROC_PER_NODE": "2", "RAY_TMPDIR": short}
        said = run("ray-train", tmp_path / "one", OWN, STEPS="400", MASTER_PORT=free_port(), **own)
        assert "finished: {'step': 400, 'after': 0," in said
        two = tmp_path / "two"
        with started("ray-train", two, OWN, STEPS="400", MASTER_PORT=free_port(), **own) as process:
            deadline = time.monotonic() + WAIT_S
            while not known_to_ray(two):
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline
                time.sleep(0.01)
            workers = workers_of_ray(short)
            assert len(workers) == 2
            os.kill(workers[0], signal.SIGKILL)
            said, _ = process.communicate(timeout=WAIT_S)
            assert process.returncode == 0, said
    assert re.search(r"finished: {'step': 400, 'after': [1-9]", said), said
    assert (two / "ray-token").stat().st_mode & 0o077 == 0
    first, second = last_of_ray(tmp_path / "one"), last_of_ray(two)
    assert first["step"] == second["step"] == 400
    assert all(torch.equal(first["model"][name], second["model"][name]) for name in first["model"])


def weights_of_zero(folder: Path) -> dict[str, Any]:
    """The whole weights, which DeepSpeed's own program puts together from the parts of the ranks."""
    command = [str(OWN / "python"), str(folder / "zero_to_fp32.py"), str(folder), str(folder / "whole")]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)
    found: dict[str, Any] = torch.load(folder / "whole" / "pytorch_model.bin")
    return found


@pytest.mark.long
@pytest.mark.parametrize("stage", ["1", "2", "3"])
def test_zero_survives_a_killed_rank(stage: str, tmp_path: Path) -> None:
    """The run continues from the engine's last checkpoint with the same bits."""
    one, two = tmp_path / "one", tmp_path / "two"
    said = run("deepspeed", one, STEPS="80", STAGE=stage)
    assert json.dumps({"step": 80, "stage": int(stage), "ranks": 2}) in said
    with started("deepspeed", two, OWN, STEPS="80", STAGE=stage) as process:
        deadline = time.monotonic() + WAIT_S
        while not (two / "latest").exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(max(ranks_of(process.pid)), signal.SIGKILL)
        said, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, said
    assert "goes on after step" in said
    first, second = weights_of_zero(one), weights_of_zero(two)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
