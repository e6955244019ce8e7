"""A revision of a git repository as files: only the files that declare the stacks of a project.

The content is not trusted. Git is asked for objects only: no checkout, no hook, no filter, no network. Every written
file is a plain file below a separate folder, even if the revision has a link.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stampworks.cli import exits, stacks
from stampworks.cli.named import Named

PROJECT = "Pulumi.yaml"
TIMEOUT_S = 60
SIZE_MAX = 1 << 20
"""Limit of a file: a larger one is no declaration, role or check; it is truncated, and refused for its size."""
FILES_MAX = 10_000
TOTAL_MAX_MIB = 64
"""Limit for all written files: a thousand names of an object take no room in a repository."""
ANSWER_MAX = 4 << 20
"""Limit for git's answers about names: 400 bytes for each of the most files."""
OBJECT = re.compile(rb"([0-9a-f]{40,64}) (blob|tree|commit|tag) ([0-9]+)")
ELSEWHERE = re.compile(rb"(symlink|dangling|loop|notdir) ([0-9]+)")


@dataclass(frozen=True)
class Revision:
    """A commit of a repository."""

    repository: Path
    """Root of its work tree."""
    commit: str


def revision(name: str, here: Path) -> Revision | None:
    """Return the revision of a name in the repository of a folder; None when it is no revision there."""
    top = _git(here, "rev-parse", "--show-toplevel")
    found = _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if top.returncode or found.returncode:
        return None
    return Revision(Path(os.fsdecode(top.stdout.rstrip(b"\n"))), found.stdout.decode().strip())


@dataclass(frozen=True)
class Written:
    """Files of a revision that were written."""

    stacks: Path
    """The folder where its stacks are."""
    unread: tuple[str, ...]
    """Files in its roles that were not written, such as links to folders."""


@dataclass(frozen=True)
class _Object:
    name: str
    kind: str
    """blob or tree; empty if nothing exists there."""
    size: int


def write_project(of: Revision, project: Path, into: Path, named: Named) -> Written:
    """Write the files that declare a project's stacks at a revision."""
    from stampworks.declaration import BASES_MAX, lock_file
    from stampworks.state.facts import account_file

    top, here = of.repository.resolve(), project.resolve()
    if not here.is_relative_to(top):
        raise exits.CliError(f"the project in {here} is not in the repository in {top}", "change to a project in it")
    prefix = posixpath.normpath(here.relative_to(top).as_posix())
    writer = _Writer(of, into)
    writer.write([_joined(prefix, PROJECT)])
    folder = _joined(prefix, _stack_folder(into / prefix / PROJECT))
    [found] = _looked_up(of, ["" if folder == "." else folder])
    names = _names(of, found) if found.kind == "tree" else []
    late = [_joined(folder, name) for name in names if name.startswith("Pulumi.") and name.endswith(".yaml")]
    looked_up = [each(Path(path)) for path in late if not _leaves(path) for each in (lock_file, account_file)]
    writer.write([str(path) for path in looked_up])
    seen: set[str] = set()
    for _ in range(BASES_MAX + 2):  # the stacks, their bases, and the files that the last base names
        late = [path for path in dict.fromkeys(late) if path not in seen and not _leaves(path)]
        seen |= set(late)
        written = writer.write(late)
        named.count(into / path for path in written)
        late = [
            _joined(posixpath.dirname(path), str(node.value)) for path in written for _, node in named.by(into / path)
        ]
    return Written(into / folder, tuple(writer.unread))


def _stack_folder(file: Path) -> str:
    """Return the folder of stacks, which must be below the project: a revision may not name other folders."""
    if not file.is_file():
        return "."
    named, line = stacks.stack_folder(file)
    if _leaves(posixpath.normpath(named)):
        raise exits.CliError(f"{file}:{line}: stackConfigDir {named} leaves the project", "name a folder below it")
    return named


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _leaves(path: str) -> bool:
    """Return whether a path leaves the repository. This includes names that git cannot be asked for."""
    return path.startswith(("/", "../")) or path == ".." or bool(re.search("[\n\0\ud800-\udc7f\udd00-\udfff]", path))


