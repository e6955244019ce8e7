"""Decisions of IAM policies, as far as tests need them: Action, Resource and StringEquals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any


def decided(
    documents: Iterable[Mapping[str, Any]], action: str, resource: str, context: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Return the decision about an action, and the conditions without a value."""
    effects, missing = set(), set[str]()
    for one in (each for document in documents for each in document["Statement"]):
        actions, resources = _several(one["Action"]), _several(one["Resource"])
        if not any(fnmatchcase(action.lower(), each.lower()) for each in actions):
            continue
        if not any(fnmatchcase(resource, each) for each in resources):
            continue
        wanted = one.get("Condition", {}).get("StringEquals", {})
        missing |= wanted.keys() - context.keys()
        if all(context.get(name) in _several(value) for name, value in wanted.items()):
            effects.add(one["Effect"])
    decision = "explicitDeny" if "Deny" in effects else "allowed" if effects else "implicitDeny"
    return decision, sorted(missing)


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
