"""Nodes of a cluster on hosts, a group for each pool."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from stampworks.clouds.hosts import groups
from stampworks.plan import Group, Rail, Release, to_dict
from stampworks.resources import HostGroup, HostNetwork


def create(
    name: str,
    *,
    cluster: str,
    network: HostNetwork,
    group: Group,
    rails: Sequence[Rail],  # noqa: ARG001  (the hosts have them)
    release: Release,
    content: str,
    volumes: Sequence[pulumi.Resource],  # noqa: ARG001  (a plan on hosts has none)
    drain_timeout_minutes: int,
    opts: pulumi.ResourceOptions,
) -> HostGroup:
    """Make nodes of hosts. `content` is a digest of the effect of the image's installation."""
    return HostGroup(
        name,
        cluster=cluster,
        claim=network.claim,
        hosts=network.hosts.apply(lambda hosts: _of_group(hosts, group.name)),
        ssh_public_key=network.ssh_public_key,
        group=to_dict(group),
        made_with=groups.made_with(group, release, content),
        drain_timeout_minutes=drain_timeout_minutes,
        opts=opts,
    )


def _of_group(hosts: dict[str, object], group: str) -> dict[str, object]:
    """Leave the hosts of other groups out, so that a change of them is none of this one."""
    machines = hosts["machines"]
    return {**hosts, "machines": [each for each in machines if each["group"] == group]}  # type: ignore[attr-defined]


def template(group: Group, leaf_nodes: int | None, release: Release, content: str) -> str:  # noqa: ARG001
    """Return a digest of the settings with which a host is configured."""
    return groups.made_with(group, release, content)
