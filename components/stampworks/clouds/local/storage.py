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
    """A directory that every node sees; guarded against deletion where the plan says so."""
    guarded = _guarded(opts, protect=storage.protect)
    return SharedDirectory(name, cluster=cluster, claim=place.claim, name=storage.name, opts=guarded)


def mount(storage: Storage, made: SharedDirectory) -> Mount:  # noqa: ARG001  (every node has the exports of its room)
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
    """A disk for the one member of a group, which goes on with it when it gets a new disk of its own."""
    (node,) = group.nodes
    guarded = _guarded(opts, protect=protect)
    return LocalVolume(name, cluster=cluster, claim=place.claim, name=volume.of_node(node.name), opts=guarded)


def serial(volume: LocalVolume) -> str:  # noqa: ARG001
    """None: its node boots with it in its place."""
    return ""


def _guarded(opts: pulumi.ResourceOptions, *, protect: bool) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=protect))
