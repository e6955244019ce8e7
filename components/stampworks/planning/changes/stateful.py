"""Find stateful resources that a change of their location would replace with empty ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from stampworks import catalog
from stampworks.changes.differences import PathStep
from stampworks.declaration.values import DIRECTORY
from stampworks.plan import Plan, Storage, declared_pools
from stampworks.planning.build.storage import WITHOUT_SUBNET


@dataclass(frozen=True)
class Stateful:
    """A file system, or the scheduler's state."""

    name: str
    protect: bool
    let_go: str
    """The declaration that permits its deletion."""


_CUTS = (("network", "egress"), ("scheduler", "database"), ("scheduler", "kind"))
"""Paths of values that decide into which subnets a range is cut."""


def anew(way: Sequence[PathStep], a: Plan, b: Plan) -> tuple[Stateful, ...]:
    """Return the resources of the previous plan that would be replaced. Where the plan numbers ports, folders and
    volumes stay."""
    if not a.network.subnets:
        return ()
    if renews_network(way, a, b):
        return (*_server(a), *_database(a), *(_storage(one) for one in a.storage if _is_in_network(one)))
    return (*_server(a), *_zonal_resources(a)) if moves_head(way, a, b) else ()


def renews_network(way: Sequence[PathStep], a: Plan, b: Plan) -> bool:
    """Whether the change of this value recreates the network: another range of all, or other ranges of its subnets."""
    path = tuple(step.field for step in way)
    return path == ("network", "cidr") or (path in _CUTS and _is_cut_anew(a, b))


def moves_network(a: Plan, b: Plan) -> bool:
    """Whether the network is recreated: a subnet keeps its range and zone, and subnets of a network cannot overlap."""
    moved = a.network.zone != b.network.zone and not b.network.existing
    return moved or a.network.cidr != b.network.cidr or _is_cut_anew(a, b)


def _is_cut_anew(a: Plan, b: Plan) -> bool:
    """Whether a new subnet overlaps an earlier one."""
    if a.network.existing or b.network.existing:
        return False
    before, after = ({each.name: IPv4Network(each.cidr) for each in plan.network.subnets} for plan in (a, b))
    new = [cidr for name, cidr in after.items() if before.get(name) != cidr]
    return any(cidr.overlaps(taken) for cidr in new for taken in before.values())


def moved_homes(a: Plan, b: Plan) -> tuple[str, str]:
    """Return the storages with homes before and after; empty if homes stay."""
    before, after = _homes_storage(a), _homes_storage(b)
    return (before, after) if before and after and before != after else ("", "")


def _homes_storage(plan: Plan) -> str:
    """Return the storage with homes and folders of groups; empty without people, or if each node has its own."""
    places = [*(user.home for user in plan.users), *(team.folder for team in plan.teams)]
    places += [plan.directory.homes] if plan.directory else []
    below = (one.name for one in plan.storage for place in places if place.startswith(f"{one.mount}/"))
    return next(below, "")


def moves_head(way: Sequence[PathStep], a: Plan, b: Plan) -> bool:
    """Whether the zone of the head changes: its own zone, or that of the first pool, which it follows."""
    if a.controller.zone == b.controller.zone or len(way) != 2 or way[-1] != PathStep("zone"):
        return False
    return way[0].key in (b.controller.name, _first_pool(b))


def _first_pool(plan: Plan) -> str:
    return declared_pools(plan.groups)[0].name


def _zonal_resources(plan: Plan) -> Iterator[Stateful]:
    """Yield resources in the zone of the head: volumes are zonal, and so are some file systems."""
    if plan.controller.volumes:
        yield Stateful(plan.scheduler.traits.keeps, plan.scheduler.protect, "scheduler.protect: false")
    yield from _database(plan)
    yield from (_storage(one) for one in plan.storage if _is_zonal(one))


def _server(plan: Plan) -> Iterator[Stateful]:
    """Yield the server of a Kubernetes that a cloud runs. It stays in its network, and so do its zones."""
    if plan.managed:
        yield Stateful("the server of Kubernetes", plan.scheduler.protect, "scheduler.protect: false")


def _database(plan: Plan) -> Iterator[Stateful]:
    """Yield the managed accounting database; one on the head is part of the scheduler's state."""
    if plan.scheduler.database == "managed":
        yield Stateful("the managed database", plan.scheduler.protect, "scheduler.protect: false")


def _is_zonal(one: Storage) -> bool:
    rows = (row for row in catalog.file_system_tiers().values() if row.kind == one.kind)
    return not one.existing and any(row.zone == "zone" for row in rows if one.tier in ("", row.tier))


def _is_in_network(one: Storage) -> bool:
    return (
        one.kind != DIRECTORY and not one.existing and catalog.file_systems()[one.kind].protocol not in WITHOUT_SUBNET
    )


def _storage(one: Storage) -> Stateful:
    return Stateful(one.name, one.protect, f"protect: false at {one.name}")
