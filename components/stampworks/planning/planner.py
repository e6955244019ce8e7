"""From a declaration to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stampworks.declaration import Declaration, Source
from stampworks.plan import BUDGET_MINUTES, PLAN_VERSION, Budget, Group, Plan, Proof, Roll, Tag, User
from stampworks.planning import (
    expectations,
    extras,
    fabric,
    hardware,
    launching,
    layout,
    model,
    pods,
    release,
    scheduler,
    storage,
    training,
)
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Choices
from stampworks.planning.notes import Notes


def plan(source: Source) -> Plan:
    """What the declaration means, complete. Raises DeclarationError with every problem at the user's own line.

    Pure: the same declaration and catalog give the same plan, whoever asks, wherever and whenever.
    """
    notes, declaration = Notes(source), source.sound
    step = notes.step
    choices = step(lambda: CLOUDS[declaration.cloud])
    chosen_release = step(lambda: release.choose(declaration, notes))
    places = step(lambda: layout.lay_out(declaration, choices, notes))
    started = step(lambda: launching.launched(places.groups, source, chosen_release, choices, notes))
    equipped = step(lambda: hardware.equipped(started, chosen_release, declaration, notes))
    network = step(lambda: launching.connected(places.network, declaration, choices, notes))
    planned_pods = step(lambda: pods.build(declaration, places.network, places.groups, choices, notes))
    planned_fabric = step(lambda: fabric.build(declaration, places, choices, notes))
    planned_storage = step(lambda: storage.build(declaration, choices, notes))
    groups = step(lambda: storage.reached(equipped, declaration, notes))
    planned_scheduler = step(lambda: scheduler.build(declaration, planned_fabric, places.groups, choices, notes))
    planned_training = step(lambda: training.build(declaration.training, places.groups, planned_scheduler, notes))
    notes.refuse_problems()
    kept = storage.of_checkpoints(planned_storage, planned_training.checkpoints.directory, declaration.cloud)
    trained = model.expect(planned_training, places.groups, planned_scheduler, kept, notes)
    reached = expectations.expect(planned_fabric, places.groups, notes)
    return Plan(
        version=PLAN_VERSION,
        name=declaration.name,
        cloud=declaration.cloud,
        region=declaration.region,
        release=hardware.equipment(chosen_release, groups, declaration),
        network=replace(network, pods=planned_pods),
        fabric=planned_fabric,
        groups=groups,
        storage=planned_storage,
        scheduler=planned_scheduler,
        users=tuple(User(each.name, each.uid, each.accounts) for each in declaration.users),
        tags=tuple(Tag(each.name, each.value) for each in declaration.tags),
        budget=_budget(declaration, choices, notes),
        extras=extras.build(declaration),
        proof=_proof(declaration, notes),
        roll=_roll(declaration, places.groups),
        training=planned_training,
        reasons=notes.reasons,
        expectations=(
            *reached,
            *storage.expect(planned_storage, places.groups, declaration.cloud),
            *trained,
        ),
    )


def _proof(declaration: Declaration, notes: Notes) -> Proof:
    declared = declaration.proof
    if declared.level == "burn-in" and not declared.budget_minutes:
        notes.reason("proof.budget_minutes", "a burn-in goes on for hours: what fails when it is warm fails late")
    budget_minutes = declared.budget_minutes or BUDGET_MINUTES[declared.level]
    return Proof(declared.level, budget_minutes, declared.failed_nodes_max)


def _budget(declaration: Declaration, choices: Choices, notes: Notes) -> Budget:
    declared = declaration.budget
    if declared.monthly_usd or declared.notify:
        nobody = f"a rule judges the plan by it, and nothing that is made on {declaration.cloud} watches what is spent"
        notes.reason("budget", choices.told or nobody)
    return Budget(declared.monthly_usd, declared.notify)


def _roll(declaration: Declaration, groups: Sequence[Group]) -> Roll:
    percent = declaration.roll.max_unavailable_percent
    pools = [group for group in groups if group.role == "worker"]
    return Roll(tuple((pool.name, max(1, pool.count * percent // 100)) for pool in pools), declaration.roll.jobs)
