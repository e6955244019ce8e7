"""Translation of a plan for the machine room, which knows no plan: specs of its parts, and the roster of a builder."""

from __future__ import annotations

from collections.abc import Iterable

from stampworks.machine_room import Builder
from stampworks.machine_room.specs import (
    GroupSpec,
    ImageSpec,
    NetworkSpec,
    NodeSpec,
    RailSpec,
    TrunkSpec,
    VolumeSpec,
)
from stampworks.plan import Group, Member, Network, Node, Rail, Release, Roster


def network_spec(network: Network) -> NetworkSpec:
    """Return the network of a plan in the room's types."""
    return NetworkSpec(network.management_cidr, network.gateway, network.pods.cidr if network.pods else "")


def rail_specs(rails: Iterable[Rail]) -> list[RailSpec]:
    """Return the rails of a plan in the room's types."""
    return [_rail_spec(rail) for rail in rails]


def _rail_spec(rail: Rail) -> RailSpec:
    trunks = tuple(TrunkSpec(trunk.leaf, trunk.rate_mbps, trunk.to) for trunk in (*rail.trunks, *rail.core_trunks))
    return RailSpec(rail.index, rail.interface, rail.cidr, rail.rate_mbps, trunks)


def group_spec(group: Group) -> GroupSpec:
    """Return a group of a plan in the room's types."""
    volumes = tuple(VolumeSpec(volume.name, volume.mount) for volume in group.volumes)
    return GroupSpec(
        tuple(_node_spec(node) for node in group.nodes), group.machine.name, group.machine.accelerators, volumes
    )


def _node_spec(node: Node) -> NodeSpec:
    return NodeSpec(node.name, node.address, node.rail_addresses, node.leaf)


def image_spec(release: Release) -> ImageSpec:
    """Return the content of the node image of a release."""
    packages = tuple(package for _, names in release.packages for package in names)
    return ImageSpec(release.suite, release.base_packages, packages, bool(release.kubernetes))


def builder_roster(builder: Builder) -> Roster:
    """Return a roster with the builder alone, so that playbooks can run on it."""
    member = Member(builder.name, builder.name, builder.instance, builder.address, (), builder.host_key)
    return Roster("image", "local", builder.reach, "root", builder.identity_file, (member,))
