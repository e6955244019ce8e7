"""Commands that turn the existing network into the declared one."""

from __future__ import annotations

import re

import pytest
from stampworks.machine_room import RoomState, TrunkState, room_drift
from stampworks.machine_room.network import (
    InterfaceState,
    interfaces,
    port,
    ports,
    shape,
    switches,
    trunk_ends,
    trunk_of,
)

from tests.machine_room.stamping import NETWORK, nodes, rails, with_spines

BRIDGE = InterfaceState(up=True, master="", rate_mbps=0, addresses=())


def test_names_fit_into_what_linux_allows() -> None:
    """Interface names have at most 15 characters, for any length of a node's name and any leaf number."""
    assert len(port("a-very-long-pool-name-0123", "rail7")) <= 15
    assert max(map(len, trunk_ends(7, "leaf1024"))) <= 15


def test_ports_of_different_interfaces_never_share_a_name() -> None:
    """A thousand nodes with eight rails: all names differ."""
    names = {port(f"gpu-{n:03}", f"rail{index}") for n in range(1024) for index in range(8)}
    assert len(names) == 1024 * 8


def test_a_trunk_is_known_by_its_name() -> None:
    """An interface name identifies its trunk; other interfaces are no trunks."""
    assert trunk_of(trunk_ends(3, "leaf12")[0]) == (3, "leaf12")
    for name in (trunk_ends(3, "leaf12")[1], "r3-spine", "r3-leaf12", "mgmt", "lo", port("gpu-001", "rail0")):
        assert trunk_of(name) is None


def test_one_leaf_needs_no_spine() -> None:
    """A network from scratch: the management bridge and its address; leaves are created with their nodes."""
    assert switches(NETWORK, rails(2), {}).ip == (
        "link add mgmt type bridge stp_state 0 mcast_snooping 0",
        "link set mgmt up",
        "addr replace 10.77.0.1/20 dev mgmt",
    )


def test_a_trunk_is_shaped_at_both_ends() -> None:
    """Leaf and spine are joined by a pair whose two ends have the trunk's rate."""
    batch = switches(NETWORK, rails(4)[:1], {})
    assert "link add r0-leaf2-up type veth peer name r0-leaf2-dn" in batch.ip
    assert "link set r0-leaf2-up master r0-leaf2 up" in batch.ip
    assert "link set r0-leaf2-dn master r0-spine up" in batch.ip
    assert [line for line in batch.tc if "leaf2" in line] == [shape("r0-leaf2-up", 400), shape("r0-leaf2-dn", 400)]


def test_spines_meet_in_a_core() -> None:
    """Leaves attach to their spine, and spines to the core; an undeclared spine is removed."""
    rail = with_spines(rails(4)[0])
    batch = switches(NETWORK, [rail], {})
    for below, above in (("leaf1", "spine1-1"), ("leaf2", "spine1-2"), ("spine1-1", "core"), ("spine1-2", "core")):
        assert f"link set r0-{below}-up master r0-{below} up" in batch.ip
        assert f"link set r0-{below}-dn master r0-{above} up" in batch.ip
    assert [line for line in batch.tc if "r0-spine1-1-" in line] == [
        shape("r0-spine1-1-up", 800),
        shape("r0-spine1-1-dn", 800),
    ]
    present = {line.split(" ")[2]: BRIDGE for line in batch.ip if line.startswith("link add")}
    flat = switches(NETWORK, rails(4)[:1], present)
    assert "link set r0-leaf1-dn master r0-spine up" in flat.ip
    assert {"link del r0-spine1-1-up", "link del r0-spine1-2-up"} < {*flat.ip}


def test_existing_parts_are_not_created_again() -> None:
    """Only idempotent commands remain."""
    present = {
        re.split(" ", line)[2]: BRIDGE for line in switches(NETWORK, rails(4), {}).ip if line.startswith("link add")
    }
    again = switches(NETWORK, rails(4), present)
    assert not any(line.startswith(("link add", "link del", "addr del")) for line in again.ip)


def test_undeclared_parts_are_removed() -> None:
    """Undeclared parts are a trunk of a removed leaf, and an address of another network."""
    stale = InterfaceState(up=True, master="", rate_mbps=0, addresses=("10.99.0.1/24",))
    batch = switches(NETWORK, rails(2), {"mgmt": stale, "r0-leaf2-up": BRIDGE, "r0-leaf2-dn": BRIDGE})
    assert "addr del 10.99.0.1/24 dev mgmt" in batch.ip
    assert "link del r0-leaf2-up" in batch.ip


def test_a_node_is_plugged_into_the_bridges_of_its_leaf() -> None:
    """eth0 into the management bridge, each rail into its leaf, shaped at the switch's end."""
    (node,) = nodes(1)
    batch = ports([node], rails(1), {"mgmt": BRIDGE})
    eth0, rail1 = port("gpu-001", "eth0"), port("gpu-001", "rail1")
    assert f"link add {eth0} type veth peer name eth0 netns gpu-001" in batch.ip
    assert f"link set {eth0} master mgmt up" in batch.ip
    assert f"link set {rail1} master r1-leaf1 up" in batch.ip
    assert batch.tc == (shape(port("gpu-001", "rail0"), 200), shape(rail1, 200))


def test_a_node_has_its_addresses_with_the_prefix_of_their_network() -> None:
    """The node's own ends: address, up, shaped; the management interface is not limited."""
    (node,) = nodes(1)
    batch = interfaces(node, NETWORK, rails(1))
    assert batch.namespace == "gpu-001"
    assert "addr replace 10.77.1.1/20 dev eth0" in batch.ip
    assert "addr replace 10.77.33.1/20 dev rail1" in batch.ip
    assert batch.tc == (shape("rail0", 200), shape("rail1", 200))


@pytest.mark.parametrize(("rate_mbps", "burst_kib"), [(50, 64), (200, 100), (2000, 1000)])
def test_the_burst_follows_the_rate(rate_mbps: int, burst_kib: int) -> None:
    """Four milliseconds of the rate, and never less than the largest segment the kernel hands over at once."""
    line = f"qdisc replace dev rail0 root tbf rate {rate_mbps}mbit burst {burst_kib}kb latency 20ms"
    assert shape("rail0", rate_mbps) == line


def test_drift_is_said_in_words() -> None:
    """Each difference names the rail, and the actual and expected state."""
    trunks = (
        TrunkState(0, "leaf1", 40, in_use=True),
        TrunkState(0, "leaf8", 400, in_use=True),  # goes with its nodes
        TrunkState(0, "leaf9", 400, in_use=False),
    )
    state = RoomState("1-2", ("10.9.0.1/24",), trunks)
    assert room_drift(None, NETWORK, []) == ("the machine room is not running",)
    assert room_drift(state, NETWORK, rails(4)[:1]) == (
        "the room's address is 10.9.0.1/24, not 10.77.0.1/20",
        "rail0, trunk of leaf1: 40 Mb/s, not 400 Mb/s",
        "rail0, trunk of leaf2: no trunk, not 400 Mb/s",
        "rail0, trunk of leaf9: 400 Mb/s, not no trunk",
    )
