"""The place of a local cluster."""

from __future__ import annotations

import pulumi

from stampworks.resources import LocalRoom


def create(name: str, *, cluster: str, opts: pulumi.ResourceOptions) -> LocalRoom:
    """What everything else of the cluster is in, so that nothing outlives it."""
    return LocalRoom(name, cluster=cluster, opts=opts)
