"""Machines that exist, in the text of a plan."""

from __future__ import annotations

from stampworks.plan import Plan
from stampworks.text.names import fold
from stampworks.views.table import sparse


def listed(plan: Plan, width: int) -> list[str]:
    """Return the machines of each group, and those in reserve, as the first `up` chooses them."""
    if plan.hosts is None:
        return []
    via = f" through {plan.hosts.via.address}" if plan.hosts.via else ""
    rows = []
    for group in plan.running:
        ids = [each.id for each in plan.hosts.of_group(group.name)]
        racks = sorted({each.rack for each in plan.hosts.of_group(group.name) if each.rack})
        rows.append((group.name, fold(ids[: group.count]), fold(ids[group.count :]), fold(racks)))
    return [f"Hosts, as {plan.hosts.user}{via}", *sparse(("group", "machines", "in reserve", "racks"), rows, width)]
