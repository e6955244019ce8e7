"""The network of a cluster on hosts, which exists: the way to them, and the key of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from stampworks.plan import Network, Rail
from stampworks.resources import HostNetwork, HostPlace, Keyring


def create(
    name: str,
    *,
    cluster: str,
    place: HostPlace,
    network: Network,  # noqa: ARG001  (nothing of it is made)
    rails: Sequence[Rail],  # noqa: ARG001
    keyring: Keyring,
    opts: pulumi.ResourceOptions,
) -> HostNetwork:
    """Keep list and key where the toolkit runs."""
    return HostNetwork(
        name,
        cluster=cluster,
        claim=place.claim,
        hosts=place.hosts,
        ssh_public_key=keyring.ssh_public_key,
        ssh_private_key=keyring.ssh_private_key,
        opts=opts,
    )
