"""Mounts disks that outlive their node, by what they call themselves; one that is blank gets a file system first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.disks import contents, is_blank, kind
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write
from ansible_collections.stampworks.node.plugins.module_utils.tables import Block, escaped, mount_points

DOCUMENTATION = """
module: volumes
short_description: Mount disks that outlive their node
description:
  - Finds each disk by its serial number, whatever the kernel calls it today.
  - Makes a file system on one that holds nothing at all, and never on another one.
  - Owns the lines of /etc/fstab between its two marks and leaves every other line alone.
options:
  volumes:
    description: What to mount.
    type: list
    elements: dict
    required: true
    suboptions:
      serial: {description: What the disk calls itself., type: str, required: true}
      path: {description: Where., type: str, required: true}
"""

BLOCKS = Path("/sys/block")
DEVICES = Path("/dev")
POINTS = Path("/")
FSTAB = Path("/etc/fstab")
MOUNTINFO = Path("/proc/self/mountinfo")
KIND = "ext4"
OPTIONS = "defaults,nofail,nodelalloc"
"""ext4 gives a new file its blocks half a minute late, while others that speak of it are on the disk. Slurm writes the
scripts of jobs so: after a loss of power they were empty, and slurmctld ended at each start, over the first of them."""
OURS = Block("# Stampworks: begin, written by the volumes role\n", "# Stampworks: end of volumes\n")


def work(check: bool, volumes: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    devices = {each["path"]: device(each["serial"], each["path"]) for each in volumes}
    text = FSTAB.read_text() if FSTAB.exists() else ""
    blank = [path for path, disk in devices.items() if is_blank(disk)]
    mounted = mount_points(MOUNTINFO.read_text())
    missing = [path for path in devices if path not in mounted]
    if not check:
        for path in blank:
            run(["mkfs", "-t", KIND, "-q", "-m", "0", str(devices[path])], timeout=600)
    known = {path: uuid(disk) for path, disk in devices.items() if path not in blank or not check}
    new, _ = OURS.put(text, [fstab_line(of, path) for path, of in known.items()])
    if not check:
        if new != text:
            write(FSTAB, new.encode())
        for path in missing:
            (POINTS / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
            run(["mount", path])
    drift = [f"{path}: its disk has no file system" for path in blank]
    drift += [f"{FSTAB} differs"] if new != text else []
    drift += [f"{path} is not mounted" for path in missing]
    return {"changed": bool(drift), "drift": drift, "made": blank, "mounted": missing}


def device(serial: str, path: str) -> Path:
    """The disk that calls itself so; a volume of AWS leaves out the dash of its id."""
    wanted = serial.replace("-", "")
    known = dict(serials())
    if wanted in known:
        return known[wanted]
    there = f"there are {', '.join(sorted(known))}" if known else "none says what it is called"
    raise Refused(f"{path}: no disk of this node is {serial}; {there}: it is not attached yet, or to another node")


def serials() -> Iterator[tuple[str, Path]]:
    for block in sorted(BLOCKS.iterdir()):
        for file in (block / "device" / "serial", block / "serial"):
            if file.is_file():
                yield file.read_text().strip().replace("-", ""), DEVICES / block.name
                break


def uuid(disk: Path) -> str:
    """Return the UUID of a file system that is ours to mount; refuse other kinds, whose owner may want them back."""
    of = contents(disk)
    if of.get("TYPE") != KIND or not of.get("UUID"):
        raise Refused(
            f"{disk}: holds {kind(of)}, not {KIND}: this is no disk that was made for it, and it is left alone"
        )
    return of["UUID"]


def fstab_line(of: str, path: str) -> str:
    return f"UUID={of} {escaped(path)} {KIND} {OPTIONS} 0 2\n"


answer = answering(work)
