"""Plan the scheduler: queues, priorities, accounts and topology."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from stampworks import catalog
from stampworks.declaration import Declaration, DeclarationSource
from stampworks.plan import (
    Account,
    AddOn,
    Fabric,
    Group,
    Part,
    Priority,
    Queue,
    Release,
    Scheduler,
    declared_pools,
    traits_of,
)
from stampworks.planning.build import addons
from stampworks.planning.build.groups import STATE
from stampworks.planning.build.launching import locked
from stampworks.planning.build.leaves import joined_nodes
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices, Managed

Topology = Literal["flat", "tree", "block"]
POOL_NODES_MAX = 4096
"""The maximum that the declaration allows."""
IDLE_MINUTES = 10
"""Default idle time. The next job still finds a machine soon after the last one, and no idle night is paid for."""
SCHEDULING_ONLY = "scheduling-only"
"""The queue of scheduling-only pools when no queue is declared."""


def build(
    source: DeclarationSource,
    release: Release,
    fabric: Fabric,
    groups: tuple[Group, ...],
    choices: Choices,
    notes: Notes,
) -> Scheduler:
    """Plan queues, priorities, accounts and topology. Note problems if the cloud lacks an ability."""
    declaration = source.sound
    declared = declaration.scheduler
    if declared.database == "managed" and not choices.managed_database:
        problem = f"{declaration.cloud} has no managed database for the accounting here"
        notes.problem("scheduler.database", problem, "take it out: the head runs the database")
    if declared.workloads_image and not choices.runs(declared.kind):
        problem = "nodes have the programs of proofs and runs installed, and use no image for them"
        notes.problem("scheduler.workloads_image", problem, "take it out")
    _access(declaration, choices, notes)
    topology, block_nodes = _topology(declaration, fabric, groups, notes)
    _preemption(declaration, notes)
    built = addons.build(declaration, release, fabric, groups, choices, notes)
    users: dict[str, list[str]] = {}
    for user in declaration.users:
        for name in user.accounts:
            users.setdefault(name, []).append(user.name)
    return Scheduler(
        kind=declared.kind,
        accounting=declared.accounting,
        preemption=declared.preemption,
        topology=topology,
        block_nodes=block_nodes,
        drain_timeout_minutes=declared.drain_timeout_minutes,
        idle_minutes=declared.idle_minutes or IDLE_MINUTES,
        protect=declared.protect,
        database=declared.database,
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
        addons=built,
        parts=_parts(built, source, release, choices.runs(declared.kind)),
        workloads_image=declared.workloads_image,
        api_from=declared.api_from,
        admins=declared.admins,
    )


def _access(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    """Check who may access a managed API server, and from where. Other schedulers refuse these fields."""
    declared, managed = declaration.scheduler, choices.runs(declaration.scheduler.kind)
    if managed is None:
        for name in ("api_from", "admins"):
            if getattr(declared, name):
                problem = "it is for a Kubernetes that the cloud runs, and this cluster does not use one"
                notes.problem(f"scheduler.{name}", problem, "take it out")
        return
    of_users = [f"{declaration.name}-{user.name}" for user in declaration.users]
    for index, admin in enumerate(declared.admins):
        problem, hint = managed.admin_refused(admin, declaration.region, of_users)
        if problem:
            notes.problem(f"scheduler.admins[{index}]", problem, hint)


def _parts(
    built: Iterable[AddOn], source: DeclarationSource, release: Release, managed: Managed | None
) -> tuple[Part, ...]:
    """Return the components of a managed Kubernetes, with the versions of the lock for its version."""
    if managed is None:
        return ()
    drivers = filter(None, (managed.drivers.get(each.kind) for each in source.sound.storage))
    brought = (managed.brought[each.name] for each in built if each.name in managed.brought)
    names = sorted({*managed.parts, *drivers, *brought})
    return tuple(Part(name, source.lock.parts.get(locked(name, release), "")) for name in names)


def _preemption(declaration: Declaration, notes: Notes) -> None:
    """Note how preemption works when priorities alone do not decide it."""
    declared, why = declaration.scheduler, ""
    if not any(priority.preempts for priority in declared.priorities):
        why = "but no priority preempts another, so that no job is preempted"
        if traits_of(declared.kind).lends:
            why = (
                "though no priority preempts another: teams that borrow make room for the owner and for "
                "teams with less of their share, however urgent"
            )
    elif traits_of(declared.kind).keeps_accounts and not declared.accounting:
        why = (
            "by queue: without accounting a job has the priority of its queue, and every queue above preempts it if "
            "any priority preempts its own"
        )
    if why and declared.preemption != "off":
        notes.reason("scheduler.preemption", f"{declared.preemption}, {why}")


def _queues(declaration: Declaration, notes: Notes) -> tuple[Queue, ...]:
    if declaration.scheduler.queues:
        return tuple(
            Queue(each.name, each.pools, each.default, each.time_limit_minutes, each.priority)
            for each in declaration.scheduler.queues
        )
    notes.reason("scheduler.queues", "the default: one queue with all pools that run jobs, without a time limit")
    others = tuple(pool.name for pool in declaration.pools if pool.scheduling_only)
    pools = tuple(pool.name for pool in declaration.pools if not pool.scheduling_only)
    if not pools:
        pools, others = others, ()
    main = Queue(name="main", pools=pools, default=True, time_limit_minutes=0, priority="")
    if not others:
        return (main,)
    notes.reason(f"scheduler.queues.{SCHEDULING_ONLY}", "pools for scheduling only have a queue of their own")
    return (main, Queue(name=SCHEDULING_ONLY, pools=others, default=False, time_limit_minutes=0, priority=""))


def _topology(
    declaration: Declaration, fabric: Fabric, groups: tuple[Group, ...], notes: Notes
) -> tuple[Topology, int]:
    """Return the topology that the scheduler knows, and the number of nodes in a block."""
    declared = declaration.scheduler.topology
    if declared == "block":
        return declared, _blocks(declaration, fabric, groups, notes)
    if declared == "tree" and not any(_meets_fabric(group) for group in groups):
        notes.reason("scheduler.topology", "flat: no node is known to have a rail, so that no tree can be described")
        return "flat", 0
    if declared == "tree" and fabric.leaf_nodes is None:
        notes.reason("scheduler.topology", "a tree that the cloud reports once the nodes run")
    return declared, 0


def _blocks(declaration: Declaration, fabric: Fabric, groups: tuple[Group, ...], notes: Notes) -> int:
    if fabric.leaf_nodes is not None and not fabric.nvlink_domains:
        notes.reason("scheduler.block_nodes", "a leaf is a block, for its nodes share a switch on every rail")
        _check_blocks(declaration, fabric.leaf_nodes, groups, "leaf", notes)
        return fabric.leaf_nodes
    pools = [group for group in groups if group.role == "worker"] or declared_pools(groups)
    machines = [catalog.machines()[group.machine.name] for group in pools]
    domains = [joined_nodes(machine) for machine in machines]
    if (size := min(domains)) > 1:
        notes.reason("scheduler.block_nodes", f"{size} nodes share an NVLink fabric, and are a block")
        _check_blocks(declaration, size, groups, "NVLink fabric", notes)
        return size
    alone = next(machine.name for machine, domain in zip(machines, domains, strict=True) if domain == 1)
    notes.problem(
        "scheduler.topology",
        f"a block is a leaf or an NVLink fabric of several nodes: the leaves are the cloud's own, and a {alone} shares "
        "its NVLink with no other node, or none is known",
        "write topology: tree",
    )
    return 0


def _meets_fabric(group: Group) -> bool:
    return catalog.known_nics(catalog.machines()[group.machine.name]) > 0


def _check_blocks(declaration: Declaration, size: int, groups: tuple[Group, ...], what: str, notes: Notes) -> None:
    """Refuse blocks with fewer nodes than the base block: slurmctld would exit."""
    if not traits_of(declaration.scheduler.kind).fills_blocks:
        return  # for other schedulers a block is a label, with any number of nodes
    for index, pool in enumerate(declared_pools(groups)):
        full, left = divmod(pool.count, size)
        if not _meets_fabric(pool):
            notes.problem(
                f"pools[{index}].machine",
                f"with topology: block every node belongs to a block, which is a {what}, and {pool.machine.name} of "
                f"pool {pool.name} has no NIC on the fabric",
                "write scheduler.topology: tree, or choose a machine with NICs",
            )
        elif left:
            leaves = f", a fabric.leaf_nodes that divides {pool.count}" if what == "leaf" else ""
            counts = [str(count) for count in (full * size, (full + 1) * size) if 1 <= count <= POOL_NODES_MAX]
            notes.problem(
                f"pools[{index}].count",
                f"with topology: block every {what} is a block of {size} nodes; {pool.count} nodes fill {full} and "
                f"leave {left} over, and Slurm does not start with a smaller block",
                f"write count: {' or '.join(counts)}{leaves}, or scheduler.topology: tree",
            )
