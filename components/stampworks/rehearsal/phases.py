"""Phases of a rehearsal: preview, up, up again, the scenario's changes, refresh, destroy; then each failure."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from stampworks.rehearsal import steps
from stampworks.rehearsal.checks import refuse_wrong
from stampworks.rehearsal.engine import Engine, EngineError, Ran, State
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.result import Phase, Rehearsal, ResourceStep
from stampworks.rehearsal.rules import rules_of, token_of
from stampworks.rehearsal.scenario import InjectedFailure, Scenario
from stampworks.rehearsal.servers import Servers, packages
from stampworks.rehearsal.stack import Stack, changed

_UP = ("up", "--yes", "--skip-preview")
_DESTROY = ("destroy", "--yes", "--skip-preview")


@dataclass(frozen=True)
class Stage:
    """A world without resources, and an engine to create them with."""

    engine: Engine
    recording: Recording

    def up(self, *options: str) -> Ran:
        """Run `pulumi up`, and raise an error if it fails."""
        return _must(self.engine.run(*_UP, *options), "up")

    def orphans(self, state: State, gone: Collection[str] = ()) -> list[str]:
        """Return resources that exist and are in no state: duplicates or lost ones.

        `gone` are those that disappeared with another resource, without a deletion of their own.
        """
        known = {(each["urn"], each.get("id")) for each in state.resources}
        return [
            f"{steps.shown(urn)} ({identity})"
            for urn, identity in self.recording.world.there
            if (urn, identity) not in known and urn not in gone
        ]


def rehearse(stack: Stack, scenario: Scenario, say: Callable[[str], None], record: TextIO | None = None) -> Rehearsal:
    """Rehearse a stack.

    Raise DeclarationError with the faults of the scenario. Raise EngineError when the engine fails at a step that every
    stack must pass.
    """
    refuse_wrong(stack, scenario)
    with Servers() as servers:
        with _stage(servers, stack, scenario, record) as stage:
            found, creations = _life(stage, stack, scenario, say)
        phases = [*found.phases]
        for failure in scenario.failures:
            say(str(failure))
            with _stage(servers, stack, scenario, record) as stage:
                phases.append(_failed(stage, failure.numbered(creations)))
    return replace(found, phases=tuple(phases))


@contextlib.contextmanager
def _stage(servers: Servers, stack: Stack, scenario: Scenario, record: TextIO | None) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="stampworks-rehearsal-") as folder:
        engines: list[Engine] = []
        recording = Recording(scenario.latency, lambda: engines[0].kill(), record)
        with servers.serving(recording) as ports:
            engines.append(Engine(Path(folder), stack, ports))
            try:
                yield Stage(engines[0], recording)
            finally:
                engines[0].end()  # an interrupt may come before a started process is known


def _life(
    stage: Stage, stack: Stack, scenario: Scenario, say: Callable[[str], None]
) -> tuple[Rehearsal, Sequence[str]]:
    """Run the life of a stack from nothing to nothing. Also return the creations of its first `up`."""
    say("preview")
    ran = _must(stage.engine.run("preview"), "preview")
    phases = [Phase("preview", "pass", f"{len(steps.creations(ran))} to create", steps.steps(ran))]
    say("up")
    ran = stage.up()
    made, creations = steps.steps(ran), steps.creations(ran)
    phases.append(Phase("up", "pass", f"{len(creations)} created", made))
    first = stage.engine.state().resources
    say("up again")
    phases.append(_unchanged("up again", stage.up()))
    phases += _changes(stage, stack, scenario, say)
    say("refresh")
    phases.append(_unchanged("refresh", _must(stage.engine.run("refresh", "--yes", "--skip-preview"), "refresh")))
    say("destroy")
    last = stage.engine.state()
    phases.append(_destroy(stage, last))
    path = steps.critical_path(first, {**scenario.latency, **scenario.durations})
    there = [*first, *last.resources]
    unmet = {*scenario.latency, *scenario.durations} - {each["type"] for each in there}
    return Rehearsal(
        stack.name,
        packages(),
        tuple(phases),
        path,
        steps.unruled(there),
        steps.outputs(first),
        types_never_met=tuple(sorted(unmet)),
    ), creations


def _unchanged(name: str, ran: Ran) -> Phase:
    done, changes = steps.steps(ran), steps.changes(ran)
    return Phase(name, "fail" if changes else "pass", f"{changes} changes", done)


def _changes(stage: Stage, stack: Stack, scenario: Scenario, say: Callable[[str], None]) -> Iterator[Phase]:
    """Yield a phase for each change. Changes add up, except those that are refused."""
    config = stack.config
    for change in scenario.changes:
        name = f"change: {change.name}"
        say(name)
        after = changed(stack, config, change)
        stage.engine.configure(after)
        ran = stage.engine.run("up", "--yes")  # preview first: a change that the preview refuses is not half done
        done = steps.steps(ran)
        if ran.code:
            yield Phase(name, "fail", f"refused by {ran.refused_by}", done, ran.errors)
            stage.engine.configure(config)
        else:
            config = after
            yield Phase(name, "pass", _counted(done) or "nothing changes", done)


def _destroy(stage: Stage, last: State) -> Phase:
    """Destroy the stack.

    Protected resources have to refuse first. Then remove the protection in this rehearsal's state only.
    """
    guarded = [steps.shown(each["urn"]) for each in last.resources if each.get("protect")]
    done: tuple[ResourceStep, ...] = ()
    notes: list[str] = []
    if guarded:
        refused = stage.engine.run("destroy", "--yes")  # preview first, as users run it
        if not refused.code or len(stage.engine.state().resources) < len(last.resources):
            return Phase("destroy", "fail", "deletes something although resources are protected", steps.steps(refused))
        notes.append(f"refused by its preview, for these are protected: {', '.join(guarded)}")
        unseen = stage.engine.run(*_DESTROY)
        done = steps.steps(unseen)
        kept = {each["urn"] for each in stage.engine.state().resources}
        if not unseen.code or not {steps.shown(urn) for urn in kept}.issuperset(guarded):
            return Phase("destroy", "fail", "deleted protected resources", done)
        if gone := [each for each in last.resources if each["urn"] not in kept and each.get("custom")]:
            lost = steps.kinds(last.resources, gone)
            notes.append(f"with --skip-preview {len(gone)} others were deleted before the engine refused: {lost}")
        notes.append("they were unprotected in this rehearsal's own state, and destroyed")
        stage.engine.aside("state", "unprotect", "--all", "--yes")
    done += steps.steps(_must(stage.engine.run(*_DESTROY), "destroy"))
    left = stage.engine.state()
    if left.resources:
        names = ", ".join(steps.shown(each["urn"]) for each in left.resources)
        return Phase("destroy", "fail", f"left in the state: {names}", done, tuple(notes))
    inside = [each["urn"] for each in last.resources if each.get("deletedWith")]
    notes += [f"deleted with their containers: {len(inside)}"] if inside else []
    notes += [f"kept by the cloud, and in no state: {orphan}" for orphan in stage.orphans(left, inside)]
    return Phase("destroy", "pass", f"{sum(each.counted for each in done)} deleted", done, tuple(notes))


def _failed(stage: Stage, failure: InjectedFailure) -> Phase:
    """Run an `up` that fails, and the next one, which has to complete it."""
    name = f"failure: {failure}"
    stage.recording.begin(failure)
    # Run one operation at a time, so that no other one is in progress.
    first = stage.engine.run(*_UP, "--parallel", "1")
    world = stage.recording.world
    if not world.hit:
        _must(first, "up")
        return Phase(name, "unknown", f"never happened: it matches none of {world.creates} creations")
    met = tuple(map(steps.shown, dict.fromkeys(world.hit)))
    refused = tuple(_refused(*each) for each in Counter(world.hit).items()) if failure.kind == "throttle" else ()
    if refused and not first.code:
        return Phase(name, "pass", "the provider tried again, and went on", (), refused, met)
    state = stage.engine.state()
    left = (
        *refused,
        *first.errors,
        f"left in the state: {len(state.resources)} resources",
        *(f"was being created: {steps.shown(urn)}" for urn in state.pending),
    )
    if failure.kind == "crash":
        stage.engine.aside("cancel", "--yes")
    stage.recording.begin(None)
    second = stage.engine.run(*_UP)
    done = steps.steps(second)
    if second.code:
        return Phase(name, "fail", "the next up does not finish", done, (*left, *second.errors), met)
    if orphans := stage.orphans(stage.engine.state()):
        over = (f"there, and in no state: {orphan}" for orphan in orphans)
        return Phase(name, "fail", "the next up finishes, and leaves something behind", done, (*left, *over), met)
    return Phase(name, "pass", "the next up finishes, with nothing twice", done, left, met)


def _refused(urn: str, times: int) -> str:
    rules = rules_of(token_of(urn).partition(":")[0])
    said = rules.attempts_source or "for no rule is known by which it tries again"
    return f"told {times} times to try later: {steps.shown(urn)}; attempts of its provider: {rules.attempts}, {said}"


def _counted(done: tuple[ResourceStep, ...]) -> str:
    ops = [each.op for each in done if each.counted]
    return ", ".join(f"{ops.count(op)} {op}" for op in dict.fromkeys(ops))


def _must(ran: Ran, verb: str) -> Ran:
    if ran.code:
        said = "\n".join(ran.errors) or ran.said
        raise EngineError(f"the rehearsed {verb} failed:\n{said}")
    return ran
