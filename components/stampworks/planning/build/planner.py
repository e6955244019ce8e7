"""Turn a declaration into a plan: the stages, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from stampworks.declaration import Declaration, DeclarationSource
from stampworks.plan import (
    BUDGET_MINUTES,
    PLAN_VERSION,
    AccountTerms,
    Budget,
    Directory,
    Extras,
    Fabric,
    Group,
    Hosts,
    Logs,
    Network,
    Plan,
    Pods,
    Proof,
    Release,
    Roll,
    Scheduler,
    Software,
    Storage,
    Tag,
    Team,
    Training,
    User,
)
from stampworks.planning.build import (
    existing,
    expectations,
    extras,
    fabric,
    hardware,
    hosts,
    launching,
    layout,
    logs,
    model_expectations,
    pods,
    release,
    scheduler,
    storage,
    training,
    users,
)
from stampworks.planning.build.layout import ClusterLayout
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Choices

_LATER: Any = object()
"""A placeholder for a part that no stage has made yet. A stage that reads it is at the wrong place in the list, and
fails."""


@dataclass(frozen=True)
class Draft:
    """The parts of a plan that are made so far. Each stage reads the parts above it and makes one."""

    declared: Declaration
    source: DeclarationSource
    """The declaration's file, and its lock."""
    notes: Notes
    """Collects problems and reasons, in the order of the stages."""
    name: str = _LATER
    cloud: str = _LATER
    region: str = _LATER
    choices: Choices = _LATER
    """The choices of the cloud."""
    logs: Logs = _LATER
    release: Release = _LATER
    """All software of the release. The last stage that makes it adds drivers and clients for the groups."""
    placed: ClusterLayout = _LATER
    """Groups with machines, names and addresses. Later stages that need nothing else read this part, which does not
    change."""
    groups: tuple[Group, ...] = _LATER
    """The placed groups with everything that later stages add."""
    hosts: Hosts | None = _LATER
    """Machines that exist; None where the cloud makes them."""
    tags: tuple[Tag, ...] = _LATER
    pods: Pods | None = _LATER
    network: Network = _LATER
    account: AccountTerms = _LATER
    fabric: Fabric = _LATER
    storage: tuple[Storage, ...] = _LATER
    scheduler: Scheduler = _LATER
    training: Training = _LATER
    homes: str = _LATER
    """Mount point of the file system with homes; empty if there is none."""
    users: tuple[User, ...] = _LATER
    teams: tuple[Team, ...] = _LATER
    directory: Directory | None = _LATER
    image_parts: tuple[Software, ...] = _LATER
    budget: Budget = _LATER
    extras: Extras = _LATER
    proof: Proof = _LATER
    roll: Roll = _LATER

    @property
    def with_pods(self) -> Network:
        """Return the placed network with the addresses of pods."""
        return replace(self.placed.network, pods=self.pods)


