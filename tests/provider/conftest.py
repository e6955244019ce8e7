"""A separate project with the toy plugin, for tests of the plugin's base under the real engine."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.project import Project

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
    weight: pulumi.Output[int]

    def __init__(self, name, opts=None, **inputs):
        outputs = dict.fromkeys(("path", "made", "token", "stale"))
        super().__init__("toy:index:File", name, {{"folder": {world!r}, **inputs, **outputs}}, opts)

"""


@dataclass
class ToyProject(Project):
    limit_s: ClassVar[float] = 60

    @classmethod
    def make(cls, folder: Path) -> ToyProject:
        for name in ("bin", "world", "pids"):
            (folder / name).mkdir()
        shim = folder / "bin" / "pulumi-resource-toy"
        toy = Path(__file__).with_name("toy.py")
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {toy} "$@"\n')
        shim.chmod(0o755)
        (folder / "Pulumi.yaml").write_text(PROJECT.format(environment=sys.prefix, folder=shim.parent))
        project = cls(folder)
        project.write("")
        project.init()
        return project

    @property
    def world(self) -> Path:
        return self.folder / "world"

    def write(self, program: str) -> None:
        """Makes this the project's program."""
        head = PROGRAM.format(world=str(self.world))
        (self.folder / "__main__.py").write_text(head + textwrap.dedent(program))

    def up(self, *argv: str) -> str:
        return self.passes("up", "--yes", "--skip-preview", *argv)

    def state(self) -> dict[str, dict[str, Any]]:
        """The stack's own resources as its backend holds them, by name."""
        return {one["urn"].split("::")[-1]: one for one in self.exported() if one["type"].startswith("toy:")}

    def plugins(self) -> list[int]:
        """The plugin processes of this project that live."""
        pids = [int(path.name) for path in (self.folder / "pids").iterdir()]
        return [pid for pid in pids if _alive(pid)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "TOY_PIDS": str(self.folder / "pids")}


def _alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ToyProject]:
    project = ToyProject.make(tmp_path)
    yield project
    assert project.plugins() == [], "a plugin outlived its engine"
