"""The existing network: services, addresses, ways out, and distances between nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from stampworks.plan import Plan
from stampworks.planning.build.ports import NODES, taken_by
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.offers import write_zone, zones_of_all
from stampworks.planning.rules.reading import AGAIN, UnknownFact, known, launched


def services(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The services that booting nodes need can have an endpoint in the network, and have one once it exists."""
    wanted, id_ = plan.network.endpoints, "network.endpoints"
    launches = CLOUDS[plan.cloud].launches
    if launches is None or not wanted or facts.account is None or plan.network.existing:
        return
    try:
        offered = {one.name: one.zones for one in known(facts, "services")}
        if not offered:  # every region has some services, so that an empty list is no answer
            raise UnknownFact(f"the answer lists none of them for {plan.region}", AGAIN)
        there, subnets = known(facts, "endpoints"), known(facts, "subnets")
    except UnknownFact as unread:
        text = f"whether {', '.join(wanted)} can be reached from {plan.region}'s private subnets: {unread}"
        yield Finding(id_, "unknown", text, unread.hint, "network.egress")
        return
    zone = plan.network.zone
    zones = {each: offered.get(each, ()) for each in wanted if each not in launches.routed or each not in offered}
    lacking = [each for each in wanted if each not in offered or (zone and zone not in zones.get(each, (zone,)))]
    gone = [each for each in wanted if subnets and each not in there and each not in lacking]
    if lacking:
        where, them = f"{zone} of {plan.region}" if zone else plan.region, "it" if len(lacking) == 1 else "them"
        text = f"{_have(lacking)} no endpoint in {where}, and a private subnet has no other way to {them}"
        hint = "write egress: nat"
        with suppress(UnknownFact):
            if better := write_zone(zones_of_all(plan, facts).intersection(*zones.values())):
                hint = f"{better}, or egress: nat"
        yield Finding(id_, "fail", text, hint, "network.egress")
    if gone:
        text = f"{_have(gone)} no endpoint any more in the existing network: programs that need it fail"
        yield Finding(id_, "fail", text, "`pulumi up --refresh` makes it again", "network.egress", "warning")
    if not lacking and not gone:
        yield Finding(id_, "pass", f"{', '.join(wanted)} can be reached from private subnets", "", "network.egress")


def _have(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def network_now(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The existing network has egress and addresses for additional nodes, and assigns no public addresses."""
    if not plan.network.egress or facts.account is None or plan.network.existing:
        return
    try:
        subnets = {one.name: one for one in known(facts, "subnets")}
        ways, held = known(facts, "ways_out"), int(known(facts, "node_addresses"))
    except UnknownFact as unread:
        yield Finding("addresses.free", "unknown", f"state of the network: {unread}", unread.hint, "network.cidr")
        return
    if (one := subnets.get(NODES)) is None:
        return  # the network does not exist yet
    started = [group for group in plan.groups if group.launch]
    takes = [(group.count * each, subnet.name) for group in started for subnet, each in taken_by(plan, group)]
    coming = max(0, sum(each for each, subnet in takes if subnet == NODES) - held)
    text = f"subnet nodes has {one.free} addresses free, and nodes may still take {coming}"
    if coming <= one.free:
        yield Finding("addresses.free", "pass", text, "", "network.cidr")
    else:
        hint = "remove resources of others from it, or take nodes out"
        yield Finding("addresses.free", "fail", text, hint, "network.cidr")
    several = [group.name for group in started if group.launch and len(group.launch.interfaces) > 1]
    if one.public and several:
        named = ", ".join(several)
        text = (
            f"subnet nodes gives public addresses, and machines with several interfaces, such as {named}, do "
            "not start in it"
        )
        hint = "`pulumi up --refresh` disables public addresses, which no node of a cluster has"
        yield Finding("network.public", "fail", text, hint, "network", "warning", "nodes")
    if plan.network.egress == "nat" and "nat" not in ways:
        text = "no route leads from the private subnets to the internet: nodes that start get no packages"
        yield Finding(
            "network.egress", "fail", text, "`pulumi up --refresh` makes it again", "network.egress", "warning"
        )


def nearness(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The running nodes of a pool are near each other: their distance limits a job over all of them."""
    if facts.account is None:
        return
    pools = {pool.name: place for place, pool in launched(plan) if pool.rails}
    try:
        spreads = [one for one in known(facts, "spreads") if one.group in pools and one.nodes > 1 and one.switches]
    except UnknownFact as unread:
        text = f"distance of the running nodes in the network: {unread}"
        yield Finding("placement.near", "unknown", text, unread.hint, "pools", "warning")
        return
    for one in spreads:
        layers = ", ".join(map(str, reversed(one.switches)))
        text = f"the {one.nodes} nodes of {one.group} that run are below {layers} switches, from the nearest layer up"
        if one.switches[0] == 1:
            yield Finding("placement.near", "pass", text, "", pools[one.group], "warning", one.group)
        else:
            hint = "let jobs be ordered by topology, or `stampworks roll --machine --reason TEXT` those that are apart"
            text += ": a job over all of them passes the top of the network"
            yield Finding("placement.near", "fail", text, hint, pools[one.group], "warning", one.group)
