"""Quotas: the limits of an account, and the part of them that is already used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stampworks import catalog
from stampworks.plan import Group, Plan, declared_pools
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Facts, Finding, Severity
from stampworks.planning.rules.reading import READ, UnknownFact, can_be_read, instance_type, known, launched
from stampworks.planning.rules.reservations import bought_for, ways


def machine_limits(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The account's limits allow all machines at once, beside those that already run.

    Fallbacks count too, each with all elastic nodes of its pool; they only cause warnings.
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
        for index, way in enumerate(ways(group)):
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


def _limit_of(plan: Plan, group: Group, row: catalog.Machine) -> str:
    """Return the limit that a group counts against; empty when unknown. Capacity blocks have their own limits."""
    if group.purchase == "spot":
        return catalog.machine_limit(plan.cloud, row.aliases[0] if row.aliases else row.name, spot=True)
    counts = isinstance(row.quota_family, str) and group.purchase in ("on-demand", "reserved", "owned")
    return str(row.quota_family) if counts else ""


def _held(plan: Plan, facts: Facts, limit: str, members: Sequence[tuple[Group, int]], later: str = "") -> Finding:
    """Judge one limit by the groups that count against it. A fallback comes last, and `later` is its place."""
    subject = members[-1][0].name if later else limit
    severity: Severity = "warning" if later else "error"
    need = sum(group.count * units for group, units in members)
    parts = " + ".join(f"{group.count} x {units} ({group.name})" for group, units in members if group.count)
    text = f"{limit} in {plan.region}: {parts} = {need} needed"
    if facts.account is None:
        hint, text = (
            READ if can_be_read(plan) else "ask the account",
            f"{text}, and the rest of the limit was not looked up",
        )
        return Finding("quota", "unknown", text, hint, later, subject=subject)
    try:
        values = {one.name: one.value for one in known(facts, "machine_limits")}
        if limit not in values:
            raise UnknownFact("the account lists no such limit", CLOUDS[plan.cloud].account.limits_hint)
        reserved = {group.name: count for group, _ in members if (count := _counted_already(plan, group, facts))}
        taken = _taken(plan, facts, limit)
    except UnknownFact as unread:
        why = f"{text}, and the rest of the limit is unknown: {unread}"
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


def _counted_already(plan: Plan, group: Group, facts: Facts) -> int:
    """Return how many of a group's nodes already count: a reservation counts whether its nodes run or not."""
    bought = bought_for(plan, group, facts) if group.reservation else []
    if not all(one.own for one in bought):
        why = f"whose limit {group.reservation} counts against, which is shared with this account"
        raise UnknownFact(why, "ask the account that shares it")
    starts = [one.total for one in bought if one.state == "active" and one.instance_type == instance_type(group)]
    return min(group.count, sum(starts))


def _taken(plan: Plan, facts: Facts, limit: str) -> int:
    """Return the used units of a limit: by nodes of others, and for on-demand also by reservations."""
    units = {one.instance_type: one.vcpus for one in known(facts, "described")}
    counts = [(one.instance_type, one.spot, one.count) for one in known(facts, "running")]
    counts += [
        (one.instance_type, False, one.total)
        for one in known(facts, "reservations")
        if one.own and not one.block and one.state == "active"
    ]
    taken = 0
    for type_, spot, count in counts:
        if catalog.machine_limit(plan.cloud, type_, spot) == limit:
            if type_ not in units:
                raise UnknownFact(f"the share of a {type_}, of which {count} run")
            taken += count * units[type_]
    return taken


def other_limits(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The limits allow another network with its egress, NICs, placement groups and file systems."""
    if not plan.network.egress or facts.account is None:
        return
    together = sum(any(one.placed_together for one in pool.offers) for _, pool in launched(plan))
    made = plan.network.existing is None
    wanted = (
        {"networks": 1, **({"gateways": 1, "addresses": 1} if plan.network.egress == "nat" else {})} if made else {}
    )
    nics = sum(group.count * len(group.launch.interfaces) for _, group in launched(plan) if group.launch)
    wanted |= {"interfaces": nics, "placement_groups": together}
    own = CLOUDS[plan.cloud].account
    for limit in catalog.network_limits(plan.cloud).values():
        if need := wanted.get(limit.counts, 0):
            facts_of = "machine_limits" if limit.counts in own.among_machines else "network_limits"
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
    """Judge one limit of a resource that is not a machine."""
    text = f"{limit} in {plan.region}: {need} needed"
    try:
        values = {limit: fixed} if fixed else {one.name: one.value for one in known(facts, limits)}
        if limit not in values:
            raise UnknownFact("the account lists no such limit", CLOUDS[plan.cloud].account.limits_hint)
        found = known(facts, counts)
    except UnknownFact as unread:
        return Finding(
            "quota", "unknown", f"{text}, and the rest of the limit is unknown: {unread}", unread.hint, subject=limit
        )
    if isinstance(found, int):
        taken = found
    else:
        taken = sum(one.gib for one in found if catalog.storage_limit(plan.cloud, one.kind) == limit)
    left, elsewhere = int(values[limit]) - taken, counts in CLOUDS[plan.cloud].account.of_one_zone
    text += f"; the limit is {values[limit]:.0f}, and {taken} are taken{' in all zones' * elsewhere}"
    if need <= left:
        return Finding("quota", "pass", text, "", subject=limit)
    if elsewhere:  # counted in all zones but limited in each: the excess may be in other zones
        hint = f"look up how many of them are in {plan.network.zone or 'the zone of the nodes'}: no others count"
        return Finding("quota", "unknown", text, hint, place, subject=limit)
    hint = "delete unused ones" if fixed else f"ask the cloud for {need - left} more"
    return Finding("quota", "fail", text, hint, place, subject=limit)
