"""The batch script of a job: its settings, and quoting of its texts."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest
from stampworks.jobs import Job, read_job, resolve
from stampworks.jobs.checks import problems
from stampworks.jobs.slurm import files
from stampworks.plan import Plan
from stampworks.plan.release import Software

FILE = """\
name: train
nodes: 2
account: research
time_limit: 30m
retry: 3
env: {GREETING: "it's $HOME"}
setup: pip install x
run: torchrun train.py
checkpoint: {path: /shared/c, signal: USR1, grace: 2m}
"""


def made(plan: Plan, folder: Path, text: str) -> tuple[Job, dict[str, str]]:
    file = folder / "job.yaml"
    file.write_text(text)
    source = read_job(file, {})
    assert not [*source.problems, *problems(source, plan, "alice")]
    job = resolve(source, plan, "alice", "/shared/runs")
    return job, files(job, plan, (), "digest")


def settings(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_settings(plan: Plan, tmp_path: Path) -> None:
    """Whole nodes, unless a number of accelerators is asked for."""
    _, found = made(plan, tmp_path, FILE)
    assert sorted(found) == ["batch.sh", "node.sh", "run.sh", "setup.sh"]
    assert settings(found["batch.sh"]) == [
        "--job-name=train",
        "--comment=stampworks:job",
        "--partition=main",
        "--account=research",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--exclusive",
        "--gres=gpu:h100:8",
        "--time=30",
        "--signal=B:USR2@120",
        "--chdir=/tmp",
        "--output=/shared/runs/train.alice/log",
        "--open-mode=append",
        "--requeue",
    ]
    part = settings(made(plan, tmp_path, "gpus_per_node: 2\narray: 0-9%2\nrun: x\n")[1]["batch.sh"])
    assert {"--cpus-per-task=4", "--gres=gpu:h100:2", "--array=0-9%2", "--no-requeue"} <= set(part)
    assert "--exclusive" not in part
    none = settings(made(plan, tmp_path, "queue: small\nrun: x\n")[1]["batch.sh"])
    assert not [each for each in none if each.startswith(("--gres", "--signal"))]


def test_scripts_are_sound(plan: Plan, tmp_path: Path) -> None:
    """A shell parses each of them, and variables have the values of the file."""
    _, found = made(plan, tmp_path, FILE)
    for text in found.values():
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    exports = [line for line in found["batch.sh"].splitlines() if line.startswith("export GREETING")]
    said = subprocess.run(["bash", "-c", f'{exports[0]}; echo "$GREETING"'], capture_output=True, text=True, check=True)
    assert said.stdout == "it's $HOME\n"


def test_setup_is_done_again_for_other_content(plan: Plan, tmp_path: Path) -> None:
    """The marker on a node contains a digest of commands and workdir."""
    job, found = made(plan, tmp_path, FILE)
    assert files(job, plan, (), "digest") == found
    assert files(job, plan, (), "another")["node.sh"] != found["node.sh"]
    assert made(plan, tmp_path, FILE.replace("install x", "install y"))[1]["node.sh"] != found["node.sh"]


def with_pyxis(plan: Plan) -> Plan:
    values: dict[str, Any] = {field.name: () for field in dataclasses.fields(Software)} | {"name": "pyxis"}
    release = dataclasses.replace(plan.release, hardware=(Software(**values),))
    return dataclasses.replace(plan, release=release)


@pytest.mark.parametrize(
    ("image", "option"),
    [
        ("nvcr.io#nvidia/pytorch:25.06-py3", "--container-image=nvcr.io#nvidia/pytorch:25.06-py3"),
        ("nvcr.io/nvidia/pytorch:25.06-py3", "--container-image=nvcr.io#nvidia/pytorch:25.06-py3"),
        ("localhost:5000/team/a:1", "--container-image=localhost:5000#team/a:1"),
        ("docker://library/ubuntu:24.04", "--container-image=library/ubuntu:24.04"),
        ("docker://ubuntu:24.04", "--container-image=ubuntu:24.04"),
        ("/shared/images/torch.sqsh", "--container-image=/shared/images/torch.sqsh"),
    ],
)
def test_an_image_by_pyxis(plan: Plan, tmp_path: Path, image: str, option: str) -> None:
    """srun starts the container with pyxis; it sees the job's folder and the declared mounts."""
    text = f"image: {image}\nmounts: [shared]\nsetup: a\nrun: b\n"
    _, found = made(with_pyxis(plan), tmp_path, text)
    [srun] = [line for line in found["batch.sh"].splitlines() if line.startswith("start srun")]
    mounts = "--container-mounts=/shared/runs/job.alice:/shared/runs/job.alice,/shared:/shared"
    assert f" {option} {mounts} --no-container-mount-home " in srun.replace("'", "")
    assert "unshare" not in found["node.sh"]


def test_a_folder_as_an_image(plan: Plan, tmp_path: Path) -> None:
    """Without pyxis, nodes enter the root folder in the user's namespaces."""
    _, found = made(plan, tmp_path, "image: /shared/images/a\nrun: b\n")
    assert "unshare --map-root-user" in found["node.sh"]
    assert "--container" not in found["batch.sh"]
