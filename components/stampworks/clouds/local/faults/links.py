"""Faults of rails and trunks, most of them in the switch, where the node itself cannot see them."""

from __future__ import annotations

import json

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults.site import Means, Site, number
from stampworks.machine_room import network


def _port(one: Injected) -> str:
    return network.port(one.where, one.rail)


# -- a rail at a part of its rate, from the switch to the node


def _slow_mbps(site: Site, one: Injected) -> int:
    return max(1, round(site.rail(one.rail).rate_mbps * number(one)))


def _shape(site: Site, device: str, rate_mbps: int) -> None:
    if device in site.ports():
        site.arrange("", tc=(network.shape(device, rate_mbps),))


def _has_rate(site: Site, device: str, rate_mbps: int) -> bool:
    ports = site.ports()
    return device in ports and ports[device].rate_mbps == rate_mbps


SLOW_RAIL = Means(
    inject=lambda site, one: _shape(site, _port(one), _slow_mbps(site, one)),
    clear=lambda site, one: _shape(site, _port(one), site.rail(one.rail).rate_mbps),
    there=lambda site, one: _has_rate(site, _port(one), _slow_mbps(site, one)),
)


# -- a trunk at a part of its rate, at both ends


def _ends(site: Site, one: Injected) -> tuple[str, str]:
    return network.trunk_ends(site.rail(one.rail).index, one.where)


def _trunk_mbps(site: Site, one: Injected) -> int:
    """Return the declared rate; 0 when the plan has no such trunk any more."""
    return next((trunk.rate_mbps for trunk in site.rail(one.rail).trunks if trunk.leaf == one.where), 0)


def _slow_trunk_mbps(site: Site, one: Injected) -> int:
    return max(1, round(_trunk_mbps(site, one) * number(one)))


def _shape_trunk(site: Site, one: Injected, rate_mbps: int) -> None:
    for end in _ends(site, one):
        if rate_mbps:
            _shape(site, end, rate_mbps)


SLOW_TRUNK = Means(
    inject=lambda site, one: _shape_trunk(site, one, _slow_trunk_mbps(site, one)),
    clear=lambda site, one: _shape_trunk(site, one, _trunk_mbps(site, one)),
    there=lambda site, one: all(_has_rate(site, end, _slow_trunk_mbps(site, one)) for end in _ends(site, one)),
)


# -- a rail without carrier


def _set(site: Site, one: Injected, state: str) -> None:
    if _port(one) in site.ports():
        site.arrange("", ip=(f"link set {_port(one)} {state}",))


def _is_down(site: Site, one: Injected) -> bool:
    ports = site.ports()
    return _port(one) in ports and not ports[_port(one)].up


RAIL_DOWN = Means(
    inject=lambda site, one: _set(site, one, "down"),
    clear=lambda site, one: _set(site, one, "up"),
    there=_is_down,
)


# -- a node with a smaller MTU than its peers


def _mtu(site: Site, one: Injected, interface: str) -> int:
    return int(site.on_node(one.where, "cat", f"/sys/class/net/{interface}/mtu"))


def _set_mtu(site: Site, one: Injected, size: int) -> None:
    site.arrange(one.where, ip=(f"link set {one.rail} mtu {size}",))


OTHER_MTU = Means(
    inject=lambda site, one: _set_mtu(site, one, round(number(one))),
    # no fault changes the management network: it still has the MTU that all had
    clear=lambda site, one: _set_mtu(site, one, _mtu(site, one, "eth0")),
    there=lambda site, one: _mtu(site, one, one.rail) == round(number(one)),
)


# -- packets from the node that the switch drops


def _table(one: Injected) -> str:
    return f"loss-{_port(one)}"


def _lose(site: Site, one: Injected) -> None:
    table = f"netdev {_table(one)}"
    hook = f"type filter hook ingress device {_port(one)} priority 0;"
    lost = f"numgen random mod 10000 < {round(100 * number(one))} counter drop"
    rules = f"add table {table}; add chain {table} lost {{ {hook} }}; flush table {table}; add rule {table} lost {lost}"
    site.on_switch("nft", rules)


def _loses(site: Site, one: Injected) -> bool:
    tables = json.loads(site.on_switch("nft", "--json", "list", "tables"))["nftables"]
    return _table(one) in [each["table"]["name"] for each in tables if "table" in each]


def _lose_no_more(site: Site, one: Injected) -> None:
    if _loses(site, one):
        site.on_switch("nft", f"delete table netdev {_table(one)}")


PACKET_LOSS = Means(inject=_lose, clear=_lose_no_more, there=_loses)


# -- packets for the rails of other nodes that take another way: they arrive, and nothing is slow


def _around(site: Site, one: Injected) -> dict[str, str]:
    """Return the management address of the node for each rail address of the other nodes."""
    others = [node for pool in site.plan.pools for node in pool.nodes if node.name != one.where]
    return {rail: node.address for node in others for rail in node.rail_addresses}


def _routes(site: Site, one: Injected) -> set[str]:
    return {line.split()[0] for line in site.on_node(one.where, "ip", "route", "show", "dev", "eth0").splitlines()}


def _go_around(site: Site, one: Injected) -> None:
    around = _around(site, one).items()
    site.arrange(one.where, ip=tuple(f"route replace {rail} via {address} dev eth0" for rail, address in around))


def _go_straight(site: Site, one: Injected) -> None:
    there = _routes(site, one).intersection(_around(site, one))
    site.arrange(one.where, ip=tuple(f"route del {rail} dev eth0" for rail in sorted(there)))


BYPASSED = Means(
    inject=_go_around,
    clear=_go_straight,
    there=lambda site, one: _routes(site, one) >= {*_around(site, one)},
)
