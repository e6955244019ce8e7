"""Existing parts: the network of the account's owners is as declared, and lets the cluster work."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from stampworks.plan import ExistingNetwork, Plan
from stampworks.planning.build.ports import NODES, STORAGE
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.reading import UnknownFact, known

if TYPE_CHECKING:
    from stampworks.planning.rules.owned import OwnedGroup, OwnedSubnet

WHERE = "network.existing"
ABSENT = "see whether it is another account's or region's, or ask its owners to share it"
ASK = "ask its owners for that"
ASK_OR_OTHER = "ask its owners to turn that off, or take another subnet"


def networks(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The existing network is in the account and region, has the declared range, and resolves private names."""
    if (existing := plan.network.existing) is None:
        return
    id_, place, vpc = "existing.network", f"{WHERE}.vpc", existing.vpc
    try:
        there = {one.id: one for one in known(facts, "owned_networks")}
    except UnknownFact as unread:
        yield Finding(id_, "unknown", f"whether {vpc} is as declared: {unread}", unread.hint, place, subject=vpc)
        return
    if (one := there.get(vpc)) is None:
        yield _absent(id_, vpc, plan, place)
        return
    if plan.network.cidr not in one.ranges:
        text = f"{vpc} has {', '.join(one.ranges)}, and not {plan.network.cidr}"
        yield Finding(id_, "fail", text, f"write cidr: {one.ranges[0]}", "network.cidr", subject=vpc)
    elif not one.names:
        text = f"{vpc} resolves no private names, by which nodes find file systems and endpoints"
        hint = "ask its owners to turn DNS support and DNS host names on"
        yield Finding(id_, "fail", text, hint, place, subject=vpc)
    else:
        yield Finding(id_, "pass", f"{vpc} has {plan.network.cidr}, and resolves private names", "", place, subject=vpc)


