"""What to do about the ways in which a machine says that it cannot."""

from __future__ import annotations

import resource

from stampworks import paths
from stampworks.clouds.local.room import privileges

NAMESPACES = ("unshare", "newuidmap", "newgidmap")
FULL = ("No space left on device", "Disk quota exceeded", "enough free space")
PROCESSES = ("Resource temporarily unavailable", "Cannot fork", "can't start new thread")
MODULES = (
    (("mount overlay",), "overlay"),
    (("Unknown device type", "type veth", "type bridge"), "veth bridge"),
    (("qdisc kind is unknown", "root tbf"), "sch_tbf"),
)
"""Words of an error, and the kernel modules that it asks for."""


def remedy(why: str, path: str) -> str:
    """What most likely helps after these words of the kernel or of a program; empty when nobody knows.

    The path is where programs are looked for.
    """
    if _says(why, PROCESSES):  # first, for whoever could not start one may be a program that makes namespaces
        limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        allowed = "no limit" if limit == resource.RLIM_INFINITY else limit
        return (
            f"end other processes or raise the limit (a node takes about 15): ulimit -u says {allowed}, and pids.max "
            "of a control group counts too"
        )
    if _says(why, NAMESPACES):
        return privileges.remedy(why, path)
    if _says(why, FULL):
        return full()
    modules = next((modules for words, modules in MODULES if _says(why, words)), "")
    return f"the kernel may lack it; as root: modprobe {modules}" if modules else ""


def full() -> str:
    places = sorted({str(paths.state_dir()), str(paths.cache_dir())})
    return f"make room (df -h {' '.join(places)}) and run the same command again: what was done stays"


def _says(why: str, words: tuple[str, ...]) -> bool:
    return any(word in why for word in words)
