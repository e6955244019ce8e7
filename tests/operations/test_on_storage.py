"""Secrets of jobs on shared storage: they go when Slurm says that the job has left the queue, and not before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stampworks.operations import on_storage

from tests.project import wait_for

SQUEUE = """#!/bin/sh
case $(cat "$HERE/answer") in
    gone) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
    silent) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1 ;;
    *) cat "$HERE/answer" ;;
esac
"""


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with what squeue says."""
    (tmp_path / "squeue").write_text(SQUEUE)
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "answer"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "job.alice"
    folder.mkdir(parents=True)
    (folder / "number").write_text("7")
    (folder / on_storage.SECRETS).write_text("export TOKEN=x\n")
    return folder / on_storage.SECRETS


@pytest.mark.parametrize(
    ("said", "stays"), [("PENDING", True), ("RUNNING", True), ("silent", True), ("gone", False), ("", False)]
)
def test_a_sweep(answer: Path, secrets: Path, said: str, stays: bool) -> None:
    """A controller that does not answer says nothing about a job."""
    answer.write_text(said)
    on_storage.sweep(secrets.parents[1])
    assert secrets.exists() == stays


def test_a_job_that_was_never_submitted(answer: Path, secrets: Path) -> None:
    """One that is being submitted has no number for a moment, and its secrets stay."""
    answer.write_text("gone")
    (secrets.parent / "number").unlink()
    on_storage.sweep(secrets.parents[1])
    assert secrets.exists()
    os.utime(secrets, (0, 0))
    on_storage.sweep(secrets.parents[1])
    assert not secrets.exists()


def test_a_watch(answer: Path, secrets: Path) -> None:
    """It outlives the call that starts it, and waits for the end of the last attempt."""
    answer.write_text("PENDING")
    program = Path(on_storage.__file__).read_text().replace("_POLL_S = 5.0", "_POLL_S = 0.05")
    command = [sys.executable, "-I", "-c", program, "watch", str(secrets.parent), "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert json.loads(done.stdout) == {}
    assert secrets.exists()
    assert (secrets.parent / "number").read_text() == "8"
    answer.write_text("gone")
    wait_for(lambda: not secrets.exists(), 20)


def test_a_job_that_nothing_has_taken(secrets: Path) -> None:
    on_storage.forget(secrets.parent)
    assert not secrets.exists()


def test_a_new_attempt_leaves_nothing_of_the_last_one(answer: Path, secrets: Path) -> None:
    """Its log and its exit code would be taken for those of the new one."""
    answer.write_text("RUNNING")
    folder = secrets.parent
    for name in (on_storage.LOG, on_storage.EXIT):
        (folder / name).write_text("old")
    given = {"files": {"run.sh": "new"}, "secrets": "", "manifest": None}
    on_storage.place(folder, folder.parent / ".objects", given)
    assert sorted(path.name for path in folder.iterdir()) == ["run.sh"]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [("", "does not exist"), ("etc", "is not a root file system: it has no /bin/bash"), ("bin/bash", "")],
)
def test_a_folder_as_an_image(tmp_path: Path, make: str, wrong: str) -> None:
    image = tmp_path / "image"
    if make:
        (image / make).mkdir(parents=True)
    assert on_storage.look(tmp_path / "job", str(image)) == {"mine": True, "image": wrong}
