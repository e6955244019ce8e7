"""Whether a plan can exist, as far as somebody has read the account that it would be in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stampworks import catalog
from stampworks.plan import ENDS_SOON_DAYS, Group, Plan, declared_pools
from stampworks.planning.build.launching import MAKE_IMAGE
from stampworks.planning.build.ports import NODES, taken_by
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.account import Reservation, days_between, of_another, too_old
from stampworks.planning.rules.findings import Facts, Finding, Rule, Severity
from stampworks.text.amounts import counted

READ = "`stampworks facts -s STACK` reads the account"
AGAIN = "see to that, and `stampworks facts -s STACK` reads the account again"
"""Where it was read, and this could not be."""
LIMITS = "look the limit up in the console of Service Quotas"
COMING = ("scheduled", "payment-pending", "assessing", "pending")
"""What a reservation is before it begins."""


class Unread(Exception):  # noqa: N818  # it ends the work of a rule, and is no error
    """A fact is unknown, why, and who tells it."""

    def __init__(self, why: str, hint: str = READ) -> None:
        super().__init__(why)
        self.hint = hint


def of_this(plan: Plan, facts: Facts) -> Facts:
    """Without an account that was read for something else, or too long ago."""
    if facts.account is None:
        return replace(facts, account_why="nobody has read it")
    why = of_another(facts.account, plan.cloud, plan.region, plan.name) or too_old(facts.account, facts.as_of)
    return replace(facts, account=None, account_why=why) if why else facts


def account(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether what the other rules here go by was read, and when."""
    if not _can_be_read(plan):
        return
    if facts.account is None:
        text = f"whether the account has and allows what this takes in {plan.region}: {facts.account_why}"
        yield Finding("account", "unknown", text, READ)
        return
    days = min(each.at for each in facts.account.readings)[:10]
    text = f"account {facts.account.account} in {plan.region}, as it was on {days}"
    if facts.account.elsewhere:
        text += f" at {facts.account.elsewhere}, which is not the cloud itself"
        hint = f"unset AWS_ENDPOINT_URL, and {READ}, unless that is where the cluster is to be"
        yield Finding("account", "fail", text, hint, severity="warning")
        return
    yield Finding("account", "pass", text, "")


def _can_be_read(plan: Plan) -> bool:
    return CLOUDS[plan.cloud].launches is not None


