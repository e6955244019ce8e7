"""Commands with which users log in with their own keys."""

from __future__ import annotations

import shlex
from dataclasses import replace

from stampworks.operations import remote
from stampworks.plan import CONTROLLER, Plan, Roster, User

OWN_FILES = {
    "ssh-ed25519": "id_ed25519",
    "sk-ssh-ed25519@openssh.com": "id_ed25519_sk",
    "sk-ecdsa-sha2-nistp256@openssh.com": "id_ecdsa_sk",
    "ssh-rsa": "id_rsa",
}
"""Default files of ssh-keygen by the type of the key; other types are ECDSA."""


def login_commands(plan: Plan, roster: Roster) -> dict[str, str]:
    """Return the command of each user with keys that logs in to a login node, or to the head if there is none."""
    places = [group.name for group in plan.login] or [CONTROLLER]
    node = next((member.name for member in roster.members if member.group in places), "")
    if not node:
        return {}
    return {
        user.name: shlex.join(
            remote.ssh_command(replace(roster, user=user.name, identity_file=f"~/.ssh/{_file(user)}"), node)
        )
        for user in plan.users
        if user.keys
    }


def _file(user: User) -> str:
    return OWN_FILES.get(user.keys[0].split()[0], "id_ecdsa")
