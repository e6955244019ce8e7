"""The only place that chooses a scheduler. Each is imported when chosen, so that no verb waits for the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stampworks.plan import Plan, Roster, SchedulerKind

if TYPE_CHECKING:
    from stampworks.operations.port import Port
    from stampworks.operations.run import Commands
    from stampworks.operations.service import Service
    from stampworks.operations.status import ClusterStatus, NodesStatus


def port_of(kind: SchedulerKind) -> Port:
    """Return the port of a kind of scheduler."""
    match kind:
        case "slurm":
            from stampworks.operations.slurm import scheduler as slurm

            return slurm.PORT
        case "kubernetes":
            from stampworks.operations.kubernetes import scheduler as kubernetes

            return kubernetes.PORT


def service_of(plan: Plan, roster: Roster) -> Service:
    """Return the scheduler's nodes in and out of service."""
    return port_of(plan.scheduler.kind).service(plan, roster)


def commands_of(plan: Plan, roster: Roster) -> Commands:
    """Return the scheduler's single commands. Raise InputError if it runs none."""
    return port_of(plan.scheduler.kind).commands(plan, roster)


def status_of(plan: Plan, roster: Roster) -> ClusterStatus:
    """Ask the scheduler for the state of the cluster."""
    return port_of(plan.scheduler.kind).status(plan, roster)


def nodes_of(plan: Plan, roster: Roster, names: Sequence[str]) -> NodesStatus:
    """Ask the scheduler for the state of these nodes."""
    return port_of(plan.scheduler.kind).nodes(plan, roster, names)
