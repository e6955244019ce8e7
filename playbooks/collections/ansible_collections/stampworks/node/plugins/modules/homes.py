"""Makes home directories and folders of groups on storage that all nodes see; removes none."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering

DOCUMENTATION = """
module: homes
short_description: Make home directories and folders of groups
description:
  - What is in them is left alone, and none is ever removed. The folders around them belong to root.
options:
  users:
    description: Homes.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where it is., type: str, required: true}
      uid: {description: Number of the user and of their own group., type: int, required: true}
  groups:
    description: Folders of groups.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where it is., type: str, required: true}
      gid: {description: Number of the group., type: int, required: true}
"""

SKELETON = Path("/etc/skel")
ROOT = 0


@dataclass(frozen=True)
class Folder:
    path: Path
    uid: int
    gid: int
    mode: int


def work(check: bool, users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    homes = [Folder(Path(each["path"]), each["uid"], each["uid"], 0o700) for each in users]
    shared = [Folder(Path(each["path"]), ROOT, each["gid"], 0o2770) for each in groups]
    around = sorted({folder.path.parent for folder in (*homes, *shared)})
    drift = []
    for folder in (*(Folder(path, ROOT, ROOT, 0o755) for path in around), *homes, *shared):
        if not (why := differs(folder)):
            continue
        drift.append(f"{folder.path} {why}")
        if not check:
            make(folder, SKELETON if folder in homes else None)
    return {"changed": bool(drift), "drift": drift}


def differs(folder: Folder) -> str:
    """Why a folder is not as it should be; empty where it is."""
    try:
        found = folder.path.lstat()
    except FileNotFoundError:
        return "is missing"
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{folder.path}: a file or a link stands where a folder should: move it away")
    if folder.uid not in (ROOT, found.st_uid):
        whose = f"belongs to the user with the number {found.st_uid}, not {folder.uid}"
        raise Refused(f"{folder.path}: {whose}: move it away, or give it to the new user with chown")
    if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (folder.uid, folder.gid, folder.mode):
        return ""
    return "has another owner or mode"


def make(folder: Folder, skeleton: Path | None) -> None:
    """Create a home beside its final path and rename it, so that users never see an incomplete one."""
    if folder.path.exists():
        own(folder.path, folder)
        return
    draft = folder.path.with_name(f".{folder.path.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    for file in sorted(skeleton.iterdir()) if skeleton and skeleton.is_dir() else ():
        if file.is_file():
            shutil.copy(file, draft)
            os.chown(draft / file.name, folder.uid, folder.gid)
    own(draft, folder)
    draft.rename(folder.path)


def own(path: Path, folder: Folder) -> None:
    """Change the folder that was opened: a link that takes its place meanwhile leads nowhere."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(opened, folder.uid, folder.gid)
        os.fchmod(opened, folder.mode)  # last: another owner takes the bit of the group away
    finally:
        os.close(opened)


answer = answering(work)
