"""Mounts what should be mounted, now and at every boot, and unmounts what an earlier run mounted for us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write
from ansible_collections.stampworks.node.plugins.module_utils.tables import Block, escaped, mount_points

DOCUMENTATION = """
module: mounts
short_description: Mount file systems now and at every boot
description:
  - Owns the lines of /etc/fstab between its two marks and leaves every other line alone.
options:
  mounts:
    description: What to mount.
    type: list
    elements: dict
    required: true
    suboptions:
      source: {description: What is mounted., type: str, required: true}
      path: {description: Where., type: str, required: true}
      type: {description: The kind of file system; none for a bind., type: str, default: none}
      options: {description: Mount options., type: str, default: bind}
"""

FSTAB = Path("/etc/fstab")
MOUNTINFO = Path("/proc/self/mountinfo")
OURS = Block("# Stampworks: begin, written by the storage role\n", "# Stampworks: end\n")


def work(check: bool, mounts: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    text = FSTAB.read_text() if FSTAB.exists() else ""
    lines = [fstab_line(mount) for mount in mounts]
    new, gone = OURS.put(text, lines)
    mounted = mount_points(MOUNTINFO.read_text())
    missing = [mount["path"] for mount in mounts if mount["path"] not in mounted]
    leftover = [path for path in gone if path in mounted]
    if not check:
        for path in leftover:  # before fstab forgets them: one that is busy is tried again by the next run
            run(["umount", path])
        if new != text:
            write(FSTAB, new.encode())
        for mount in mounts:
            if mount["path"] in missing:
                mount_now(mount)
    drift = [f"{FSTAB} differs"] if new != text else []
    drift += [f"{path} is not mounted" for path in missing] + [f"{path} is mounted" for path in leftover]
    return {
        "changed": bool(drift),
        "drift": drift,
        "mounted": missing,
        "unmounted": leftover,
        "diff": [{"before_header": str(FSTAB), "after_header": str(FSTAB), "before": text, "after": new}],
    }


def mount_now(mount: Mapping[str, str]) -> None:
    if mount["options"] == "bind" and not Path(mount["source"]).is_dir():
        raise Refused(f"{mount['path']}: there is no {mount['source']} on this node to mount: is its storage declared?")
    Path(mount["path"]).mkdir(parents=True, exist_ok=True)
    run(["mount", mount["path"]])


def fstab_line(mount: Mapping[str, str]) -> str:
    fields = (escaped(mount["source"]), escaped(mount["path"]), mount["type"], mount["options"])
    return " ".join([*fields, "0", "0"]) + "\n"


answer = answering(work)
