"""Survey of the room's interfaces, compared with `ip` and `tc`, and its cost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from stampworks import machine_room as room
from stampworks.machine_room import hands
from stampworks.machine_room.room import of_cluster

from tests.machine_room.stamping import Stamp

pytestmark = pytest.mark.cluster

SCENE = """
mount -t tmpfs none /run
mkdir /run/netns
ip netns add other
ip link add leaf type bridge
ip link set leaf up
ip link add left type veth peer name right netns other
ip link add slow type veth peer name down
ip link set left master leaf up
ip -n other link set right up
ip link set slow up
ip address add 192.0.2.1/24 dev leaf
ip address add 198.51.100.1/30 dev leaf
tc qdisc add dev left root tbf rate 25mbit burst 64kb latency 20ms
tc -n other qdisc add dev right root tbf rate 100gbit burst 12mb latency 20ms
echo "[$("$0" -I -S "$1")"
for space in '' '-n other'; do echo ",$(ip $space -json address),$(tc $space -json qdisc)"; done
echo "]"
"""


def test_it_sees_what_ip_and_tc_see() -> None:
    """The survey has any rates, links that are up if both ends are, masters, and addresses with their prefix."""
    own = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-euc", SCENE]
    done = subprocess.run([*own, sys.executable, str(hands.SURVEY)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found, *said = json.loads(done.stdout)
    assert found == {"": _as_found(*said[:2]), "other": _as_found(*said[2:])}
    assert found[""]["left"] == {"up": True, "master": "leaf", "rate_mbps": 25, "addresses": []}
    assert found[""]["leaf"]["addresses"] == ["192.0.2.1/24", "198.51.100.1/30"]
    assert found[""]["slow"]["up"] is False
    assert found["other"]["right"]["rate_mbps"] == 100_000


def _as_found(links: list[dict[str, Any]], disciplines: list[dict[str, Any]]) -> dict[str, Any]:
    rates = {one["dev"]: round(one["options"]["rate"] * 8 / 1e6) for one in disciplines if one.get("kind") == "tbf"}
    return {
        link["ifname"]: {
            "up": {"UP", "LOWER_UP"} <= set(link["flags"]),
            "master": link.get("master", ""),
            "rate_mbps": rates.get(link["ifname"], 0),
            "addresses": [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one["family"] == "inet"],
        }
        for link in links
    }


def test_more_nodes_take_no_more_processes(stamp: Stamp) -> None:
    """A preview looks at every node: a process for each node would be slow with a hundred nodes."""

    def started() -> int:
        return int(subprocess.run([*inside, "cat", "/proc/loadavg"], capture_output=True, text=True).stdout.split()[-1])

    def work() -> int:
        before = started()
        room.read_nodes(stamp.cluster)
        return started() - before

    stamp.up(1)
    inside = of_cluster(stamp.cluster).inside
    few = work()
    stamp.up(4)
    assert work() == few
