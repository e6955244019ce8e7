"""Keeps programs that nobody publishes as packages: built from one commit of their source, which is a digest of it."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write
from ansible_collections.stampworks.node.plugins.module_utils.packaging import packaging

DOCUMENTATION = """
module: built
short_description: Keep programs that are built from their source
description:
  - Fetches the commit, builds it as a user without rights, and installs what is made when all of it is there.
  - Builds anew for another commit, another command or another version of a package that it is built with, and when an
    installed file is no longer what was made. Else nothing is fetched.
  - Where nothing may be built, refuses what is not as it was.
options:
  source:
    description: What is built.
    type: dict
    required: true
    suboptions:
      name: {description: What it is called., type: str, required: true}
      repository: {description: Of git. /etc/gitconfig of the node may name a mirror., type: str, required: true}
      tag: {description: What people call the commit., type: str, required: true}
      commit: {description: All 40 digits of it., type: str, required: true}
      command: {description: What makes the programs., type: list, elements: str, required: true}
      makes:
        description: The files that are installed, and of a folder, which ends with /, all below it as they are there.
        type: list
        elements: str
        required: true
  packages:
    description: By name the packages that it is built with.
    type: dict
    required: true
  directory: {description: Where the files go., type: str, required: true}
  build: {description: Whether it may be built here., type: bool, default: true}
"""

STAMPS = Path("/var/lib/stampworks/built")
NOBODY = "nobody"
FETCH_S = 120
BUILD_S = 840
"""Less than a task may take."""
LINES = 15
"""Of what a compiler says, the last ones."""
SAID = 5
"""Of what is not as it was built, the first ones."""


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = 0o755
    link: bool = False
    """Its content is where it points."""

    @property
    def digest(self) -> str:
        return f"-> {os.fsdecode(self.content)}" if self.link else hashlib.sha256(self.content).hexdigest()


def work(
    check: bool, source: Mapping[str, Any], packages: Iterable[str], directory: str, build: bool
) -> dict[str, Any]:
    name, stamp = source["name"], STAMPS / f"{source['name']}.json"
    wanted = {"commit": source["commit"], "command": shlex.join(source["command"]), **versions(packages)}
    noted = read(stamp)
    if any(each.endswith("/") for each in source["makes"]):  # what is in a folder only its build says
        files = {*noted["files"]}
    else:
        files = {str(Path(directory) / Path(each).name) for each in source["makes"]}
    drift = differences(name, wanted, files, noted)
    if drift and not build and not check:
        what = "; ".join(drift[:SAID])
        raise Refused(f"{what}: it is built into images only: start the node from one of the release (stampworks roll)")
    if drift and not check:
        made = make(source, Path(directory))
        for path, file in made.items():
            put(Path(path), file)
        for path in noted["files"].keys() - made.keys():
            Path(path).unlink(missing_ok=True)
        digests = {path: file.digest for path, file in made.items()}
        write(stamp, json.dumps({"tag": source["tag"], "built": wanted, "files": digests}, indent=1).encode())
    return {"changed": bool(drift), "drift": drift}


def versions(packages: Iterable[str]) -> dict[str, str]:
    found = packaging().installed()
    return {name: found.get(name, ("", "none"))[1] for name in packages}


def read(stamp: Path) -> dict[str, dict[str, str]]:
    """What the last build noted at its very end; nothing where there was none, or nobody can read it."""
    try:
        noted = json.loads(stamp.read_text())
        return {"built": dict(noted["built"]), "files": dict(noted["files"])}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {"built": {}, "files": {}}


def differences(
    name: str, wanted: Mapping[str, str], files: Iterable[str], noted: Mapping[str, Mapping[str, str]]
) -> list[str]:
    built, digests = noted["built"], noted["files"]
    if not built:
        return [f"{name} is not built"]
    said = [
        f"{name} was built with {part} {built.get(part, 'none')}, it must be {value}"
        for part, value in wanted.items()
        if built.get(part) != value
    ]
    for path in sorted(files):
        there = file_at(Path(path))
        if there is None:
            said.append(f"{path} is missing")
        elif path in digests and there.digest != digests[path]:
            said.append(f"{path} is not what was built")
    return said + [f"{path} is left over" for path in digests if path not in files and Path(path).exists()]


def file_at(path: Path) -> File | None:
    if path.is_symlink():
        return File(os.fsencode(path.readlink()), link=True)
    return File(path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644) if path.is_file() else None


def put(path: Path, file: File) -> None:
    if not file.link:
        write(path, file.content, mode=file.mode)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.symlink_to(os.fsdecode(file.content))
    beside.rename(path)


def make(source: Mapping[str, Any], directory: Path) -> dict[str, File]:
    """Each file by where it goes; nothing of the node changes before all of them are there."""
    called = f"{source['name']} {source['tag']} ({source['commit'][:12]})"
    with tempfile.TemporaryDirectory(prefix="stampworks-", dir="/var/tmp") as folder:
        shutil.chown(folder, NOBODY, pwd.getpwnam(NOBODY).pw_gid)
        fetch(called, source["repository"], source["commit"], folder)
        said, command = as_builder(source["command"], folder, BUILD_S), shlex.join(source["command"])
        if said.returncode:
            last = "\n".join((said.stdout + said.stderr).strip().splitlines()[-LINES:])
            raise Refused(f"{called}: {command}: exit code {said.returncode}: {last}")
        made = {each: dict(gathered(Path(folder), each, directory)) for each in source["makes"]}
        if absent := [each for each, files in made.items() if not files]:
            raise Refused(f"{called}: {command} ended well and made no {', '.join(absent)}")
        return {path: file for files in made.values() for path, file in files.items()}


def gathered(top: Path, each: str, directory: Path) -> Iterator[tuple[str, File]]:
    """What is one file, in its place; or in theirs, all that are in a folder."""
    path = top / each
    for one in sorted(path.rglob("*")) if each.endswith("/") else [path]:
        if file := file_at(one):
            yield str(directory / (one.relative_to(path) if each.endswith("/") else one.name)), file


def fetch(called: str, repository: str, commit: str, folder: str) -> None:
    """The files of one commit, without its history. Git itself compares their digests with the commit's."""
    hint = "a mirror can be named in /etc/gitconfig (url.MIRROR.insteadOf), and an image of the release has it built"
    for argv in (
        ["git", "init", "--quiet"],
        ["git", "fetch", "--quiet", "--depth=1", "--", repository, commit],
        ["git", "checkout", "--quiet", "--detach", "FETCH_HEAD"],
    ):
        said = as_builder(argv, folder, FETCH_S)
        if said.returncode:
            raise Refused(f"{called}: {shlex.join(argv)}: {said.stderr.strip()[-300:] or 'no message'}: {hint}")
    head = as_builder(["git", "rev-parse", "HEAD"], folder, FETCH_S).stdout.strip()
    if head != commit:
        raise Refused(f"{called}: {repository} has {head or 'nothing'} under that name, the release has {commit}")


def builder() -> list[str]:
    own = str(pwd.getpwnam(NOBODY).pw_gid)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={own}", "--clear-groups", "--no-new-privs", "--"]


def as_builder(argv: Sequence[str], folder: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    """A program in the folder, by a user whom nothing else belongs to."""
    env = {
        "HOME": folder,
        "TMPDIR": folder,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
    }
    return run([*builder(), "env", f"--chdir={folder}", *argv], timeout=limit_s, check=False, env=env)


answer = answering(work)
