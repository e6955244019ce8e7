"""Bridges, leaves, spines, trunks and ports: the commands that bring the network to its declared state.

Pure. All switches are in the room's own network namespace. Their names are derived, so that no record is needed: the
list of interfaces shows missing ones.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.machine_room.specs import NetworkSpec, NodeSpec, RailSpec, TrunkSpec

MANAGEMENT = "mgmt"
"""Bridge that every node's eth0 is plugged into. The toolkit reaches the nodes from its address."""


TRUNK_ENDS = ("-up", "-dn")
"""Suffixes of a trunk's ends, in the lower switch and in the upper."""


@dataclass(frozen=True)
class InterfaceState:
    """State of an interface."""

    up: bool
    """Whether it and its other end are up."""
    master: str
    rate_mbps: int
    """Rate that it is shaped to; 0 when it is not shaped."""
    addresses: tuple[str, ...]


Links = Mapping[str, InterfaceState]


@dataclass(frozen=True)
class CommandBatch:
    """Commands for `ip -batch` and then `tc -batch` in one network namespace; "" is the room's own."""

    namespace: str
    ip: tuple[str, ...]
    tc: tuple[str, ...] = ()


def bridge(rail: int, switch: str) -> str:
    """Return the bridge of a leaf, a spine or the core of a rail."""
    return f"r{rail}-{switch}"


def trunk_ends(rail: int, switch: str) -> tuple[str, str]:
    """Return the ends of a trunk: in a leaf or spine, and in the switch above it."""
    return f"r{rail}-{switch}{TRUNK_ENDS[0]}", f"r{rail}-{switch}{TRUNK_ENDS[1]}"


def trunk_of(name: str) -> tuple[int, str] | None:
    """Return rail and switch of an interface that is a trunk's lower end; the inverse of trunk_ends."""
    rail, _, rest = name.partition("-")
    switch, _, end = rest.rpartition("-")
    return (int(rail[1:]), switch) if rail[:1] == "r" and rail[1:].isdigit() and switch and end == "up" else None


def trunks(rails: Sequence[RailSpec]) -> Iterator[tuple[int, TrunkSpec]]:
    """Yield all trunks with the index of their rail: from leaves to spines, and from spines to the core."""
    return ((rail.index, trunk) for rail in rails for trunk in rail.trunks)


def port(node: str, interface: str) -> str:
    """Return the switch's end of a node's interface. It is hashed, because a name has at most 15 characters."""
    return "p" + hashlib.sha256(f"{node}/{interface}".encode()).hexdigest()[:12]


def leaves_in_use(present: Links) -> frozenset[str]:
    """Return the bridges that something other than a trunk is plugged into."""
    return frozenset(link.master for name, link in present.items() if link.master and not name.endswith(TRUNK_ENDS))


def switches(network: NetworkSpec, rails: Sequence[RailSpec], present: Links) -> CommandBatch:
    """Bring the management network, spines, cores and trunks to their declared state.

    Change nothing that is right. A trunk that is no longer wanted stays while nodes are plugged into its leaf: they may
    have jobs to finish.
    """
    ip: list[str] = []
    tc: list[str] = []
    ip += _bridge(MANAGEMENT, present)
    ip += _gateway(network, present)
    wanted = list(trunks(rails))
    for name in dict.fromkeys(bridge(rail, switch) for rail, trunk in wanted for switch in (trunk.leaf, trunk.to)):
        ip += _bridge(name, present)
    for rail, trunk in wanted:
        up, down = trunk_ends(rail, trunk.leaf)
        if up not in present:
            ip.append(f"link add {up} type veth peer name {down}")
        ip.append(f"link set {up} master {bridge(rail, trunk.leaf)} up")
        ip.append(f"link set {down} master {bridge(rail, trunk.to)} up")
        tc += [shape(up, trunk.rate_mbps), shape(down, trunk.rate_mbps)]
    kept = {trunk_ends(rail, trunk.leaf)[0] for rail, trunk in wanted}
    ip += [f"link del {name}" for name, _ in _idle_trunks(present) if name not in kept]
    return CommandBatch("", tuple(ip), tuple(tc))


def without_idle_trunks(leaves: Collection[str], present: Links) -> CommandBatch:
    """Remove the trunks of these leaves that have no nodes any more."""
    return CommandBatch("", tuple(f"link del {name}" for name, leaf in _idle_trunks(present) if leaf in leaves))


