"""tools/env.sh, and the demo's commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stampworks.state import paths

from tests.tools.projects import ROOT, sourced


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
def test_every_shell_gets_the_same(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    state = tmp_path / "state"
    told = sourced(shell, STAMPWORKS_STATE=str(state))
    assert told["STAMPWORKS_ROOT"] == str(ROOT)
    assert told["PATH"].split(os.pathsep)[:2] == [str(ROOT / ".venv/bin"), str(ROOT / ".venv/engine")]
    assert told["PULUMI_HOME"] == f"{state}/pulumi/home"
    assert told["PULUMI_BACKEND_URL"] == f"file://{state}/pulumi"
    assert told["PULUMI_CONFIG_PASSPHRASE"] == "stampworks-local"
    assert state.stat().st_mode & 0o777 == 0o700


def test_state_lies_where_the_project_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell and stampworks.state.paths give the same answer."""
    monkeypatch.delenv("STAMPWORKS_STATE")
    for variables in ({}, {"XDG_STATE_HOME": str(tmp_path / "xdg")}, {"XDG_STATE_HOME": "relative"}):
        variables["HOME"] = str(tmp_path)
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert sourced(**variables)["PULUMI_BACKEND_URL"] == f"file://{paths.state_dir()}/pulumi"


def test_variables_of_the_user_are_kept(tmp_path: Path) -> None:
    own = {"PULUMI_BACKEND_URL": "s3://own", "PULUMI_HOME": "/own", "PULUMI_CONFIG_PASSPHRASE_FILE": "/own/passphrase"}
    told = sourced(STAMPWORKS_STATE=str(tmp_path), **own)
    assert {name: told[name] for name in own} == own
    assert "PULUMI_CONFIG_PASSPHRASE" not in told


def test_sourcing_twice_changes_nothing(tmp_path: Path) -> None:
    once = sourced(STAMPWORKS_STATE=str(tmp_path))
    assert sourced(**once)["PATH"] == once["PATH"]


def test_a_shell_that_does_not_know_where_it_is_says_so(tmp_path: Path) -> None:
    failed = subprocess.run(
        ["dash", "-c", f". {ROOT}/tools/env.sh"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr == (
        "tools/env.sh: this shell does not say where the file is: source it from the top of the clone\n"
    )


@pytest.mark.engine
def test_a_demo_with_another_passphrase_stops_with_a_hint(tmp_path: Path) -> None:
    """A passphrase in the user's shell may differ from that of the tracked stack file."""
    environment = sourced(STAMPWORKS_STATE=str(tmp_path), PULUMI_CONFIG_PASSPHRASE="another")
    demo = subprocess.run(
        ["tools/demo", "up"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert demo.returncode == 1
    assert demo.stderr == (
        "error: could not create secrets manager for new stack: incorrect passphrase\n"
        "hint: the passphrase of the stack 'local' is 'stampworks-local'; PULUMI_CONFIG_PASSPHRASE, or the file that "
        "PULUMI_CONFIG_PASSPHRASE_FILE names, says another one: unset it for the demo\n"
    )


@pytest.mark.engine
def test_the_stack_of_the_demo_leaves_its_declaration_alone(tmp_path: Path) -> None:
    """Its salt is tracked: creating and removing the stack, as the demo does, changes no file of the clone."""
    clone = tmp_path / "clone"
    (clone / "stacks").mkdir(parents=True)
    shutil.copy(ROOT / "Pulumi.yaml", clone)
    shutil.copy(ROOT / "stacks" / "Pulumi.local.yaml", clone / "stacks")
    (clone / "stacks" / "__main__.py").write_text("import pulumi\npulumi.export('secret', pulumi.Output.secret(1))\n")
    for name in (".venv", "components"):
        (clone / name).symlink_to(ROOT / name)
    before = (clone / "stacks" / "Pulumi.local.yaml").read_bytes()
    environment = sourced(STAMPWORKS_STATE=str(tmp_path / "state"))
    for command in (
        ["pulumi", "stack", "select", "--create", "local"],
        ["pulumi", "up", "--yes", "--skip-preview", "--stack", "local"],
        [str(ROOT / "tools" / "demo"), "down"],
    ):
        done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (clone / "stacks" / "Pulumi.local.yaml").read_bytes() == before
    assert sorted(path.name for path in clone.rglob("*.yaml")) == ["Pulumi.local.yaml", "Pulumi.yaml"]
