"""`stampworks plan` and `stampworks schema`: the meaning of a declaration, and its valid fields."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from stampworks.cli import accounts, exits, stacks

if TYPE_CHECKING:
    from stampworks.planning import Finding


def add_verbs(verbs: Any) -> None:
    """Add the verbs `plan` and `schema`."""
    plan = verbs.add_parser("plan", help="show what a declaration means, without changing anything", allow_abbrev=False)
    stacks.add_plan_options(plan)
    plan.add_argument("--json", action="store_true", help="print the whole plan and the findings of rules as JSON")
    plan.set_defaults(call=show_plan)
    schema = verbs.add_parser("schema", help="print the JSON schema of a declaration", allow_abbrev=False)
    schema.set_defaults(call=show_schema)


def show_plan(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when no rule fails. Show the findings that no rule could judge as unknown."""
    from stampworks import planning
    from stampworks.plan import to_dict
    from stampworks.state.facts import today

    facts, source = accounts.asked_facts(arguments), stacks.asked_source(arguments)
    if source:
        plan, findings = planning.judged(source, facts, today())
    else:
        plan = stacks.asked_plan(arguments)
        findings = planning.rules(plan, facts, today())
    if arguments.json:
        written = {**to_dict(plan), stacks.RULES: [_finding_data(finding) for finding in findings]}
        print(json.dumps(written, indent=2, ensure_ascii=False))
    else:
        from stampworks.cli.output import terminal_width
        from stampworks.planning.cost import cost
        from stampworks.views.plan import plan_text

        places = {each.place: source.problem(each.place, "").where for each in findings} if source else {}
        print(plan_text(plan, cost(plan), findings, places, terminal_width()), end="")
    return exits.NO if any(finding.outcome == "fail" for finding in findings) else exits.FINE


def _finding_data(finding: Finding) -> dict[str, str]:
    """Return a finding for programs. An undecided one has the verdict unknown, and its evidence names the missing
    facts."""
    return {
        "id": finding.id,
        "verdict": finding.verdict,
        "severity": finding.severity,
        "subject": finding.subject,
        "place": finding.place,
        "evidence": finding.text,
        "fix": finding.hint,
    }


def show_schema(_: argparse.Namespace) -> int:
    """The schema is for editors and for the documentation."""
    from stampworks.declaration import schema

    print(json.dumps(schema(), indent=2, ensure_ascii=False))
    return exits.FINE
