"""New files in a tree: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class ScaffoldError(Exception):
    """A name that cannot be used, or an existing file in its place."""


@dataclass(frozen=True)
class File:
    """A file to write."""

    path: str
    """Path from the root of the tree."""
    text: str
    extends: bool = False
    """Append the text to an existing file, instead of creating a new one."""


@dataclass(frozen=True)
class Scaffold:
    """The files of a new thing, and the steps that are left for its author."""

    files: Sequence[File]
    steps: Sequence[str]


def write(root: Path, files: Sequence[File]) -> None:
    """Write all files or none: refuse before the first one, and remove written files after an error."""
    if taken := [file.path for file in files if not file.extends and (root / file.path).exists()]:
        raise ScaffoldError(f"nothing written: {', '.join(taken)} exists: use another name")
    before = {file.path: (root / file.path).read_bytes() if file.extends else None for file in files}
    made: list[Path] = []
    try:
        for file in files:
            path = root / file.path
            made += reversed([folder for folder in path.parents if not folder.exists()])
            path.parent.mkdir(parents=True, exist_ok=True)
            made.append(path)
            path.write_bytes((before[file.path] or b"") + file.text.encode())
    except OSError:
        _take_back(root, before, made)
        raise


def _take_back(root: Path, before: dict[str, bytes | None], made: Sequence[Path]) -> None:
    old = {root / path: content for path, content in before.items()}
    for path in reversed(made):
        if content := old.get(path):
            path.write_bytes(content)
        elif path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
