"""The only place where a cloud's name is mapped to its code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stampworks import catalog
from stampworks.clouds.registry import CLOUDS, needed, rehearsed, stamped, with_kubernetes
from stampworks.cluster.refusal import refuse
from stampworks.plan import Plan, declared_pools
from stampworks.planning.rules.findings import Finding
from stampworks.planning.rules.images import OF_LOCK, lookups, stops

if TYPE_CHECKING:
    from stampworks.clouds.components import (
        ControlPlane,
        Database,
        DatabaseMaker,
        Disk,
        Drivers,
        ElasticMaker,
        JoinedMaker,
        Network,
        NodeGroup,
        Place,
        PoolMaker,
        Resources,
        ServerMaker,
        Stored,
        VolumeMaker,
    )
    from stampworks.clouds.contract import Kubernetes

REHEARSAL = "STAMPWORKS_REHEARSAL"
"""Environment variable that is set if all created resources are simulated."""


def left_out() -> tuple[str, ...]:
    """Return the ids of rules that block no `up`."""
    return OF_LOCK if os.environ.get(REHEARSAL) else ()


def refusals(plan: Plan, findings: Iterable[Finding]) -> list[tuple[str, str, str, bool]]:
    """Return the reasons why a valid plan is not created: field, text, hint, and whether the declaration itself is
    correct."""
    found = []
    rehearsing = bool(os.environ.get(REHEARSAL))
    if plan.cloud not in (rehearsed() if rehearsing else stamped()):
        what = f"a cluster on {plan.cloud} can be planned and reviewed, and not stamped yet"
        shown = (
            "`stampworks rehearse` shows what it takes" if plan.cloud in rehearsed() else "`stampworks plan` shows it"
        )
        found.append(("cloud", what, f"there are components for {', '.join(stamped())}; {shown}"))
    elif plan.cloud in catalog.MACHINES_EXIST and plan.hosts is None:
        hint = "list them: docs/how-to/hosts.md"
        found.append(("hosts", "the cluster is stamped on machines that exist, and none are listed", hint))
    if plan.scheduler.traits.control_plane:
        found.extend(_kubernetes_refusals(plan))
    failed = [one for one in findings if stops(one) and one.id not in left_out()]
    ruled = [(one.place, one.refusal, one.hint, one.id in OF_LOCK) for one in failed]
    return [*((*each, False) for each in found), *ruled]


def _kubernetes_refusals(plan: Plan) -> Iterator[tuple[str, str, str]]:
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


def load(plan: Plan) -> Resources[Place, Network, Stored, Disk, NodeGroup]:
    """Return the components of the plan's cloud. Import only its SDK. Refuse clouds that can only be planned."""
    if found := refusals(plan, lookups(plan)):
        refuse("\n\n".join(f"{path}: {what}\n  hint: {hint}" for path, what, hint, _ in found))
    return CLOUDS[plan.cloud].resources()


def elastic(plan: Plan) -> ElasticMaker[Place, NodeGroup]:
    """Return the maker of elastic nodes. Raise an error that names the cloud if it has none."""
    return needed(CLOUDS[plan.cloud].elastic, "elastic nodes", plan.cloud).make()


def database(plan: Plan) -> DatabaseMaker[Place, Database]:
    """Return the maker of the managed accounting database. Raise an error if the cloud has none."""
    return needed(CLOUDS[plan.cloud].database, "database", plan.cloud)()


def server(plan: Plan) -> ServerMaker[Network, ControlPlane]:
    """Return the maker of a Kubernetes control plane."""
    return _kubernetes(plan).server()


def pools(plan: Plan) -> PoolMaker[ControlPlane, NodeGroup]:
    """Return the maker of a managed Kubernetes' node groups. Raise an error if the cloud has none."""
    return needed(_kubernetes(plan).managed, "Kubernetes with nodes of its own", plan.cloud).make()


def volumes(plan: Plan) -> VolumeMaker[Place, Disk]:
    """Return the maker of disks that outlive a node. Raise an error if the cloud has none."""
    return needed(CLOUDS[plan.cloud].resources().volumes, "volumes", plan.cloud)


def joined(plan: Plan) -> JoinedMaker[ControlPlane]:
    """Return the maker for nodes that join a Kubernetes by themselves. Raise an error if the cloud has none."""
    return needed(_kubernetes(plan).joined, "Kubernetes that nodes join", plan.cloud).make()


def drivers(plan: Plan) -> Drivers[Stored]:
    """Return the maker of the drivers that mount file systems in pods. Raise an error if the cloud has none."""
    return needed(_kubernetes(plan).drivers, "file systems for pods", plan.cloud)()


def _kubernetes(plan: Plan) -> Kubernetes:
    return needed(CLOUDS[plan.cloud].kubernetes, "Kubernetes", plan.cloud)
