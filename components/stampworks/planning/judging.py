"""Judge a plan by rules. Without a plan, report the declaration's problems together with the errors of rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stampworks.declaration import AbsentError, DeclarationSource
from stampworks.declaration.nodes import parsed
from stampworks.plan import Plan
from stampworks.planning.build.planner import completed, draft
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.images import OF_LOCK
from stampworks.planning.rules.registry import RULES, known_of, rules


def judged(
    source: DeclarationSource, facts: Facts | None, as_of: str | None, left_out: Collection[str] = ()
) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan of a declaration with the findings of all rules.

    Raises DeclarationError with every problem. Among them are the errors of rules about parts that do not depend on
    other problems, but not those of the rules in `left_out`.
    """
    made, notes = draft(source)
    wrong = [parsed(each.path) for each in notes.problems]
    for one in _refused(made, facts, as_of) if wrong else ():
        place = parsed(one.place)
        if one.id not in left_out and not any(place[: len(each)] == each[: len(place)] for each in wrong):
            notes.problem(one.place, one.refusal, one.hint, one.id in OF_LOCK)
    whole = completed(made, notes)
    return whole, rules(whole, facts, as_of)


def _refused(part: Plan, facts: Facts | None, as_of: str | None) -> Iterator[Finding]:
    """Yield the errors that rules find in a draft. A rule that reads an absent part yields nothing."""
    known = known_of(part, facts, as_of)
    for rule in RULES:
        try:
            yield from [each for each in rule.findings(part, known) if each.outcome == "fail"]
        except AbsentError:
            continue
