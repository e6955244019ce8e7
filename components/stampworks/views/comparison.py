"""Two plans side by side: every difference in words, told apart from what siblings may differ in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stampworks.names import fold
from stampworks.plan import Group, Plan, apart, fingerprint, to_dict
from stampworks.printable import printable
from stampworks.views.table import INDENT

Kind = Literal["difference", "identity", "release"]
Verdict = Literal["equal", "different", "unknown"]

FOLLOWS = frozenset({"nodes", "leaves", "trunks", "expectations", "management_cidr", "gateway"})
"""What nobody declares: it follows from declared differences, and those are the ones to read first."""
FOLLOWING_SHOWN = 16
KEYS = ("interface", "name", "leaf")
"""What the entries of a list are known by: the first of these that they have."""
THINGS = {"groups": "pool", "rails": "", "leaves": "", "priorities": "priority", "trunks": "trunk to"}
FIELDS = {"cidr": "range", "management_cidr": "management range", "expectations": "expectation", "nodes": "node"}
UNITS = {"_mbps": " Mb/s", "_minutes": " min", "_seconds": " s", "_mib": " MiB", "_gib": " GiB"}
UNLIMITED = frozenset({"time_limit_minutes", "accelerators_max"})
_NAME = "\0"
"""Stands in a sentence for the entry it is about, so that the same one about many entries is said once."""


@dataclass(frozen=True)
class Step:
    """One step from a plan towards a value: a field, and which entry of it when it is a list."""

    field: str
    key: str = ""


@dataclass(frozen=True)
class Difference:
    way: tuple[Step, ...]
    kind: Kind
    a: Any
    b: Any
    """None where it is not there at all."""
    unit: str = ""

    @property
    def path(self) -> str:
        return ".".join(f"{step.field}[{step.key}]" if step.key else step.field for step in self.way)

    @property
    def follows(self) -> bool:
        fields = [step.field for step in self.way]
        of_a_row = fields[-2:-1] in (["machine"], ["release"]) and fields[-1] != "name"
        return not FOLLOWS.isdisjoint(fields) or fields[-2:] == ["rails", "cidr"] or of_a_row


@dataclass(frozen=True)
class Side:
    """One of the two: a stack, its plan, and what its backend says."""

    name: str
    plan: Plan
    stamped: str = ""
    """The fingerprint that was stamped last; empty when it never was."""
    unknown: str = ""
    """Why it could not be told whether it was."""


def differences(a: Plan, b: Plan) -> tuple[Difference, ...]:
    """All there are, in the order of the plan. One that counts is among them exactly when the fingerprints differ."""
    found = tuple(_differences(a, b, (), "difference", ""))
    counted = any(each.kind == "difference" for each in found)
    if counted == (fingerprint(a) != fingerprint(b)):
        return found
    return (*found, Difference((Step("fingerprint"),), "difference", fingerprint(a), fingerprint(b)))


def verdict(a: Side, b: Side) -> Verdict:
    """Equal only when both are declared the same, and neither runs what the other does not."""
    declared = any(each.kind == "difference" for each in differences(a.plan, b.plan))
    if declared or (a.stamped and b.stamped and a.stamped != b.stamped):
        return "different"
    if a.unknown or b.unknown:
        return "unknown"
    # one that is not stamped yet will be what its plan says
    return "equal" if (a.stamped or fingerprint(a.plan)) == (b.stamped or fingerprint(b.plan)) else "different"


def comparison_text(a: Side, b: Side) -> str:
    """What a person reads; ends with a newline."""
    found = differences(a.plan, b.plan)
    counted = [each for each in found if each.kind == "difference"]
    causes = [each for each in counted if not each.follows]
    first, following = (causes, [each for each in counted if each.follows]) if causes else (counted, [])
    after = sentences(following, a.name, b.name)
    if len(after) > FOLLOWING_SHOWN:
        after = [*after[:FOLLOWING_SHOWN], f"... and {len(after) - FOLLOWING_SHOWN} more, which --json has"]
    expected = [each for each in found if each.kind != "difference" and not each.follows]
    sections = {
        f"{a.name} and {b.name}: {verdict(a, b)}": sentences(first, a.name, b.name),
        "What follows from that": after,
        "Expected between siblings": sentences(expected, a.name, b.name),
        "Fingerprints": [_stamped(a), _stamped(b)],
    }
    title = next(iter(sections))
    blocks = [[each, *(INDENT + line for line in lines)] for each, lines in sections.items() if lines or each == title]
    return "\n\n".join("\n".join(map(printable, block)) for block in blocks) + "\n"


def comparison_data(a: Side, b: Side) -> dict[str, Any]:
    """The same for programs, every difference by itself."""
    found = [
        {
            "path": each.path,
            "kind": each.kind,
            "a": _data(each.a),
            "b": _data(each.b),
            "text": sentences([each], a.name, b.name)[0],
        }
        for each in differences(a.plan, b.plan)
    ]
    return {"verdict": verdict(a, b), "a": _side(a), "b": _side(b), "differences": found}


def sentences(found: Sequence[Difference], a: str, b: str) -> list[str]:
    """A line a difference; the same one of many nodes, rails or leaves is one line."""
    about: dict[str, list[str]] = {}
    for each in found:
        keys = [step.key for step in each.way if step.key]
        about.setdefault(_sentence(each, a, b), []).extend(keys[-1:])
    return [text.replace(_NAME, fold(names)) for text, names in about.items()]


def _differences(a: Any, b: Any, way: tuple[Step, ...], kind: Kind, unit: str) -> Iterator[Difference]:
    if a == b:
        return
    if dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            mark: Any = apart(field)
            if mark != "words":
                one, other = getattr(a, field.name), getattr(b, field.name)
                within = mark if mark and kind == "difference" else kind
                yield from _differences(one, other, (*way, Step(field.name)), within, getattr(a, "unit", ""))
    elif isinstance(a, tuple) and any(map(dataclasses.is_dataclass, (*a, *b))):
        yield from _entries({_key(each): each for each in a}, {_key(each): each for each in b}, way, kind)
    elif kind == "identity" and isinstance(a, tuple) and len(a) != len(b):
        yield Difference(way, "difference", a, b)  # how many addresses there are is no identity
    else:
        yield Difference(way, kind, a, b, unit if way[-1].field == "value" else "")


def _entries(a: dict[str, Any], b: dict[str, Any], way: tuple[Step, ...], kind: Kind) -> Iterator[Difference]:
    for key in dict.fromkeys((*a, *b)):
        here = (*way[:-1], Step(way[-1].field, key))
        if key in a and key in b:
            yield from _differences(a[key], b[key], here, kind, "")
        else:
            yield Difference(here, kind, a.get(key), b.get(key))
    in_a, in_b = tuple(key for key in a if key in b), tuple(key for key in b if key in a)
    if in_a != in_b:
        yield Difference((*way, Step("order")), kind, in_a, in_b)


def _key(entry: Any) -> str:
    return str(next(getattr(entry, key) for key in KEYS if hasattr(entry, key)))


def _sentence(each: Difference, a: str, b: str) -> str:
    last = each.way[-1]
    if each.a is None or each.b is None:
        return f"{_thing(each.way)}: only in {b if each.a is None else a}{_summary(each.a or each.b)}"
    if last.field == "order":
        listed = each.way[-2].field.replace("groups", "pools")
        return f"order of {listed}: {', '.join(each.a)} in {a}, {', '.join(each.b)} in {b}"
    if last.field == "count":
        return f"{_thing(each.way[:-1])}: {each.a} nodes in {a}, {each.b} in {b}"
    named_by_it = last.field in ("name", "value") and len(each.way) > 1  # a machine, a release, an expectation
    what = _thing(each.way[:-1] if named_by_it else each.way)
    return f"{what}: {_value(each.a, last.field, each.unit)} in {a}, {_value(each.b, last.field, each.unit)} in {b}"


def _thing(way: Sequence[Step]) -> str:
    """What it is about, from the innermost entry on: `pool gpu machine`, `queue main time limit`, `network range`."""
    entries = [index for index, step in enumerate(way) if step.key]
    inner = entries[-1] if entries else 0
    start = entries[-2] if way[inner].field == "trunks" and len(entries) > 1 else inner
    keys = [_NAME if index == inner else step.key for index, step in enumerate(way)]
    return " ".join(map(_step, way[start:], keys[start:]))


def _step(step: Step, key: str) -> str:
    words = FIELDS | THINGS if step.key else FIELDS  # the groups of the plan are pools; those of a role are its groups
    name = words.get(step.field, step.field)
    if step.key:
        return f"{name.removesuffix('s') if name == step.field else name} {key}".strip()
    for unit in UNITS:
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def _value(value: Any, field: str, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(" ".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value) or "none"
    if field in UNLIMITED and value == 0:
        return "no limit"
    unit = next((unit for suffix, unit in UNITS.items() if field.endswith(suffix)), f" {unit}" if unit else "")
    return f"{value:g}{unit}" if isinstance(value, float) else f"{value}{unit}" if value != "" else "none"


def _summary(entry: Any) -> str:
    return f", {entry.count} x {entry.machine.name}" if isinstance(entry, Group) else ""


def _data(value: Any) -> Any:
    return to_dict(value) if dataclasses.is_dataclass(value) else value


def _side(side: Side) -> dict[str, Any]:
    return {
        "stack": side.name,
        "cluster": side.plan.name,
        "release": side.plan.release.name,
        "fingerprint": fingerprint(side.plan),
        "stamped": None if side.unknown else side.stamped,
        "text": _stamped(side),
    }


def _stamped(side: Side) -> str:
    now = fingerprint(side.plan)
    if side.unknown:
        return f"{side.name}: {now}; could not tell what was stamped: {side.unknown}"
    if not side.stamped:
        return f"{side.name}: {now}; not stamped yet"
    if side.stamped == now:
        return f"{side.name}: {now}; stamped as declared"
    return f"{side.name} was stamped from an earlier declaration: fingerprint {side.stamped}, now {now}"
