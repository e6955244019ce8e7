"""Makes one file system of the disks inside a machine, for what may be lost; never of one that somebody else uses."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.disks import contents, is_blank, kind
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write
from ansible_collections.stampworks.node.plugins.module_utils.tables import Block, escaped, mount_points

DOCUMENTATION = """
module: scratch
short_description: Make one file system of the disks inside a machine
description:
  - Finds the disks by their model and joins them to one array without redundancy, with a file system, mounted.
  - Takes disks that are blank or of such an array, and refuses all others.
  - An array that lacks disks is made anew, for nothing of it can be read.
  - Owns the lines of /etc/fstab between its two marks and leaves every other line alone.
options:
  path: {description: Where it is mounted., type: str, required: true}
  model: {description: What each of the disks calls itself., type: str, required: true}
  disks: {description: How many there are in this machine., type: int, required: true}
"""

BLOCKS = Path("/sys/block")
DEVICES = Path("/dev")
POINTS = Path("/")
FSTAB = Path("/etc/fstab")
MOUNTINFO = Path("/proc/self/mountinfo")
NAME = "stampworks-scratch"
"""Name of our array, on any machine that created it."""
MEMBER = "linux_raid_member"
KIND = "ext4"
OPEN, SHUT = 0o1777, 0o000
"""Modes of the mount and of the folder below it: all users may write to the array, and none to the node's own disk."""
OURS = Block("# Stampworks: begin, written by the scratch role\n", "# Stampworks: end of scratch\n")


def work(check: bool, path: str, model: str, disks: int) -> dict[str, Any]:
    found = sorted(of_model(model))
    if len(found) != disks:
        why = f"the machine has {disks} disks {model!r}, and this node shows {len(found)}"
        raise Refused(f"{path}: {why}: put another machine in its place (stampworks roll --machine)")
    mounted = path in mount_points(MOUNTINFO.read_text())
    drift = [*join(check, path, found, mounted)]
    if drift and check:  # a missing array cannot be checked further
        return {"changed": True, "drift": drift}
    array = held_by(found)
    if not (made := bool(of := contents(array))):
        drift.append(f"{path}: its array has no file system")
        if check:
            return {"changed": True, "drift": drift}
        # instance stores come trimmed: to trim them once more takes minutes
        run(["mkfs", "-t", KIND, "-q", "-m", "0", "-E", "nodiscard", str(array)], timeout=600)
        of = contents(array)
    if made and of.get("TYPE") != KIND:
        raise Refused(f"{array}: holds {kind(of)}, not {KIND}: somebody has made it, and it is left alone")
    drift += [*keep_mounted(check, path, of["UUID"], mounted)]
    return {"changed": bool(drift), "drift": drift}


def of_model(model: str) -> Iterator[str]:
    """The disks that call themselves so, as the kernel calls them today."""
    for block in BLOCKS.iterdir():
        file = block / "device" / "model"
        if file.is_file() and file.read_text().strip() == model:
            yield block.name


def join(check: bool, path: str, disks: Sequence[str], mounted: bool) -> Iterator[str]:
    """Makes the disks one array, or starts the one that they are; says what was to do."""
    arrays, paths = parts(disks), [str(DEVICES / disk) for disk in disks]
    array = str(DEVICES / "md" / NAME)
    if len(arrays) == 1 and "" not in arrays:
        if not holders(disks):
            yield f"{path}: its array is not started"
            if not check:
                run(["mdadm", "--assemble", array, *paths])
        return
    if mounted:
        raise Refused(f"{path}: is mounted, and its disks are not one array: drain the node and unmount it")
    yield f"{path}: its {len(disks)} disks are not one array"
    if not check:
        for holder in sorted(holders(disks)):  # left by an earlier boot; a used one does not stop
            run(["mdadm", "--stop", str(DEVICES / holder)])
        settings = ["--run", "--level=0", f"--raid-devices={len(disks)}", f"--name={NAME}", "--homehost=any", "--force"]
        run(["mdadm", "--create", array, *settings, *paths])


def parts(disks: Sequence[str]) -> set[str]:
    """The arrays of ours that they are parts of, empty for one that is blank; all others are refused."""
    arrays, others = set(), []
    for disk in disks:
        device = DEVICES / disk
        if is_blank(device):
            arrays.add("")
            continue
        of = contents(device)
        if of.get("TYPE") == MEMBER and of.get("LABEL", "").rpartition(":")[2] == NAME:
            arrays.add(of.get("UUID", ""))
        else:
            others.append(f"{device} holds {kind(of)}")
    if others:
        raise Refused(f"{'; '.join(others)}: not made by Stampworks, and left alone: wipefs --all, if nobody wants it")
    return arrays


def holders(disks: Sequence[str]) -> set[str]:
    """Return the arrays that the kernel has made of the disks and started."""
    return {holder.name for disk in disks for holder in (BLOCKS / disk / "holders").iterdir()}


def held_by(disks: Sequence[str]) -> Path:
    arrays = holders(disks)
    if len(arrays) != 1:
        raise Refused(f"{', '.join(disks)}: should be one array and are {len(arrays)}: see /proc/mdstat on this node")
    return DEVICES / arrays.pop()


def keep_mounted(check: bool, path: str, uuid: str, mounted: bool) -> Iterator[str]:
    text = FSTAB.read_text() if FSTAB.exists() else ""
    new, _ = OURS.put(text, [f"UUID={uuid} {escaped(path)} {KIND} defaults,nofail,noatime 0 2\n"])
    if new != text:
        yield f"{FSTAB} differs"
        if not check:
            write(FSTAB, new.encode())
    point = POINTS / path.lstrip("/")
    if not mounted:
        yield f"{path} is not mounted"
        if not check:
            point.mkdir(parents=True, exist_ok=True)
            point.chmod(SHUT)
            run(["mount", path])
    elif stat.S_IMODE(point.stat().st_mode) == OPEN:
        return
    else:
        yield f"{path} has another mode"
    if not check:
        point.chmod(OPEN)


answer = answering(work)
