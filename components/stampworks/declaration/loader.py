"""From a file to a declaration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stampworks.declaration.errors import Problem
from stampworks.declaration.models import Declaration


@dataclass(frozen=True)
class Source:
    """A declaration together with the places where its values are written."""

    declaration: Declaration

    def problem(self, path: str, message: str, hint: str = "") -> Problem:
        """A problem located at the user's own line."""
        return Problem("", 0, 0, path, message, hint, "")


def load_file(path: Path) -> Source:
    """The declaration in a file of its own, or in a stack file."""
    data = yaml.safe_load(path.read_text())
    data = data["config"]["stampworks:cluster"] if "config" in data else data
    return load_value(data, str(path))


def load_stack(stack: str, directory: Path) -> Source:
    """The declaration of a stack."""
    return load_file(directory / f"Pulumi.{stack}.yaml")


def load_value(value: Any, origin: str) -> Source:  # noqa: ARG001
    """A declaration that comes without lines."""
    return Source(Declaration.model_validate(value))
