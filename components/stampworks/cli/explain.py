"""`stampworks explain`: the origin of a value of a plan."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import accounts, exits, stacks
from stampworks.text.names import fold

if TYPE_CHECKING:
    from stampworks.declaration import DeclarationSource
    from stampworks.plan import Plan
    from stampworks.planning.explained import Explanation


def add_verbs(verbs: Any) -> None:
    """Add the verb `explain` and its options."""
    explain = verbs.add_parser("explain", help="explain the origin of a value of a plan", allow_abbrev=False)
    explain.add_argument("path", metavar="PATH", help="a value, as in fabric.rails or pools.gpu.count")
    stacks.add_plan_options(explain, "; right behind PATH")
    explain.add_argument("--json", action="store_true", help="print it as JSON")
    explain.set_defaults(call=show_explanation)


def show_explanation(arguments: argparse.Namespace) -> int:
    """A path that leads to nothing is wrong input."""
    from stampworks import planning
    from stampworks.planning.explained import NoSuchValueError, explain
    from stampworks.state.facts import today

    plan, source = _planned(arguments)
    try:
        found = explain(plan, source, arguments.path, planning.rules(plan, accounts.asked_facts(arguments), today()))
    except NoSuchValueError as error:
        what, _, hint = str(error).partition("\n  hint: ")
        raise exits.CliError(what, hint) from None
    print(json.dumps(dataclasses.asdict(found), indent=2) if arguments.json else _text(found))
    return exits.FINE


def _planned(arguments: argparse.Namespace) -> tuple[Plan, DeclarationSource | None]:
    """Return plan and declaration; the declaration is None for the file of a plan."""
    from stampworks import planning
    from stampworks.declaration import load_file

    if not arguments.file and arguments.stack.endswith(".json"):
        return stacks.plan_of(arguments.stack), None
    source = load_file(Path(arguments.file)) if arguments.file else stacks.source_of(arguments.stack)
    return planning.plan(source), source


def _text(found: Explanation) -> str:
    from stampworks.cli.output import terminal_width
    from stampworks.views.table import paragraph

    width = terminal_width()
    alone = found.value is None and found.reasons and not found.field
    lines = paragraph(found.path if alone else f"{found.path}: {_value(found.value)}", width, "")
    for reason in found.reasons:
        about = "" if reason.path == found.path else f"{reason.path}: "
        lines += paragraph(f"because {about}{reason.why}", width)
    if found.field:
        where = f"written at {found.written}" if found.written else "not written, so that its default applies"
        lines += paragraph(f"declared by {found.field}, {where}; a change of it: {found.change}", width)
        lines += paragraph(found.description, width, "    ")
    elif not found.reasons:
        lines += paragraph("derived: it is not declared, and follows from the value that contains it", width)
    return "\n".join(lines)


def _item(value: Any) -> str:
    """Return the text of an item of a list, as in slurm 24.05."""
    return " ".join(map(_item, value)) if isinstance(value, (list, tuple)) else str(value)


def _value(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"value", "unit"}:
        return f"{value['value']:g} {value['unit']}"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_value(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return fold(map(_item, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value) if value != "" else "none"
