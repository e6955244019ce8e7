"""Keeps programs that nobody publishes as packages: built from one commit of their source, which is a digest of it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.debian import installed
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write

DOCUMENTATION = """
module: built
short_description: Keep programs that are built from their source
description:
  - Fetches the commit, builds it as a user without rights, and installs what is made when all of it is there.
  - Builds anew for another commit, another command or another version of a package that it is built with, and when an
    installed file is no longer what was made. Else nothing is fetched.
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
      makes: {description: The files that are installed., type: list, elements: str, required: true}
  packages:
    description: By name the packages that it is built with.
    type: dict
    required: true
  directory: {description: Where the files go., type: str, required: true}
"""

STAMPS = Path("/var/lib/stampworks/built")
BUILDER = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs", "--"]
FETCH_S = 120
BUILD_S = 840
"""Less than a task may take."""
LINES = 15
"""Of what a compiler says, the last ones."""


def work(check: bool, source: Mapping[str, Any], packages: Iterable[str], directory: str) -> dict[str, Any]:
    name, stamp = source["name"], STAMPS / f"{source['name']}.json"
    wanted = {"commit": source["commit"], "command": shlex.join(source["command"]), **versions(packages)}
    files = {str(Path(directory) / Path(each).name): each for each in source["makes"]}
    noted = read(stamp)
    drift = differences(name, wanted, files, noted)
    if drift and not check:
        made = build(source)
        for path, each in files.items():
            write(Path(path), made[each], mode=0o755)
        for path in set(noted["files"]) - set(files):
            Path(path).unlink(missing_ok=True)
        digests = {path: digest(made[each]) for path, each in files.items()}
        write(stamp, json.dumps({"built": wanted, "files": digests}, indent=1).encode())
    return {"changed": bool(drift), "drift": drift}


def versions(packages: Iterable[str]) -> dict[str, str]:
    found = installed()
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
    for path in files:
        if not Path(path).is_file():
            said.append(f"{path} is missing")
        elif path in digests and digest(Path(path).read_bytes()) != digests[path]:
            said.append(f"{path} is not what was built")
    return said + [f"{path} is left over" for path in digests if path not in files and Path(path).exists()]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def build(source: Mapping[str, Any]) -> dict[str, bytes]:
    """What is in each of the files; nothing of the node changes before all of them are there."""
    called = f"{source['name']} {source['tag']} ({source['commit'][:12]})"
    with tempfile.TemporaryDirectory(prefix="stampworks-", dir="/var/tmp") as folder:
        shutil.chown(folder, "nobody", "nogroup")
        fetch(called, source["repository"], source["commit"], folder)
        said, command = as_builder(source["command"], folder, BUILD_S), shlex.join(source["command"])
        if said.returncode:
            last = "\n".join((said.stdout + said.stderr).strip().splitlines()[-LINES:])
            raise Refused(f"{called}: {command}: exit code {said.returncode}: {last}")
        if absent := [each for each in source["makes"] if not (Path(folder) / each).is_file()]:
            raise Refused(f"{called}: {command} ended well and made no {', '.join(absent)}")
        return {each: (Path(folder) / each).read_bytes() for each in source["makes"]}


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


def as_builder(argv: Sequence[str], folder: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    """A program in the folder, by a user whom nothing else belongs to."""
    env = {
        "HOME": folder,
        "TMPDIR": folder,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
    }
    return run([*BUILDER, "env", f"--chdir={folder}", *argv], timeout=limit_s, check=False, env=env)


answer = answering(work)
