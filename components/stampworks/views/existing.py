"""Existing parts of an account: what a plan uses of them, and what two plans share."""

from __future__ import annotations

from typing import Any

from stampworks.plan import Plan, existing_parts
from stampworks.views.table import table

UNTOUCHED = "Existing parts, which are not changed or deleted"
SHARED = "Shared parts, which neither stack changes or deletes"


def lines(plan: Plan, width: int) -> list[str]:
    """List the parts that belong to the account's owners; empty for none."""
    rows = existing_parts(plan)
    return [UNTOUCHED, *table(("part", "id"), rows, width)] if rows else []


def shared(a: Plan, b: Plan, a_name: str, b_name: str) -> list[dict[str, Any]]:
    """Return the existing parts that two plans use, each with what this means for them."""
    if a.cloud != b.cloud:
        return []
    theirs = {id_: part for part, id_ in existing_parts(b)}
    found = [(part, id_, theirs[id_]) for part, id_ in existing_parts(a) if id_ in theirs]
    return [
        {"a": part, "b": other, "id": id_, "text": f"{part} {id_}: {_means(part, a, b, a_name, b_name)}"}
        for part, id_, other in found
    ]


def _means(part: str, a: Plan, b: Plan, a_name: str, b_name: str) -> str:
    what, _, name = part.partition(" ")
    if what == "network":
        return "both are in it"
    if what == "subnet":
        return f"{a_name} takes {_needed(a, name)} of its addresses, and {b_name} {_needed(b, name)}"
    if part.startswith("security group"):
        return f"what has it in {a_name} reaches what has it in {b_name}"
    if what == "storage":
        return f"{a_name} and {b_name} mount the same files"
    if what == "key":
        return "disabling it stops both"
    return "both have its rights"


def _needed(plan: Plan, name: str) -> str:
    needed = next((each.needed for each in plan.network.subnets if each.name == name), None)
    return "an unknown number" if needed is None else str(needed)
