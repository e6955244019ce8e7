"""The working directory of a job: its files and their digests."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIZE_MAX_MIB = 1024
FILES_MAX = 50_000
_GIT_S = 60


class WorkdirError(Exception):
    """The reason why a folder cannot be copied, and a remedy."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Workdir:
    """The entries of a folder: path, then a mode and a digest, or `link` and its target."""

    folder: Path
    entries: tuple[tuple[str, str, str], ...]

    @property
    def digest(self) -> str:
        """A digest of names, modes and contents of all files."""
        return hashlib.sha256(json.dumps(self.entries).encode()).hexdigest()

    @property
    def contents(self) -> dict[str, Path]:
        """Return one file for each digest."""
        return {value: self.folder / name for name, kind, value in self.entries if kind != "link"}


def scan(folder: Path) -> Workdir:
    """Read a folder: in a work tree of git the tracked and new files, else all files."""
    if not folder.is_dir():
        raise WorkdirError(f"{folder} is not a folder", "name the folder with the job's files")
    top = Path(os.path.realpath(folder))
    listed = _of_git(top)
    names = sorted(set(_of_folder(top) if listed is None else listed))
    if len(names) > FILES_MAX:
        raise WorkdirError(f"{folder} has more than {FILES_MAX} files", _LESS)
    size, entries = 0, []
    for name in names:
        path = top / name
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            entries.append((name, "link", _target(name, os.readlink(path))))  # noqa: PTH115
        elif stat.S_ISREG(found.st_mode):
            size += found.st_size
            if size > SIZE_MAX_MIB << 20:
                raise WorkdirError(f"{folder} has more than {SIZE_MAX_MIB} MiB", _LESS)
            entries.append((name, "700" if found.st_mode & 0o100 else "600", _digest(path)))
    return Workdir(top, tuple(entries))


_LESS = "put data on the cluster's storage, and list files that the job does not need in .gitignore"


def _of_git(folder: Path) -> list[str] | None:
    """Return the files that git would commit, without deleted ones; None outside of a work tree.

    A folder that git lists is a separate repository, such as a submodule: it is read in turn.
    """
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_S, check=False)
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise WorkdirError(f"git did not list {folder} within {_GIT_S} s", "look there: git status") from None
    if done.returncode:
        return None
    found = []
    for name in (os.fsdecode(name).rstrip("/") for name in done.stdout.split(b"\0") if name):
        path = folder / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            found.append(name)
        elif (path / ".git").exists():  # a submodule that was never fetched is an empty folder
            found += [f"{name}/{below}" for below in _of_git(path) or ()]
    return found


def _of_folder(folder: Path) -> Iterator[str]:
    for top, folders, files in os.walk(folder):
        below = Path(top).relative_to(folder)
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if (Path(top) / name).is_symlink()]
        yield from (str(below / name) for name in (*files, *links))


def _target(name: str, target: str) -> str:
    """Refuse a link that leads out of the folder: on the cluster it would lead somewhere else."""
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if posixpath.isabs(target) or there == ".." or there.startswith("../"):
        raise WorkdirError(f"{name} is a link that leaves the folder: {target}", "copy its target into the folder")
    return target


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
