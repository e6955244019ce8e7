"""The storage of a local cluster."""

from __future__ import annotations

import pulumi

from stampworks.plan import Storage, to_dict
from stampworks.resources import LocalNetwork, SharedDirectory


def create(
    name: str, *, cluster: str, network: LocalNetwork, storage: Storage, opts: pulumi.ResourceOptions
) -> SharedDirectory:
    """A directory that every node sees; guarded against deletion where the plan says so."""
    guarded = pulumi.ResourceOptions(protect=storage.protect)
    return SharedDirectory(
        name,
        cluster=cluster,
        network_instance=network.instance,
        storage=to_dict(storage),
        opts=pulumi.ResourceOptions.merge(opts, guarded),
    )
