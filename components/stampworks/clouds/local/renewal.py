"""Renewal of outdated nodes of a local cluster: which nodes are outdated, and new disks for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stampworks import machine_room as room
from stampworks.clouds.local.rooms import group_spec, image_spec, rail_specs
from stampworks.machine_room import Progress
from stampworks.machine_room.errors import RoomError
from stampworks.machine_room.kubernetes import joined
from stampworks.plan import Group, Plan

Failure = RoomError


def outdated(plan: Plan, content: str) -> dict[str, str]:
    """Return the running nodes that need a new disk, and why. `content` is a digest of the effect of the image's
    installation."""
    image = room.image_of(image_spec(plan.release), content)
    late = (room.outdated_nodes(plan.name, group_spec(group), image) for group in plan.stamped)
    return {name: why for reasons in late for name, why in reasons.items()}


def renew(plan: Plan, content: str, names: Collection[str], progress: Progress) -> None:
    """End these nodes, and start them on new disks. Volumes and shared directories stay."""
    image = room.image_of(image_spec(plan.release), content)
    for group in plan.stamped:
        if own := [node.name for node in group.nodes if node.name in names]:
            if plan.release.kubernetes:
                joined.renew(plan.name, own)
            rails = rail_specs(plan.fabric.rails_of(group))
            room.renew_nodes(plan.name, group_spec(group), rails, image, own, progress)


def take_in(
    plan: Plan,
    group: Group,
    names: Collection[str],
    labels: Mapping[str, Mapping[str, str]],
    capacity: Mapping[str, str],
    progress: Progress,
) -> None:
    """Wait until these nodes run pods, after they were renewed and configured. Label them."""
    addresses = {node.name: node.address for node in group.nodes if node.name in names}
    joined.admit(plan.name, joined.pool_of(group.name, addresses, labels, capacity), progress)


def condemn(plan: Plan, names: Collection[str], why: str, machine: bool = False) -> None:  # noqa: ARG001
    """Mark nodes as outdated; without a reason, remove the mark.

    Here a node with a new disk is also a new machine.
    """
    room.condemn_nodes(plan.name, names, why)
