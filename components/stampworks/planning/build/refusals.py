"""Refuse what the cloud lacks or forbids: names, regions, zones, purchases, fallbacks and reservations."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

from stampworks import catalog
from stampworks.declaration import Declaration, Pool
from stampworks.declaration.wording import alternatives, did_you_mean, only, shown
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices

ZONE_OF_REGION = "-?[a-z]|-[a-z0-9-]*[a-z0-9]"
"""Suffix of a zone's name after its region: us-east-1a, us-east1-b, us-east-1-bos-1a."""


def refuse(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    """Note a problem for each refused value, pool by pool."""
    notes.step(_check_name, declaration, choices, notes)
    notes.step(_check_region, declaration, choices, notes)
    notes.step(_check_range, declaration, choices, notes)
    for index, pool in enumerate(declaration.pools):
        path = f"pools[{index}]"
        notes.step(_check_zone, path, pool, declaration, choices, notes)
        notes.step(_check_purchase, path, pool, declaration.cloud, choices, notes)
        notes.step(_check_elastic, path, pool, declaration, choices, notes)
        notes.step(_check_fallbacks, path, pool, declaration.cloud, choices, notes)
        notes.step(_check_reservation, path, pool, declaration.cloud, choices, notes)


def _check_name(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    if why := choices.name_refused(declaration.name):
        notes.problem("name", why, "write a name that begins with something else")


def _check_region(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    if choices.regions and not declaration.region:
        notes.problem(
            "region",
            f"is missing: a cluster on {declaration.cloud} is in one region",
            "write it as the cloud does, like region: us-east-1",
        )
    listed = catalog.regions().get(declaration.cloud)
    if declaration.region and listed and declaration.region not in listed.names:
        notes.problem(
            "region",
            f"catalog/regions.yaml has no region {shown(declaration.region)} of {declaration.cloud} ({listed.source}, "
            f"read {listed.read})",
            did_you_mean(declaration.region, listed.names),
        )


def _check_zone(path: str, pool: Pool, declaration: Declaration, choices: Choices, notes: Notes) -> None:
    region, zone, listed = declaration.region, pool.zone, catalog.regions().get(declaration.cloud)
    if not choices.zones_begin_with_region or not zone or not region or (listed and region not in listed.names):
        return  # no zone is correct in a wrong region
    if not zone.startswith(region) or not re.fullmatch(ZONE_OF_REGION, zone.removeprefix(region)):
        notes.problem(
            f"{path}.zone",
            f"{zone} is no zone of {region}, where the cluster is: the name of a zone begins with that",
            "write a zone of the region, or the region that the zone is in",
        )


def _check_purchase(path: str, pool: Pool, cloud: str, choices: Choices, notes: Notes) -> None:
    if pool.purchase and pool.purchase not in choices.purchases:
        what = f"{cloud} does not sell machines as {pool.purchase}"
        notes.problem(f"{path}.purchase", what, only(choices.purchases))
    elif pool.purchase and (why := choices.not_on_rails.get(pool.purchase)) and _has_rails(pool):
        others = [each for each in choices.purchases if each not in choices.not_on_rails]
        notes.problem(f"{path}.purchase", f"pool {pool.name} cannot be {pool.purchase}: {why}", only(others))


def _check_range(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    """Refuse a range that the fabric of a pool reserves."""
    if choices.subnets is None or not any(map(_has_rails, declaration.pools)):
        return
    for taken in choices.subnets.fabric_ranges:
        if IPv4Network(declaration.network.cidr).overlaps(IPv4Network(taken)):
            what = f"overlaps {taken}: {choices.subnets.fabric_ranges_why}"
            notes.problem("network.cidr", what, "write another range, for example 10.0.0.0/16")


def _has_rails(pool: Pool) -> bool:
    return bool(catalog.known_nics(catalog.machines()[pool.machine]))


def _check_fallbacks(path: str, pool: Pool, cloud: str, choices: Choices, notes: Notes) -> None:
    if pool.fallbacks and choices.launches is None:
        what = f"nodes cannot be started on demand of jobs on {cloud} yet"
        notes.problem(f"{path}.fallbacks", what, "take them out")
        return
    known = {(pool.purchase or choices.purchases[0], pool.reservation): "the pool itself is"}
    for index, each in enumerate(pool.fallbacks):
        way = (each.purchase, each.reservation)
        if way in known:
            what = "this repeats another way to buy the nodes"
            notes.problem(f"{path}.fallbacks[{index}]", what, f"take it out: {known[way]} bought so")
        known.setdefault(way, f"fallbacks[{index}] is")
        if each.purchase not in choices.purchases:
            what = f"{cloud} does not sell machines as {each.purchase}"
            notes.problem(f"{path}.fallbacks[{index}].purchase", what, only(choices.purchases))


def _check_elastic(path: str, pool: Pool, declaration: Declaration, choices: Choices, notes: Notes) -> None:
    managed = choices.runs(declaration.scheduler.kind)
    if (choices.numbers_ports or managed) and pool.count_min not in (None, pool.count):
        where = managed.what if managed else declaration.cloud
        notes.problem(
            f"{path}.count_min",
            f"nodes cannot be started and stopped for jobs on {where} yet",
            f"take it out: all nodes of pool {pool.name} run",
        )


def _check_reservation(path: str, pool: Pool, cloud: str, choices: Choices, notes: Notes) -> None:
    named = {f"{path}.fallbacks[{index}]": each.reservation for index, each in enumerate(pool.fallbacks)}
    for where, name in {path: pool.reservation, **named}.items():
        if name and choices.reservation and not re.fullmatch(choices.reservation, name):
            what = f"{shown(name)} is not the name of a reservation of {cloud}"
            notes.problem(f"{where}.reservation", what, choices.reservation_hint)
    if pool.reservation and pool.purchase not in ("reserved", "block"):
        bought = pool.purchase or choices.purchases[0]
        before = [f"write purchase: {form}" for form in choices.purchases if form in ("reserved", "block")]
        notes.problem(
            f"{path}.reservation",
            f"pool {pool.name} is {bought}, which uses no reservation",
            alternatives([*before, "take the reservation out"]),
        )
