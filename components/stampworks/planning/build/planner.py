"""From a declaration to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stampworks.declaration import Declaration, Source
from stampworks.plan import BUDGET_MINUTES, PLAN_VERSION, Budget, Group, Plan, Proof, Roll, User
from stampworks.planning.build import expectations
from stampworks.planning.build import extras
from stampworks.planning.build import fabric
from stampworks.planning.build import hardware
from stampworks.planning.build import launching
from stampworks.planning.build import layout
from stampworks.planning.build import logs
from stampworks.planning.build import model
from stampworks.planning.build import pods
from stampworks.planning.build import release
from stampworks.planning.build import scheduler
from stampworks.planning.build import storage
from stampworks.planning.build import training
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Choices
from stampworks.planning.build.notes import Notes


def plan(source: Source) -> Plan:
    """What the declaration means, complete. Raises DeclarationError with every problem at the user's own line.

    Pure: the same declaration and catalog give the same plan, whoever asks, wherever and whenever.
    """
    return completed(*draft(source))


def completed(made: Plan, notes: Notes) -> Plan:
    """A draft without problems, with what the plan is expected to reach."""
    notes.refuse_problems()
    kept = storage.of_checkpoints(made.storage, made.groups, made.training.checkpoints.directory, made.cloud)
    trained = model.expect(made.training, made.groups, made.scheduler, kept, notes)
    reached = expectations.expect(made.fabric, made.groups, notes)
    stored = storage.expect(made.storage, made.groups, made.cloud)
    return replace(made, reasons=notes.reasons, expectations=(*reached, *stored, *trained))


def draft(source: Source) -> tuple[Plan, Notes]:
    """All but what the plan is expected to reach; and of a wrong declaration what does not depend on what is wrong.

    Whoever reads another part of that gets an AbsentError.
    """
    notes, declaration = Notes(source), source.sound
    step = notes.step
    choices = step(lambda: CLOUDS[declaration.cloud])
    planned_logs = step(lambda: logs.build(declaration, choices, notes))
    chosen_release = step(lambda: release.choose(declaration, choices, planned_logs, notes))
    places = step(lambda: layout.lay_out(declaration, choices, notes))
    started = step(lambda: launching.launched(places.groups, source, chosen_release, choices, notes))
    equipped = step(lambda: hardware.equipped(started, chosen_release, declaration, notes))
    planned_pods = step(lambda: pods.build(declaration, places.network, places.groups, choices, notes))
    network = step(lambda: launching.connected(replace(places.network, pods=planned_pods), declaration, choices, notes))
    planned_fabric = step(lambda: fabric.build(declaration, places, choices, notes))
    planned_storage = step(lambda: storage.build(declaration, choices, notes))
    groups = step(lambda: storage.reached(equipped, declaration, notes))
    planned_scheduler = step(
        lambda: scheduler.build(source, chosen_release, planned_fabric, places.groups, choices, notes)
    )
    planned_training = step(lambda: training.build(declaration.training, places.groups, planned_scheduler, notes))
    made = Plan(
        version=PLAN_VERSION,
        name=step(lambda: declaration.name),
        cloud=step(lambda: declaration.cloud),
        region=step(lambda: declaration.region),
        release=step(lambda: hardware.equipment(chosen_release, groups, declaration)),
        network=network,
        fabric=planned_fabric,
        groups=groups,
        storage=planned_storage,
        scheduler=planned_scheduler,
        users=step(lambda: tuple(User(each.name, each.uid, each.accounts) for each in declaration.users)),
        tags=step(lambda: launching.tagged(declaration, started, choices, notes)),
        budget=step(lambda: _budget(declaration, choices, notes)),
        logs=planned_logs,
        extras=step(lambda: extras.build(declaration)),
        proof=step(lambda: _proof(declaration, notes)),
        roll=step(lambda: _roll(declaration, places.groups)),
        training=planned_training,
        reasons=(),
        expectations=(),
    )
    return made, notes


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
