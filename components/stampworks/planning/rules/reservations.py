"""Reservations: capacity that was bought in advance, and the nodes that start in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stampworks.plan import ENDS_SOON_DAYS, Group, Plan
from stampworks.planning.build.ports import NODES
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.days import days_between
from stampworks.planning.rules.findings import Facts, Finding, Severity
from stampworks.planning.rules.reading import UnknownFact, instance_type, known, launched
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from stampworks.planning.rules.account import Reservation

_Problem = tuple[str, str, str, Severity]
"""Field, text, hint and severity."""


def reservations(plan: Plan, facts: Facts, today: str | None) -> Iterator[Finding]:
    """A reservation fits the pool's machine and zone, has room for its nodes, and has not ended."""
    for place, pool in launched(plan):
        for index, way in enumerate(ways(pool)):
            if way.reservation:
                where = f"{place}.fallbacks[{index - 1}]" if index else place
                yield from _reserved(plan, pool, way, place, where, facts, today)


def ways(group: Group) -> Iterator[Group]:
    """Yield each way to buy a group's nodes, with the number of nodes that may start that way.

    The first one has the name of the group; a fallback's name also contains its purchase.
    """
    yield group
    for way in group.fallbacks:
        name, count = f"{group.name} {way.name}", group.count - group.count_min
        yield replace(group, name=name, count=count, purchase=way.purchase, reservation=way.reservation, fallbacks=())


def _reserved(
    plan: Plan, pool: Group, way: Group, place: str, where: str, facts: Facts, today: str | None
) -> Iterator[Finding]:
    """Judge one way to buy: its findings are errors for the first way, and warnings for a fallback."""
    id_, bought_so = "purchase.reservation", replace(way, name=pool.name)
    found: list[_Problem] = []
    try:
        bought = bought_for(plan, way, facts)
        found += _reservation_problems(plan, bought_so, bought, facts, today)
        members = _sharing(plan, pool, way, facts)
        found += _room_problems(pool, way, members, _usable(plan, way, facts))
    except UnknownFact as unread:
        text = f"whether {way.reservation} of pool {pool.name} has room for it, and when it ends: {unread}"
        yield Finding(id_, "unknown", text, unread.hint, f"{where}.reservation", subject=pool.name)
    else:
        if not found:
            yield Finding(id_, "pass", _room(pool, way, members, bought), "", f"{where}.reservation", subject=pool.name)
    for field, text, hint, severity in found:
        at = f"{where if field in ('purchase', 'reservation') else place}.{field}"
        yield Finding(id_, "fail", text, hint, at, severity if way is pool else "warning", pool.name)


def bought_for(plan: Plan, pool: Group, facts: Facts) -> list[Reservation]:
    """Return the reservations that the pool names: a single one, or those of a group."""
    every = {one.id: one for one in known(facts, "reservations")}
    if not CLOUDS[plan.cloud].account.is_group(pool.reservation):
        return [every[pool.reservation]] if pool.reservation in every else []
    groups = {one.name: one.reservations for one in known(facts, "reservation_groups")}
    if pool.reservation not in groups:
        raise UnknownFact("it was declared after the account was read")
    return [every[id_] for id_ in groups[pool.reservation] or () if id_ in every]


def _reservation_problems(
    plan: Plan, pool: Group, bought: Sequence[Reservation], facts: Facts, today: str | None
) -> Iterator[_Problem]:
    """Yield each problem with reservations: field, text, hint and severity."""
    if not bought:
        own = CLOUDS[plan.cloud].account
        what, console = f"reservation {pool.reservation}", own.reservations_console
        if own.is_group(pool.reservation):
            what, console = f"resource group {pool.reservation} with reservations", own.groups_console
        hint = f"write one that exists; the console of {console} lists them"
        yield "reservation", f"{plan.region} has no {what} for this account", hint, "error"
        return
    for one in bought:
        yield from _single_problems(plan, pool, one, facts, today)