def offers(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether region and zone have the machines at all."""
    for place, group in _judged(plan, facts):
        type_, where = _type(group), group.zone or plan.network.zone
        field = f"{place or 'pools[0]'}.zone" if where else "region"  # all others go where the first pool does
        try:
            zones = {one.instance_type: one.zones for one in _known(facts, "offers")}.get(type_, ())
        except Unread as unread:
            text = f"whether {where or plan.region} has {type_} of {group.name}: {unread}"
            yield Finding("placement.offers", "unknown", text, unread.hint, field, subject=group.name)
            continue
        if not zones:
            text, hint = f"{plan.region} has no {type_} for {group.name}", "take another region, or another machine"
            field = f"{place}.machine" if place else "region"
            yield Finding("placement.offers", "fail", text, hint, field, subject=group.name)
        elif where and where not in zones:
            text = f"{where} has no {type_} for {group.name}; in {plan.region} it is in {', '.join(zones)}"
            hint = _write_zone(_zones_of_all(plan, facts)) or "no zone has all of them: take another region or machine"
            yield Finding("placement.offers", "fail", text, hint, field, subject=group.name)
        else:
            text = f"{type_} of {group.name} is offered in {', '.join(zones)}"
            yield Finding("placement.offers", "pass", text, "", field, subject=group.name)


def _zones_of_all(plan: Plan, facts: Facts) -> set[str]:
    """Where all nodes can be, which share a subnet: each machine is offered there, and what was bought is there."""
    offered = {one.instance_type: one.zones for one in _known(facts, "offers")}
    zones = {zone for each in offered.values() for zone in each}
    for _, group in _launched(plan):
        zones &= {*offered.get(_type(group), ())}
        with suppress(Unread):
            if group.reservation and (bought := _bought(group, facts)):
                zones &= {one.zone for one in bought}
    return zones


def _write_zone(zones: Set[str]) -> str:
    """What to do where these would be fine."""
    if len(zones) > 1:
        return f"write one of the zones {', '.join(sorted(zones))}"
    return f"write zone: {min(zones)}" if zones else ""


def reservations(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether what was bought before is what the nodes need: their machine, their zone, enough of it, now."""
    for place, pool in _launched(plan):
        for index, way in enumerate(_ways(pool)):
            if way.reservation:
                where = f"{place}.fallbacks[{index - 1}]" if index else place
                yield from _reserved(plan, pool, way, place, where, facts)


def _reserved(plan: Plan, pool: Group, way: Group, place: str, where: str, facts: Facts) -> Iterator[Finding]:
    """What is wrong with one way to buy is a no for the first, and a warning for those that are tried after it."""
    id_, bought_so = "purchase.reservation", replace(way, name=pool.name)
    found: list[tuple[str, str, str, Severity]] = []
    try:
        bought = _bought(way, facts)
        found += _of_reservations(plan, bought_so, bought, facts)
        members = _sharing(plan, pool, way, facts)
        found += _of_room(pool, way, members, _usable(way, facts))
    except Unread as unread:
        text = f"whether {way.reservation} of pool {pool.name} has room for it, and when it ends: {unread}"
        yield Finding(id_, "unknown", text, unread.hint, f"{where}.reservation", subject=pool.name)
    else:
        if not found:
            yield Finding(id_, "pass", _room(pool, way, members, bought), "", f"{where}.reservation", subject=pool.name)
    for field, text, hint, severity in found:
        at = f"{where if field in ('purchase', 'reservation') else place}.{field}"
        yield Finding(id_, "fail", text, hint, at, severity if way is pool else "warning", pool.name)


def _bought(pool: Group, facts: Facts) -> list[Reservation]:
    """What a pool's reservation stands for: itself, or those in the group that it names."""
    every = {one.id: one for one in _known(facts, "reservations")}
    if not pool.reservation.startswith("arn:"):
        return [every[pool.reservation]] if pool.reservation in every else []
    groups = {one.name: one.reservations for one in _known(facts, "reservation_groups")}
    if pool.reservation not in groups:
        raise Unread("it was not declared yet when the account was read")
    return [every[id_] for id_ in groups[pool.reservation] or () if id_ in every]


def _of_reservations(
    plan: Plan, pool: Group, bought: Sequence[Reservation], facts: Facts
) -> Iterator[tuple[str, str, str, Severity]]:
    """Each thing that is wrong: the field, what, what to do, and how bad that is."""
    if not bought:
        what, console = f"reservation {pool.reservation}", "EC2"
        if pool.reservation.startswith("arn:"):
            what, console = f"group {pool.reservation} with reservations", "Resource Groups"
        hint = f"write one that there is, as the console of {console} lists them"
        yield "reservation", f"{plan.region} has no {what} for this account", hint, "error"
        return
    for one in bought:
        yield from _of_one(plan, pool, one, facts)


def _usable(way: Group, facts: Facts) -> list[Reservation]:
    """What its nodes start in, now or when that begins."""
    alive = [one for one in _bought(way, facts) if one.state in ("active", *COMING)]
    return [one for one in alive if one.instance_type == _type(way)]


def _sharing(plan: Plan, pool: Group, way: Group, facts: Facts) -> list[Group]:
    """All that start in the same capacity, or in a part of it, as each pool is bought first. Where this way is tried
    later it is the last of them, and of its own pool there is what always runs."""
    firsts = [group for _, group in _launched(plan) if group.reservation]
    if way is not pool:
        firsts = [replace(each, count=each.count_min) if each is pool else each for each in firsts]
    here = {one.id for one in _usable(way, facts)}
    taken = [{one.id for one in _usable(each, facts)} for each in firsts]
    there = [each for each, ids in zip(firsts, taken, strict=True) if each.count and ids and ids <= here]
    return there if way is pool else [*there, way]


def _of_room(
    pool: Group, way: Group, members: Sequence[Group], usable: Sequence[Reservation]
) -> Iterator[tuple[str, str, str, Severity]]:
    """Whether all that start in it have room, now and at all."""
    need, told, name = sum(each.count for each in members), _told(pool, members), way.reservation
    total = sum(one.total for one in usable)
    left = sum(one.available + one.ours if one.state == "active" else one.total for one in usable)
    fewer = f"write count: {min(total, left)}" if [*members] == [pool] else "take nodes out"
    field, instead = ("count", fewer) if way is pool else ("reservation", "take this way out")
    if usable and total < need:
        text = f"{name} is for {counted(total, 'node')}, and {told}"
        yield field, text, f"{instead}, or reserve {need - total} more", "error"
    elif usable and left < need:
        text = f"{name} has {left} of {total} nodes left, and {told}"
        yield field, text, f"stop what else runs in it, or {instead}", "error"


def _told(pool: Group, members: Sequence[Group]) -> str:
    """How many nodes start in the same capacity."""
    if [*members] == [pool]:
        return f"pool {pool.name} has {pool.count}"
    parts = " + ".join(f"{each.count} ({each.name})" for each in members)
    return f"{parts} = {sum(each.count for each in members)} start in it"


def _of_one(plan: Plan, pool: Group, one: Reservation, facts: Facts) -> Iterator[tuple[str, str, str, Severity]]:
    type_, zone = _type(pool), pool.zone or plan.network.zone or _zone_now(facts)
    if one.instance_type != type_:
        text = f"{one.id} is for {one.instance_type}, and pool {pool.name} is made of {type_}"
        yield "machine", text, "take the machine that was reserved, or name another reservation", "error"
    if one.zone != zone:
        text = f"{one.id} is in {one.zone}, and pool {pool.name} in {zone or 'whichever zone the cloud chooses'}"
        yield "zone", text, f"write zone: {one.zone}", "error"
    if one.block is not (pool.purchase == "block"):
        sort, write = ("a capacity block", "block") if one.block else ("no capacity block", "reserved")
        text = f"{one.id} is {sort}, and pool {pool.name} is to be bought as {pool.purchase}"
        yield "purchase", text, f"write purchase: {write}", "error"
    if one.placement_group:
        text = f"{one.id} was made in the placement group {one.placement_group}, and pool {pool.name} starts in none"
        yield "reservation", text, "reserve without a placement group", "error"
    yield from _of_time(pool, one, facts)


def _zone_now(facts: Facts) -> str:
    """Where nodes are whose zone nobody has written: in that of their subnet; empty as long as there is none."""
    return next((one.zone for one in _known(facts, "subnets") if one.name == NODES), "")


def _of_time(pool: Group, one: Reservation, facts: Facts) -> Iterator[tuple[str, str, str, Severity]]:
    """A reservation's state and end; the account was read lately, so that there is a day."""
    days = days_between(facts.as_of, one.ends) if facts.as_of and one.ends else None
    if one.state in COMING:
        begins = f", and begins on {one.begins}" if one.begins else ""
        text = f"{one.id} of pool {pool.name} is {one.state}{begins}: until then no node starts in it"
        yield "reservation", text, "run `pulumi up` when it has begun", "error"
    elif one.state != "active":
        ended = f", and ended on {one.ends}" if days is not None and days <= 0 else ""
        text = f"{one.id} of pool {pool.name} is {one.state}{ended}: no node starts in it"
        yield "reservation", text, "buy another one, and write its id", "error"
    elif days is not None and days < 0:
        text = f"{one.id} of pool {pool.name} ended on {one.ends}"
        yield "reservation", text, "buy another one, and write its id", "error"
    elif days is not None and days <= ENDS_SOON_DAYS:
        text = f"{one.id} of pool {pool.name} ends on {one.ends}, in {counted(days, 'day')}, and its nodes end before"
        yield "reservation", text, "save what runs in it, and buy another one, or extend it", "warning"


def _room(pool: Group, way: Group, members: Sequence[Group], bought: Sequence[Reservation]) -> str:
    total, ends = sum(one.total for one in bought), [one.ends for one in bought if one.ends]
    until = f", until {min(ends)}" if ends else ""
    return f"{way.reservation} is for {counted(total, 'node')}, and {_told(pool, members)}{until}"


def machine_limits(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether the account's limits let so many machines run at once, beside what runs there already.

    Also in the ways to buy that are tried later, in which all elastic nodes may start: that is a warning.
    """
    if not plan.region:
        return
    needs: dict[str, list[tuple[Group, int]]] = {}
    later: list[tuple[str, str, Group, tuple[Group, int]]] = []
    places = {pool.name: f"pools[{index}]" for index, pool in enumerate(declared_pools(plan.groups))}
    for group in (plan.controller, *plan.login, *sorted(plan.pools, key=lambda pool: pool.name)):
        row = catalog.machines()[group.machine.name]
        if row.quota_family == "":
            continue
        for index, way in enumerate(_ways(group)):
            limit = _limit_of(plan, way, row)
            if not limit or not isinstance(row.quota_units, int):
                text = f"the limit that {row.name} of {group.name}, {way.purchase}, counts against"
                hint = "look it up in the account"
                yield Finding("quota", "unknown", f"{text}: the catalog has none", hint, subject=way.name)
            elif index:
                place = f"{places[group.name]}.fallbacks[{index - 1}]"
                later.append((limit, place, group, (way, row.quota_units)))
            else:
                needs.setdefault(limit, []).append((group, row.quota_units))
    for limit, members in needs.items():
        yield _held(plan, facts, limit, members)
    for limit, place, group, bought in later:
        beside = needs.get(limit, ())
        always = [(replace(each, count=each.count_min) if each is group else each, units) for each, units in beside]
        yield _held(plan, facts, limit, [*always, bought], place)


def _ways(group: Group) -> Iterator[Group]:
    """As many nodes as may start in each of its ways to buy them, under the group's name and, later on, the way's."""
    yield group
    for way in group.fallbacks:
        name, count = f"{group.name} {way.name}", group.count - group.count_min
        yield replace(group, name=name, count=count, purchase=way.purchase, reservation=way.reservation, fallbacks=())


def _limit_of(plan: Plan, group: Group, row: catalog.Machine) -> str:
    """What a group counts against; empty where nobody knows. Blocks have limits of their own."""
    if group.purchase == "spot":
        return catalog.machine_limit(plan.cloud, row.aliases[0] if row.aliases else row.name, spot=True)
    known = isinstance(row.quota_family, str) and group.purchase in ("on-demand", "reserved", "owned")
    return str(row.quota_family) if known else ""


def _held(plan: Plan, facts: Facts, limit: str, members: Sequence[tuple[Group, int]], later: str = "") -> Finding:
    """Of a way that is tried later, the last of the members, where that is declared."""
    subject = members[-1][0].name if later else limit
    severity: Severity = "warning" if later else "error"
    need = sum(group.count * units for group, units in members)
    parts = " + ".join(f"{group.count} x {units} ({group.name})" for group, units in members if group.count)
    text = f"{limit} in {plan.region}: {parts} = {need} needed"
    if facts.account is None:
        hint, text = READ if _can_be_read(plan) else "ask the account", f"{text}, and nobody has looked up what is left"
        return Finding("quota", "unknown", text, hint, later, subject=subject)
    try:
        values = {one.name: one.value for one in _known(facts, "machine_limits")}
        if limit not in values:
            raise Unread("the account lists no such limit", LIMITS)
        reserved = {group.name: count for group, _ in members if (count := _counted_already(group, facts))}
        taken = _taken(plan, facts, limit)
    except Unread as unread:
        why = f"{text}, and what is left is unknown: {unread}"
        return Finding("quota", "unknown", why, unread.hint, later, subject=subject)
    if reserved:
        need -= sum(reserved.get(group.name, 0) * units for group, units in members)
        text += f", {need} of it beside what {', '.join(reserved)} has reserved"
    left = int(values[limit]) - taken
    text += f"; the limit is {values[limit]:.0f}, and {taken} are taken"
    if need <= left:
        return Finding("quota", "pass", text, "", later, subject=subject)
    instead = "take this way out" if later else "take nodes out"
    hint = f"ask the cloud for {need - left} more, or {instead}"
    return Finding("quota", "fail", text, hint, later or "pools", severity, subject)


def _counted_already(group: Group, facts: Facts) -> int:
    """Of how many nodes: what an account has reserved itself counts against its limit whether it runs or not."""
    bought = _bought(group, facts) if group.reservation else []
    if not all(one.own for one in bought):
        why = f"whose limit {group.reservation} counts against, which is shared with this account"
        raise Unread(why, "ask whoever shares it")
    starts = [one.total for one in bought if one.state == "active" and one.instance_type == _type(group)]
    return min(group.count, sum(starts))


def _taken(plan: Plan, facts: Facts, limit: str) -> int:
    """Units of a limit that are gone: what others run, and on demand what is reserved."""
    units = {one.instance_type: one.vcpus for one in _known(facts, "described")}
    counts = [(one.instance_type, one.spot, one.count) for one in _known(facts, "running")]
    counts += [
        (one.instance_type, False, one.total)
        for one in _known(facts, "reservations")
        if one.own and not one.block and one.state == "active"
    ]
    taken = 0
    for type_, spot, count in counts:
        if catalog.machine_limit(plan.cloud, type_, spot) == limit:
            if type_ not in units:
                raise Unread(f"how much of it a {type_} takes, of which {count} run")
            taken += count * units[type_]
    return taken


def other_limits(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether there is room for one network more, its way out, NICs, what keeps nodes close, and the file systems."""
    if not plan.network.egress or facts.account is None:
        return
    together = sum(any(one.placed_together for one in pool.offers) for _, pool in _launched(plan))
    wanted = {"networks": 1, **({"gateways": 1, "addresses": 1} if plan.network.egress == "nat" else {})}
    nics = sum(group.count * len(group.launch.interfaces) for _, group in _launched(plan) if group.launch)
    wanted |= {"interfaces": nics, "placement_groups": together}
    for limit in catalog.network_limits(plan.cloud).values():
        if need := wanted.get(limit.counts, 0):
            facts_of = "machine_limits" if limit.counts == "addresses" else "network_limits"
            yield _piece(plan, facts, limit.name, need, facts_of, limit.counts, "network", limit.fixed)
    needs: dict[str, int] = {}
    for one in plan.storage:
        if name := catalog.storage_limit(plan.cloud, one.tier.partition(" ")[0]):
            needs[name] = needs.get(name, 0) + one.capacity
    for name, need in needs.items():
        yield _piece(plan, facts, name, need, "storage_limits", "file_systems", "storage")


def _piece(
    plan: Plan, facts: Facts, limit: str, need: int, limits: str, counts: str, place: str, fixed: int = 0
) -> Finding:
    text = f"{limit} in {plan.region}: {need} needed"
    try:
        values = {limit: fixed} if fixed else {one.name: one.value for one in _known(facts, limits)}
        if limit not in values:
            raise Unread("the account lists no such limit", LIMITS)
        found = _known(facts, counts)
    except Unread as unread:
        return Finding("quota", "unknown", f"{text}, and what is left is unknown: {unread}", unread.hint, subject=limit)
    if isinstance(found, int):
        taken = found
    else:
        taken = sum(one.gib for one in found if catalog.storage_limit(plan.cloud, one.kind) == limit)
    left = int(values[limit]) - taken
    text += f"; the limit is {values[limit]:.0f}, and {taken} are taken{' in all zones' * (counts == 'gateways')}"
    if need <= left:
        return Finding("quota", "pass", text, "", subject=limit)
    if counts == "gateways":  # they are counted in all zones and limited in each: too many of them may be elsewhere
        hint = f"look up how many of them are in {plan.network.zone or 'the zone of the nodes'}: no others count"
        return Finding("quota", "unknown", text, hint, place, subject=limit)
    hint = "delete those that nobody uses" if fixed else f"ask the cloud for {need - left} more"
    return Finding("quota", "fail", text, hint, place, subject=limit)


def interfaces(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether a machine takes the interfaces that its nodes are to be given: the cloud refuses to start it else."""
    for place, group in _judged(plan, facts):
        launch = group.launch
        assert launch is not None  # noqa: S101  # it is launched
        fabric = [each for each in launch.interfaces if each.fabric]
        cards = max((each.card for each in launch.interfaces), default=0) + 1
        id_, where = "machine.interfaces", f"{place}.machine" if place else "region"
        needs = f"{counted(len(fabric), 'interface')} of the fabric on {counted(cards, 'card')}"
        what = f"{launch.instance_type} of {group.name} is to have {needs}"
        try:
            described = {one.instance_type: one for one in _known(facts, "described")}
        except Unread as unread:
            yield Finding(
                id_,
                "unknown",
                f"{what}, and whether it can is unknown: {unread}",
                unread.hint,
                where,
                subject=group.name,
            )
            continue
        if (one := described.get(launch.instance_type)) is None:
            continue  # the region has none of them, which another rule says
        text = f"{what}, and takes {one.fabric_interfaces} on {one.cards}"
        if len(fabric) > one.fabric_interfaces or cards > one.cards:
            hint = "the catalog is wrong or the machine has changed: say so in an issue, and take another machine"
            yield Finding(id_, "fail", text, hint, where, subject=group.name)
        elif fabric and len(fabric) < one.fabric_interfaces:
            hint = "the catalog is wrong or the machine has changed: its fabric is slower than it could be"
            yield Finding(id_, "fail", text, hint, where, "warning", group.name)
        else:
            yield Finding(id_, "pass", text, "", where, subject=group.name)


def services(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether the services that nodes boot with can have an address in their network, and have it once it is there."""
    wanted, id_ = plan.network.endpoints, "network.endpoints"
    launches = CLOUDS[plan.cloud].launches
    if launches is None or not wanted or facts.account is None:
        return
    try:
        offered = {one.name: one.zones for one in _known(facts, "services")}
        if not offered:  # every region has some of them: whoever lists none has not told
            raise Unread(f"the answer lists none of them for {plan.region}", AGAIN)
        there, subnets = _known(facts, "endpoints"), _known(facts, "subnets")
    except Unread as unread:
        text = f"whether {', '.join(wanted)} can be reached from {plan.region}'s private subnets: {unread}"
        yield Finding(id_, "unknown", text, unread.hint, "network.egress")
        return
    zone = plan.network.zone
    zones = {each: offered.get(each, ()) for each in wanted if each not in launches.routed or each not in offered}
    lacking = [each for each in wanted if each not in offered or (zone and zone not in zones.get(each, (zone,)))]
    gone = [each for each in wanted if subnets and each not in there and each not in lacking]
    if lacking:
        where, them = f"{zone} of {plan.region}" if zone else plan.region, "it" if len(lacking) == 1 else "them"
        text = f"{_have(lacking)} no endpoint in {where}, and a private subnet reaches {them} in no other way"
        hint = "write egress: nat"
        with suppress(Unread):
            if better := _write_zone(_zones_of_all(plan, facts).intersection(*zones.values())):
                hint = f"{better}, or egress: nat"
        yield Finding(id_, "fail", text, hint, "network.egress")
    if gone:
        text = f"{_have(gone)} no endpoint any more in the network that is there: what needs it fails"
        yield Finding(id_, "fail", text, "`pulumi up --refresh` makes it again", "network.egress", "warning")
    if not lacking and not gone:
        yield Finding(id_, "pass", f"{', '.join(wanted)} can be reached from private subnets", "", "network.egress")


def _have(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def network_now(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Of a network that is there: whether nodes that are to come have addresses and a way out, and no public ones."""
    if not plan.network.egress or facts.account is None:
        return
    try:
        subnets = {one.name: one for one in _known(facts, "subnets")}
        ways, held = _known(facts, "ways_out"), int(_known(facts, "node_addresses"))
    except Unread as unread:
        yield Finding("addresses.free", "unknown", f"what the network has now: {unread}", unread.hint, "network.cidr")
        return
    if (one := subnets.get(NODES)) is None:
        return  # it was not made yet
    started = [group for group in plan.groups if group.launch]
    takes = [(group.count * each, subnet.name) for group in started for subnet, each in taken_by(plan, group)]
    coming = max(0, sum(each for each, subnet in takes if subnet == NODES) - held)
    text = f"subnet nodes has {one.free} addresses free, and nodes may still take {coming}"
    if coming <= one.free:
        yield Finding("addresses.free", "pass", text, "", "network.cidr")
    else:
        hint = "take out of it what is not this cluster's, or take nodes out"
        yield Finding("addresses.free", "fail", text, hint, "network.cidr")
    several = [group.name for group in started if group.launch and len(group.launch.interfaces) > 1]
    if one.public and several:
        named = ", ".join(several)
        text = f"subnet nodes gives public addresses, and what has several interfaces, as {named}, does not start in it"
        hint = "`pulumi up --refresh` takes that from the subnet: no node of a cluster is public"
        yield Finding("network.public", "fail", text, hint, "network", "warning", "nodes")
    if plan.network.egress == "nat" and "nat" not in ways:
        text = "no route leads from the private subnets to the world: nodes that start get no packages"
        yield Finding(
            "network.egress", "fail", text, "`pulumi up --refresh` makes it again", "network.egress", "warning"
        )


def nearness(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """How far the nodes of a pool that run are from each other: a job over all of them goes as far."""
    if facts.account is None:
        return
    pools = {pool.name: place for place, pool in _launched(plan) if pool.rails}
    try:
        spreads = [one for one in _known(facts, "spreads") if one.group in pools and one.nodes > 1 and one.switches]
    except Unread as unread:
        text = f"how far the nodes that run are from each other: {unread}"
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


def images(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether what was locked is still there."""
    groups = [group for _, group in _judged(plan, facts) if group.launch and group.launch.image]
    for id_ in dict.fromkeys(group.launch.image for group in groups if group.launch):
        users = [group for group in groups if group.launch and group.launch.image == id_]
        named = f"{id_}, which {', '.join(group.name for group in users)} {'boots' if len(users) == 1 else 'boot'}"
        try:
            found = {one.id: one for one in _known(facts, "images")}
            newest = {one.parameter: one.image for one in _known(facts, "newest")}
        except Unread as unread:
            text = f"whether {plan.region} has {named}: {unread}"
            yield Finding("image.there", "unknown", text, unread.hint, "region", subject=id_)
            continue
        own = any(group.launch.prepared for group in users if group.launch)
        hint = MAKE_IMAGE if own else "`stampworks lock -s STACK` looks up the newest one"
        one, later = found.get(id_), {newest.get(each.launch.published_image, "") for each in users if each.launch}
        if one is None or one.state != "available":
            state = "is gone" if one is None else f"is {one.state}"
            text = f"{named}, {state} in {plan.region}: no node starts any more"
            yield Finding("image.there", "fail", text, hint, "region", subject=id_)
        elif one.deprecated and facts.as_of and one.deprecated <= facts.as_of:
            text = f"{named}, is deprecated since {one.deprecated}, and goes without a word"
            yield Finding("image.there", "fail", text, hint, "region", "warning", id_)
        else:
            newer = "" if own or later == {id_} else "; there is a newer one"
            yield Finding("image.there", "pass", f"{named}, is there{newer}", "", "region", subject=id_)


def _judged(plan: Plan, facts: Facts) -> Iterator[tuple[str, Group]]:
    """The groups that a cloud starts; none without an account."""
    return _launched(plan) if facts.account else iter(())


def _launched(plan: Plan) -> Iterator[tuple[str, Group]]:
    """Each with where it is declared, which is nowhere for those that run no jobs."""
    yield from (("", group) for group in (plan.controller, *plan.login) if group.launch)
    for index, pool in enumerate(declared_pools(plan.groups)):
        if pool.launch and pool.role == "worker":
            yield f"pools[{index}]", pool


def _type(group: Group) -> str:
    assert group.launch is not None  # noqa: S101  # it is one that a cloud starts
    return group.launch.instance_type


def _known(facts: Facts, fact: str) -> Any:
    """What was read; Unread where it is unknown."""
    if facts.account is None:
        raise Unread(facts.account_why)
    value = getattr(facts.account, fact)
    if value is None:
        raise Unread(facts.account.why(fact), AGAIN)
    return value


RULES: tuple[Rule, ...] = (
    account,
    offers,
    reservations,
    machine_limits,
    other_limits,
    interfaces,
    services,
    network_now,
    nearness,
    images,
)
