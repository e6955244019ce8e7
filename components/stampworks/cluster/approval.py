"""Report how a declaration changes the stamped cluster, and require an approval before an `up` removes or loses a
part."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi

from stampworks.changes.acceptance import VARIABLE
from stampworks.cluster.clouds import REHEARSAL
from stampworks.cluster.refusal import refuse
from stampworks.plan import Plan, fingerprint, from_json
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from stampworks.changes.review import DeclaredChange, Review

_READ = "pulumi:pulumi:readStackResourceOutputs"
"""Function of the engine that returns the state of a stack before this run."""
_CLUSTER = "stampworks:cluster:Cluster"
_WITH_A_PLAN = ("stampworks:cluster:Roll", _CLUSTER)
"""Resources that keep the stamped plan; the first one knows it when nodes are created."""


def review_change(name: str, plan: Plan, alone: bool) -> None:
    """Report in words what differs from the stamped plan.

    Refuse a run that needs an approval and has none; a preview reports it and continues. If the stack has a single
    cluster under another name, it counts as renamed.
    """
    if os.environ.get(REHEARSAL):  # a rehearsal deletes nothing real
        return
    stamped = _stamped(name, alone)
    if stamped is None:
        return
    plan = dataclasses.replace(plan, reasons=())
    if stamped.plan == plan:
        return
    found = _review(stamped.plan, plan)
    if stamped.latest:
        _tell(found)
    accepted = os.environ.get(VARIABLE, "")
    if accepted == found.id or not found.id:
        return
    changes = [each for each in found.changes if each.needs_approval]
    asks = f"{counted(len(changes), 'change')} {'needs' if len(changes) == 1 else 'need'} a person's yes:"
    text = "\n".join([asks, *(f"  {line}" for line in _lines(changes))])
    command = f"`{VARIABLE}={found.id} pulumi up`"
    if pulumi.runtime.is_dry_run():
        pulumi.log.warn(f"{text}\n  `pulumi up` refuses this; {command} carries it out")
        return
    why = f"{VARIABLE} is {accepted}, another change" if accepted else "nothing was changed"
    refuse(f"{text}\n  hint: {why}; to carry out this change and no other, run {command}")


def _tell(found: Review) -> None:
    from stampworks.views.review import review_lines

    if lines := review_lines(found):
        pulumi.log.info("\n".join(["Changes since the last `pulumi up`:", *(f"  {line}" for line in lines)]))


@dataclass(frozen=True)
class _Stamped:
    plan: Plan
    latest: bool
    """Whether it is the plan of the last `up`: the state keeps an earlier one if that `up` needed no roll."""


def _stamped(name: str, alone: bool) -> _Stamped | None:
    """Return the plan in the state; None before the first `up`, or if another version wrote it."""
    told = _known_resources()
    found = _stamped_plans(told)
    own = name if name in found else next(iter(found)) if alone and len(found) == 1 else None
    if own is None:
        return None
    try:
        plan = from_json(Plan, found[own])
    except (ValueError, RecursionError):
        return None
    prints = {
        urn.rpartition("::")[2]: one["outputs"].get("fingerprint") for urn, one in told if one["type"] == _CLUSTER
    }
    return _Stamped(plan, prints.get(own) == fingerprint(plan))


def _known_resources() -> list[tuple[str, Any]]:
    """Return the state of this stack's resources."""
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    told = (pulumi.runtime.invoke(_READ, {"stackName": stack}).value or {}).get("outputs") or {}
    return list(told.items())


def _stamped_plans(told: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return the text of each plan in the stack's state, by the name of its cluster."""
    found: dict[str, str] = {}
    for kind in _WITH_A_PLAN:
        for urn, one in told:
            if one["type"] == kind and isinstance(text := one["outputs"].get("plan"), str):
                found.setdefault(urn.rpartition("::")[2], text)
    return found


def _review(stamped: Plan, plan: Plan) -> Review:
    from stampworks.planning.changes.review import ReviewedStack, review  # import it only when a plan changes

    return review("", ReviewedStack("the cluster", stamped), ReviewedStack("the declaration", plan))


def _lines(changes: list[DeclaredChange]) -> Iterator[str]:
    from stampworks.views.comparison import sentences

    for each in changes:
        [said] = sentences([each.difference], "the cluster", "the declaration")
        lost = f"{', '.join(each.loses)} is lost with all it holds" if each.loses else ""
        does = "removed and created again" if each.policy == "replace" else "data or state would be lost"
        yield f"{said}: {each.why or lost or does}"
