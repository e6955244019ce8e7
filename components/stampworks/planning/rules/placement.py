"""Places: regions, zones and subnets of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.changes.outcomes import NOT_STAMPED
from stampworks.plan import Plan
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Finding
from stampworks.planning.rules.pools import by_name, running


def stamped(plan: Plan) -> Iterator[Finding]:
    """Clusters on this cloud can be stamped, and not only planned, estimated and reviewed."""
    if not CLOUDS[plan.cloud].stamped:
        can = ", ".join(name for name, choices in CLOUDS.items() if choices.stamped)
        text = f"clusters on {plan.cloud} can be planned, estimated and reviewed, and not stamped yet"
        yield Finding(NOT_STAMPED, "fail", text, f"take one of {can} to stamp it", "cloud", "warning")
    elif plan.cloud in catalog.MACHINES_EXIST and plan.hosts is None:
        text = f"clusters on {plan.cloud} are stamped on machines that exist, and none are listed"
        yield Finding(NOT_STAMPED, "fail", text, "list them: docs/how-to/hosts.md", "hosts", "warning")


def region(plan: Plan) -> Iterator[Finding]:
    """The cloud has the region, and this toolkit can create clusters there.

    A region that is missing from the catalog's list is refused before there is a plan.
    """
    if plan.region and plan.cloud not in catalog.regions() and plan.fabric.leaf_nodes is None:
        text = f"whether {plan.cloud} has a region {plan.region}: the catalog has no list of its regions"
        yield Finding("placement.region", "unknown", text, f"look it up at {plan.cloud}", "region", "warning")
    if why := CLOUDS[plan.cloud].region_apart(plan.region):
        yield Finding("placement.region", "fail", why, "take a region of the others", "region")


def zones(plan: Plan) -> Iterator[Finding]:
    """All pools of a fabric are in one zone: a fabric ends where its zone does."""
    pools = [pool for pool in by_name(plan) if pool.rails]
    if not plan.region or not pools or plan.fabric.leaf_nodes is not None:
        return  # where the plan places the nodes, no cloud chooses a zone
    named = {pool.name: pool.zone for pool in pools if pool.zone}
    if len({*named.values()}) > 1:
        where = ", ".join(f"{name} in {zone}" for name, zone in named.items())
        text = (
            f"pools of one fabric are in several zones ({where}): no fabric leaves its zone, and jobs cannot share it"
        )
        yield Finding("placement.zones", "fail", text, "put them into one zone, or into clusters of their own", "pools")
    elif missing := [pool.name for pool in pools if not pool.zone]:
        text = f"{', '.join(missing)} names no zone, and the cloud may spread the nodes over several"
        yield Finding("placement.zones", "unknown", text, "write the zone at the pool", "pools")
    else:
        yield Finding("placement.zones", "pass", f"all pools of the fabric are in {pools[0].zone}", "", "pools")


def subnets_of_nodes(plan: Plan) -> Iterator[Finding]:
    """All pools are in the zone of the subnet that their nodes share."""
    if not plan.network.egress:
        return
    for where, pool in running(plan):
        if pool.zone != plan.network.zone:
            chosen = plan.network.zone or "the one that the cloud chooses"
            text = (
                f"pool {pool.name} is declared in {pool.zone or 'whichever zone the cloud chooses'}, but the subnet of "
                f"nodes is in {chosen}, the zone of the first pool, and a subnet is in one zone"
            )
            hint = "write the same zone at all pools, or declare a second cluster"
            yield Finding("placement.subnet", "fail", text, hint, f"{where}.zone", subject=pool.name)
