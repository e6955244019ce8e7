"""A project of its own with the toy plugin, for tests of the plugin's base under the real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = """\
name: toy
runtime: {{name: python, options: {{virtualenv: {environment}}}}}
plugins: {{providers: [{{name: toy, path: {folder}}}]}}
"""
PROGRAM = """\
import pulumi
from pulumi import ResourceOptions
from typing import Any

class File(pulumi.CustomResource):
    path: pulumi.Output[str]
    made: pulumi.Output[int]
    token: pulumi.Output[str]
    stale: pulumi.Output[Any]

    def __init__(self, name, opts=None, **inputs):
        outputs = dict.fromkeys(("path", "made", "token", "stale"))
        super().__init__("toy:index:File", name, {{"folder": {world!r}, **inputs, **outputs}}, opts)

"""
TIMEOUT_S = 60


@dataclass
class Project:
    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Project:
        for name in ("bin", "home", "state", "world", "pids"):
            (folder / name).mkdir()
        shim = folder / "bin" / "pulumi-resource-toy"
        toy = Path(__file__).with_name("toy.py")
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {toy} "$@"\n')
        shim.chmod(0o755)
        (folder / "Pulumi.yaml").write_text(PROJECT.format(environment=sys.prefix, folder=shim.parent))
        project = cls(folder)
        project.write("")
        assert project.run("stack", "init", "test").returncode == 0
        return project

    @property
    def world(self) -> Path:
        return self.folder / "world"

    def write(self, program: str) -> None:
        """Makes this the project's program."""
        head = PROGRAM.format(world=str(self.world))
        (self.folder / "__main__.py").write_text(head + textwrap.dedent(program))

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["pulumi", *argv, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*argv)
        text, _ = process.communicate(timeout=TIMEOUT_S)
        return subprocess.CompletedProcess(argv, process.returncode, text)

    def up(self, *argv: str) -> str:
        """A run that must pass; returns what it printed."""
        done = self.run("up", "--yes", "--skip-preview", *argv)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def state(self) -> dict[str, dict[str, Any]]:
        """The stack's own resources as its backend holds them, by name."""
        exported = json.loads(self.run("stack", "export").stdout)
        resources = exported["deployment"].get("resources", [])
        return {one["urn"].split("::")[-1]: one for one in resources if one["type"].startswith("toy:")}

    def plugins(self) -> list[int]:
        """The plugin processes of this project that live."""
        pids = [int(path.name) for path in (self.folder / "pids").iterdir()]
        return [pid for pid in pids if _alive(pid)]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
        return {
            **kept,
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "toy",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "TOY_PIDS": str(self.folder / "pids"),
        }


def _alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    if shutil.which("pulumi") is None:
        pytest.fail("no pulumi on PATH: . tools/env.sh")
    project = Project.make(tmp_path)
    yield project
    assert project.plugins() == [], "a plugin outlived its engine"
