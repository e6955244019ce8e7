"""Decide which check runs when: a conversation between the campaign and a cluster that answers.

Pure: a campaign asks for measurements and receives the answers and their duration, so that a simulated cluster can
answer like a real one. Steps that reveal most for their time come first. Settled questions are not asked again, neither
about a failed node nor about a rail. Everything that does not fit into the time is unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from stampworks.plan import Level
from stampworks.qualification import levels, windows
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import CheckFinding, finding_without_number
from stampworks.qualification.levels import CheckStep
from stampworks.qualification.results import Heard, about
from stampworks.qualification.subject import Subject

START_S = 1.0
"""The shortest start through a scheduler, in seconds; it limits the number of starts within a budget."""


class _TimeUpError(Exception):
    """The budget ran out before or during a question, which the text names."""


@dataclass
class _Budget:
    minutes: float
    left_s: float


def campaign(
    subject: Subject, nodes: Sequence[str], level: Level, evidence: Evidence, seconds: float | None = None
) -> Campaign:
    """Measure these nodes step by step; each step gets the nodes that no earlier step has failed."""
    minutes = subject.proof.budget_minutes
    budget = _Budget(minutes, 60 * minutes if seconds is None else seconds)
    for step in levels.steps(level):
        if not (still := _unsettled(nodes, evidence)):
            return
        if step.seconds > budget.left_s:
            why = f"not measured: it takes about {step.seconds:g} s, and of the budget of {minutes:g} min "
            _leave_out(step, still, evidence, f"{why}{max(0.0, budget.left_s):.0f} s are left")
            continue
        try:
            yield from _finished(step, _still_open(step, subject, evidence), still, evidence, budget)
        except _TimeUpError as error:
            _leave_out(step, _unsettled(still, evidence), evidence, str(error))
    if level == "burn-in":
        yield from _rounds(subject, nodes, evidence, budget)


def _finished(step: CheckStep, subject: Subject, nodes: Sequence[str], evidence: Evidence, budget: _Budget) -> Campaign:
    while still := _unsettled(nodes, evidence):
        found = Evidence()
        try:
            lost = yield from _run_step(step.campaign(subject, still, found), budget)
        except _TimeUpError:  # findings made before the time ran out still count
            evidence.add(found.findings, found.measured)
            raise
        if not lost:
            evidence.add(found.findings, found.measured)
            return
        # The other nodes' answers depended on the lost ones: ask them once more.
        evidence.add([finding_without_number("answering", "fail", (node,), why) for node, why in lost.items()])


def _rounds(subject: Subject, nodes: Sequence[str], evidence: Evidence, budget: _Budget) -> Campaign:
    """Repeat all steps while time is left: faults that appear only when warm, or now and then, show in later rounds."""
    over_time = windows.OverTime(subject.by_machine(tuple(nodes)))
    over_time.end_of_round(evidence)
    steps, rounds = levels.steps("burn-in"), 1
    least = min(2, len(nodes))  # a single node has already shown all that can be shown with others
    while len(still := _unsettled(nodes, evidence)) >= least and sum(step.seconds for step in steps) <= budget.left_s:
        found = Evidence()
        with contextlib.suppress(_TimeUpError):  # each of these steps was measured before
            for step in steps:
                left = _unsettled(_unsettled(nodes, evidence), found)
                yield from _finished(step, _still_open(step, subject, evidence), left, found, budget)
            rounds += 1
            for node, why in over_time.end_of_round(found).items():
                evidence.add([finding_without_number("burn-in", "fail", (node,), why)])
        _add_news(found, evidence, "in a later round: ")
    evidence.add([], over_time.measured())
    if still:
        evidence.add([_burnt_in(still, rounds, budget)])


def _add_news(found: Evidence, evidence: Evidence, when: str) -> None:
    """Add findings that are new; a pass in a later round is no news."""
    known = {(each.check, each.verdict, each.nodes, each.rail, each.quantity) for each in evidence.findings}
    for each in found.findings:
        if each.verdict != "pass" and (each.check, each.verdict, each.nodes, each.rail, each.quantity) not in known:
            evidence.add([replace(each, why=when + each.why)])


def _burnt_in(nodes: tuple[str, ...], rounds: int, budget: _Budget) -> CheckFinding:
    if rounds > 1:
        return finding_without_number("burn-in", "pass", nodes, f"{rounds} rounds, and not slower in the last")
    why = f"the budget of {budget.minutes:g} min holds no second round, and a node that gets slower shows only in two"
    return finding_without_number("burn-in", "unknown", nodes, why)


def _unsettled(nodes: Sequence[str], evidence: Evidence) -> tuple[str, ...]:
    return tuple(node for node in nodes if node not in evidence.failed)


def _still_open(step: CheckStep, subject: Subject, evidence: Evidence) -> Subject:
    """Return the subject with only those rails about which the step may still learn something."""
    if not step.of_rails:
        return subject
    settled = {each.rail for each in evidence.findings if each.verdict == "fail" and not each.nodes}
    rails = tuple(rail for rail in subject.fabric.rails if rail.interface not in settled)
    return replace(subject, fabric=replace(subject.fabric, rails=rails))


def _leave_out(step: CheckStep, nodes: tuple[str, ...], evidence: Evidence, why: str) -> None:
    evidence.add([finding_without_number(check, "unknown", nodes, why) for check in step.checks if nodes])


def _run_step(step: Campaign, budget: _Budget) -> Generator[Ask, Heard, Mapping[str, str]]:
    """Run a step until it ends, loses nodes or runs out of time."""
    heard: Heard | None = None
    while True:
        try:
            asked = step.send(heard) if heard else next(step)
        except StopIteration:
            return {}
        if budget.left_s < START_S:
            step.close()
            raise _TimeUpError(f"the budget of {budget.minutes:g} min was used up before: {asked.what}")
        heard = about((yield replace(asked, seconds=min(asked.seconds, budget.left_s))), asked.nodes)
        budget.left_s -= max(START_S, heard.seconds)
        if heard.lost:
            return heard.lost
        if budget.left_s <= 0:  # a truncated answer looks better than it is
            step.close()
            raise _TimeUpError(f"the budget of {budget.minutes:g} min was used up during: {asked.what}")
