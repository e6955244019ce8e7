"""The order of a rehearsal: preview, up, up again, the scenario's changes, refresh, destroy; then what may go wrong."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from stampworks.rehearsal import steps
from stampworks.rehearsal.engine import Engine, EngineError, Ran
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.result import CriticalPath, Phase, Rehearsal, Step
from stampworks.rehearsal.scenario import Failure, Scenario
from stampworks.rehearsal.servers import Servers, installed
from stampworks.rehearsal.stack import Stack, changed

_UP = ("up", "--yes", "--skip-preview")
_DESTROY = ("destroy", "--yes", "--skip-preview")


@dataclass(frozen=True)
class Stage:
    """A world in which nothing was created yet, and an engine to create it with."""

    engine: Engine
    recording: Recording

    def up(self, *options: str) -> Ran:
        return _must(self.engine.run(*_UP, *options), "up")

    def orphans(self) -> list[str]:
        """What is there and in no state: a second one of something, or something that nobody would find."""
        known = {(each["urn"], each.get("id")) for each in self.engine.state()}
        return [
            f"{steps.shown(urn)} ({identity})"
            for urn, identity in self.recording.world.there
            if (urn, identity) not in known
        ]


def rehearse(stack: Stack, scenario: Scenario, say: Callable[[str], None], record: TextIO | None = None) -> Rehearsal:
    """EngineError when the engine does not even do what every stack must be able to."""
    # what the scenario says of changes is held against the declaration before anything is run
    configs: list[Mapping[str, Any]] = [stack.config]
    for change in scenario.changes:
        configs.append(changed(stack, configs[-1], change))

    with Servers() as servers:
        with _stage(servers, stack, scenario, record) as stage:
            phases, path, without = _life(stage, scenario, configs[1:], say)
        for failure in scenario.failures:
            say(str(failure))
            with _stage(servers, stack, scenario, record) as stage:
                phases.append(_failed(stage, failure))
    return Rehearsal(stack.name, installed(), tuple(phases), path, without)


@contextlib.contextmanager
def _stage(servers: Servers, stack: Stack, scenario: Scenario, record: TextIO | None) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="stampworks-rehearsal-") as folder:
        engines: list[Engine] = []
        recording = Recording(scenario.latency, lambda: engines[0].kill(), record)
        with servers.serving(recording) as ports:
            engines.append(Engine(Path(folder), stack, ports))
            yield Stage(engines[0], recording)


def _life(
    stage: Stage, scenario: Scenario, configs: list[Mapping[str, Any]], say: Callable[[str], None]
) -> tuple[list[Phase], CriticalPath, tuple[str, ...]]:
    """From nothing to nothing."""
    say("preview")
    previewed = steps.steps(_must(stage.engine.run("preview"), "preview"))
    phases = [Phase("preview", "pass", f"{len(previewed)} to create", previewed)]
    say("up")
    made = steps.steps(stage.up())
    phases.append(Phase("up", "pass", f"{len(made)} created", made))
    state = stage.engine.state()
    say("up again")
    phases.append(_unchanged("up again", stage.up()))
    for change, config in zip(scenario.changes, configs, strict=True):
        say(f"change: {change.name}")
        stage.engine.configure(config)
        phases.append(_change(change.name, stage.engine.run(*_UP)))
    say("refresh")
    phases.append(_unchanged("refresh", _must(stage.engine.run("refresh", "--yes", "--skip-preview"), "refresh")))
    say("destroy")
    without = steps.unruled([*state, *stage.engine.state()])
    phases.append(_destroy(stage))
    return phases, steps.critical_path(state, scenario.latency), without


def _unchanged(name: str, ran: Ran) -> Phase:
    done, changes = steps.steps(ran), steps.changes(ran)
    return Phase(name, "fail" if changes else "pass", f"{changes} changes", done)


def _change(name: str, ran: Ran) -> Phase:
    done = steps.steps(ran)
    if ran.code:
        return Phase(f"change: {name}", "fail", "refused by the engine", done, ran.errors)
    return Phase(f"change: {name}", "pass", _counted(done) or "nothing changes", done)


def _destroy(stage: Stage) -> Phase:
    """What is protected has to refuse; then it is unprotected, in this state and nowhere else."""
    guarded = [steps.shown(each["urn"]) for each in stage.engine.state() if each.get("protect")]
    notes: list[str] = []
    if guarded:
        refused = stage.engine.run(*_DESTROY)
        kept = {steps.shown(each["urn"]) for each in stage.engine.state()}
        if not refused.code or not kept.issuperset(guarded):
            return Phase("destroy", "fail", "deleted what is protected", steps.steps(refused))
        notes.append(f"refused, for these are protected: {', '.join(guarded)}")
        notes.append("they were unprotected in this rehearsal's own state, and destroyed")
        stage.engine.aside("state", "unprotect", "--all", "--yes")
    done = steps.steps(_must(stage.engine.run(*_DESTROY), "destroy"))
    left = [steps.shown(each["urn"]) for each in stage.engine.state()]
    if left:
        return Phase("destroy", "fail", f"left in the state: {', '.join(left)}", done, tuple(notes))
    notes += [f"kept by the cloud, and in no state: {orphan}" for orphan in stage.orphans()]
    return Phase("destroy", "pass", f"{len(done)} deleted", done, tuple(notes))


def _failed(stage: Stage, failure: Failure) -> Phase:
    """An `up` that fails, and the next one, which has to finish what the first one left."""
    name = f"failure: {failure}"
    stage.recording.begin(failure)
    # one at a time, so that the k-th creation is the same one in every rehearsal
    first = stage.engine.run(*_UP, "--parallel", "1")
    world = stage.recording.world
    if not world.hit:
        return Phase(name, "unknown", f"never happened: none of {world.creates} creations is meant")
    if failure.kind == "throttle":
        notes = tuple(f"answered with `later` {failure.times} times: {steps.shown(urn)}" for urn in world.hit)
        found = "the provider did not go on" if first.code else "the provider tried again, and went on"
        return Phase(name, "fail" if first.code else "pass", found, (), (*notes, *first.errors))
    left: tuple[str, ...] = (*first.errors, f"left in the state: {len(stage.engine.state())} resources")
    if failure.kind == "crash":
        left += tuple(f"was being created: {steps.shown(urn)}" for urn in stage.engine.pending())
        stage.engine.aside("cancel", "--yes")
    stage.recording.begin(None)
    second = stage.engine.run(*_UP)
    done = steps.steps(second)
    if second.code:
        return Phase(name, "fail", "the next up does not finish", done, (*left, *second.errors))
    if orphans := stage.orphans():
        over = (f"there, and in no state: {orphan}" for orphan in orphans)
        return Phase(name, "fail", "the next up finishes, and leaves something over", done, (*left, *over))
    return Phase(name, "pass", "the next up finishes, with nothing twice", done, left)


def _counted(done: tuple[Step, ...]) -> str:
    ops = [each.op for each in done]
    return ", ".join(f"{ops.count(op)} {op}" for op in dict.fromkeys(ops))


def _must(ran: Ran, verb: str) -> Ran:
    if ran.code:
        said = "\n".join(ran.errors) or ran.said
        raise EngineError(f"the rehearsed {verb} failed:\n{said}")
    return ran
