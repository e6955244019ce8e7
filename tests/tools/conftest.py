"""A throw-away Pulumi project, and the real engine to run it with."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def sourced(shell: str = "sh", **variables: str) -> dict[str, str]:
    """The environment after `. tools/env.sh`, begun from almost nothing."""
    script = '. tools/env.sh && exec python3 -c "import json, os; print(json.dumps(dict(os.environ)))"'
    begin = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **variables}
    told = subprocess.run([shell, "-euc", script], cwd=ROOT, env=begin, capture_output=True, text=True, check=True)
    assert told.stderr == ""
    return dict(json.loads(told.stdout))


@dataclass(frozen=True)
class Project:
    folder: Path
    environment: dict[str, str]

    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def pulumi(self, *arguments: str) -> tuple[int, str]:
        """Run the engine; its exit status, and everything it said."""
        with self.start(*arguments) as engine:
            said, _ = engine.communicate(timeout=60)
        return engine.returncode, said


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with the one stack `dev`, that runs in this repository's virtual environment."""
    if not (ROOT / ".venv" / "engine").exists():
        pytest.skip("a pulumi of the user's own is used here, with its own language host")
    state = tmp_path / "state"
    folder = tmp_path / "project"
    folder.mkdir()
    environment = sourced(STAMPWORKS_STATE=str(state))
    (folder / "Pulumi.yaml").write_text(
        f"name: trial\nruntime:\n  name: python\n  options:\n    virtualenv: {ROOT / '.venv'}\n"
    )
    made = Project(folder, environment)
    made.program("import pulumi\n")
    status, said = made.pulumi("stack", "select", "--create", "dev")
    assert status == 0, said
    return made
