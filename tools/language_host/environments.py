"""Choice of Python for a program, and the packages that are installed for it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class EnvironmentMissingError(Exception):
    """The virtual environment a project names is not there."""


@dataclass(frozen=True)
class Environment:
    """An interpreter and its packages: a project's virtual environment, or the toolkit's own by default."""

    python: Path
    root: Path

    @classmethod
    def of(cls, root_directory: str, options: Mapping[str, Any]) -> Environment:
        """The environment named by `runtime.options.virtualenv`, relative to the project file."""
        named = options.get("virtualenv")
        if not named:
            return cls(python=Path(sys.executable), root=Path(sys.prefix))
        root = Path(root_directory, str(named))
        environment = cls(python=root / "bin" / "python", root=root)
        if not environment.python.exists():
            raise EnvironmentMissingError(
                f"the virtual environment {root}, which the project in {root_directory} names, has no bin/python: "
                "'pulumi install' makes it"
            )
        return environment

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        """The variables a process of this environment gets: as an activated shell would have them, and some more."""
        variables = {**os.environ, **more}
        variables.pop("PYTHONHOME", None)
        variables["VIRTUAL_ENV"] = str(self.root)
        variables["PATH"] = f"{self.root / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
        return variables

    def python_version(self) -> str:
        """Return the version of the interpreter from the virtual environment's configuration."""
        note = self.root / "pyvenv.cfg"
        noted = re.search(r"(?m)^version(?:_info)? = ([\d.]+)", note.read_text()) if note.exists() else None
        return noted[1] if noted else platform.python_version()

    def distributions(self, transitive: bool) -> list[tuple[str, str]]:
        """Return name and version of all installed packages, or of packages that no other requires, sorted."""
        found = list(importlib.metadata.distributions(path=[str(folder) for folder in self._package_folders()]))
        required = {
            _name_of(one) for distribution in found for one in distribution.requires or [] if "extra ==" not in one
        }
        return sorted(
            {
                (distribution.name, distribution.version)
                for distribution in found
                if transitive or _canonical(distribution.name) not in required
            }
        )

    def pulumi_plugins(self) -> Iterator[dict[str, Any]]:
        """Yield the Pulumi plugins that installed packages require in their pulumi-plugin.json."""
        for folder in self._package_folders():
            for file in sorted(folder.glob("*/pulumi-plugin.json")):
                described = json.loads(file.read_text())
                if described.get("resource"):
                    yield described

    def _package_folders(self) -> list[Path]:
        return sorted(self.root.glob("lib/python*/site-packages"))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _name_of(requirement: str) -> str:
    """The canonical name a requirement such as `grpcio<2,>=1.66; python_version > "3"` begins with."""
    matched = re.match(r"[\w.-]+", requirement)
    return _canonical(matched.group()) if matched else ""
