"""Places of a host: listed, copied, compared, of a cluster, and never touched."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Container, Iterable

STATE = "/var/lib/stampworks"
BEFORE = f"{STATE}/before"
DRAFT = f"{STATE}/.before.new"
GONE = f"{STATE}/.before.gone"
COPY = "copy"
"""Folder of the copies, below BEFORE."""
MARK = "/etc/stampworks/cluster"
KEY = "/etc/stampworks/cluster.pub"
"""The key with which the cluster logs in, as it stands in AUTHORIZED."""
AUTHORIZED = "/root/.ssh/authorized_keys"
SERVICES = "/etc/stampworks/services"
"""Services under runit, a folder each."""
FILES_OF_ROLES = f"{STATE}/files"
"""Lists of the files that roles wrote: JSON lists of paths."""

LISTED = {
    "/": 1,
    "/etc": 99,
    "/home": 1,
    "/mnt": 1,
    "/opt": 3,
    "/root": 2,
    "/srv": 1,
    "/usr/local": 99,
    "/usr/share/pam-configs": 1,
    "/var": 1,
    "/var/cache": 1,
    "/var/cache/apt/archives": 1,
    "/var/lib": 1,
    "/var/lib/apt/extended_states": 0,
    "/var/lib/apt/lists": 1,
    STATE: 99,
    "/var/lib/slurm": 3,
    "/var/lib/systemd/deb-systemd-helper-enabled": 2,
    "/var/lib/systemd/deb-systemd-helper-masked": 2,
    "/var/log": 1,
    "/var/spool": 2,
}
"""Folders whose entries are listed, and how many levels of them; 0 for a file."""
COPIED = ("/etc", "/var/lib/apt/extended_states", STATE)  # an image that our roles made has such a folder already
COMPARED = (*COPIED, "/usr/local", "/opt")
"""Where a changed file is a difference. Elsewhere files change by themselves: only new and lost ones count."""
PASSING = ("/var/cache", "/var/lib/apt/lists", "/var/log", "/var/spool")
"""Where a lost file is no difference."""

UNLISTED = (
    KEY,
    MARK,
    BEFORE,
    DRAFT,
    GONE,
    "*/supervise",
    "/etc/*-",
    "/etc/.pwd.lock",
    "/etc/.updated",
    "/etc/adjtime",
    "/etc/ld.so.cache",
    "/etc/mtab",
    "/root/.bash_history",
    "/root/.cache",
    "/var/.updated",
    "/var/log/*.gz",
    "/var/log/*[.-][0-9]*",
)
"""Files that the system itself changes."""
HANDS_OFF = (
    "/etc/NetworkManager",
    "/etc/cloud",
    "/etc/docker",
    "/etc/fstab",
    "/etc/group",
    "/etc/gshadow",
    "/etc/machine-id",
    "/etc/netplan",
    "/etc/network",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/shadow",
    "/etc/ssh",
    "/etc/subgid",
    "/etc/subuid",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/sysconfig/network*",
    "/etc/systemd/network",
)
"""Parts of /etc for access, network, accounts and mounts: only what roles wrote is taken back there."""
OF_PACKAGES = ("/etc/alternatives", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/var/lib/apt/extended_states")
"""Places that packages share: they stay as they are where packages stay."""
OF_A_CLUSTER = (
    "/root/.ansible",
    "/root/.ansible_async",
    "/var/cache/apt/archives/*",
    "/var/lib/apt/lists/*",
    "/var/lib/enroot",
    "/var/lib/munge",
    "/var/lib/mysql",
    "/var/lib/slurm",
    "/var/lib/sss",
    "/var/lib/systemd/deb-systemd-helper-*",
    "/var/log/alternatives.log",
    "/var/log/apt",
    "/var/log/dpkg.log",
    "/var/log/munge",
    "/var/log/mysql",
    "/var/log/slurm*",
    "/var/log/sssd",
    "/var/spool/slurm*",
)
"""New entries that a cluster brings, beside files that roles or packages list, or that a user of theirs owns."""
VOLATILE = ("slurm*", "stampworks*")
"""Entries of /run that a cluster brings."""


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path, or a folder above it, fits one of the patterns."""
    return bool(_compiled(tuple(patterns)).match(path))


@functools.cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    r"""Return one expression for all patterns; \Z at the end of each is replaced."""
    return re.compile("|".join(f"{fnmatch.translate(pattern)[:-2]}(?:/|$)" for pattern in patterns))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders, or below one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def top_most(paths: Iterable[str]) -> list[str]:
    """Leave out paths that are below another one."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda each: each.split("/")):
        if not is_below(path, kept[-1:]):
            kept.append(path)
    return kept


def was_there(path: str, found: Container[str], points: Iterable[str]) -> bool:
    """Whether a path was there, as far as the list of what was found tells. What no list covers counts as there."""
    if is_below(path, [point for point in points if point != "/"]):
        return True
    at = ""
    for part in path.strip("/").split("/"):
        folder, at = at or "/", f"{at}/{part}"
        if at not in found and any(_lists(place, folder) for place in LISTED):
            return matches(at, UNLISTED)
    return True


def _lists(place: str, folder: str) -> bool:
    """Whether a listed place has the entries of a folder."""
    below = [part for part in folder[len(place.rstrip("/")) :].split("/") if part]
    return is_below(folder, [place]) and len(below) < LISTED[place]
