"""Storage of a cluster on hosts: directories that they share already."""

from __future__ import annotations

import pulumi

from stampworks.plan import Mount, Storage
from stampworks.resources import HostDirectory, HostPlace


def create(
    name: str,
    *,
    cluster: str,
    place: HostPlace,
    storage: Storage,
    repository: pulumi.Resource | None,  # noqa: ARG001  (a directory shows none)
    opts: pulumi.ResourceOptions,
) -> HostDirectory:
    """Expect a directory that every host has. Nothing of it is changed, and it stays."""
    return HostDirectory(name, cluster=cluster, claim=place.claim, hosts=place.hosts, path=storage.existing, opts=opts)


def mount(storage: Storage, made: HostDirectory) -> Mount:  # noqa: ARG001
    """Return the mount of the directory at its declared place."""
    return Mount(storage.existing, storage.mount)
