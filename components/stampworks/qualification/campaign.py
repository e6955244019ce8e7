"""Which check comes when: a conversation between what has to be known and a cluster that can be asked.

Pure: a campaign asks for measurements and is sent what was heard, and how long that took, so that a simulated cluster
can answer as well as a real one. What tells most for its time comes first; what is settled is asked nothing more,
neither a node that has failed nor a rail. What its time does not allow is unknown.
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
"""No start through a scheduler takes less: so many of them fit into a budget at most."""


class _TimeUpError(Exception):
    """The budget was used up before or during a question, which the text names."""


@dataclass
class _Budget:
    minutes: float
    left_s: float


def campaign(
    subject: Subject, nodes: Sequence[str], level: Level, evidence: Evidence, seconds: float | None = None
) -> Campaign:
    """Measures these nodes, step by step; a step gets those that no earlier one has failed."""
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
            yield from _made(step, _still_open(step, subject, evidence), still, evidence, budget)
        except _TimeUpError as error:
            _leave_out(step, _unsettled(still, evidence), evidence, str(error))
    if level == "burn-in":
        yield from _in_rounds(subject, nodes, evidence, budget)


def _made(step: CheckStep, subject: Subject, nodes: Sequence[str], evidence: Evidence, budget: _Budget) -> Campaign:
    while still := _unsettled(nodes, evidence):
        found = Evidence()
        try:
            lost = yield from _heard_out(step.campaign(subject, still, found), budget)
        except _TimeUpError:  # what was found before counts all the same
            evidence.add(found.findings, found.measured)
            raise
        if not lost:
            evidence.add(found.findings, found.measured)
            return
        # what the others were asked had to do with those that are gone: they are asked once more
        evidence.add([finding_without_number("answering", "fail", (node,), why) for node, why in lost.items()])


def _in_rounds(subject: Subject, nodes: Sequence[str], evidence: Evidence, budget: _Budget) -> Campaign:
    """All of it again as long as time is left: what fails only when warm, or now and then, shows in a later round."""
    over_time = windows.OverTime(subject.by_machine(tuple(nodes)))
    over_time.end_of_round(evidence)
    steps, rounds = levels.steps("burn-in"), 1
    least = min(2, len(nodes))  # one that is left alone has shown before all that can be shown with others
    while len(still := _unsettled(nodes, evidence)) >= least and sum(step.seconds for step in steps) <= budget.left_s:
        found = Evidence()
        with contextlib.suppress(_TimeUpError):  # each was measured before
            for step in steps:
                left = _unsettled(_unsettled(nodes, evidence), found)
                yield from _made(step, _still_open(step, subject, evidence), left, found, budget)
            rounds += 1
            for node, why in over_time.end_of_round(found).items():
                evidence.add([finding_without_number("burn-in", "fail", (node,), why)])
        _add_news(found, evidence, "in a later round: ")
    evidence.add([], over_time.measured())
    if still:
        evidence.add([_burnt_in(still, rounds, budget)])


def _add_news(found: Evidence, evidence: Evidence, when: str) -> None:
    """What was not known before; that all is still well is no news."""
    known = {(each.check, each.verdict, each.nodes, each.rail, each.quantity) for each in evidence.findings}
    for each in found.findings:
        if each.verdict != "pass" and (each.check, each.verdict, each.nodes, each.rail, each.quantity) not in known:
            evidence.add([replace(each, why=when + each.why)])


def _burnt_in(nodes: tuple[str, ...], rounds: int, budget: _Budget) -> CheckFinding:
    if rounds > 1:
        return finding_without_number("burn-in", "pass", nodes, f"{rounds} rounds, and no slower in the last")
    why = f"the budget of {budget.minutes:g} min holds no second round, and who gets slower shows in two"
    return finding_without_number("burn-in", "unknown", nodes, why)


def _unsettled(nodes: Sequence[str], evidence: Evidence) -> tuple[str, ...]:
    return tuple(node for node in nodes if node not in evidence.failed)


def _still_open(step: CheckStep, subject: Subject, evidence: Evidence) -> Subject:
    """The subject with those rails that the step may still have something to say of."""
    if not step.of_rails:
        return subject
    settled = {each.rail for each in evidence.findings if each.verdict == "fail" and not each.nodes}
    rails = tuple(rail for rail in subject.fabric.rails if rail.interface not in settled)
    return replace(subject, fabric=replace(subject.fabric, rails=rails))


def _leave_out(step: CheckStep, nodes: tuple[str, ...], evidence: Evidence, why: str) -> None:
    evidence.add([finding_without_number(check, "unknown", nodes, why) for check in step.checks if nodes])


def _heard_out(step: Campaign, budget: _Budget) -> Generator[Ask, Heard, Mapping[str, str]]:
    """Carries a step to its end, or to where it lost nodes, or to where no time is left."""
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
        if budget.left_s <= 0:  # what was cut short says less than it seems
            step.close()
            raise _TimeUpError(f"the budget of {budget.minutes:g} min was used up during: {asked.what}")
