"""Nodes of a local cluster, a group for each pool."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pulumi

from stampworks.plan import Group, Rail, Release, to_dict
from stampworks.resources import LocalGroup, LocalNetwork, LocalVolume


def create(
    name: str,
    *,
    cluster: str,
    network: LocalNetwork,
    group: Group,
    rails: Sequence[Rail],
    release: Release,
    content: str,
    volumes: Sequence[LocalVolume],
    drain_timeout_minutes: int,
    opts: pulumi.ResourceOptions,
) -> LocalGroup:
    """Create the members of one pool. `content` is a digest of the effect of the image's installation."""
    return LocalGroup(
        name,
        cluster=cluster,
        claim=network.claim,
        network_instance=network.instance,
        group=to_dict(group),
        rails=[to_dict(rail) for rail in rails],
        image={"release": to_dict(release), "content": content},
        drain_timeout_minutes=drain_timeout_minutes,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*volumes])),
    )


def template(group: Group, leaf_nodes: int | None, release: Release, content: str) -> str:
    """Return a digest of the settings that a member gets only at boot. When it changes, running members are
    outdated."""
    of = [to_dict(group.machine), [to_dict(each) for each in group.volumes], leaf_nodes, to_dict(release), content]
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]
