"""Addresses and names: unique, in their places, and never moved by growth."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.plan import Group, Plan, from_json, to_json
from stampworks.planning.build.addresses import MANAGEMENT, SLOTS, AddressMap

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

MACHINES = ("sim-h100", "sim-a100-small", "sim-cpu")
CAPACITY = 16  # addresses of a slot in a /22 that is cut into four networks


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Declarations whose pools fit a /22."""
    machines = draw(st.lists(st.sampled_from(MACHINES), min_size=1, max_size=15))
    counts = [draw(st.integers(1, CAPACITY - 2)) for _ in machines]
    pools = [
        {"name": f"pool{index}", "machine": machine, "count": count}
        for index, (machine, count) in enumerate(zip(machines, counts, strict=True))
    ]
    fabric = {"leaf_nodes": draw(st.integers(1, 9)), "oversubscription": draw(st.sampled_from([1, 2, 4]))}
    return {"pools": pools, "fabric": fabric, "network": {"cidr": "10.77.0.0/22"}}


def addresses_in(plan: Plan) -> list[tuple[str, str]]:
    """Yield (network, address) of everything with an address."""
    found = [(plan.network.management_cidr, plan.network.gateway)]
    for group in plan.groups:
        for node in group.nodes:
            found.append((plan.network.management_cidr, node.address))
            found += [
                (rail.cidr, address) for rail, address in zip(plan.fabric.rails, node.rail_addresses, strict=False)
            ]
    return found


@relaxed
@given(cluster=clusters())
def test_every_address_is_unique_inside_its_network_and_not_reserved(cluster: dict[str, Any], plan_of: Any) -> None:
    """Networks do not overlap, and no node has a network's first or last address."""
    plan = plan_of(**cluster)
    found = addresses_in(plan)
    assert len({address for _, address in found}) == len(found)
    for network, address in found:
        assert IPv4Address(address) in IPv4Network(network)
        assert IPv4Address(address) not in (IPv4Network(network)[0], IPv4Network(network)[-1])
    networks = [IPv4Network(plan.network.management_cidr), *(IPv4Network(rail.cidr) for rail in plan.fabric.rails)]
    assert all(network.subnet_of(IPv4Network(plan.network.cidr)) for network in networks)
    assert not any(one.overlaps(other) for one in networks for other in networks if one is not other)


@relaxed
@given(cluster=clusters(), data=st.data())
def test_growing_a_pool_moves_nobody(cluster: dict[str, Any], data: st.DataObject, plan_of: Any) -> None:
    """All nodes that were there keep name, addresses and leaf, in every pool, and so do head and gateway."""
    before = plan_of(**cluster)
    grown = data.draw(st.integers(0, len(cluster["pools"]) - 1))
    cluster["pools"][grown]["count"] = data.draw(st.integers(cluster["pools"][grown]["count"], CAPACITY - 2))
    after = plan_of(**cluster)
    assert after.network == before.network
    assert [rail.cidr for rail in after.fabric.rails] == [rail.cidr for rail in before.fabric.rails]
    for old, new in zip(before.groups, after.groups, strict=True):
        assert new.nodes[: old.count] == old.nodes
        assert new == old or new.name == f"pool{grown}"
    assert trunks(before).items() <= trunks(after).items()


def trunks(plan: Plan) -> dict[tuple[str, str], int]:
    return {(rail.interface, trunk.leaf): trunk.rate_mbps for rail in plan.fabric.rails for trunk in rail.trunks}


@relaxed
@given(cluster=clusters())
def test_a_plan_is_the_same_twice_and_survives_being_written(cluster: dict[str, Any], plan_of: Any) -> None:
    """Planning has no chance in it, and the file holds all of the plan."""
    plan = plan_of(**cluster)
    assert plan_of(**cluster) == plan
    assert from_json(Plan, to_json(plan)) == plan


@relaxed
@given(cluster=clusters())
def test_leaves_hold_every_node_with_rails_once_and_no_two_pools(cluster: dict[str, Any], plan_of: Any) -> None:
    """A leaf has at most leaf_nodes nodes, all of the same pool, and is full unless it is its pool's last."""
    plan = plan_of(**cluster)
    nodes = {node.name: (node, group) for group in plan.groups for node in group.nodes}
    assert sorted(name for leaf in plan.fabric.leaves for name in leaf.nodes) == sorted(
        name for name, (node, _) in nodes.items() if node.rail_addresses
    )
    for leaf in plan.fabric.leaves:
        assert {nodes[name][0].leaf for name in leaf.nodes} == {leaf.name}
        (group,) = {nodes[name][1].name for name in leaf.nodes}
        assert len(leaf.nodes) == plan.fabric.leaf_nodes or leaf.nodes[-1] == last(plan, group).nodes[-1].name
    for rail in plan.fabric.rails:
        meets = {node.leaf for node, _ in nodes.values() if len(node.rail_addresses) > rail.index}
        assert {trunk.leaf for trunk in rail.trunks} == (meets if len(meets) > 1 else set())


def last(plan: Plan, name: str) -> Group:
    return next(group for group in plan.groups if group.name == name)


def test_the_first_node_of_a_pool_ends_in_one(plan_of: Any) -> None:
    """People find a node's number in its addresses."""
    plan = plan_of(pools=[{"name": "gpu", "machine": "sim-h100", "count": 4}])
    assert plan.network.gateway == "10.77.0.1"
    assert plan.controller.nodes[0].address == "10.77.0.2"
    assert [node.address for node in plan.pools[0].nodes] == [f"10.77.4.{number}" for number in range(1, 5)]
    assert plan.pools[0].nodes[2].rail_addresses == ("10.77.68.3", "10.77.132.3")


def test_a_full_slot_ends_where_the_next_one_begins(plan_of: Any) -> None:
    """1024 nodes fit the slots of a /16 with two rails, and the second pool starts behind them."""
    pools = [{"name": name, "machine": "sim-h100", "count": 1024} for name in ("one", "two")]
    plan = plan_of(pools=pools)
    assert plan.pools[0].nodes[-1].address == "10.77.8.0"
    assert plan.pools[1].nodes[0].address == "10.77.8.1"


@pytest.mark.parametrize(("slot", "capacity"), [(0, 1024), (1, 1024), (14, 1024), (15, 1022)])
def test_the_last_slot_gives_up_the_broadcast_address(slot: int, capacity: int) -> None:
    """The last member of a slot is still a host of the network, and no further one exists."""
    network = IPv4Network("10.77.0.0/18")
    address_map = AddressMap({MANAGEMENT: network})
    assert address_map.capacity(slot) == capacity
    assert network[0] < IPv4Address(address_map.address(MANAGEMENT, slot, capacity)) < network[-1]
    for number in (0, capacity + 1):
        with pytest.raises(ValueError, match=f"^slot {slot} has {capacity} addresses, not {number}$"):
            address_map.address(MANAGEMENT, slot, number)


def test_every_slot_has_its_own_addresses() -> None:
    """Slots meet without a gap and without an overlap."""
    address_map = AddressMap({MANAGEMENT: IPv4Network("192.168.4.0/26")})
    all_of_them = [
        address_map.address(MANAGEMENT, slot, number)
        for slot in range(SLOTS)
        for number in range(1, address_map.capacity(slot) + 1)
    ]
    assert all_of_them == [str(host) for host in IPv4Network("192.168.4.0/26").hosts()]
