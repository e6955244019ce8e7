"""The one place where a cloud's name becomes its code."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import stampworks.clouds
from stampworks.cluster.refusal import refuse
from stampworks.plan import Plan, declared_pools
from stampworks.planning.rules.findings import Finding
from stampworks.planning.rules.images import OF_LOCK, lookups


class Cloud(NamedTuple):
    """What every cloud yields: modules whose `create` makes resources from a slice of the plan."""

    place: Any
    network: Any
    nodes: Any
    storage: Any


def rehearsed() -> tuple[str, ...]:
    """The clouds that there are components for."""
    return tuple(sorted(each.name for each in pkgutil.iter_modules(stampworks.clouds.__path__) if each.ispkg))


def stamped() -> tuple[str, ...]:
    """Those of them whose nodes can be found when they are there, without which no cluster comes about."""
    return tuple(cloud for cloud in rehearsed() if find_spec(f"stampworks.clouds.{cloud}.members"))


REHEARSAL = "STAMPWORKS_REHEARSAL"
"""A variable of the environment: set where nothing that is made is real."""


def left_out() -> tuple[str, ...]:
    """Rules that keep nobody from going on."""
    return OF_LOCK if os.environ.get(REHEARSAL) else ()


def refusals(plan: Plan, findings: Iterable[Finding]) -> list[tuple[str, str, str, bool]]:
    """Why no cluster is made of a plan that can be read and reviewed: the field, what about it, and what to do. And
    whether that is no mistake in the declaration."""
    found = []
    rehearsing = bool(os.environ.get(REHEARSAL))
    if plan.cloud not in (rehearsed() if rehearsing else stamped()):
        what = f"a cluster on {plan.cloud} can be planned and reviewed, and not stamped yet"
        shown = (
            "`stampworks rehearse` shows what it takes" if plan.cloud in rehearsed() else "`stampworks plan` shows it"
        )
        found.append(("cloud", what, f"there are components for {', '.join(stamped())}; {shown}"))
    if plan.scheduler.kind == "kubernetes":
        found.extend(_of_kubernetes(plan))
    failed = [one for one in findings if one.outcome == "fail" and one.id not in left_out()]
    ruled = [(one.place, one.refusal, one.hint, one.id in OF_LOCK) for one in failed]
    return [*((*each, False) for each in found), *ruled]


def _of_kubernetes(plan: Plan) -> Iterator[tuple[str, str, str]]:
    if plan.cloud not in with_kubernetes():
        what = f"a Kubernetes cluster on {plan.cloud} can be planned and reviewed, and not stamped yet"
        there = f"write kind: slurm; there are components for Kubernetes on {', '.join(with_kubernetes())}"
        yield "scheduler.kind", what, f"{there}; `stampworks plan` shows what it would be"
    for index, group in enumerate(declared_pools(plan.groups)):
        if group.role == "scheduling only" and plan.managed:
            what = f"pool {group.name} is for scheduling only, and nothing on {plan.cloud} simulates nodes"
            yield f"pools[{index}].scheduling_only", what, "take the pool out; `local` simulates as many as you like"
        if group.role == "worker" and group.machine.simulated and os.geteuid():
            here = f"on {plan.cloud} only root can divide a machine among pods"
            what = f"nodes of pool {group.name} would run pods, and {here}"
            yield f"pools[{index}]", what, "write scheduling_only: true, or do this as root"


def with_kubernetes() -> tuple[str, ...]:
    """The clouds whose Kubernetes there are components for."""
    return tuple(cloud for cloud in stamped() if find_spec(f"stampworks.clouds.{cloud}.scheduler"))


def load(plan: Plan) -> Cloud:
    """The components of the plan's cloud. Only that cloud's SDK gets imported. Refuses what can be planned only."""
    if found := refusals(plan, lookups(plan)):
        refuse("\n\n".join(f"{path}: {what}\n  hint: {hint}" for path, what, hint, _ in found))
    return Cloud(*(importlib.import_module(f"stampworks.clouds.{plan.cloud}.{part}") for part in Cloud._fields))


def scheduler(plan: Plan) -> Any:
    """What makes the Kubernetes of a cloud."""
    return importlib.import_module(f"stampworks.clouds.{plan.cloud}.scheduler")


def database(plan: Plan) -> Any:
    """What runs the database of the accounting, on a cloud that does."""
    return importlib.import_module(f"stampworks.clouds.{plan.cloud}.database")
