"""Remedies for the errors with which a machine reports a limit or a missing ability."""

from __future__ import annotations

import os
import resource
from datetime import UTC, datetime
from pathlib import Path

from stampworks.machine_room import privileges
from stampworks.machine_room.errors import AGAIN
from stampworks.state import paths

NAMESPACES = ("unshare", "newuidmap", "newgidmap")
QUOTA = ("Disk quota exceeded",)
FULL = ("No space left on device", "enough free space")
PROCESSES = ("Resource temporarily unavailable", "Cannot fork", "can't start new thread")
FILES = ("Too many open files",)
CLOCK = ("is not valid yet", "is expired (invalid since")
MODULES = (
    (("mount overlay",), "overlay"),
    (("Unknown device type", "type veth", "type bridge"), "veth bridge"),
    (("qdisc kind is unknown", "root tbf"), "sch_tbf"),
)
"""Texts of an error, and the kernel modules that are missing then."""


def remedy(why: str, path: str, *, place: Path | None = None, outer: int = 0) -> str:
    """Return the most likely remedy for an error of the kernel or a program; empty when none is known.

    `path` is the search path of programs. `place` is the path that could not be written, if known. `outer` is the pid
    of the outer process of the room with the error.
    """
    # check first: the program that could not start a process may be one that makes namespaces
    if _says(why, PROCESSES):
        return (
            "end other processes or raise the limit (a node takes about 15): "
            f"ulimit -u says {_allowed(resource.RLIMIT_NPROC)}, and pids.max of a control group counts too"
        ) + (_kept(outer) if outer and os.geteuid() != 0 else "")
    if _says(why, FILES):
        return f"raise the limit (ulimit -n says {_allowed(resource.RLIMIT_NOFILE)}) and {AGAIN}"
    if _says(why, NAMESPACES):
        return privileges.remedy(why, path)
    if _says(why, QUOTA):
        return f"remove files of this user's or ask for a larger quota (quota -s says how much it is), then {AGAIN}"
    if _says(why, FULL):
        places = [place] if place else sorted({paths.state_dir(), paths.cache_dir()})
        return f"make room: {', '.join(map(left, places))}; then {AGAIN}"
    if _says(why, CLOCK):
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        return f"this machine's clock says {now}: set it if that is wrong, then {AGAIN}"
    if "cannot remove" in why and "Device or resource busy" in why:
        return f"something is mounted there (findmnt shows what): unmount it, then {AGAIN}"
    modules = next((modules for words, modules in MODULES if _says(why, words)), "")
    return f"the kernel may lack it; as root: modprobe {modules}" if modules else ""


def left(place: Path) -> str:
    """Return the free space at a path, in bytes and in files: either may be used up."""
    there = paths.nearest_existing(place)
    found = os.statvfs(there)
    # Some file systems have no limit on the number of files.
    files = f" and {found.f_favail} files" if found.f_files else ""
    return f"{there} has {found.f_bavail * found.f_frsize >> 20} MiB{files} left"


def _kept(outer: int) -> str:
    """Return a further remedy if the room keeps an old limit of processes.

    A user namespace keeps the limit with which it was made, even if its user's limit changes.
    """
    lines = Path(f"/proc/{outer}/limits").read_text().splitlines()
    began = next(line.split()[2] for line in lines if line.startswith("Max processes"))
    now = _allowed(resource.RLIMIT_NPROC)
    if not began.isdecimal() or (now.isdecimal() and int(now) <= int(began)):
        return ""
    return (
        f"; the room keeps the {began} with which it was started, and so: kill -9 {outer} (which ends its nodes and "
        "leaves their disks), then pulumi up"
    )


def _allowed(limit: int) -> str:
    allowed = resource.getrlimit(limit)[0]
    return "no limit" if allowed == resource.RLIM_INFINITY else str(allowed)


def _says(why: str, words: tuple[str, ...]) -> bool:
    return any(word in why for word in words)
