"""The differences of two plans, each with the path to its value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from stampworks.plan import Group, Plan, apart, fingerprint, ordered

Kind = Literal["difference", "identity", "release"]

FOLLOWS = frozenset(
    {
        *("nodes", "leaves", "trunks", "expectations", "management_cidr", "gateway", "node_addresses", "nodes_max"),
        *("way", "hardware", "clients", "scratch", "spines", "nvlink_domains", "core_trunks"),
    }
)
"""Fields that are never declared: they follow from declared differences, which should be read first."""
KEYS = ("interface", "name", "leaf")
"""Fields that identify the entries of a list; the first one that the entries have is used."""


@dataclass(frozen=True)
class PathStep:
    """One step from a plan towards a value: a field, and the key of an entry when the field is a list."""

    field: str
    key: str = ""


@dataclass(frozen=True)
class Difference:
    """A value that two plans do not share."""

    way: tuple[PathStep, ...]
    kind: Kind
    a: Any
    b: Any
    """None when the value is absent."""
    unit: str = ""

    @property
    def path(self) -> str:
        """The steps joined by dots, as in `groups[gpu].count`."""
        return ".".join(f"{step.field}[{step.key}]" if step.key else step.field for step in self.way)

    @property
    def is_a_place(self) -> bool:
        """Whether the field is a path of a role's or check's files. Plans store it as their program sees it."""
        return (self.way[0].field, self.way[-1].field) == ("extras", "path")

    @property
    def follows(self) -> bool:
        """Whether the value is derived, so that another difference explains this one."""
        fields = [step.field for step in self.way]
        of_a_row = fields[-2:-1] in (["machine"], ["release"]) and fields[-1] != "name"
        of_a_kind = fields[-2:] in (["rails", "cidr"], ["network", "pods"])
        return not FOLLOWS.isdisjoint(fields) or of_a_kind or of_a_row


def differences(a: Plan, b: Plan) -> tuple[Difference, ...]:
    """Return all differences, in the order of the plan. One of them counts exactly when the fingerprints differ."""
    found = tuple(_differences(a, b, (), "difference", ""))
    counted = any(each.kind == "difference" for each in found)
    if counted == (fingerprint(a) != fingerprint(b)):
        return found
    return (*found, Difference((PathStep("fingerprint"),), "difference", fingerprint(a), fingerprint(b)))


def _differences(
    a: Any, b: Any, way: tuple[PathStep, ...], kind: Kind, unit: str, upto: int | None = None
) -> Iterator[Difference]:
    if a == b:
        return
    if dataclasses.is_dataclass(a) and dataclasses.is_dataclass(b):
        for field in dataclasses.fields(a):
            mark: Any = apart(field)
            if mark != "words" and not (field.name == "count_min" and _is_static(a, b)):
                one, other = getattr(a, field.name), getattr(b, field.name)
                within = mark if mark and kind == "difference" else kind
                if within == "identity" and "counted" in field.metadata and len(one) != len(other):
                    within = "difference"  # the number of addresses is no identity
                here = (*way, PathStep(field.name))
                yield from _differences(one, other, here, within, getattr(a, "unit", ""), ordered(field, one))
    elif isinstance(a, tuple) and any(map(dataclasses.is_dataclass, (*a, *b))):
        yield from _entries({_key(each): each for each in a}, {_key(each): each for each in b}, way, kind, upto)
    elif not isinstance(a, tuple) or not isinstance(b, tuple) or _arranged(a, upto) != _arranged(b, upto):
        yield Difference(way, kind, a, b, unit if way[-1].field == "value" else "")


def _is_static(*groups: Any) -> bool:
    """Return whether all nodes of the groups always run, so that their count says everything."""
    return all(isinstance(each, Group) and each.count_min == each.count for each in groups)


def _entries(
    a: dict[str, Any], b: dict[str, Any], way: tuple[PathStep, ...], kind: Kind, upto: int | None
) -> Iterator[Difference]:
    for key in dict.fromkeys((*a, *b)):
        here = (*way[:-1], PathStep(way[-1].field, key))
        if key in a and key in b:
            yield from _differences(a[key], b[key], here, kind, "")
        else:
            yield Difference(here, kind, a.get(key), b.get(key))
    in_a, in_b = tuple(key for key in a if key in b), tuple(key for key in b if key in a)
    if _arranged(in_a, upto) != _arranged(in_b, upto):
        yield Difference((*way, PathStep("order")), kind, in_a, in_b)


def _arranged(list_: tuple[Any, ...], upto: int | None) -> tuple[Any, ...]:
    """Return the list with its meaningful order: the first `upto` entries keep theirs, the others are sorted."""
    return list_ if upto is None else (*list_[:upto], *sorted(list_[upto:]))


def _key(entry: Any) -> str:
    return str(next(getattr(entry, key) for key in KEYS if hasattr(entry, key)))
