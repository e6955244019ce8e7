"""A throw-away Pulumi project, and the real engine to run it with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.projects import ROOT, SourcedProject, sourced


@pytest.fixture
def project(tmp_path: Path) -> SourcedProject:
    """A project with the stack `dev` that runs in this repository's virtual environment."""
    if not (ROOT / ".venv" / "engine").exists():
        pytest.skip("a pulumi of the user's own is used here, with its own language host")
    state = tmp_path / "state"
    folder = tmp_path / "project"
    folder.mkdir()
    environment = sourced(STAMPWORKS_STATE=str(state))
    (folder / "Pulumi.yaml").write_text(
        f"name: trial\nruntime:\n  name: python\n  options:\n    virtualenv: {ROOT / '.venv'}\n"
    )
    made = SourcedProject(folder, environment)
    made.program("import pulumi\n")
    done = made.run("stack", "select", "--create", "dev")
    assert done.returncode == 0, done.stdout
    return made