def _single_problems(plan: Plan, pool: Group, one: Reservation, facts: Facts, today: str | None) -> Iterator[_Problem]:
    """Yield each problem with one reservation."""
    type_, zone = instance_type(pool), pool.zone or plan.network.zone or _zone_now(facts)
    if one.instance_type != type_:
        text = f"{one.id} is for {one.instance_type}, and pool {pool.name} is made of {type_}"
        yield "machine", text, "declare the reserved machine, or name another reservation", "error"
    if one.zone != zone:
        text = f"{one.id} is in {one.zone}, and pool {pool.name} in {zone or 'whichever zone the cloud chooses'}"
        yield "zone", text, f"write zone: {one.zone}", "error"
    if one.block is not (pool.purchase == "block"):
        sort, write = (
            ("a capacity block", "block") if one.block else ("a reservation, not a capacity block", "reserved")
        )
        text = f"{one.id} is {sort}, but pool {pool.name} declares purchase: {pool.purchase}"
        yield "purchase", text, f"write purchase: {write}", "error"
    if one.placement_group:
        text = f"{one.id} was made in the placement group {one.placement_group}, and pool {pool.name} starts in none"
        yield "reservation", text, "reserve without a placement group", "error"
    yield from _time_problems(plan, pool, one, today)


def _zone_now(facts: Facts) -> str:
    """Return the zone of nodes that declare none: the zone of their subnet, or nothing before it exists."""
    return next((one.zone for one in known(facts, "subnets") if one.name == NODES), "")


def _time_problems(plan: Plan, pool: Group, one: Reservation, today: str | None) -> Iterator[_Problem]:
    """Yield problems with a reservation's state and end. The account was read recently, so that today is known."""
    days = days_between(today, one.ends) if today and one.ends else None
    if one.state in CLOUDS[plan.cloud].account.coming:
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
        yield "reservation", text, "save the state of its jobs, and buy another block or extend this one", "warning"


def _usable(plan: Plan, way: Group, facts: Facts) -> list[Reservation]:
    """Return the reservations that nodes of this way can start in, now or when they begin."""
    coming = CLOUDS[plan.cloud].account.coming
    alive = [one for one in bought_for(plan, way, facts) if one.state in ("active", *coming)]
    return [one for one in alive if one.instance_type == instance_type(way)]


def _sharing(plan: Plan, pool: Group, way: Group, facts: Facts) -> list[Group]:
    """Return the groups that start in the same capacity, or in a part of it. Pools buy their first choice first.

    A fallback comes last. Only the nodes of its own pool that always run count.
    """
    firsts = [group for _, group in launched(plan) if group.reservation]
    if way is not pool:
        firsts = [replace(each, count=each.count_min) if each is pool else each for each in firsts]
    here = {one.id for one in _usable(plan, way, facts)}
    taken = [{one.id for one in _usable(plan, each, facts)} for each in firsts]
    there = [each for each, ids in zip(firsts, taken, strict=True) if each.count and ids and ids <= here]
    return there if way is pool else [*there, way]


def _room_problems(
    pool: Group, way: Group, members: Sequence[Group], usable: Sequence[Reservation]
) -> Iterator[_Problem]:
    """Yield problems with the room for all groups that start in the same capacity."""
    need, told, name = sum(each.count for each in members), _members_text(pool, members), way.reservation
    total = sum(one.total for one in usable)
    left = sum(one.available + one.ours if one.state == "active" else one.total for one in usable)
    fewer = f"write count: {min(total, left)}" if [*members] == [pool] else "take nodes out"
    field, instead = ("count", fewer) if way is pool else ("reservation", "take this way out")
    if usable and total < need:
        text = f"{name} is for {counted(total, 'node')}, and {told}"
        yield field, text, f"{instead}, or reserve {need - total} more", "error"
    elif usable and left < need:
        text = f"{name} has {left} of {total} nodes left, and {told}"
        yield field, text, f"stop other machines in it, or {instead}", "error"


def _members_text(pool: Group, members: Sequence[Group]) -> str:
    """Describe how many nodes start in the same capacity."""
    if [*members] == [pool]:
        return f"pool {pool.name} has {pool.count}"
    parts = " + ".join(f"{each.count} ({each.name})" for each in members)
    return f"{parts} = {sum(each.count for each in members)} start in it"


def _room(pool: Group, way: Group, members: Sequence[Group], bought: Sequence[Reservation]) -> str:
    """Describe a reservation that has room."""
    total, ends = sum(one.total for one in bought), [one.ends for one in bought if one.ends]
    until = f", until {min(ends)}" if ends else ""
    return f"{way.reservation} is for {counted(total, 'node')}, and {_members_text(pool, members)}{until}"
