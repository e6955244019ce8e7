"""Files that the stacks of a side of a review name: bases, and the user's roles and checks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from stampworks.cli import exits

if TYPE_CHECKING:
    from stampworks.declaration.nodes import ValueNode

TOTAL_MAX_MIB = 2
"""Limit for all stacks with their bases. A thousand stacks have less, and reading YAML takes up to 15 s per MiB."""


class Named:
    """Files by name. Each is read once, for many stacks may extend it."""

    def __init__(self) -> None:
        self._found: dict[Path, list[tuple[str, ValueNode]]] = {}
        self._counted: set[Path] = set()
        self._bytes = 0

    def by(self, file: Path) -> list[tuple[str, ValueNode]]:
        """Return the files that a file names, each with its field."""
        from stampworks.declaration import named_in

        if file not in self._found:
            self.count([file])
            self._found[file] = named_in(file)
        return self._found[file]

    def count(self, files: Iterable[Path]) -> None:
        """Refuse files that are together too large, before the first is read."""
        from stampworks.declaration.files import SIZE_MAX_KIB

        for file in files:
            if file in self._counted:
                continue
            self._counted.add(file)
            with contextlib.suppress(OSError, ValueError):  # loading the file will report why it is unreadable
                self._bytes += min(file.stat().st_size, SIZE_MAX_KIB << 10)
            if self._bytes > TOTAL_MAX_MIB << 20:
                what = f"{file}: with it the stacks and what they extend are larger than {TOTAL_MAX_MIB} MiB"
                raise exits.CliError(what, "put common parts into a base")

    def chain(self, file: Path, inside: Path) -> list[Path]:
        """Return a file and its bases, as far as they exist and can be read."""
        from stampworks.declaration import BASES_MAX

        found: list[Path] = []
        while file not in found and file.is_relative_to(inside) and os.path.isfile(file):  # noqa: PTH113  # is_file() raises
            found.append(file)
            base = next((str(node.value) for field, node in self.by(file) if field == "extends"), "")
            file = beside(file, base)
            if len(found) > BASES_MAX:
                break
        return found


def beside(file: Path, named: str) -> Path:
    """Return the path of a file that another file names."""
    return Path(os.path.normpath(file.parent / named))
