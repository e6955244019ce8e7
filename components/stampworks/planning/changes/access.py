"""A change of access in words: added and removed users, their keys, and shared files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable

from stampworks.changes.differences import Difference
from stampworks.plan import Directory, Plan, User


def access(each: Difference, after: Plan | None = None) -> str:
    """Describe how a difference changes access in a later plan, None for a removed stack; empty if it does not."""
    field, person = each.way[-1].field, each.way[0].key
    if each.way[0].field == "directory":
        return _directory_change(each, field)
    if each.way[0].field != "users":
        return ""
    if isinstance(each.b, User) and each.a is None:
        return f"access: {each.b.name} may submit jobs{_logs_in(each.b)}"
    if isinstance(each.a, User) and each.b is None:
        return f"access: {each.a.name} can no longer log in or submit jobs; the home stays"
    if field in ("keys", "keyless"):
        return _of_keys(each, field, next(user for user in after.users if user.name == person)) if after else ""
    if field == "groups":
        return f"access: {person} shares files with other groups: {_changed(each, str)}"
    return ""


def _of_keys(each: Difference, field: str, user: User) -> str:
    if user.keyless:
        lost = f" ({_changed(each, named)})" if field == "keys" else ""
        return f"access: no key logs in as {user.name}, not even one in ~/.ssh/authorized_keys{lost}"
    if not user.keys:
        declared = "has no declared key any more" if field == "keys" else "is declared without a list of keys"
        return f"access: {user.name} {declared}, so that those in ~/.ssh/authorized_keys are accepted again"
    return f"access: {user.name} logs in with other keys: {_changed(each, named)}" if field == "keys" else ""


def _directory_change(each: Difference, field: str) -> str:
    if isinstance(each.b, Directory):
        return f"access: {_members_text(each.b)} of {each.b.uri} may log in and submit jobs"
    if isinstance(each.a, Directory):
        return f"access: people of {each.a.uri} can no longer log in or submit jobs; homes stay"
    if field == "access_groups" and not each.b:
        return "access: all users of the directory may log in"
    if field == "access_groups" and not each.a:
        return f"access: of the directory only members of {', '.join(_texts(each.b))} may log in"
    if field == "access_groups":
        return f"access: members of other groups of the directory log in: {_changed(each, str)}"
    if field in ("uri", "base", "ca"):
        return "access: another directory decides which users log in, and with which keys"
    if field == "start_tls" and not each.b:
        return "access: an attacker on the network can decide which users log in"
    return ""


def _members_text(directory: Directory) -> str:
    return f"members of {', '.join(directory.access_groups)}" if directory.access_groups else "everybody"


def _logs_in(user: User) -> str:
    if user.keyless:
        return ", and no key logs in"
    return f", and log in with {', '.join(map(named, user.keys))}" if user.keys else ""


def exchanged(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Return added and removed keys."""
    return _gained_and_lost(set(before), set(after), named)


def _changed(each: Difference, say: Callable[[str], str]) -> str:
    return ", ".join(_gained_and_lost(set(_texts(each.a)), set(_texts(each.b)), say))


def _gained_and_lost(before: set[str], after: set[str], say: Callable[[str], str]) -> list[str]:
    return [
        *(f"+ {say(text)}" for text in sorted(after - before)),
        *(f"- {say(text)}" for text in sorted(before - after)),
    ]


def _texts(value: object) -> Iterable[str]:
    return map(str, value) if isinstance(value, (list, tuple)) else ()


def named(key: str) -> str:
    """A key as `ssh-keygen -l` calls it, with its comment."""
    _, blob, *comment = key.split(" ", 2)
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode().rstrip("=")
    return " ".join([f"SHA256:{digest}", *(f"({text})" for text in comment)])
