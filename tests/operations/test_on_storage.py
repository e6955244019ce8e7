"""Secrets of jobs on shared storage: they are removed when Slurm has no such job, and not before."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stampworks.operations import on_storage

from tests.project import wait_for

SQUEUE = """#!/bin/sh
echo "$@" >>"$HERE/asked"
case $(cat "$HERE/answer") in
    gone) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
    silent) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1 ;;
    *) cat "$HERE/answer" ;;
esac
"""


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the file with the output of squeue."""
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
    """A silent controller says nothing about a job."""
    answer.write_text(said)
    on_storage.sweep(secrets.parents[1])
    assert secrets.exists() == stays


def test_a_job_that_was_never_submitted(answer: Path, secrets: Path) -> None:
    """A job that is being submitted has no number for a moment, and its secrets stay."""
    answer.write_text("gone")
    (secrets.parent / "number").unlink()
    on_storage.sweep(secrets.parents[1])
    assert secrets.exists()
    os.utime(secrets, (0, 0))
    on_storage.sweep(secrets.parents[1])
    assert not secrets.exists()
    assert (answer.parent / "asked").read_text().splitlines()[-1] == "--noheader --me --name=job --format=%T"


def test_a_job_whose_number_was_lost(answer: Path, secrets: Path) -> None:
    """The connection broke after sbatch had queued it: it is known by its name, and its secrets stay."""
    answer.write_text("PENDING")
    (secrets.parent / "number").unlink()
    os.utime(secrets, (0, 0))
    on_storage.sweep(secrets.parents[1])
    assert secrets.exists()


def test_a_watch(answer: Path, secrets: Path) -> None:
    """The watcher survives the call that starts it, and waits for the end of the last attempt."""
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
    """Its log and exit code would otherwise count for the new attempt."""
    answer.write_text("RUNNING")
    folder = secrets.parent
    for name in (on_storage.LOG, on_storage.EXIT):
        (folder / name).write_text("old")
    given = {"files": {"run.sh": "new"}, "secrets": "", "manifest": None, "turn": ""}
    assert on_storage.place(folder, folder.parent / ".objects", given) == {}
    on_storage.watch(folder, "8")
    assert sorted(path.name for path in folder.iterdir()) == ["number", "run.sh", "turn"]


GIVEN: dict[str, Any] = {"files": {"run.sh": "x"}, "secrets": "export TOKEN=x\n", "manifest": None}


def test_two_at_once(tmp_path: Path) -> None:
    """One of two concurrent commands submits; the other gets an error."""
    folder, objects = tmp_path / "job.alice", tmp_path / ".objects"
    seen = on_storage.look(folder, "")["turn"]
    assert on_storage.place(folder, objects, {**GIVEN, "turn": seen}) == {}
    late = {**GIVEN, "files": {"run.sh": "other"}, "turn": seen}
    assert on_storage.place(folder, objects, late)["busy"].startswith("another command has been submitting it for ")
    (folder / on_storage.SECRETS).unlink()
    on_storage.watch(folder, "7")
    assert on_storage.place(folder, objects, late) == {"busy": "another command has submitted it meanwhile"}
    assert (folder / "run.sh").read_text() == "x"
    assert on_storage.place(folder, objects, {**GIVEN, "turn": on_storage.look(folder, "")["turn"]}) == {}


def test_many_at_once(tmp_path: Path) -> None:
    """A single one of the processes that start with the same look wins."""
    program = Path(on_storage.__file__).read_text()
    command = [sys.executable, "-I", "-c", program, "place", str(tmp_path / "job.alice"), str(tmp_path / ".objects")]
    text = json.dumps({**GIVEN, "turn": ""})
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started = [stack.enter_context(subprocess.Popen(command, text=True, **pipes)) for _ in range(6)]  # type: ignore[call-overload]
        answers = [json.loads(each.communicate(text, timeout=20)[0]) for each in started]
    assert answers.count({}) == 1, answers
    assert all("another command" in each["busy"] for each in answers if each)


@pytest.mark.parametrize("how", ["failed", "broken off"])
def test_a_submission_that_came_to_nothing(how: str, tmp_path: Path) -> None:
    """The next submission does not wait: at once after a reported failure, and after a while if it was killed."""
    folder, objects = tmp_path / "job.alice", tmp_path / ".objects"
    on_storage.place(folder, objects, {**GIVEN, "turn": ""})
    if how == "failed":
        on_storage.forget(folder)
    else:
        os.utime(folder / on_storage.CLAIM, (0, 0))
    again = {**GIVEN, "turn": on_storage.look(folder, "")["turn"]}
    assert on_storage.place(folder, objects, again) == {}
    assert (folder / on_storage.SECRETS).exists()


@pytest.mark.parametrize(
    ("make", "wrong"),
    [("", "does not exist"), ("etc", "is not a root file system: it has no /bin/bash"), ("bin/bash", "")],
)
def test_a_folder_as_an_image(tmp_path: Path, make: str, wrong: str) -> None:
    image = tmp_path / "image"
    if make:
        (image / make).mkdir(parents=True)
    assert on_storage.look(tmp_path / "job", str(image)) == {"mine": True, "image": wrong, "turn": ""}
