"""The nodes of a local cluster, a group per pool."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pulumi

from stampworks.plan import Group, Rail, Release, to_dict
from stampworks.resources import LocalGroup, LocalNetwork


def create(
    name: str,
    *,
    cluster: str,
    network: LocalNetwork,
    group: Group,
    rails: Sequence[Rail],
    release: Release,
    content: str,
    drain_timeout_minutes: int,
    opts: pulumi.ResourceOptions,
) -> LocalGroup:
    """The members of one pool; content is a digest of what the image's installation does."""
    # Trunks are the network's, and not every machine has a NIC on every rail: neither may look like a change in here.
    own_rails = [dataclasses.replace(rail, trunks=()) for rail in rails[: len(group.nodes[0].rail_addresses)]]
    return LocalGroup(
        name,
        cluster=cluster,
        claim=network.claim,
        network_instance=network.instance,
        group=to_dict(group),
        rails=[to_dict(rail) for rail in own_rails],
        image={"release": to_dict(release), "content": content},
        drain_timeout_minutes=drain_timeout_minutes,
        opts=opts,
    )
