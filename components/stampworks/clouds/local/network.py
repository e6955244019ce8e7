"""The network of a local cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from stampworks.plan import Network, Rail, to_dict
from stampworks.resources import Keyring, LocalNetwork, LocalRoom


def create(
    name: str,
    *,
    cluster: str,
    place: LocalRoom,
    network: Network,
    rails: Sequence[Rail],
    keyring: Keyring,
    opts: pulumi.ResourceOptions,
) -> LocalNetwork:
    """Create the machine room with its management network, rails, leaves and trunks."""
    return LocalNetwork(
        name,
        cluster=cluster,
        claim=place.claim,
        network=to_dict(network),
        rails=[to_dict(rail) for rail in rails],
        ssh_public_key=keyring.ssh_public_key,
        ssh_private_key=keyring.ssh_private_key,
        opts=opts,
    )
