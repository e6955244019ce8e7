"""The stack `local` in the real engine, with hands that touch nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stampworks.rehearsal import engine

from tests.project import wait_for
from tests.rehearsal.conftest import ROOT, Trial, phase, project
from tests.rehearsed import Rehearse, Rehearsed

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    config = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    return project(tmp_path_factory.mktemp("local"), ROOT / "stacks" / "__main__.py", "local", config)


@pytest.fixture(scope="module")
def rehearsed(rehearse: Rehearse) -> Rehearsed:
    return rehearse("local")


def test_every_phase_goes_as_it_must(rehearsed: Rehearsed) -> None:
    """A second up and a refresh change nothing, and nothing is left at the end."""
    assert (rehearsed.found["verdict"], rehearsed.found["rehearsal"]) == ("pass", True)
    assert [each["name"] for each in rehearsed.found["phases"]] == [
        "preview",
        "up",
        "up again",
        "change: two more",
        "change: data to keep",
        "refresh",
        "destroy",
        "failure: stock-out at creation 4",
        "failure: crash at local-gpu",
    ]
    assert phase(rehearsed.found, "up again")["found"] == "0 changes"


def test_creations_come_in_the_order_of_the_design(rehearsed: Rehearsed) -> None:
    order = [f"{each['type'].split(':')[-1]} {each['name']}" for each in phase(rehearsed.found, "up")["steps"]]
    chain = ["LocalNetwork local", "LocalGroup local-head", "LocalGroup local-gpu", "Roll local", "Roster local"]
    chain += ["Playbook local", "Qualification local"]
    assert [each for each in order if each in chain] == chain
    assert len(order) == 13
    assert phase(rehearsed.found, "up")["found"] == "12 created"  # the resources and a component


def test_a_change_says_what_it_does_and_why(rehearsed: Rehearsed) -> None:
    steps = {each["type"]: each for each in phase(rehearsed.found, "change: two more")["steps"]}
    assert {each["op"] for each in steps.values()} == {"update"}
    assert "group.count" in [why["path"] for why in steps["stampworks:local:LocalGroup"]["why"]]
    assert "stampworks:cluster:Keyring" not in steps


def test_next_up_finishes_after_a_failure(rehearsed: Rehearsed) -> None:
    failed = phase(rehearsed.found, "failure: stock-out at creation 4")
    assert failed["found"] == "the next up finishes, with nothing twice"
    assert any("rehearsed stock-out: the cloud has no capacity" in note for note in failed["notes"])
    crashed = phase(rehearsed.found, "failure: crash at local-gpu")
    assert "was being created: stampworks:local:LocalGroup local-gpu" in crashed["notes"]
    assert crashed["steps"][0]["name"] == "local-gpu"


def test_the_critical_path_counts_what_nobody_knows(rehearsed: Rehearsed) -> None:
    path = rehearsed.found["critical_path"]
    assert path["seconds"] == 0.5
    assert "stampworks:local:LocalNetwork local" in path["resources"]
    assert len(path["unknown"]) == len(path["resources"]) - 1


def test_secrets_are_in_no_record(rehearsed: Rehearsed) -> None:
    """Calls are recorded without their secrets."""
    [network] = [
        each
        for each in rehearsed.calls
        if each["call"] == "Create" and each["type"].endswith("LocalNetwork") and not each["preview"]
    ][:1]
    assert network["values"]["sshPrivateKey"] == "[secret]"
    assert network["values"]["cluster"] == "local"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(trial: Trial, tmp_path: Path, number: int, code: int) -> None:
    """The engine, its children and its folder are gone."""
    command = [sys.executable, "-m", "stampworks.cli.main", "rehearse", "-s", "local"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=trial.folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        next(line for line in process.stderr if line == "rehearsing local: up\n")
        wait_for(lambda: len(_of(tmp_path)) > 1, 60)  # the engine, and the host that runs the program
        process.send_signal(number)
        assert process.wait(60) == code
    assert list(tmp_path.iterdir()) == []
    wait_for(lambda: not _of(tmp_path), 10)


def _of(folder: Path) -> list[Path]:
    """Return the processes that have the folder as an argument."""
    return [file for file in Path("/proc").glob("[0-9]*/environ") if str(folder).encode() in content(file)]


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return b""


def test_process_without_environment_is_ended() -> None:
    """A process that is just becoming another program shows none: it belongs to the engine's session."""
    with subprocess.Popen(["env", "-i", "sleep", "60"], start_new_session=True) as process:
        try:
            assert engine._left(b"PULUMI_HOME=nowhere", process.pid) == [process.pid]
            assert engine._left(b"PULUMI_HOME=nowhere", -1) == []
        finally:
            process.kill()
