"""Addresses: how far a cluster can grow in its ranges."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from stampworks import catalog
from stampworks.plan import Group, Plan
from stampworks.planning.build.addresses import MANAGEMENT, AddressMap
from stampworks.planning.build.ports import taken_by
from stampworks.planning.rules.findings import Finding
from stampworks.text.amounts import counted


def addresses(plan: Plan) -> Iterator[Finding]:
    """Each pool has addresses for more nodes; the finding names their number and the range that is full first."""
    for pool in plan.pools:
        fits = [
            (
                subnet.room // each,
                f"subnet {subnet.name} is full: {subnet.size} addresses, {subnet.reserved} kept by the cloud, "
                f"{subnet.needed} needed now, {'1 address' if each == 1 else f'{each} addresses'} a node",
                "network.cidr",
            )
            for subnet, each in taken_by(plan, pool)
            if subnet.room is not None
        ]
        if any(node.address for node in pool.nodes):
            fits = [_slot_growth(plan, pool)]
        if not fits:
            continue
        if (planned := plan.network.pods) and planned.cidr:
            more = planned.nodes_max - _nodes(plan)
            fits.append((more, f"{planned.cidr}, the range of pods, is full", "network.pods_cidr"))
        more, full, place = min(fits, key=lambda fit: fit[0])
        text = f"pool {pool.name} can grow by {counted(more, 'node')}, then {full}"
        yield Finding("addresses.room", "pass", text, "", place, subject=pool.name)


def _slot_growth(plan: Plan, pool: Group) -> tuple[int, str, str]:
    """Return the growth of a pool with its own slot in every network; the first slot belongs to the infrastructure."""
    cut = AddressMap({MANAGEMENT: IPv4Network(plan.network.management_cidr)})
    room = cut.capacity(plan.groups.index(pool))
    full = f"its part of each network is full: {room} addresses, so that no pool's growth moves another"
    return room - pool.count, full, "network.cidr"


def storage_addresses(plan: Plan) -> Iterator[Finding]:
    """The subnet of file systems has room for them, if the cloud publishes how many addresses they need.

    A range that is too small by published figures is refused before there is a plan.
    """
    largest = max(1 << (32 - p) for each in catalog.file_system_subnets().values() for _, p in each.prefixes)
    for subnet in plan.network.subnets:
        if subnet.needed is None and subnet.size < largest:
            text = (
                f"whether subnet {subnet.name}, {subnet.cidr} with {subnet.size} addresses, has room for its file "
                f"systems: their number of addresses is not published; the largest that is has {largest}"
            )
            hint = "ask the cloud, or write a larger range: file systems cannot move to another subnet later"
            yield Finding("addresses.storage", "unknown", text, hint, "network.cidr", subject=subnet.name)


def pods(plan: Plan) -> Iterator[Finding]:
    """The pods of a Kubernetes cluster have a range with addresses for more nodes."""
    if not plan.scheduler.traits.runs_pods:
        return
    id_, planned = "addresses.pods", plan.network.pods
    if planned is None:
        text = f"the source of pod addresses on {plan.cloud} is not documented"
        yield Finding(id_, "unknown", text, f"ask {plan.cloud}, before the ranges of other networks are chosen")
    elif planned.cidr:
        text = (
            f"the pods of {planned.nodes_max} nodes have addresses, then {planned.cidr} is full: "
            f"{planned.node_addresses} a node, {_nodes(plan)} nodes with the head now"
        )
        yield Finding(id_, "pass", text, "", "network.pods_cidr")


def _nodes(plan: Plan) -> int:
    """Count all nodes except those of scheduling-only pools."""
    return sum(group.count for group in plan.running)
