"""Find the running cluster of a stack by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampworks.cli import connections, exits, stacks, stamped

if TYPE_CHECKING:
    from stampworks.plan import Plan, Roster


def plan_of(stack: str) -> Plan:
    """The plan that a cluster was stamped with."""
    if found := connections.read(stack):
        return found.plan
    return stacks.plan_of(stack) if stack.endswith(".json") else stamped.plan_of(stack)


def cluster_of(stack: str) -> tuple[Plan, Roster]:
    """Return the stamped plan and the current members of a cluster. Raise an error if none runs."""
    plan = plan_of(stack)
    return plan, members_of(plan, stack)


def workers_of(stack: str) -> tuple[Plan, Roster]:
    """Return the same for verbs without ssh, which includes clusters whose nodes only Kubernetes knows."""
    from stampworks.operations.kubernetes import nodes as kubernetes_nodes

    plan = plan_of(stack)
    if hers := connections.roster_of(stack):
        return plan, hers
    if not plan.managed:
        return plan, members_of(plan, stack)
    if not plan.scheduler.workloads_image:
        what = (
            f"nodes of cluster {plan.name} lack the programs of Stampworks, and scheduler.workloads_image "
            "names no image"
        )
        raise exits.CliError(what, "build an image from workloads/Containerfile, and write its name there")
    return plan, kubernetes_nodes.roster(plan.name, plan.cloud, plan.region, [pool.name for pool in plan.pools])


def asked_of(plan: Plan, stack: str) -> Roster:
    """Return the members of the cluster if its scheduler needs a member; else an empty roster."""
    from stampworks.operations.schedulers import port_of
    from stampworks.plan import Roster

    if hers := connections.roster_of(stack):
        return hers
    if port_of(plan.scheduler.kind).asks_members:
        return members_of(plan, stack)
    return Roster(plan.name, plan.cloud, (), "", "", (), plan.region)


def known_of(plan: Plan, stack: str) -> Roster:
    """Return all members that run jobs or lead to them, for a user's connection; none of nodes that run nothing."""
    from stampworks.operations.kubernetes import nodes as kubernetes_nodes

    if plan.managed:
        return kubernetes_nodes.roster(plan.name, plan.cloud, plan.region, [pool.name for pool in plan.pools])
    return members_of(plan, stack) if plan.stamped else asked_of(plan, stack)


def members_of(plan: Plan, stack: str) -> Roster:
    """Return the members of a plan's cluster now; raise CliError when no cluster runs."""
    from stampworks.operations import members
    from stampworks.operations.errors import start

    if not plan.stamped:
        what = f"all nodes of cluster {plan.name} are for scheduling only, and run nothing"
        raise exits.CliError(what, "declare a pool without scheduling_only: true")
    if plan.managed:
        what = (
            f"nodes of cluster {plan.name} are managed by {plan.cloud}: they have no programs of Stampworks and no ssh"
        )
        hint = "use stampworks status, drain, return, qualify, submit, jobs, logs or kubectl"
        raise exits.CliError(what, hint)
    if found := connections.read(stack):
        if found.kubeconfig:
            what = f"nodes of cluster {plan.name} are for its administrators: users reach their jobs alone"
            raise exits.CliError(what, "stampworks jobs and logs show them, and kubectl asks as the user")
        return found.roster
    roster = members(plan.cloud, plan.name, plan.region)
    if not roster.members:
        hint = start() if stack.endswith(".json") else start(stack)
        raise exits.CliError(f"no cluster of stack {stack!r} is running", hint, code=exits.NO)
    return roster
