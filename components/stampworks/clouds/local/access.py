"""Access to the Kubernetes of a local cluster."""

from __future__ import annotations

from stampworks.machine_room.kubernetes import control_plane


def kubectl(cluster: str, region: str) -> tuple[str, ...]:  # noqa: ARG001  (a room is known by its cluster alone)
    """Return the start of a kubectl command with an administrator's rights; empty if no server runs."""
    return control_plane.access(cluster)


def user_config(cluster: str, region: str, user: str) -> str:  # noqa: ARG001
    """Return a kubeconfig with a certificate of the user's own. Its key is secret."""
    return control_plane.user_config(cluster, user)


def remedy(why: str) -> str:  # noqa: ARG001  (whatever it is)
    """Return the hint for a server that does not answer."""
    return "pulumi up repairs it"
