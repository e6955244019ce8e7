"""The wheel, built from the files that git would export, and an environment outside of the repository with nothing
else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from stampworks.state.paths import cache_dir

from tools.prepare.progress import step
from tools.prepare.python_packages import SYSTEM_CERTIFICATES, ensure_uv

ROOT = Path(__file__).parents[2]


def checked(*argv: str | Path, cwd: Path, **environment: str) -> str:
    """Return the output of a command that must pass."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tree as git would commit it: without ignored files, with untracked ones."""
    folder = tmp_path_factory.mktemp("export")
    names = checked("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def build(tree: Path, target: str) -> Path:
    """The wheel or sdist of a tree."""
    checked(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", "built", cwd=tree)
    [built] = (tree / "built").glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[target])
    return built


@pytest.fixture(scope="session")
def wheel(exported: Path) -> Path:
    return build(exported, "wheel")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel, in a project's folder that is otherwise empty."""

    project: Path

    @property
    def folder(self) -> Path:
        return self.project / ".venv"

    def run(self, *argv: str | Path, **environment: str) -> str:
        """Return the output of a command that must pass, run as a user who has activated the environment."""
        path = f"{self.folder / 'bin'}{os.pathsep}{environment.pop('PATH', os.environ['PATH'])}"
        environment |= {"PATH": path, "VIRTUAL_ENV": str(self.folder), "PYTHONDONTWRITEBYTECODE": ""}
        return checked(*argv, cwd=self.project, **environment)


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel with its requirements, in the lock's versions. Its folder's name is as awkward as can be."""
    made = Environment(tmp_path_factory.mktemp('a user\'s "own" $project'))
    with step("uv") as shown:
        uv = ensure_uv(shown, cache_dir())
    checked(uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, ".venv", cwd=made.project)
    install = ("pip", "install", "--quiet", "--python", made.folder / "bin" / "python")
    versions = ("--constraint", ROOT / "requirements.lock")
    checked(uv, *install, *versions, wheel, cwd=made.project, **SYSTEM_CERTIFICATES)
    return made
