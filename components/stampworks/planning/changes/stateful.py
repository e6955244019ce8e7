"""What holds data and would be made anew, empty, by a change of the place that it stands in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stampworks import catalog
from stampworks.changes.differences import PathStep
from stampworks.declaration.values import DIRECTORY
from stampworks.plan import Plan, Storage, declared_pools
from stampworks.planning.build.storage import WITHOUT_SUBNET


@dataclass(frozen=True)
class Stateful:
    """A file system, or what the scheduler keeps."""

    name: str
    protect: bool
    let_go: str
    """What to write before it may go."""


def anew(way: Sequence[PathStep], a: Plan, b: Plan) -> tuple[Stateful, ...]:
    """Of the plan before; where the plan numbers the ports itself, folders and volumes stay where they are."""
    if not a.network.subnets:
        return ()
    if tuple(way) == (PathStep("network"), PathStep("cidr")):
        return (*_database(a), *(_storage(one) for one in a.storage if _in_the_network(one)))
    return tuple(_in_the_zone(a)) if moves_head(way, a, b) else ()


def moves_head(way: Sequence[PathStep], a: Plan, b: Plan) -> bool:
    """Whether it is the zone that the head is in: its own, or that of the first pool, which it follows."""
    if a.controller.zone == b.controller.zone or len(way) != 2 or way[-1] != PathStep("zone"):
        return False
    return way[0].key in (b.controller.name, _first_pool(b))


def _first_pool(plan: Plan) -> str:
    return declared_pools(plan.groups)[0].name


def _in_the_zone(plan: Plan) -> Iterator[Stateful]:
    """A volume is in one zone, and so are some file systems: where the head is."""
    if plan.controller.volumes:
        yield Stateful(plan.scheduler.traits.keeps, plan.scheduler.protect, "scheduler.protect: false")
    yield from _database(plan)
    yield from (_storage(one) for one in plan.storage if _in_one_zone(one))


def _database(plan: Plan) -> Iterator[Stateful]:
    """That of the accounting, where it is no part of what the head keeps."""
    if plan.scheduler.database == "managed":
        yield Stateful("the managed database", plan.scheduler.protect, "scheduler.protect: false")


def _in_one_zone(one: Storage) -> bool:
    rows = (row for row in catalog.file_system_tiers().values() if row.kind == one.kind)
    return any(row.zone == "zone" for row in rows if one.tier in ("", row.tier))


def _in_the_network(one: Storage) -> bool:
    return one.kind != DIRECTORY and catalog.file_systems()[one.kind].protocol not in WITHOUT_SUBNET


def _storage(one: Storage) -> Stateful:
    return Stateful(one.name, one.protect, f"protect: false at {one.name}")
