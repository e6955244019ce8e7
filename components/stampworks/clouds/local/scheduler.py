"""The Kubernetes of a local cluster: its control plane in the room, joined nodes, and nodes for scheduling only."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from stampworks.plan import Group, Plan
from stampworks.resources import JoinedPool, LocalControlPlane, LocalNetwork, SimulatedPool
from stampworks.schedulers import addons


def create(name: str, *, plan: Plan, network: LocalNetwork, opts: pulumi.ResourceOptions) -> LocalControlPlane:
    """Create a Kubernetes with Kueue and JobSet, as a managed Kubernetes of a cloud."""
    pods = plan.network.pods
    brought = {each.name: each.version for each in plan.scheduler.addons if each.by == "cloud"}
    return LocalControlPlane(
        name,
        cluster=plan.name,
        claim=network.claim,
        network_instance=network.instance,
        address=plan.network.gateway,
        services_cidr=pods.services_cidr if pods else "",
        pods_cidr=pods.cidr if pods and plan.pools else "",
        pods_of_node=pods.node_addresses if pods and plan.pools else 0,
        versions=dict(plan.release.kubernetes) | brought,
        kueue=addons.queueing(plan),
        opts=opts,
    )


def server(control_plane: LocalControlPlane) -> pulumi.Resource:
    """Return the resource whose removal ends all objects in the cluster."""
    return control_plane


def bootstrap(control_plane: LocalControlPlane) -> pulumi.Output[str]:
    """Return the token with which nodes join."""
    return control_plane.bootstrap


def create_simulated(
    name: str,
    *,
    cluster: str,
    control_plane: LocalControlPlane,
    group: Group,
    labels: Mapping[str, Mapping[str, str]],
    capacity: Mapping[str, str],
    drain_timeout_minutes: int,
    opts: pulumi.ResourceOptions,
) -> SimulatedPool:
    """Create the nodes of a pool for scheduling only."""
    more = pulumi.ResourceOptions(depends_on=[control_plane], deleted_with=control_plane)
    return SimulatedPool(
        name,
        cluster=cluster,
        claim=control_plane.claim,
        pool=group.name,
        labels={node.name: labels[node.name] for node in group.nodes},
        capacity=capacity,
        drain_timeout_minutes=drain_timeout_minutes,
        opts=pulumi.ResourceOptions.merge(opts, more),
    )


def create_joined(
    name: str,
    *,
    cluster: str,
    control_plane: LocalControlPlane,
    group: Group,
    generation: pulumi.Input[str],
    labels: Mapping[str, Mapping[str, str]],
    capacity: Mapping[str, str],
    proven: bool,
    drain_timeout_minutes: int,
    opts: pulumi.ResourceOptions,
) -> JoinedPool:
    """Create the nodes of a pool that run pods, after their configuration.

    A kubelet reports real resources itself, so only simulated accelerators are passed.
    """
    more = pulumi.ResourceOptions(depends_on=[control_plane], deleted_with=control_plane)
    return JoinedPool(
        name,
        cluster=cluster,
        claim=control_plane.claim,
        pool=group.name,
        generation=generation,
        authority=control_plane.authority,
        addresses={node.name: node.address for node in group.nodes},
        labels={node.name: labels[node.name] for node in group.nodes},
        accelerators={name: each for name, each in capacity.items() if "/" in name},
        proven=proven,
        drain_timeout_minutes=drain_timeout_minutes,
        opts=pulumi.ResourceOptions.merge(opts, more),
    )
