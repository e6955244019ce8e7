"""Faults of a local cluster, injected on purpose: the catalogue, and the faults that are active."""

from __future__ import annotations

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults import record
from stampworks.clouds.local.faults.catalogue import CATALOGUE
from stampworks.clouds.local.faults.site import Site
from stampworks.machine_room import RoomError
from stampworks.machine_room.disks import disk_of
from stampworks.machine_room.room import Room, of_cluster
from stampworks.plan import Plan

FAULTS = {name: fault for name, (fault, _) in CATALOGUE.items()}


def recorded(cluster: str) -> tuple[Injected, ...]:
    """Return the faults that were injected and not cleared, in the best order to clear them: a node must run first."""
    order = list(CATALOGUE)
    found = record.read(of_cluster(cluster))
    return tuple(sorted(found, key=lambda one: order.index(one.fault)))


def there(plan: Plan, one: Injected) -> bool | None:
    """Whether the cluster has this fault now, for any cause; None if unknown."""
    room = of_cluster(plan.name)
    if _is_gone(room, plan, one):
        return False
    try:
        return CATALOGUE[one.fault][1].there(Site(plan, room), one)
    except RoomError:
        return None


def inject(plan: Plan, one: Injected) -> None:
    """Inject a fault. Clear an earlier one of this kind in this place first."""
    room = of_cluster(plan.name)
    with room.locked():
        earlier = [each for each in record.read(room) if (each.fault, each.place) == (one.fault, one.place)]
        for each in earlier:
            if each != one:
                _clear(plan, room, each)
        if not FAULTS[one.fault].once:
            record.add(room, one)  # record it first, so that a partly injected fault is known
        CATALOGUE[one.fault][1].inject(Site(plan, room), one)


def clear(plan: Plan, one: Injected) -> None:
    """Clear a fault, even if it is partly or fully cleared."""
    room = of_cluster(plan.name)
    with room.locked():
        _clear(plan, room, one)


def _clear(plan: Plan, room: Room, one: Injected) -> None:
    if not _is_gone(room, plan, one):
        CATALOGUE[one.fault][1].clear(Site(plan, room), one)
    record.remove(room, one)


def _is_gone(room: Room, plan: Plan, one: Injected) -> bool:
    """Whether the node or leaf no longer exists, so that its fault has ended."""
    leaves = {leaf.name for leaf in plan.fabric.leaves}
    return disk_of(room, one.where).commission is None and one.where not in leaves
