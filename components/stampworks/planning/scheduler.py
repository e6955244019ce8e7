"""The scheduler's part of a plan: queues, priorities, accounts and what it knows of the fabric."""

from __future__ import annotations

from typing import Literal

from stampworks.declaration import Declaration
from stampworks.plan import Account, Group, Priority, Queue, Scheduler
from stampworks.planning.layout import STATE
from stampworks.planning.notes import Notes

Topology = Literal["flat", "tree", "block"]
POOL_NODES_MAX = 1024
"""What the declaration allows."""
SCHEDULING_ONLY = "scheduling-only"
"""The queue of pools for scheduling only, where no queue is declared."""


def build(declaration: Declaration, groups: tuple[Group, ...], notes: Notes) -> Scheduler:
    declared = declaration.scheduler
    if declared.kind == "kubernetes":
        notes.problem(
            "scheduler.kind",
            "this version of Stampworks stamps Slurm clusters only",
            "write kind: slurm; pools, fabric, storage and queues of this declaration stay as they are",
        )
    topology = _topology(declaration, groups, notes)
    if declared.preemption != "off" and not any(priority.preempts for priority in declared.priorities):
        notes.reason(
            "scheduler.preemption", f"{declared.preemption}, but no priority preempts another: no job makes room"
        )
    elif declared.preemption != "off" and not declared.accounting:
        notes.reason(
            "scheduler.preemption",
            f"{declared.preemption}, by queue: without accounting a job has the priority of its queue, and makes room "
            "for every queue above if any priority preempts its own",
        )
    users: dict[str, list[str]] = {}
    for user in declaration.users:
        for name in user.accounts:
            users.setdefault(name, []).append(user.name)
    return Scheduler(
        kind=declared.kind,
        accounting=declared.accounting,
        preemption=declared.preemption,
        topology=topology,
        block_nodes=declaration.fabric.leaf_nodes if topology == "block" else 0,
        drain_timeout_minutes=declared.drain_timeout_minutes,
        protect=declared.protect,
        state_directory=STATE.mount,
        queues=_queues(declaration, notes),
        priorities=tuple(Priority(each.name, each.weight, each.preempts) for each in declared.priorities),
        accounts=tuple(
            Account(
                name=account.name,
                users=tuple(users.get(account.name, ())),
                share=account.share,
                accelerators_max=account.accelerators_max,
            )
            for account in declared.accounts
        ),
    )


def _queues(declaration: Declaration, notes: Notes) -> tuple[Queue, ...]:
    if declaration.scheduler.queues:
        return tuple(
            Queue(each.name, each.pools, each.default, each.time_limit_minutes, each.priority)
            for each in declaration.scheduler.queues
        )
    notes.reason(
        "scheduler.queues", "none is declared, so that one queue has all pools that run jobs, and no time limit"
    )
    pools = tuple(pool.name for pool in declaration.pools if not pool.scheduling_only)
    main = Queue(name="main", pools=pools, default=True, time_limit_minutes=0, priority="")
    others = tuple(pool.name for pool in declaration.pools if pool.scheduling_only)
    if not others:
        return (main,)
    notes.reason(f"scheduler.queues.{SCHEDULING_ONLY}", "pools for scheduling only have a queue of their own")
    return (main, Queue(name=SCHEDULING_ONLY, pools=others, default=False, time_limit_minutes=0, priority=""))


def _topology(declaration: Declaration, groups: tuple[Group, ...], notes: Notes) -> Topology:
    declared = declaration.scheduler.topology
    if declared == "block":
        notes.reason("scheduler.block_nodes", "a leaf is a block, for its nodes share a switch on every rail")
        _check_blocks(declaration, groups, notes)
    elif declared == "tree" and not any(node.leaf for group in groups for node in group.nodes):
        notes.reason("scheduler.topology", "flat: no node has a rail, so that there is no tree to describe")
        return "flat"
    return declared


def _check_blocks(declaration: Declaration, groups: tuple[Group, ...], notes: Notes) -> None:
    """Refuses what slurmctld would die of: a block with fewer nodes than the base block."""
    size = declaration.fabric.leaf_nodes
    for index, pool in enumerate(group for group in groups if group.role != "controller"):
        full, left = divmod(pool.count, size)
        if not pool.nodes[0].leaf:
            notes.problem(
                f"pools[{index}].machine",
                f"with topology: block every node belongs to a block, which is a leaf, and {pool.machine.name} of "
                f"pool {pool.name} has no NIC on the fabric",
                "write scheduler.topology: tree, or choose a machine with NICs",
            )
        elif left:
            counts = [str(count) for count in (full * size, (full + 1) * size) if 1 <= count <= POOL_NODES_MAX]
            notes.problem(
                f"pools[{index}].count",
                f"with topology: block every leaf is a block of {size} nodes; {pool.count} nodes fill {full} and leave "
                f"{left} over, and Slurm does not start with a smaller block",
                f"write count: {' or '.join(counts)}, a fabric.leaf_nodes that divides {pool.count}, or "
                "scheduler.topology: tree",
            )
