"""What a field says of itself when two plans are compared, and what is left of a plan then."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from stampworks.plan.conversion import to_dict

# What two stamps of one cluster may differ in says so beside the field: the fingerprint leaves it out, and what
# compares plans does not count it. A field without a mark counts.
IDENTITY: Final = {"apart": "identity"}
"""Which of several equal clusters it is: its name, where its addresses come from, where its files lie."""
COUNTED: Final = {"counted": True}
"""A list that is identity, and how many entries it has is not."""
RELEASE: Final = {"apart": "release"}
"""The software, which siblings get one after the other; the node image follows from it."""
WORDS: Final = {"apart": "words"}
"""Derivations for people: they say how a number came about, and the number itself counts."""
UNORDERED: Final = {"order": "free"}
"""A list whose order says nothing: with its entries in another order it is the same."""
FIRST: Final = {"order": "first"}
"""A list of which it says something which entry is the first, and nothing how the others follow."""
NUMBERED: Final = {"order": "numbered"}
"""A list whose order says something where the plan numbers ports, for addresses follow it, and else nothing."""

T = TypeVar("T")


def apart(of: dataclasses.Field[Any]) -> str:
    """What sets a field apart from those that make two clusters different: identity, release, words; or nothing."""
    return str(of.metadata.get("apart", ""))


def ordered(of: dataclasses.Field[Any], value: Any) -> int | None:
    """Of how many entries of a list, from the first, the order says something; None for all."""
    order = of.metadata.get("order")
    if order == "numbered":
        return None if any(node.address for each in value for node in each.nodes) else 0
    return {"free": 0, "first": 1}.get(str(order))


def settled(value: T) -> T:
    """The same, with all whose order says nothing in one order: what is declared in another order is no change."""
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
    """What two stamps of one cluster have in common of it, as plain data."""
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
