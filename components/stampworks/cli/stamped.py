"""Find the plan that a cluster was stamped with: unstamped changes of a declaration do not count."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks, state

if TYPE_CHECKING:
    from stampworks.plan import Plan

DIFFERENCES_SHOWN = 3
_CLUSTER = "stampworks:cluster:Cluster"
_ROLL = "stampworks:cluster:Roll"
_TAKEN = "note: the cluster is taken as it was stamped"


def plan_of(stack: str) -> Plan:
    """Return the plan of the last complete `up` in the backend; without one, that of the file.

    A line on stderr tells how the file differs, or why it cannot be read.
    """
    try:
        with state.asking(stack) as answer:
            declared = declared_in(stack)
            resources = answer()
    except state.SilentError as error:
        hint = "name a plan's file, -s plan.json: `stampworks plan --json` and `pulumi stack output plan` write one"
        why = f"cannot tell how the cluster of stack {stack!r} was stamped: {error}"
        raise exits.CliError(why, hint, exits.UNKNOWN) from None
    return chosen(stack, resources, declared)


def chosen(stack: str, resources: Sequence[Mapping[str, Any]], declared: Plan | Exception) -> Plan:
    """The same for a caller that has asked the backend itself."""
    stamped = _stamped(stack, resources)
    if stamped is not None:
        _compare(stack, stamped, declared)
        return stamped
    if isinstance(declared, Exception):
        raise declared
    return declared


def declared_in(stack: str) -> Plan | Exception:
    """Return the present plan of the file, or the error that prevents reading it."""
    from stampworks.declaration import DeclarationError

    try:
        return stacks.plan_of(stack)
    except (DeclarationError, exits.CliError, OSError) as error:
        return error


def _stamped(stack: str, resources: Sequence[Mapping[str, Any]]) -> Plan | None:
    """Return the plan with which the nodes were made; for nodes that a cloud manages, that of the last complete
    `up`."""
    from stampworks.plan import Plan, from_json

    clusters = [each["outputs"].get("name") for each in resources if each["type"] == _CLUSTER]
    if len(clusters) > 1:
        what = f"stack {stack!r} has {len(clusters)} clusters: {', '.join(map(str, clusters))}"
        raise exits.CliError(what, "name the file of one's plan: -s plan.json")
    rolled = (each.get("inputs", {}).get("plan") for each in resources if each["type"] == _ROLL)
    text = next(rolled, None) or (state.outputs(resources, _CLUSTER) or {}).get("plan")
    if not isinstance(text, str):
        return None
    try:
        return from_json(Plan, text)
    except (ValueError, RecursionError) as error:
        _note(f"note: the cluster was stamped by another release of stampworks, and its file is read instead: {error}")
        return None


def _compare(stack: str, stamped: Plan, declared: Plan | Exception) -> None:
    if isinstance(declared, Exception):
        _note(f"{_TAKEN}: {_first_line(declared)}")
    elif found := _differences(stamped, declared):
        more = len(found) - DIFFERENCES_SHOWN
        shown = "; ".join([*found[:DIFFERENCES_SHOWN], *([f"and {more} more"] if more > 0 else [])])
        _note(f"{_TAKEN}; `pulumi up` would change, from Pulumi.{stack}.yaml: {shown}")


def _differences(stamped: Plan, declared: Plan) -> list[str]:
    """Return the declared differences in words; without any, the derived ones."""
    from dataclasses import replace

    from stampworks.plan import settled

    declared = settled(replace(declared, reasons=()))
    if declared == stamped:
        return []
    from stampworks.changes.differences import differences  # this import is slow, and most files equal the stamped plan
    from stampworks.views.comparison import sentences

    found = [each for each in differences(stamped, declared) if not each.is_a_place]
    return sentences([each for each in found if not each.follows] or found, "the cluster", "the file")


def _first_line(error: Exception) -> str:
    """Return position and text of the first problem, and the number of the others."""
    if problems := getattr(error, "problems", None):
        first, more = problems[0], len(problems) - 1
        return f"{first.where}: {_message(first)}" + (f" (and {more} more)" if more else "")
    return str(error).splitlines()[0]


def _message(problem: Any) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else str(problem.message)


def _note(text: str) -> None:
    from stampworks.text.printable import printable

    print(printable(text), file=sys.stderr)
