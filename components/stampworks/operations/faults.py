"""Inject faults into a running cluster, to test its checks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from stampworks.clouds.contract import Faults
from stampworks.clouds.faults import ON_RAILS, Fault, Injected, chosen
from stampworks.clouds.registry import CLOUDS
from stampworks.operations.errors import InputError, nearest
from stampworks.plan import Plan, Roster


def catalogue(cloud: str) -> Mapping[str, Fault]:
    """All kinds of faults that the cloud can make, by name."""
    return _of(cloud).FAULTS


def injected(plan: Plan) -> tuple[tuple[Injected, bool | None], ...]:
    """Return the injected faults, and whether each still exists: a repair may have removed it.

    None if unknown, as on a node that is down.
    """
    cloud = _of(plan.cloud)
    return tuple((one, cloud.there(plan, one)) for one in cloud.recorded(plan.name))


def inject(
    plan: Plan, roster: Roster, name: str, node: str, rail: str, severity: float | None, seed: int | None
) -> tuple[Injected, int]:
    """Inject a fault and return it with the seed. The seed chooses omitted options, and is itself chosen at random if
    omitted."""
    cloud = _of(plan.cloud)
    fault = _named(name, cloud.FAULTS)
    _expect_noticed(fault, plan)
    _expect_in_range(fault, severity)
    places = _places(plan, roster, fault, node, rail)
    number = secrets.randbelow(1 << 32) if seed is None else seed
    one = chosen(fault, places, severity, number)
    cloud.inject(plan, one)
    return one, number


def clear(plan: Plan, name: str = "", node: str = "") -> tuple[Injected, ...]:
    """Clear injected faults: all, or those of a name, a node or a leaf. Return the cleared ones."""
    cloud = _of(plan.cloud)
    if name:
        _named(name, cloud.FAULTS)
    recorded = cloud.recorded(plan.name)
    wanted = [one for one in recorded if name in ("", one.fault) and node in ("", one.where)]
    if node and not wanted:
        known = {each.name for pool in plan.pools for each in pool.nodes} | {leaf.name for leaf in plan.fabric.leaves}
        _expect_known(node, known | {one.where for one in recorded}, plan)
    for one in wanted:
        cloud.clear(plan, one)
    return tuple(wanted)


def _of(cloud: str) -> Faults:
    able = {name: each.faults for name, each in CLOUDS.items() if each.faults}
    if cloud not in able:
        raise InputError(
            f"faults cannot be injected in the cloud {cloud!r}",
            f"faults are for test clusters, in the cloud {', '.join(able)}",
        )
    return able[cloud]()


def _named(name: str, faults: Mapping[str, Fault]) -> Fault:
    if name not in faults:
        raise InputError(f"no fault is called {name!r}", nearest(name, faults))
    return faults[name]


def _expect_noticed(fault: Fault, plan: Plan) -> None:
    """Refuse a fault that nothing would notice."""
    if fault.slurm and plan.scheduler.traits.runs_pods:
        raise InputError(
            f"{fault.name} has no effect on cluster {plan.name}: it is about Slurm", "stampworks fault list"
        )


def _expect_in_range(fault: Fault, severity: float | None) -> None:
    if severity is None:
        return
    if fault.severity is None:
        raise InputError(f"{fault.name} has no severity", "leave out --severity")
    scale = fault.severity
    if not scale.low <= severity <= scale.high or (scale.whole and severity != round(severity)):
        number = "a whole number" if scale.whole else "a number"
        raise InputError(
            f"severity {severity:g} is not valid for {fault.name}",
            f"{number} from {scale.low:g} to {scale.high:g}: {scale.what}",
        )


def _places(plan: Plan, roster: Roster, fault: Fault, node: str, rail: str) -> list[tuple[str, str]]:
    """Return the possible places of a fault, limited to the requested ones."""
    known = {each.name: each for pool in plan.pools for each in pool.nodes}
    leaves = {leaf.name for leaf in plan.fabric.leaves}
    interfaces = [each.interface for each in plan.fabric.rails]
    if node:
        _expect_known(node, {*known, *(leaves if fault.place == "trunk" else ())}, plan)
    if rail and fault.place not in ON_RAILS:
        raise InputError(f"{fault.name} is about a node, not a rail", "leave out --rail")
    if rail and rail not in interfaces:
        raise InputError(f"no rail is called {rail!r} in cluster {plan.name}", nearest(rail, interfaces))
    here = known[node].leaf if fault.place == "trunk" and node in known else node
    found = [each for each in _all_places(plan, roster, fault) if here in ("", each[0]) and rail in ("", each[1])]
    if not found:
        asked = " ".join(word for word in (node, rail) if word) or f"cluster {plan.name}"
        raise InputError(f"{fault.name} cannot be injected: {asked} has no {fault.place} for it", _WHY_NOT[fault.place])
    return found


_WHY_NOT = {
    "node": "a node must be running to be broken: `pulumi up` starts what is dead",
    "rail": "a node must be running, and have the rail: `stampworks plan` shows the rails",
    "trunk": "leaves have trunks when there are two or more: `stampworks plan` shows them",
    "shared directory": "declare one under storage:, and check that the node is running",
    "accelerators": "check that the node is running, and that its machine has accelerators",
}


def _all_places(plan: Plan, roster: Roster, fault: Fault) -> list[tuple[str, str]]:
    if fault.place == "trunk":
        return [(trunk.leaf, rail.interface) for rail in plan.fabric.rails for trunk in rail.trunks]
    up = {member.name for member in roster.members}
    running = [(pool, node) for pool in plan.pools for node in pool.nodes if node.name in up]
    if fault.place == "rail":
        on = [(node.name, plan.fabric.rails[: len(node.rail_addresses)]) for _, node in running]
        return [(name, rail.interface) for name, rails in on for rail in rails]
    if fault.place == "shared directory" and not plan.storage:
        return []
    return [(node.name, "") for pool, node in running if fault.place != "accelerators" or pool.machine.accelerators]


def _expect_known(name: str, known: set[str], plan: Plan) -> None:
    if name not in known:
        raise InputError(f"no node is called {name!r} in cluster {plan.name}", nearest(name, known))
