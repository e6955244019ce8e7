"""A plan and what rules say of it; and where there can be no plan, what they refuse besides what is wrong by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stampworks.declaration import Source
from stampworks.declaration.nodes import parsed
from stampworks.plan import Plan
from stampworks.planning.build.launching import OF_LOCK
from stampworks.planning.build.planner import completed, draft
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.rules import RULES, known_of, rules


def judged(
    source: Source, facts: Facts | None, as_of: str | None, left_out: Collection[str] = ()
) -> tuple[Plan, tuple[Finding, ...]]:
    """DeclarationError with every problem, those that rules find in what does not depend on the others among them.

    But for those of the rules that are left out, which keep nobody from going on.
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
    """What rules say no to of a plan that is not whole, or not sound: whatever a rule trips over, it says nothing."""
    for rule in RULES:
        try:
            yield from [each for each in rule(part, known_of(part, facts, as_of)) if each.outcome == "fail"]
        except Exception:  # noqa: S112  # rules are written for plans that can be
            continue
