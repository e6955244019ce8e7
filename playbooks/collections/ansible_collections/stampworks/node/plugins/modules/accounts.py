"""Makes the declared users with their groups, and removes the accounts of those who are declared no longer."""

from __future__ import annotations

import grp
import json
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write

DOCUMENTATION = """
module: accounts
short_description: Make users, the same on every node
description:
  - A user's group has the user's name and number. Home directories are never removed.
options:
  users:
    description: The users.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Login name., type: str, required: true}
      uid: {description: Number of user and group., type: int, required: true}
  shell: {description: Login shell., type: str, default: /bin/bash}
"""

RECORD = Path("/var/lib/stampworks/users.json")
UID_MIN = 1000


def work(check: bool, users: Sequence[Mapping[str, Any]], shell: str) -> dict[str, Any]:
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else []
    present = {entry.pw_name: entry for entry in pwd.getpwall()}
    names = [user["name"] for user in users]
    if problems := refusals(users, present):
        raise Refused("; ".join(problems))
    missing = [user for user in users if user["name"] not in present]
    gone = [name for name in recorded if name not in names and name in present]
    if not check:
        for user in missing:
            make(user["name"], user["uid"], shell)
        for name in gone:
            run(["userdel", "--force", name])
        if recorded != names:
            write(RECORD, json.dumps(names).encode())
    made = [user["name"] for user in missing]
    drift = [f"user {name} is missing" for name in made] + [f"user {name} is left over" for name in gone]
    return {"changed": bool(drift), "drift": drift, "made": made, "removed": gone}


def refusals(users: Sequence[Mapping[str, Any]], present: Mapping[str, pwd.struct_passwd]) -> list[str]:
    """Why these users cannot be made here: files of a user belong to a number, so a number is never taken over."""
    holders = {entry.pw_uid: name for name, entry in present.items()}
    problems = []
    for user in users:
        name, uid = user["name"], user["uid"]
        if uid < UID_MIN:
            problems.append(f"user {name}: uid {uid} is below {UID_MIN}, where the system's own accounts are")
        elif name in present and present[name].pw_uid != uid:
            problems.append(f"user {name} has uid {present[name].pw_uid} on this node, not {uid}: change one of them")
        elif name not in present and uid in holders:
            problems.append(f"user {name}: uid {uid} is taken by {holders[uid]} on this node")
    return problems


def make(name: str, uid: int, shell: str) -> None:
    if name not in {group.gr_name for group in grp.getgrall()}:
        run(["groupadd", "--gid", str(uid), name])
    # '*' is no password but, unlike '!', no locked account either: sshd without PAM refuses keys of locked ones
    options = ["--create-home", "--shell", shell, "--password", "*"]
    run(["useradd", "--uid", str(uid), "--gid", str(uid), *options, name])


answer = answering(work)
