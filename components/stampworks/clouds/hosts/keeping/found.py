"""The list of what is on a host: make it, keep it, and compare it with what is there now."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass, field
from typing import Any

from stampworks.clouds.hosts.keeping import accounts, mounts, packages, services
from stampworks.clouds.hosts.keeping.places import (
    BEFORE,
    COPIED,
    COPY,
    DRAFT,
    FILES_OF_ROLES,
    GONE,
    HANDS_OFF,
    MARK,
    PASSING,
    STATE,
    is_below,
    matches,
    top_most,
)
from stampworks.clouds.hosts.keeping.tree import Entry, Tree, same

LIST = "found.json"
OURS = "ours.json"
LINES_MAX = 1000


class RefusedError(Exception):
    """A verb that cannot do anything; the text says why, and what to do."""


@dataclass(frozen=True)
class Found:
    """Everything on a host at one moment."""

    packages: packages.Packages
    users: accounts.Accounts
    groups: accounts.Accounts
    services: services.Services
    mounts: dict[str, list[str]]
    disks: dict[str, list[str]]
    modules: dict[str, int]
    sysctls: dict[str, str]
    hostname: str
    files: dict[str, Entry]


@dataclass
class Ours:
    """Things that a cluster brought, as far as they are known: each attempt to remove them adds what it sees."""

    packages: list[str] = field(default_factory=list)
    package_files: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Files and folders that roles wrote."""
    users: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    """Users and groups that roles noted, those that were there included."""
    uids: list[int] = field(default_factory=list)
    homes: list[str] = field(default_factory=list)
    """Home directories of noted users that were not there."""
    processes: list[str] = field(default_factory=list)
    """Identities: a process whose parent ends is no more known by its parent."""
    mounts: list[str] = field(default_factory=list)
    services: list[str] = field(default_factory=list)

    def add(self, other: Ours) -> None:
        """Add what another look has seen."""
        for name, values in asdict(other).items():
            setattr(self, name, sorted({*getattr(self, name), *values}))


def look(tree: Tree) -> Found:
    """Look at everything."""
    return Found(
        packages=packages.packages(),
        users=accounts.accounts(tree.text("/etc/passwd")),
        groups=accounts.accounts(tree.text("/etc/group")),
        services=services.services(),
        mounts=mounts.mounts(),
        disks=mounts.disks(),
        modules=mounts.modules(),
        sysctls=mounts.sysctls(),
        hostname=socket.gethostname(),
        files=tree.entries(),
    )


def keep(tree: Tree) -> bool:
    """Write down what is there, whole or not at all. Return whether that was new."""
    if tree.stat(BEFORE):
        return False
    if tree.stat(MARK):
        raise RefusedError(f"{MARK} is there and {BEFORE} is not: give the host back first, then claim it again")
    for rest in (DRAFT, GONE):
        tree.remove(rest)
    tree.remove_empty(STATE)
    found = look(tree)
    for folder, mode in ((STATE, 0o755), (DRAFT, 0o700), (f"{DRAFT}/{COPY}", 0o700)):
        tree.make_folder(folder, mode)
    _copy(tree, found)
    tree.write(f"{DRAFT}/{LIST}", json.dumps(asdict(found)))
    os.sync()  # a power cut must not leave a mark without its list
    tree.rename(DRAFT, BEFORE)
    os.sync()
    return True


def _copy(tree: Tree, found: Found) -> None:
    """Copy what can be restored."""
    for path in found.files:
        if is_below(path, COPIED):
            above = path.split("/")[1:-1]
            for depth in range(1, len(above) + 1):
                tree.make_folder("/".join([DRAFT, COPY, *above[:depth]]), 0o700)
            tree.copy(path, f"{DRAFT}/{COPY}{path}")


def read(tree: Tree) -> Found | None:
    """Return what was written down; None if nothing was."""
    text = tree.text(f"{BEFORE}/{LIST}")
    return Found(**json.loads(text)) if text else None


def read_ours(tree: Tree) -> Ours:
    """Return what an earlier attempt saw of a cluster."""
    text = tree.text(f"{BEFORE}/{OURS}")
    return Ours(**json.loads(text)) if text else Ours()


def write_ours(tree: Tree, ours: Ours) -> None:
    """Write down what is of the cluster, for an attempt that continues this one."""
    tree.write(f"{BEFORE}/{OURS}", json.dumps(asdict(ours)))


def written_by_roles(tree: Tree) -> set[str]:
    """Return the files and folders that roles noted."""
    paths: set[str] = set()
    for name in tree.names(FILES_OF_ROLES):
        with contextlib.suppress(ValueError):
            listed = json.loads(tree.text(f"{FILES_OF_ROLES}/{name}"))
            paths |= {path for path in listed if isinstance(path, str) and path.startswith("/")}
    return paths


def new_files(before: Found, now: dict[str, Entry]) -> list[str]:
    """Return the paths that are new, also below new folders. What an earlier mount hid is unknown, and not new."""
    hidden = [point for point in before.mounts if point != "/"]
    return [path for path in now if path not in before.files and not is_below(path, hidden)]


def differences(tree: Tree, before: Found, ours: Ours) -> dict[str, list[str]]:
    """Return all differences between what was found and what is there now, in words."""
    now = look(tree)
    words: dict[str, list[str]] = {
        "packages": packages.differences(before.packages, now.packages),
        "users": accounts.differences("user", before.users, now.users),
        "groups": accounts.differences("group", before.groups, now.groups),
        "services": services.differences(before.services, now.services),
        "mounts": mounts.differences(before.mounts, now.mounts),
        "sysctls": [
            f"{name} was {value} and is {now.sysctls[name]}"
            for name, value in before.sysctls.items()
            if now.sysctls.get(name, value) != value
        ],
        "files": _of_files(before, now.files, {*ours.files, *written_by_roles(tree)}),
    }
    if before.hostname != now.hostname:
        words["files"].append(f"the host was called {before.hostname} and is called {now.hostname}")
    return {name: _limited(sorted(lines)) for name, lines in words.items()}


def _of_files(before: Found, now: dict[str, Entry], ours: set[str]) -> list[str]:
    def counts(path: str) -> bool:
        return path in ours or not (matches(path, HANDS_OFF) or is_below(MARK, [path]))

    words = [f"{path} is new" for path in top_most(filter(counts, new_files(before, now)))]
    gone = [path for path in before.files if path not in now and counts(path)]
    words += [f"{path} is gone" for path in top_most(gone) if not is_below(path, PASSING)]
    both = [path for path in before.files if path in now and counts(path)]
    return words + [f"{path} has changed" for path in both if not same(path, before.files[path], now[path])]


def _limited(lines: list[Any]) -> list[Any]:
    left = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], f"and {left} more"] if left > 0 else lines
