"""The pools of a plan, for rules."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.plan import Group, Plan, declared_pools


def running(plan: Plan) -> Iterator[tuple[str, Group]]:
    """Yield the pools whose nodes run jobs, each with its place in the declaration."""
    declared = enumerate(declared_pools(plan.groups))
    return ((f"pools[{index}]", pool) for index, pool in declared if pool.role == "worker")


def by_name(plan: Plan) -> list[Group]:
    """Return the pools sorted by name: their declared order may have no meaning, so that no finding may depend on
    it."""
    return sorted(plan.pools, key=lambda pool: pool.name)
