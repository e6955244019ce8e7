"""Writes a set of files, all of them or none, and removes what the set no longer holds."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import (
    Refused,
    answering,
    group_id,
    run,
    user_id,
    write,
)

DOCUMENTATION = """
module: files
short_description: Write a set of files in one task
description:
  - The controller renders the templates, the node compares, writes what differs and runs C(then) if anything did.
  - If a command of C(then) fails, the files are put back, so that the next run tries again.
options:
  name:
    description: Name of the set. What an earlier run wrote for it and this one no longer lists is removed.
    type: str
    required: true
  files:
    description: The files, each with one of content, template, source, tree and directory.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where it goes., type: str, required: true}
      content: {description: The text itself., type: str}
      template: {description: A template of the role., type: str}
      source: {description: A file of the role., type: str}
      tree: {description: A folder here; each of its files goes below the path., type: str}
      directory: {description: Make a directory instead., type: bool, default: false}
      mode: {description: Octal text; 0755 for a directory if not given., type: str}
      owner: {description: Who owns it., type: str, default: root}
      group: {description: Its group., type: str, default: root}
      once: {description: Leave it alone once it exists., type: bool, default: false}
      secret: {description: Never show what is in it., type: bool, default: false}
      settings: {description: It holds kernel settings; those in force must be the same., type: bool, default: false}
      open_end: {description: Its last line is followed by what others write there., type: bool, default: false}
  then:
    description: >-
      Commands, each a list of arguments, to run in order when a file changed. CHANGED in their environment has the
      paths of those that did.
    type: list
    elements: list
    default: []
"""

RECORDS = Path("/var/lib/stampworks/files")
KERNEL = Path("/proc/sys")


@dataclass(frozen=True)
class File:
    path: Path
    content: bytes | None
    """None for a directory."""
    mode: int
    uid: int
    gid: int
    once: bool
    secret: bool
    settings: bool
    open_end: bool

    @classmethod
    def of(cls, data: dict[str, Any]) -> File:
        directory = bool(data.get("directory"))
        return cls(
            path=Path(data["path"]),
            content=None if directory else str(data["content"]).encode(),
            mode=int(data.get("mode") or ("0755" if directory else "0644"), 8),
            uid=user_id(data.get("owner") or "root"),
            gid=group_id(data.get("group") or "root"),
            once=bool(data.get("once")),
            secret=bool(data.get("secret")),
            settings=bool(data.get("settings")),
            open_end=bool(data.get("open_end")),
        )

    def beside(self, found: Found | None) -> File:
        """With what others have written after its last line."""
        if not (self.open_end and self.content and found and found.content):
            return self
        last = self.content.splitlines(keepends=True)[-1]
        _, _, more = found.content.partition(last)
        return replace(self, content=self.content + more)


@dataclass(frozen=True)
class Found:
    """What stands at a path before this task."""

    content: bytes | None
    mode: int
    uid: int
    gid: int


def work(check: bool, name: str, files: Sequence[dict[str, Any]], then: Sequence[Sequence[str]]) -> dict[str, Any]:
    declared = [File.of(file) for file in files]
    record = RECORDS / f"{name}.json"
    before = {file.path: look(file.path) for file in declared}
    wanted = [file.beside(before[file.path]) for file in declared]
    differing = [file for file in wanted if differs(file, before[file.path])]
    paths = [str(file.path) for file in wanted]
    recorded = json.loads(record.read_text()) if record.exists() else []
    stale = [Path(path) for path in recorded if path not in paths and os.path.lexists(path)]
    if not check:
        before |= {path: look(path) for path in stale}
        apply(differing, stale, then, before)
        if recorded != paths:
            write(record, json.dumps(paths).encode())
    return {
        "changed": bool(differing or stale),
        "paths": [str(file.path) for file in differing] + [str(path) for path in stale],
        "drift": [words(file, before[file.path]) for file in differing] + [f"{path} is left over" for path in stale],
        "diff": [shown(file, before[file.path]) for file in differing]
        + [{"before_header": str(path), "after_header": "removed"} for path in stale],
    }


def look(path: Path) -> Found | None:
    if not os.path.lexists(path):
        return None
    status = path.lstat()
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    return Found(content, status.st_mode & 0o7777, status.st_uid, status.st_gid)


def differs(file: File, found: Found | None) -> bool:
    if found is None:
        return True
    if file.once:
        return False
    if (file.content, file.mode, file.uid, file.gid) != (found.content, found.mode, found.uid, found.gid):
        return True
    return bool(not_in_force(file))


def not_in_force(file: File) -> list[str]:
    """The kernel settings of a file that the kernel has otherwise, in words."""
    words = []
    for line in (file.content or b"").decode().splitlines() if file.settings else ():
        name, equals, value = line.partition("=")
        if not equals or name.lstrip().startswith("#"):
            continue
        path = KERNEL / name.strip().replace(".", "/")
        now = path.read_text().split() if path.exists() else ["missing"]
        if now != value.split():
            words.append(f"kernel setting {name.strip()} is {' '.join(now)}, not {value.strip()}")
    return words


def words(file: File, found: Found | None) -> str:
    """How a file differs, without what is in it."""
    if found is None:
        return f"{file.path} is missing"
    if file.content != found.content:
        return f"{file.path} differs"
    if (file.mode, file.uid, file.gid) != (found.mode, found.uid, found.gid):
        return f"{file.path} has another owner or mode"
    return "; ".join(not_in_force(file))


def apply(
    differing: Sequence[File], stale: Sequence[Path], then: Sequence[Sequence[str]], before: dict[Path, Found | None]
) -> None:
    """Writes and removes, runs the commands, and puts everything back if one of these fails."""
    try:
        for file in differing:
            put(file)
        for path in stale:
            remove(path)
        changed = " ".join(map(str, [*(file.path for file in differing), *stale]))
        for argv in then if changed else ():
            run(argv, env={"CHANGED": changed})
    except (Refused, OSError):
        for path in [*(file.path for file in differing), *stale]:
            restore(path, before[path])
        raise


def put(file: File) -> None:
    if file.content is None:
        file.path.mkdir(parents=True, exist_ok=True)
        file.path.chmod(file.mode)
        os.chown(file.path, file.uid, file.gid)
        return
    if file.path.is_dir() and not file.path.is_symlink():
        raise Refused(f"{file.path}: a directory stands where this file should go: move it away")
    write(file.path, file.content, file.mode, file.uid, file.gid)
    if file.settings:
        run(["sysctl", "--quiet", "--load", str(file.path)])


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        if not any(path.iterdir()):  # what others put into it is not ours to remove
            path.rmdir()
    else:
        path.unlink()


def restore(path: Path, found: Found | None) -> None:
    if found is None:
        if os.path.lexists(path):
            remove(path)
    elif found.content is None:
        path.mkdir(exist_ok=True)
    else:
        write(path, found.content, found.mode, found.uid, found.gid)


def shown(file: File, found: Found | None) -> dict[str, Any]:
    """The change as a person reads it; of a secret only that there is one."""
    title = f"{file.path} (mode {file.mode:04o})"
    if file.secret or file.content is None:
        return {"prepared": f"{title}: {'secret' if file.secret else 'directory'}\n"}
    old = [] if found is None or found.content is None else found.content.decode(errors="replace").splitlines(True)
    new = file.content.decode(errors="replace").splitlines(True)
    return {"prepared": "".join(difflib.unified_diff(old, new, str(file.path), title))}


answer = answering(work)
