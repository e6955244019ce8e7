"""The Kubernetes of a local cluster: its control plane in the room, and nodes for scheduling only."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from stampworks.plan import Group, Network, Release
from stampworks.resources import LocalControlPlane, LocalNetwork, SimulatedPool


def create(
    name: str, *, cluster: str, network: LocalNetwork, planned: Network, release: Release, opts: pulumi.ResourceOptions
) -> LocalControlPlane:
    """A Kubernetes with Kueue and JobSet, as a cloud has one for whoever rents it."""
    return LocalControlPlane(
        name,
        cluster=cluster,
        claim=network.claim,
        network_instance=network.instance,
        address=planned.gateway,
        services_cidr=planned.pods.services_cidr if planned.pods else "",
        versions=dict(release.kubernetes),
        opts=opts,
    )


def create_simulated(
    name: str,
    *,
    cluster: str,
    control_plane: LocalControlPlane,
    group: Group,
    labels: Mapping[str, Mapping[str, str]],
    capacity: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> SimulatedPool:
    """Nodes of a pool for scheduling only."""
    more = pulumi.ResourceOptions(depends_on=[control_plane], deleted_with=control_plane)
    return SimulatedPool(
        name,
        cluster=cluster,
        claim=control_plane.claim,
        pool=group.name,
        labels={node.name: labels[node.name] for node in group.nodes},
        capacity=capacity,
        opts=pulumi.ResourceOptions.merge(opts, more),
    )
