"""The storage of a local cluster."""

from __future__ import annotations

import pulumi

from stampworks.plan import Group, Mount, Storage, Volume
from stampworks.resources import LocalRoom, LocalVolume, SharedDirectory


def create(
    name: str,
    *,
    cluster: str,
    place: LocalRoom,
    storage: Storage,
    repository: pulumi.Resource | None,  # noqa: ARG001  (a directory shows none)
    opts: pulumi.ResourceOptions,
) -> SharedDirectory:
    """Create a directory that every node sees, protected against deletion if the plan says so."""
    guarded = _guarded(opts, protect=storage.protect)
    return SharedDirectory(name, cluster=cluster, claim=place.claim, name=storage.name, opts=guarded)


def mount(storage: Storage, made: SharedDirectory) -> Mount:  # noqa: ARG001  (every node has the exports of its room)
    """Return the mount of a directory on every node."""
    return Mount(f"/exports/{storage.name}", storage.mount)


def create_volume(
    name: str,
    *,
    cluster: str,
    place: LocalRoom,
    group: Group,
    volume: Volume,
    protect: bool,
    opts: pulumi.ResourceOptions,
) -> LocalVolume:
    """Create a disk for the only member of a group. It stays when the node gets a new root disk."""
    (node,) = group.nodes
    guarded = _guarded(opts, protect=protect)
    return LocalVolume(name, cluster=cluster, claim=place.claim, name=volume.of_node(node.name), opts=guarded)


def serial(volume: LocalVolume) -> str:  # noqa: ARG001
    """Return an empty serial number: the node boots with the disk in its place."""
    return ""


def _guarded(opts: pulumi.ResourceOptions, *, protect: bool) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=protect))
