"""How a Kubernetes of the local cloud is asked."""

from __future__ import annotations

from stampworks.machine_room.kubernetes import control_plane


def kubectl(cluster: str, region: str) -> tuple[str, ...]:  # noqa: ARG001  (a room is known by its cluster alone)
    """Begins a command that asks it, as its administrator; nothing where none runs."""
    return control_plane.access(cluster)


def remedy(why: str) -> str:  # noqa: ARG001  (whatever it is)
    """What to do where nothing was heard of it."""
    return "pulumi up repairs it"
