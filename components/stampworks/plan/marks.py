"""Marks of fields for the comparison of two plans, and the part of a plan that is compared."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from stampworks.plan.conversion import to_dict

# Marks beside the fields in which stamps of one cluster may differ. The fingerprint leaves these fields out, and
# comparisons of plans do not count them. A field without a mark counts.
IDENTITY: Final = {"apart": "identity"}
"""Values that distinguish equal clusters: the name, the address ranges, the places of files."""
COUNTED: Final = {"counted": True}
"""A list whose entries only identify, but whose length counts."""
RELEASE: Final = {"apart": "release"}
"""Software of a release, which sibling clusters get one after the other. The node image depends on it."""
WORDS: Final = {"apart": "words"}
"""Derivations for people: they explain a number, and the number itself counts."""
UNORDERED: Final = {"order": "free"}
"""A list whose order has no meaning: reordered entries are no change."""
FIRST: Final = {"order": "first"}
"""A list whose first entry matters; the order of the others has no meaning."""
NUMBERED: Final = {"order": "numbered"}
"""A list whose order matters only where the plan numbers ports, because addresses follow it."""

T = TypeVar("T")


def apart(of: dataclasses.Field[Any]) -> str:
    """Return why a field does not distinguish clusters: identity, release or words; empty when it does."""
    return str(of.metadata.get("apart", ""))


def ordered(of: dataclasses.Field[Any], value: Any) -> int | None:
    """Return how many leading entries of a list have a meaningful order; None for all."""
    order = of.metadata.get("order")
    if order == "numbered":
        return None if any(node.address for each in value for node in each.nodes) else 0
    return {"free": 0, "first": 1}.get(str(order))


def settled(value: T) -> T:
    """Return the value with every meaningless order normalized, so that a reordered declaration is no change."""
    if isinstance(value, tuple):
        return typing.cast(T, tuple(settled(each) for each in value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return dataclasses.replace(value, **{each.name: _settled(each, value) for each in dataclasses.fields(value)})


def _settled(of: dataclasses.Field[Any], value: Any) -> Any:
    list_ = settled(getattr(value, of.name))
    upto = ordered(of, list_)
    return list_ if upto is None else (*list_[:upto], *_sorted(list_[upto:]))


def _sorted(entries: Iterable[Any]) -> list[Any]:
    return sorted(entries, key=lambda each: json.dumps(each, sort_keys=True, default=to_dict))


def common(value: Any) -> Any:
    """Return as plain data the part of a value that all stamps of one cluster share."""
    if isinstance(value, tuple):
        return [common(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    counted = {each.name: _counted(each, value) for each in dataclasses.fields(value) if not apart(each)}
    return counted | {
        each.name: len(getattr(value, each.name)) for each in dataclasses.fields(value) if "counted" in each.metadata
    }


def _counted(of: dataclasses.Field[Any], value: Any) -> Any:
    list_ = getattr(value, of.name)
    shared, upto = common(list_), ordered(of, list_)
    if upto is None:
        return shared
    return [*shared[:upto], *_sorted(shared[upto:])]