STAGES: tuple[tuple[str, Callable[[Draft], Any]], ...] = (
    ("name", lambda d: d.declared.name),
    ("cloud", lambda d: d.declared.cloud),
    ("region", lambda d: d.declared.region),
    ("choices", lambda d: CLOUDS[d.declared.cloud]),
    ("logs", lambda d: logs.build(d.declared, d.choices, d.notes)),
    ("release", lambda d: release.choose(d.declared, d.choices, d.logs, d.notes)),
    ("placed", lambda d: layout.lay_out(d.declared, d.choices, d.notes)),
    # three stages return the groups with additions: launch parameters, hardware roles, and NICs for storage
    ("groups", lambda d: launching.launched(d.placed.groups, d.source, d.release, d.choices, d.notes)),
    ("tags", lambda d: launching.tagged(d.declared, d.groups, d.choices, d.notes)),
    ("groups", lambda d: hardware.equipped(d.groups, d.release, d.declared, d.notes)),
    ("pods", lambda d: pods.build(d.declared, d.placed.network, d.placed.groups, d.choices, d.notes)),
    ("network", lambda d: launching.connected(d.with_pods, d.declared, d.choices, d.notes)),
    ("account", lambda d: existing.terms(d.declared, d.choices, d.notes)),
    ("fabric", lambda d: fabric.build(d.declared, d.placed, d.choices, d.notes)),
    ("hosts", lambda d: hosts.build(d.source, d.placed.groups, d.notes)),
    ("fabric", lambda d: hosts.joined(d.fabric, d.hosts, d.placed.groups, d.notes)),
    ("storage", lambda d: storage.build(d.declared, d.choices, d.notes)),
    ("groups", lambda d: storage.reached(d.groups, d.declared, d.notes)),
    ("scheduler", lambda d: scheduler.build(d.source, d.release, d.fabric, d.placed.groups, d.choices, d.notes)),
    ("training", lambda d: training.build(d.declared.training, d.placed.groups, d.scheduler, d.notes)),
    ("release", lambda d: hardware.equipment(d.release, d.groups, d.declared)),
    ("image_parts", lambda d: hardware.image_parts(d.release, d.groups, d.declared)),
    ("homes", lambda d: users.place_of_homes(d.declared, d.notes)),
    ("users", lambda d: users.users(d.declared, d.homes)),
    ("teams", lambda d: users.teams(d.declared, d.homes)),
    ("directory", lambda d: users.directory(d.declared, d.homes, d.notes)),
    ("budget", lambda d: _budget(d.declared, d.choices, d.notes)),
    ("extras", lambda d: extras.build(d.declared)),
    ("proof", lambda d: _proof(d.declared, d.notes)),
    ("roll", lambda d: _roll(d.declared, d.placed.groups)),
)
"""The stages. Each is the part that it makes, and a function of the parts that the stages above it made.

To add a stage, add a line here; for a new part a field of `Draft`, and of `Plan` if the part stays in the plan.
"""


def plan(source: DeclarationSource) -> Plan:
    """Return the complete meaning of a declaration. Raises DeclarationError with every problem at the user's own line.

    Pure: the same declaration and catalog give the same plan for everybody, everywhere and at any time.
    """
    return completed(*draft(source))


def draft(source: DeclarationSource) -> tuple[Plan, Notes]:
    """Return the plan without expectations. For a wrong declaration, it has the parts that do not depend on the errors.

    Reading another part raises AbsentError.
    """
    notes = Notes(source)
    made = Draft(source.sound, source, notes)
    for part, stage in STAGES:
        made = replace(made, **{part: notes.step(stage, made)})
    parts = {field.name: getattr(made, field.name) for field in fields(Plan) if hasattr(made, field.name)}
    return Plan(version=PLAN_VERSION, reasons=(), expectations=(), **parts), notes


def completed(made: Plan, notes: Notes) -> Plan:
    """Return the complete plan of a draft without problems, with the expectations that follow from it."""
    notes.refuse_problems()
    kept = storage.of_checkpoints(made.storage, made.groups, made.training.checkpoints.directory, made.cloud)
    trained = model_expectations.expect(made.training, made.groups, made.scheduler, kept, notes)
    reached = expectations.expect(made.fabric, made.groups, notes)
    stored = storage.expect(made.storage, made.groups, made.cloud)
    return replace(made, reasons=notes.reasons, expectations=(*reached, *stored, *trained))


def _proof(declaration: Declaration, notes: Notes) -> Proof:
    declared = declaration.proof
    if declared.level == "burn-in" and not declared.budget_minutes:
        notes.reason("proof.budget_minutes", "a burn-in runs for hours, because faults of warm hardware show late")
    budget_minutes = declared.budget_minutes or BUDGET_MINUTES[declared.level]
    return Proof(declared.level, budget_minutes, declared.failed_nodes_max)


def _budget(declaration: Declaration, choices: Choices, notes: Notes) -> Budget:
    declared = declaration.budget
    if declared.monthly_usd or declared.notify:
        nobody = f"a rule compares the plan with it; on {declaration.cloud} nothing watches the bill"
        notes.reason("budget", choices.told or nobody)
    return Budget(declared.monthly_usd, declared.notify)


def _roll(declaration: Declaration, groups: Sequence[Group]) -> Roll:
    percent = declaration.roll.max_unavailable_percent
    pools = [group for group in groups if group.role == "worker"]
    return Roll(tuple((pool.name, max(1, pool.count * percent // 100)) for pool in pools), declaration.roll.jobs)