def _idle_trunks(present: Links) -> list[tuple[str, str]]:
    """Return the lower ends of trunks whose switch has no nodes, each with the switch. Spines never have nodes."""
    in_use = leaves_in_use(present)
    found = [(name, trunk) for name in sorted(present) if (trunk := trunk_of(name))]
    return [(name, trunk[1]) for name, trunk in found if bridge(*trunk) not in in_use]


def ports(nodes: Sequence[NodeSpec], rails: Sequence[RailSpec], present: Links) -> CommandBatch:
    """Plug the nodes in: create the switch's ends of their interfaces, in the room's namespace."""
    ip: list[str] = []
    tc: list[str] = []
    made: set[str] = set()
    for node in nodes:
        for interface, switch, rate_mbps in _interfaces(node, rails):
            if switch not in made:
                ip += _bridge(switch, present)
                made.add(switch)
            name = port(node.name, interface)
            if name not in present:
                ip.append(f"link add {name} type veth peer name {interface} netns {node.name}")
            ip.append(f"link set {name} master {switch} up")
            if rate_mbps:
                tc.append(shape(name, rate_mbps))
    return CommandBatch("", tuple(ip), tuple(tc))


def interfaces(node: NodeSpec, network: NetworkSpec, rails: Sequence[RailSpec]) -> CommandBatch:
    """Set up the node's ends of its interfaces with their addresses, in the node's namespace."""
    ip = ["link set lo up"]
    tc = []
    cidrs = [network.management_cidr, *(rail.cidr for rail in rails)]
    addresses = [node.address, *node.rail_addresses]
    for (name, _, rate_mbps), address, cidr in zip(_interfaces(node, rails), addresses, cidrs, strict=False):
        ip += [f"addr replace {with_prefix(address, cidr)} dev {name}", f"link set {name} up"]
        if rate_mbps:
            tc.append(shape(name, rate_mbps))
    if network.pods_cidr:
        ip.append(f"route replace {network.pods_cidr} via {network.gateway}")
    return CommandBatch(node.name, tuple(ip), tuple(tc))


def unplug(node: str, present: Links) -> CommandBatch:
    """Take a node off the network: delete its ends at once, which removes the switch's ends."""
    return CommandBatch(node, tuple(f"link del {name}" for name in sorted(present) if name != "lo"))


def shape(device: str, rate_mbps: int) -> str:
    """Limit the traffic that leaves the device. Rails and trunks are shaped at both ends."""
    # A burst of 4 ms: with less, the kernel's timer is too slow for high rates; with more, short transfers pass
    # unshaped.
    burst_kib = max(64, rate_mbps * 4 // 8)
    return f"qdisc replace dev {device} root tbf rate {rate_mbps}mbit burst {burst_kib}kb latency 20ms"


def with_prefix(address: str, cidr: str) -> str:
    """Return an address with the prefix length of its network, as `ip` takes it."""
    return f"{address}/{ipaddress.ip_network(cidr).prefixlen}"


def link(found: Mapping[str, Any]) -> InterfaceState:
    """Parse one interface of survey.py."""
    return InterfaceState(found["up"], found["master"], found["rate_mbps"], tuple(found["addresses"]))


def _interfaces(node: NodeSpec, rails: Sequence[RailSpec]) -> Iterator[tuple[str, str, int]]:
    """Yield each interface of a node with its bridge and its rate; 0 means unlimited."""
    yield "eth0", MANAGEMENT, 0
    for rail, _ in zip(rails, node.rail_addresses, strict=False):  # a machine may have fewer NICs than the fabric rails
        yield rail.interface, bridge(rail.index, node.leaf), rail.rate_mbps


def _bridge(name: str, present: Links) -> list[str]:
    if name in present:
        return [f"link set {name} up"]
    return [f"link add {name} type bridge stp_state 0 mcast_snooping 0", f"link set {name} up"]


def _gateway(network: NetworkSpec, present: Links) -> list[str]:
    wanted = with_prefix(network.gateway, network.management_cidr)
    found = present[MANAGEMENT].addresses if MANAGEMENT in present else ()
    stale = [f"addr del {address} dev {MANAGEMENT}" for address in found if address != wanted]
    return [*stale, f"addr replace {wanted} dev {MANAGEMENT}"]