def subnets(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Each existing subnet is in the network, in the declared zone, and has the declared range."""
    if (existing := plan.network.existing) is None:
        return
    id_ = "existing.subnets"
    used = [(each, existing.subnet(each.name)) for each in plan.network.subnets]
    try:
        there: dict[str, OwnedSubnet] = {one.id: one for one in known(facts, "owned_subnets")}
    except UnknownFact as unread:
        named = ", ".join(one.id for _, one in used)
        yield Finding(id_, "unknown", f"whether {named} are as declared: {unread}", unread.hint, f"{WHERE}.subnets")
        return
    for planned, declared in used:
        place = f"{WHERE}.subnets[{declared.entry}]"
        if (one := there.get(declared.id)) is None:
            yield _absent(id_, declared.id, plan, f"{place}.id")
            continue
        wrong = [
            (name, f"{declared.id} is {what}, and not {wanted}", hint)
            for name, found, wanted, what, hint in (
                ("id", one.network, existing.vpc, f"in {one.network}", f"take a subnet of {existing.vpc}"),
                ("zone", one.zone, declared.zone, f"in {one.zone}", f"write zone: {one.zone}, or another subnet"),
                ("cidr", one.cidr, planned.cidr, one.cidr, f"write cidr: {one.cidr}"),
            )
            if found != wanted
        ]
        for name, text, hint in wrong:
            yield Finding(id_, "fail", text, hint, f"{place}.{name}", subject=declared.id)
        if not wrong:
            text = f"{declared.id} for {planned.name} is in {existing.vpc} and {one.zone}, with {one.cidr}"
            yield Finding(id_, "pass", text, "", place, subject=declared.id)


def groups(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Existing security groups let nodes and file systems reach each other, and EFA between nodes."""
    existing = plan.network.existing
    if existing is None or not existing.nodes_group:
        return
    id_, where = "existing.groups", f"{WHERE}.security_groups"
    names = {NODES: existing.nodes_group, STORAGE: existing.storage_group}
    try:
        there: dict[str, OwnedGroup] = {one.id: one for one in known(facts, "owned_groups")}
    except UnknownFact as unread:
        text = f"whether {', '.join(dict.fromkeys(names.values()))} let through what nodes need: {unread}"
        yield Finding(id_, "unknown", text, unread.hint, where)
        return
    ranges = {each.name: IPv4Network(each.cidr) for each in plan.network.subnets}
    for name, group in names.items():
        place = f"{where}.{name}"
        if (one := there.get(group)) is None:
            yield _absent(id_, group, plan, place, name)
        elif one.network != existing.vpc:
            text = f"{group} is in {one.network}, and not in {existing.vpc}"
            yield Finding(id_, "fail", text, f"take a group of {existing.vpc}", place, subject=name)
        else:
            yield from _openings(plan, existing, one, name, ranges, place)


def _openings(
    plan: Plan, existing: ExistingNetwork, one: OwnedGroup, name: str, ranges: dict[str, IPv4Network], place: str
) -> Iterator[Finding]:
    """Judge the rules of one group. EFA takes only rules that name the group itself, and no range."""
    peers = {NODES: existing.nodes_group, STORAGE: existing.storage_group}
    if name == NODES and plan.fabric.kind == "efa":
        lacks = _lacking(one, one.id, None)
        if lacks:
            text = (
                f"{one.id} has no rule for all traffic {' and '.join(lacks)} itself, by its own id: EFA carries nothing"
            )
            hint = f"ask its owners for rules of all traffic from {one.id} and to {one.id}; a range does not do"
            yield Finding("existing.efa", "fail", text, hint, place, subject=name)
        else:
            text = f"{one.id} lets all traffic through from and to itself, as EFA needs"
            yield Finding("existing.efa", "pass", text, "", place, subject=name)
    closed = [
        f"{' and '.join(lacks)} {peers[other]} of {other}"
        for other in ranges
        if other in peers and (lacks := _lacking(one, peers[other], ranges[other]))
    ]
    if closed:
        text = f"{one.id} lets not all traffic through {', and '.join(closed)}"
        yield Finding("existing.groups", "fail", text, ASK, place, subject=name)
    else:
        text = f"{one.id} of {name} lets nodes and file systems through"
        yield Finding("existing.groups", "pass", text, "", place, subject=name)
    if name == NODES and plan.network.egress == "nat" and not _reaches_world(one):
        text = f"{one.id} lets nodes reach nothing outside of the network, and packages and images come from there"
        hint = "ask its owners for a rule of all traffic to 0.0.0.0/0, or write egress: none"
        yield Finding("existing.groups", "fail", text, hint, place, subject="egress")


def _lacking(one: OwnedGroup, peer: str, range_: IPv4Network | None) -> list[str]:
    """Return the directions, from and to, in which a security group does not allow all traffic of a peer."""
    return [
        word
        for inward, word in ((True, "from"), (False, "to"))
        if not any(each.inward is inward and _covers(each.peer, peer, range_) for each in one.openings)
    ]


def _covers(opened: str, peer: str, range_: IPv4Network | None) -> bool:
    if opened == peer:
        return True
    return range_ is not None and "/" in opened and range_.subnet_of(IPv4Network(opened))


def _reaches_world(one: OwnedGroup) -> bool:
    return any(not each.inward and each.peer == "0.0.0.0/0" for each in one.openings)


def rooms(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Each existing subnet has free addresses for its new nodes or file systems, and the nodes' subnet assigns no
    public ones."""
    existing = plan.network.existing
    if existing is None:
        return
    try:
        there: dict[str, OwnedSubnet] = {one.id: one for one in known(facts, "owned_subnets")}
        held = int(known(facts, "node_addresses"))
    except UnknownFact as unread:
        text = f"whether the existing subnets have room: {unread}"
        yield Finding("existing.room", "unknown", text, unread.hint, f"{WHERE}.subnets")
        return
    for each in plan.network.subnets:
        declared = existing.subnet(each.name)
        place = f"{WHERE}.subnets[{declared.entry}].id"
        if (one := there.get(declared.id)) is None or each.needed is None:
            continue
        # running nodes and their file systems have addresses already
        coming = max(0, each.needed - held) if each.name == NODES else 0 if held else each.needed
        text = f"{one.id} has {one.free} addresses free, and {each.name} may still take {coming}"
        if coming <= one.free:
            yield Finding("existing.room", "pass", text, "", place, subject=each.name)
        else:
            hint = "take a subnet with more room, or ask its owners to make some"
            yield Finding("existing.room", "fail", text, hint, place, subject=each.name)
        if each.name == NODES and one.public and (several := _several(plan)):
            text = (
                f"{one.id} gives public addresses, and what has several interfaces, as {several}, does not start in it"
            )
            yield Finding("existing.public", "fail", text, ASK_OR_OTHER, place, subject=each.name)


def _several(plan: Plan) -> str:
    return ", ".join(each.name for each in plan.groups if each.launch and len(each.launch.interfaces) > 1)


def ways(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Nodes in the existing network reach the world, or all services that they need, as declared."""
    existing = plan.network.existing
    if existing is None:
        return
    id_, place, launches = "existing.egress", "network.egress", CLOUDS[plan.cloud].launches
    nodes = next(existing.subnet(each.name).id for each in plan.network.subnets if each.name == NODES)
    try:
        one = next((each for each in known(facts, "owned_subnets") if each.id == nodes), None)
        ends = known(facts, "endpoints")
    except UnknownFact as unread:
        yield Finding(id_, "unknown", f"what nodes reach from {nodes}: {unread}", unread.hint, place)
        return
    if one is None or launches is None:
        return
    if plan.network.egress == "nat":
        if out := [way for way in one.ways_out if way != "gateway"]:
            yield Finding(id_, "pass", f"{nodes} has a route to the world ({', '.join(out)})", "", place)
        else:
            kinds = " but an internet gateway, which serves public addresses only" if one.ways_out else ""
            text = f"{nodes} has no route to the world{kinds}: nodes get no packages"
            hint = "ask its owners for a route through a NAT or transit gateway, or write egress: none"
            yield Finding(id_, "fail", text, hint, place)
        return
    reached = [each for each in ends if each not in launches.routed or each in one.routed]
    if lacking := [each for each in plan.network.endpoints if each not in reached]:
        text = f"{existing.vpc} has no endpoint that {nodes} reaches for {', '.join(lacking)}"
        yield Finding(id_, "fail", text, "ask its owners for them, or write egress: nat", place)
    else:
        text = f"{existing.vpc} has endpoints for {', '.join(plan.network.endpoints)}"
        yield Finding(id_, "pass", text, "", place)


def _absent(id_: str, what: str, plan: Plan, place: str, subject: str = "") -> Finding:
    text = f"the account has no {what} in {plan.region}"
    return Finding(id_, "fail", text, ABSENT, place, subject=subject or what)
