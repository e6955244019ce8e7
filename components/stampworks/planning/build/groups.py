"""The groups of nodes as declared: the controller, login nodes and pools, each with its machine."""

from __future__ import annotations

from dataclasses import replace

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.plan import CONTROLLER, LOGIN, STATE_DIRECTORY, Group, Machine, Offer, Volume, traits_of
from stampworks.planning.build import hosts
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices

STATE = Volume("state", STATE_DIRECTORY)
"""The volume of the scheduler's state, which has no other copy."""


def machine_facts(row: catalog.Machine) -> Machine:
    """Return the facts of a machine that later steps need."""
    memory_gib = catalog.accelerators()[row.accelerator].memory_gib if row.accelerator else 0
    return Machine(
        name=row.name,
        simulated=row.simulated,
        accelerator=row.accelerator,
        accelerators=row.accelerators,
        accelerator_memory_gib=known(memory_gib),
        cores=known(row.cores),
        threads=known(row.threads),
        memory_mib=known(row.memory_mib),
    )


def known(fact: int | catalog.Unknown) -> int | None:
    """Return a fact of the catalog, or None for an unknown one."""
    return None if isinstance(fact, catalog.Unknown) else fact


def controller_group(declaration: Declaration, choices: Choices, notes: Notes) -> Group:
    """Plan the group of the head, on the machine that the cloud's choices name."""
    row = catalog.machines()[choices.controller_machine]
    managed = choices.runs(declaration.scheduler.kind)
    notes.reason(f"groups.{CONTROLLER}.machine", choices.controller_why)
    existing = hosts.listed(declaration)
    if managed:
        notes.reason(f"groups.{CONTROLLER}.count", managed.system_why)
    elif existing:
        notes.reason(f"groups.{CONTROLLER}.volumes", f"none: {STATE_DIRECTORY} is on the disk of the machine")
    else:
        notes.reason(
            f"groups.{CONTROLLER}.volumes",
            "apart from the controller's disk, so that a new disk does not lose "
            f"{traits_of(declaration.scheduler.kind).keeps}",
        )
    return Group(
        name=CONTROLLER,
        role="controller",
        machine=machine_facts(row),
        count=managed.system_nodes if managed else 1,
        count_min=managed.system_nodes if managed else 1,
        nodes=(),
        volumes=() if managed or existing else (STATE,),
        rails=known(row.nics),
        purchase="owned" if row.billing_unit == "none" else choices.purchases[0],
        zone="",
        reservation="",
    )


def login_groups(declaration: Declaration, head: Group, notes: Notes) -> list[Group]:
    """Return one group if login nodes are declared: nodes like the head, without the scheduler's state."""
    count = declaration.scheduler.login_nodes
    if not count:
        return []
    notes.reason(f"groups.{LOGIN}.machine", "the machine of the head, for people only submit jobs there")
    return [replace(head, name=LOGIN, role="login", count=count, count_min=count, nodes=(), volumes=())]


def pool_group(declaration: Declaration, index: int, row: catalog.Machine, choices: Choices) -> Group:
    """Plan the group of a declared pool, without its nodes and addresses."""
    pool = declaration.pools[index]
    return Group(
        name=pool.name,
        role="scheduling only" if pool.scheduling_only else "worker",
        machine=machine_facts(row),
        count=pool.count,
        count_min=pool.count if pool.count_min is None else pool.count_min,
        nodes=(),
        volumes=(),
        rails=0 if pool.scheduling_only else known(row.nics),
        purchase=pool.purchase or choices.purchases[0],
        zone=pool.zone,
        reservation=pool.reservation,
        fallbacks=tuple(Offer(each.purchase, each.reservation, placed_together=False) for each in pool.fallbacks),
    )


def node_names(pool: Group) -> list[str]:
    """Return the names of a pool's nodes, if the plan names them."""
    return [f"{pool.name}-{number:03d}" for number in range(1, pool.count + 1)]
