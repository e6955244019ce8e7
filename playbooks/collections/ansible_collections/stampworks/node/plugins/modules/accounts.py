"""Makes the declared users with their groups, and removes the accounts of those who are declared no longer."""

from __future__ import annotations

import fcntl
import grp
import json
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write

DOCUMENTATION = """
module: accounts
short_description: Make users and groups, the same on every node
description:
  - A user's own group has the user's name and number. Home directories are never removed.
options:
  users:
    description: The users.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Login name., type: str, required: true}
      uid: {description: Number of user and group., type: int, required: true}
      home: {description: On shared storage; empty for one that is made here., type: str, default: ""}
  groups:
    description: Groups of users.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Its name., type: str, required: true}
      gid: {description: Its number., type: int, required: true}
      users: {description: The logins in it., type: list, elements: str, required: true}
  shell: {description: Login shell., type: str, default: /bin/bash}
"""

RECORD = Path("/var/lib/stampworks/users.json")
GROUPS = Path("/var/lib/stampworks/groups.json")
PASSWD = Path("/etc/passwd")
LOCK = Path("/etc/.pwd.lock")
"""Held by all programs that write this file (lckpwdf(3))."""
HOMES = "/home"
ID_MIN = 1000


def work(
    check: bool, users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], shell: str
) -> dict[str, Any]:
    present = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = {entry.gr_name: entry for entry in grp.getgrall()}
    if problems := [*refusals(users, present), *group_refusals(groups, found)]:
        raise Refused("; ".join(problems))
    missing = [user for user in users if user["name"] not in present]
    moved = [user for user in users if user not in missing and present[user["name"]].pw_dir != home_of(user)]
    gone = leavers(RECORD, users, present)
    groups_gone = leavers(GROUPS, groups, found)
    group_drift = [*drift_of_groups(groups, found), *(f"group {name} is left over" for name in groups_gone)]
    if not check:
        for user in missing:
            make(user, shell)
        for user in moved:
            move(user)
        for name in gone:
            run(["userdel", "--force", name])
        for name in groups_gone:
            run(["groupdel", name])
        for group in groups:
            make_group(group, found)
        keep(RECORD, users)
        keep(GROUPS, groups)
    made = [user["name"] for user in missing]
    drift = [f"user {name} is missing" for name in made] + [f"user {name} is left over" for name in gone]
    drift += [f"user {user['name']} has another home than {home_of(user)}" for user in moved] + group_drift
    return {"changed": bool(drift), "drift": drift, "made": made, "removed": gone}


def leavers(record: Path, declared: Sequence[Mapping[str, Any]], present: Mapping[str, Any]) -> list[str]:
    """Names that an earlier run has made, and that are here and declared no longer."""
    names = {entry["name"] for entry in declared}
    recorded = json.loads(record.read_text()) if record.exists() else []
    return [name for name in recorded if name not in names and name in present]


def keep(record: Path, declared: Sequence[Mapping[str, Any]]) -> None:
    text = json.dumps([entry["name"] for entry in declared])
    if not record.exists() or record.read_text() != text:
        write(record, text.encode())


def home_of(user: Mapping[str, Any]) -> str:
    return str(user["home"] or f"{HOMES}/{user['name']}")


def refusals(users: Sequence[Mapping[str, Any]], present: Mapping[str, pwd.struct_passwd]) -> list[str]:
    """Why these users cannot be made here: files of a user belong to a number, so a number is never taken over."""
    holders = {entry.pw_uid: name for name, entry in present.items()}
    problems = []
    for user in users:
        name, uid = user["name"], user["uid"]
        if uid < ID_MIN:
            problems.append(f"user {name}: uid {uid} is below {ID_MIN}, where the system's own accounts are")
        elif name in present and present[name].pw_uid != uid:
            problems.append(f"user {name} has uid {present[name].pw_uid} on this node, not {uid}: change one of them")
        elif name not in present and uid in holders:
            problems.append(f"user {name}: uid {uid} is taken by {holders[uid]} on this node")
    return problems


def group_refusals(groups: Sequence[Mapping[str, Any]], found: Mapping[str, grp.struct_group]) -> list[str]:
    """The same for groups."""
    holders = {entry.gr_gid: name for name, entry in found.items()}
    problems = []
    for group in groups:
        name, gid = group["name"], group["gid"]
        if name in found and found[name].gr_gid != gid:
            problems.append(f"group {name} has gid {found[name].gr_gid} on this node, not {gid}: change one of them")
        elif name not in found and gid in holders:
            problems.append(f"group {name}: gid {gid} is taken by {holders[gid]} on this node")
    return problems


def drift_of_groups(groups: Sequence[Mapping[str, Any]], found: Mapping[str, grp.struct_group]) -> list[str]:
    missing = [group["name"] for group in groups if group["name"] not in found]
    changed = [group["name"] for group in groups if group["name"] not in missing and not same(group, found)]
    return [*(f"group {name} is missing" for name in missing), *(f"group {name} has other users" for name in changed)]


def same(group: Mapping[str, Any], found: Mapping[str, grp.struct_group]) -> bool:
    """Whether it is there with the users that are declared."""
    name = group["name"]
    return name in found and sorted(group["users"]) == sorted(found[name].gr_mem)


def make_group(group: Mapping[str, Any], found: Mapping[str, grp.struct_group]) -> None:
    name = group["name"]
    if name not in found:
        run(["groupadd", "--gid", str(group["gid"]), name])
    if not same(group, found):
        run(["gpasswd", "--members", ",".join(group["users"]), name])


def make(user: Mapping[str, Any], shell: str) -> None:
    name, uid = user["name"], str(user["uid"])
    if name not in {group.gr_name for group in grp.getgrall()}:
        run(["groupadd", "--gid", uid, name])
    # '*' is no password but, unlike '!', no locked account either: sshd without PAM refuses keys of locked ones
    home = ["--no-create-home" if user["home"] else "--create-home", "--home-dir", home_of(user)]
    run(["useradd", "--uid", uid, "--gid", uid, *home, "--shell", shell, "--password", "*", name])


def move(user: Mapping[str, Any]) -> None:
    """Give a user another home, also while programs of theirs run, which usermod refuses; no file is moved."""
    with LOCK.open("a") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        lines = [line.split(":") for line in PASSWD.read_text().splitlines()]
        for fields in lines:
            if fields[0] == user["name"]:
                fields[5] = home_of(user)
        write(PASSWD, "".join(":".join(fields) + "\n" for fields in lines).encode())
    if not user["home"] and not Path(home_of(user)).exists():
        run(["install", "-d", "-m", "700", "-o", user["name"], "-g", user["name"], home_of(user)])


answer = answering(work)
