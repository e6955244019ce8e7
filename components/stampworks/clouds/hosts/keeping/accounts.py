"""Users and groups: remove those of a cluster from the files of accounts, and nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from stampworks.clouds.hosts.keeping.places import STATE
from stampworks.clouds.hosts.keeping.tree import Tree

FIRST_PERSON = 1000
OF_DEBIAN = range(60000, 65000)
"""Numbers that Debian gives to packages, such as 64030 to Slurm (Debian Policy, section 9.2.2)."""
OF_USERS = ("/etc/passwd", "/etc/shadow", "/etc/subuid", "/etc/subgid")
OF_GROUPS = ("/etc/group", "/etc/gshadow")
LOCK = Path("/etc/.pwd.lock")
"""Held by all programs that write these files (lckpwdf(3))."""
ID, HOME, PASSWD_FIELDS = 2, 5, 7
MEMBERS = 3

Accounts = dict[str, list[str]]
"""Fields of a line by its first field."""


def accounts(text: str) -> Accounts:
    """Parse passwd or group."""
    rows = [line.split(":") for line in text.splitlines()]
    return {row[0]: row for row in rows if len(row) >= MEMBERS + 1 and row[ID].isdecimal()}


def differences(kind: str, before: Accounts, now: Accounts) -> list[str]:
    """Return the differences of users or groups in words."""
    words = [f"{kind} {name} is new" for name in now.keys() - before.keys()]
    words += [f"{kind} {name} is gone" for name in before.keys() - now.keys()]
    both = before.keys() & now.keys()
    return words + [f"{kind} {name} has changed" for name in both if _sorted(before[name]) != _sorted(now[name])]


def of_cluster(tree: Tree, record: str, before: Accounts, now: Accounts) -> list[str]:
    """Return new accounts that are of the cluster: those that the roles noted, and those of services."""
    noted = recorded(tree, record)
    new = now.keys() - before.keys()
    return sorted(name for name in new if name in noted or is_of_service(int(now[name][ID])))


def is_of_service(number: int) -> bool:
    """Whether a user or group belongs to a service and not to a person."""
    return number < FIRST_PERSON or number in OF_DEBIAN


def recorded(tree: Tree, record: str) -> set[str]:
    """Return the names in a record of the roles."""
    with contextlib.suppress(ValueError):
        names = json.loads(tree.text(f"{STATE}/{record}") or "[]")
        return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    return set()


def give_back(
    tree: Tree, users: Collection[str], groups: Collection[str], noted: Collection[str], before: Mapping[str, Accounts]
) -> None:
    """Remove these users and groups, and give the noted ones that were there their members and homes of before."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock = stack.enter_context(LOCK.open("a"))
            fcntl.lockf(lock, fcntl.LOCK_EX)
        for path in OF_USERS:
            _rewrite(tree, path, lambda fields: _user(fields, users, noted, before["users"]))
        for path in OF_GROUPS:
            _rewrite(tree, path, lambda fields: _group(fields, users, groups, noted, before["groups"]))


def _rewrite(tree: Tree, path: str, changed: Callable[[list[str]], list[str] | None]) -> None:
    text = tree.text(path)
    lines = [changed(line.split(":")) for line in text.splitlines()]
    new = "".join(":".join(fields) + "\n" for fields in lines if fields is not None)
    if text and new != text:
        tree.write(path, new)


def _user(fields: list[str], users: Collection[str], noted: Collection[str], before: Accounts) -> list[str] | None:
    name = fields[0]
    if name in users:
        return None
    if name in noted and name in before and len(fields) == PASSWD_FIELDS:
        fields[HOME] = before[name][HOME]
    return fields


def _group(
    fields: list[str], users: Collection[str], groups: Collection[str], noted: Collection[str], before: Accounts
) -> list[str] | None:
    name = fields[0]
    if name in groups:
        return None
    if len(fields) > MEMBERS:
        members = [member for member in fields[MEMBERS].split(",") if member not in users]
        fields[MEMBERS] = before[name][MEMBERS] if name in noted and name in before else ",".join(members)
    return fields


def _sorted(fields: list[str]) -> list[str]:
    """Return the fields with the members of a group in order."""
    return [",".join(sorted(field.split(","))) for field in fields]
