"""Access to a local cluster for users of this machine: ports of its loopback."""

from __future__ import annotations

from stampworks.machine_room import open_door
from stampworks.plan import Member

_SSH = 22


def target(cluster: str, member: Member) -> str:
    """Return the ssh address of a port that leads to the member.

    Only root may enter the room. Every user of this machine reaches the port, and sshd decides who logs in.
    """
    return f"ssh://127.0.0.1:{open_door(cluster, f'ssh-{member.name}', member.address, _SSH)}"
