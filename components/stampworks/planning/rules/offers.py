"""Machines as the cloud offers them: their zones, and their number of interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import suppress

from stampworks.plan import Plan
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.reading import UnknownFact, instance_type, judged_groups, known, launched
from stampworks.planning.rules.reservations import bought_for
from stampworks.text.amounts import counted


def offers(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The region and the zone offer the machine of each group."""
    for place, group in judged_groups(plan, facts):
        type_, where = instance_type(group), group.zone or plan.network.zone
        field = f"{place or 'pools[0]'}.zone" if where else "region"  # all other groups follow the first pool
        try:
            zones = {one.instance_type: one.zones for one in known(facts, "offers")}.get(type_, ())
        except UnknownFact as unread:
            text = f"whether {where or plan.region} has {type_} of {group.name}: {unread}"
            yield Finding("placement.offers", "unknown", text, unread.hint, field, subject=group.name)
            continue
        if not zones:
            text, hint = f"{plan.region} has no {type_} for {group.name}", "take another region, or another machine"
            field = f"{place}.machine" if place else "region"
            yield Finding("placement.offers", "fail", text, hint, field, subject=group.name)
        elif where and where not in zones:
            text = f"{where} has no {type_} for {group.name}; in {plan.region} it is in {', '.join(zones)}"
            hint = write_zone(zones_of_all(plan, facts)) or "no zone has all of them: take another region or machine"
            yield Finding("placement.offers", "fail", text, hint, field, subject=group.name)
        else:
            text = f"{type_} of {group.name} is offered in {', '.join(zones)}"
            yield Finding("placement.offers", "pass", text, "", field, subject=group.name)


def zones_of_all(plan: Plan, facts: Facts) -> set[str]:
    """Return the zones that can hold all nodes, which share a subnet: each machine is offered there, and reservations
    are in them."""
    offered = {one.instance_type: one.zones for one in known(facts, "offers")}
    zones = {zone for each in offered.values() for zone in each}
    for _, group in launched(plan):
        zones &= {*offered.get(instance_type(group), ())}
        with suppress(UnknownFact):
            if group.reservation and (bought := bought_for(plan, group, facts)):
                zones &= {one.zone for one in bought}
    return zones


def write_zone(zones: Set[str]) -> str:
    """Return a hint that names the possible zones; empty when there are none."""
    if len(zones) > 1:
        return f"write one of the zones {', '.join(sorted(zones))}"
    return f"write zone: {min(zones)}" if zones else ""


def interfaces(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The machine supports the interfaces of its nodes; otherwise the cloud refuses to start it."""
    for place, group in judged_groups(plan, facts):
        launch = group.launch
        assert launch is not None  # noqa: S101  # a cloud starts it
        fabric = [each for each in launch.interfaces if each.fabric]
        cards = max((each.card for each in launch.interfaces), default=0) + 1
        id_, where = "machine.interfaces", f"{place}.machine" if place else "region"
        needs = f"{counted(len(fabric), 'interface')} of the fabric on {counted(cards, 'card')}"
        what = f"{launch.instance_type} of {group.name} needs {needs}"
        try:
            described = {one.instance_type: one for one in known(facts, "described")}
        except UnknownFact as unread:
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
            continue  # another rule reports that the region has none of them
        text = f"{what}, and takes {one.fabric_interfaces} on {one.cards}"
        if len(fabric) > one.fabric_interfaces or cards > one.cards:
            hint = "the catalog is wrong or the machine has changed: report it as an issue, and take another machine"
            yield Finding(id_, "fail", text, hint, where, subject=group.name)
        elif fabric and len(fabric) < one.fabric_interfaces:
            hint = "the catalog is wrong or the machine has changed: its fabric is slower than it could be"
            yield Finding(id_, "fail", text, hint, where, "warning", group.name)
        else:
            yield Finding(id_, "pass", text, "", where, subject=group.name)
