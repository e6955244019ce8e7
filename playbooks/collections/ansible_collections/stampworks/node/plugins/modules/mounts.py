"""Mounts what should be mounted, now and at every boot, and unmounts what an earlier run mounted and should not be."""

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
    new, had = OURS.put(text, [fstab_line(mount) for mount in mounts])
    mounted, wanted = mount_points(MOUNTINFO.read_text()), {mount["path"]: mount["source"] for mount in mounts}
    missing = [path for path in wanted if path not in mounted]
    # Sources of mounts come from our own lines. The kernel shows others: of Lustre the address
    # that a name had, of a bucket that it is one.
    there = {path: source for path, source in had.items() if path in mounted and source != wanted.get(path)}
    leftover, replaced = [path for path in there if path not in wanted], [path for path in there if path in wanted]
    if not check:
        for path in reversed(there):  # unmount before fstab is rewritten: the next run tries a busy mount again
            unmount(path, there[path])
        if new != text:
            write(FSTAB, new.encode())
        for mount in mounts:
            if mount["path"] in (*missing, *replaced):
                mount_now(mount)
    drift = [f"{FSTAB} differs"] if new != text else []
    drift += [f"{path} is not mounted" for path in missing] + [f"{path} is mounted" for path in leftover]
    drift += [f"{path} is {there[path]}, not {wanted[path]}" for path in replaced]
    return {
        "changed": bool(drift),
        "drift": drift,
        "mounted": [*missing, *replaced],
        "unmounted": [*there],
        "diff": [{"before_header": str(FSTAB), "after_header": str(FSTAB), "before": text, "after": new}],
    }


def unmount(path: str, source: str) -> None:
    """Unmount a path. If its server does not answer, detach it, and let processes inside keep their files."""
    try:
        done = run(["umount", path], check=False)
    except Refused:  # the server does not answer
        run(["umount", "--force", "--lazy", path])
        return
    if done.returncode:
        raise Refused(
            f"{path}: {source} is to go from there and cannot ({done.stderr.strip()}): end the jobs and sessions that "
            "use it on this node, then run pulumi up again"
        )


def mount_now(mount: Mapping[str, str]) -> None:
    if mount["options"] == "bind" and not Path(mount["source"]).is_dir():
        raise Refused(f"{mount['path']}: there is no {mount['source']} on this node to mount: is its storage declared?")
    Path(mount["path"]).mkdir(parents=True, exist_ok=True)
    run(["mount", mount["path"]])


def fstab_line(mount: Mapping[str, str]) -> str:
    fields = (escaped(mount["source"]), escaped(mount["path"]), mount["type"], mount["options"])
    return " ".join([*fields, "0", "0"]) + "\n"


answer = answering(work)
