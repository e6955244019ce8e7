"""Projects to rehearse, in the real engine."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli.main import main

ROOT = Path(__file__).parents[2]
PROJECT = "name: trial\nruntime: {{name: python, options: {{virtualenv: {environment}}}}}\nmain: stacks\n{more}"


@dataclass
class Trial:
    """A project with a stack."""

    folder: Path
    stack: str

    def rehearse(self, *options: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        out, errors = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            code = main(["rehearse", "-s", self.stack, *options])
        return code, out.getvalue(), errors.getvalue()

    def files(self) -> Mapping[str, str]:
        """Return all files of the project with digests of their content."""
        found = (file for file in self.folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}


def project(folder: Path, program: Path, stack: str, config: str) -> Trial:
    if shutil.which("pulumi") is None:
        pytest.fail("no pulumi on PATH: . tools/env.sh")
    for name in ("stacks", "plugin"):
        (folder / name).mkdir()
    shutil.copy(program, folder / "stacks")
    plugins = "stackConfigDir: stacks\nplugins: {providers: [{name: stampworks, path: plugin}]}\n"
    (folder / "Pulumi.yaml").write_text(PROJECT.format(environment=sys.prefix, more=plugins))
    (folder / "stacks" / f"Pulumi.{stack}.yaml").write_text(config)
    return Trial(folder, stack)


def phase(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    [each] = [each for each in found["phases"] if each["name"] == name]
    return dict(each)


def parsed(text: str) -> dict[str, Any]:
    return dict(json.loads(text))
