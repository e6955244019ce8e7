"""Rails and trunks of a room on this machine: traffic, detection of faults, and repair."""

from __future__ import annotations

import subprocess
import sys

import pytest
from stampworks import machine_room as room

from tests.machine_room.stamping import NETWORK, Stamp, rails, with_spines

pytestmark = pytest.mark.cluster

TRANSFER = """
import socket, sys, time
if sys.argv[1] == "receive":
    with socket.create_server((sys.argv[2], 5001)) as server:
        server.settimeout(20)
        print("listening", flush=True)
        connection, _ = server.accept()
        size, begun = 0, None
        while part := len(connection.recv(1 << 20)):
            begun = begun or time.monotonic()
            size += part
        print(size * 8 / 1e6 / (time.monotonic() - begun))
else:
    connection = socket.create_connection((sys.argv[2], 5001), timeout=20)
    for _ in range(int(sys.argv[3])):
        connection.sendall(bytes(1 << 20))
"""
TRANSFERS = 4


def _transfer_mbps(stamp: Stamp, sender: str, receiver: str, rail: int, mib: int) -> float:
    """Return the Mb/s of a TCP connection between two nodes over a rail."""
    address = stamp.state(receiver).rail_addresses[rail]
    enter = ["nsenter", f"--target={stamp.state(receiver).pid}", "--net", "--", sys.executable, "-c", TRANSFER]
    with subprocess.Popen([*enter, "receive", address], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        stamp.run(sender, "python3", "-c", TRANSFER, "send", address, str(mib))
        return float(process.stdout.readline())


def test_a_leaf_keeps_its_trunk_until_its_last_node_has_left(stamp: Stamp) -> None:
    """A pool that shrinks lets jobs finish: until then their rails lead somewhere."""
    stamp.up(3)
    stamp.ensure_room(2)
    assert _trunks(stamp) == {"leaf1", "leaf2"}
    assert stamp.drift(2) == [], "nothing to repair: it goes with the nodes"
    room.end_nodes(stamp.cluster, stamp.claim, ["gpu-003"], stamp.said.append)
    assert _trunks(stamp) == {"leaf1"}


def test_leaves_meet_over_their_spines_and_a_core(stamp: Stamp) -> None:
    """Spines are added and removed while nodes run; traffic across a core has the rate of its trunks."""
    instances = stamp.up(3, rate_mbps=200, trunk_mbps=50)
    flat = rails(3, 200, 50)
    spined = [with_spines(rail) for rail in flat]
    for declared, more in ((spined, {"spine1-1", "spine1-2"}), (flat, set())):
        keys = stamp.private_key, stamp.public_key
        found = room.ensure_room(stamp.cluster, stamp.claim, NETWORK, declared, *keys, stamp.said.append)
        assert {trunk.leaf for trunk in found.trunks} == {"leaf1", "leaf2"} | more
        assert room.room_drift(found, NETWORK, declared) == ()
        across = [_transfer_mbps(stamp, "gpu-001", "gpu-003", rail=1, mib=4) for _ in range(TRANSFERS)]
        assert any(0.6 < mbps / 50 < 1.1 for mbps in across), across
    assert stamp.up(3, rate_mbps=200, trunk_mbps=50) == instances


def _trunks(stamp: Stamp) -> set[str]:
    found = room.read_room(stamp.cluster)
    return {trunk.leaf for trunk in found.trunks} if found else set()


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        pytest.param("ip link set rail1 down", "gpu-001: rail1 is down", id="down"),
        pytest.param("ip link del rail1", "gpu-001: rail1 is down", id="gone"),
        pytest.param("rate", "gpu-001: rail1 carries 40 Mb/s, not 200", id="slow"),
    ],
)
def test_a_rail_that_was_tampered_with_is_seen_and_repaired(stamp: Stamp, fault: str, seen: str) -> None:
    """The world is asked, not the record; a repair does not restart the node."""
    instances = stamp.up(1)
    if fault == "rate":  # use the host's tc: a plain node may have none
        enter = ["nsenter", f"--target={stamp.state('gpu-001').pid}", "--net", "--"]
        limit = "qdisc replace dev rail1 root tbf rate 40mbit burst 64kb latency 20ms"
        subprocess.run([*enter, "tc", *limit.split()], check=True, timeout=60)
    else:
        stamp.run("gpu-001", *fault.split())
    assert stamp.drift(1) == [seen]
    assert stamp.ensure_nodes(1) == instances
    assert stamp.drift(1) == []


def test_a_trunk_that_is_gone_is_seen_and_repaired(stamp: Stamp) -> None:
    """Trunks belong to the room: a missing one is named, and the nodes stay."""
    stamp.ensure_room(4)
    subprocess.run([*room.reach(stamp.cluster), "ip", "link", "del", "r1-leaf2-up"], check=True, timeout=60)
    declared = "rail1, trunk of leaf2: no trunk, not 400 Mb/s"
    assert list(room.room_drift(room.read_room(stamp.cluster), NETWORK, rails(4))) == [declared]
    stamp.ensure_room(4)
    assert room.room_drift(room.read_room(stamp.cluster), NETWORK, rails(4)) == ()


def test_rails_and_trunks_carry_what_was_declared(stamp: Stamp) -> None:
    """TCP gets nearly the declared rate within a leaf, and no more than the trunk's to another leaf."""
    stamp.up(3, rate_mbps=200, trunk_mbps=50)
    # a busy host spoils a transfer now and then
    within = [_transfer_mbps(stamp, "gpu-001", "gpu-002", rail=0, mib=12) for _ in range(TRANSFERS)]
    across = [_transfer_mbps(stamp, "gpu-001", "gpu-003", rail=1, mib=4) for _ in range(TRANSFERS)]
    assert any(0.75 < mbps / 200 < 1.05 for mbps in within), within
    assert any(0.6 < mbps / 50 < 1.1 for mbps in across), across