class _Writer:
    """Writer of files of a revision. It counts them: few names may stand for more than a disk holds."""

    def __init__(self, of: Revision, into: Path) -> None:
        self._of, self._into = of, into
        self._files = self._bytes = 0
        self.unread: list[str] = []

    def write(self, paths: Sequence[str]) -> list[str]:
        """Write the paths that exist, folders with their content; return the files."""
        found = dict(zip(paths, _looked_up(self._of, paths), strict=True))
        files = {path: one for path, one in found.items() if one.kind == "blob"}
        self._count(len(files), 0)
        below = {path: one for top, one in found.items() if one.kind == "tree" for path, one in self._below(top, one)}
        self._write(files | below)
        return list(files)

    def _below(self, top: str, tree: _Object) -> list[tuple[str, _Object]]:
        paths = [f"{top}/{name}" for name in _names(self._of, tree, deep=True)]
        self._count(len(paths), 0)
        asked = [path for path in paths if path == posixpath.normpath(path) and not _leaves(path)]
        found = dict(zip(asked, _looked_up(self._of, asked), strict=True))
        files = [(path, one) for path, one in found.items() if one.kind == "blob"]
        self.unread += sorted({*paths} - {path for path, _ in files})
        return files

    def _write(self, files: dict[str, _Object]) -> None:
        self._count(0, sum(min(one.size, SIZE_MAX + 1) for one in files.values()))
        contents = _contents(self._of, {one.name: one for one in files.values() if one.size <= SIZE_MAX})
        for path, one in files.items():
            target = self._into / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(contents.get(one.name) or b" " * min(one.size, SIZE_MAX + 1))
            except OSError as error:
                what = f"{target} cannot be written: {(error.strerror or '').lower()}"
                raise exits.CliError(what, "give it another name, or make room") from None

    def _count(self, files: int, size: int) -> None:
        self._files += files
        self._bytes += size
        if self._files > FILES_MAX or self._bytes > TOTAL_MAX_MIB << 20:
            most = f"{FILES_MAX:,} files or {TOTAL_MAX_MIB} MiB"
            raise exits.CliError(f"the stacks of {self._of.commit[:12]} name more than {most}", "name fewer")


def _names(of: Revision, tree: _Object, deep: bool = False) -> list[str]:
    """Folders count as well: a tree of empty folders could be endless."""
    said = _git_output(of, b"", "ls-tree", "-z", *(["-r", "-t"] if deep else []), tree.name)
    found = (entry.partition(b"\t") for entry in said.split(b"\0") if entry)
    return [os.fsdecode(name) for what, _, name in found if not (deep and b" tree " in what)]


def _looked_up(of: Revision, paths: Sequence[str]) -> Iterator[_Object]:
    """Yield the object at each path, with links followed inside of the revision."""
    if not paths:
        return
    asked = b"".join(os.fsencode(f"{of.commit}:{path}\n") for path in paths)
    said = _git_output(of, asked, "cat-file", "--batch-check", "--follow-symlinks")
    for _ in paths:
        line, end, said = said.partition(b"\n")
        if not end:
            raise _cut(of)
        if elsewhere := ELSEWHERE.fullmatch(line):
            said = said[int(elsewhere[2]) + 1 :]
        found = OBJECT.fullmatch(line)  # a missing name is answered with the name itself, which may end like an answer
        there = found and found[2] in (b"blob", b"tree")
        yield _Object(found[1].decode(), found[2].decode(), int(found[3])) if found and there else _Object("", "", 0)


def _contents(of: Revision, objects: dict[str, _Object]) -> dict[str, bytes]:
    if not objects:
        return {}
    asked = "".join(f"{name}\n" for name in objects).encode()
    said = _git_output(of, asked, "cat-file", "--batch", contents=sum(one.size for one in objects.values()))
    found, at = {}, 0
    for name, one in objects.items():
        head = f"{name} blob {one.size}\n".encode()
        begin, end = at + len(head), at + len(head) + one.size
        if said[at:begin] != head or said[end : end + 1] != b"\n":
            raise _cut(of)
        found[name] = said[begin:end]
        at = end + 1
    return found


def _git_output(of: Revision, input_: bytes, *argv: str, contents: int = 0) -> bytes:
    done = _git(of.repository, *argv, input_=input_, most=ANSWER_MAX + contents)
    if done.returncode:
        raise _cut(of)
    return done.stdout


def _cut(of: Revision) -> exits.CliError:
    hint = "`git fsck` says what is missing; nothing is fetched for a review"
    return exits.CliError(f"git cannot read all of {of.commit[:12]} in {of.repository}", hint, exits.UNKNOWN)


def _git(folder: Path, *argv: str, input_: bytes = b"", most: int = 1 << 16) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("git")
    if program is None:
        raise exits.CliError("git is not installed, and a revision is read by it", "install git, or name files")
    command = [program, "--no-replace-objects", "--no-optional-locks", "-c", "core.fsmonitor=false", *argv]
    # A git that is too old for GIT_NO_LAZY_FETCH starts to fetch, and may use no protocol for it.
    offline = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0"}
    with tempfile.TemporaryFile() as asked:
        asked.write(input_)
        asked.seek(0)
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **offline, "LC_ALL": "C"},
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            said, in_time = _answer(process, most)
    if len(said) > most:
        raise exits.CliError(f"git says more than {most >> 20} MiB about what the stacks name", "name fewer files")
    if not in_time:
        raise exits.CliError(f"git did not answer within {TIMEOUT_S} s", "try again", exits.UNKNOWN)
    return subprocess.CompletedProcess(command, process.returncode, said)


def _answer(process: subprocess.Popen[bytes], most: int) -> tuple[bytes, bool]:
    """Return the output, at most a byte longer than the limit, and whether the process ended by itself."""
    assert process.stdout  # noqa: S101  # it was asked for
    late = threading.Timer(TIMEOUT_S, process.kill)
    late.start()
    try:
        said = process.stdout.read(most + 1)
        if len(said) > most:
            process.kill()
        return said, process.wait() != -signal.SIGKILL
    finally:
        late.cancel()
        process.kill()
