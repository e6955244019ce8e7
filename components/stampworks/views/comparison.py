"""Comparison of two plans: every difference in words, apart from those that are expected between siblings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stampworks import catalog
from stampworks.changes.differences import Difference, PathStep, differences
from stampworks.plan import Group, Plan, Queue, Storage, Team, User, fingerprint, to_dict
from stampworks.text.names import fold
from stampworks.text.printable import printable
from stampworks.views.existing import SHARED, shared
from stampworks.views.table import INDENT

Verdict = Literal["equal", "different", "unknown"]

FOLLOWING_SHOWN = 16
THINGS = {
    "groups": "pool",
    "fallbacks": "fall-back",
    "rails": "",
    "leaves": "",
    "priorities": "priority",
    "trunks": "trunk to",
    "core_trunks": "trunk to",
}
NO_POOLS = frozenset({"head", "login"})
"""Groups that the text does not call pools."""
FIELDS = {
    "cidr": "range",
    "management_cidr": "management range",
    "services_cidr": "services range",
    "expectations": "expectation",
    "nodes": "node",
    "count_min": "nodes that always run",
    "monthly_usd": "a month",
    "keyless": "without keys",
    "notify": "mail to",
    "rate_mbps": "rate",
    "gib": "size",
    "throughput_mbps": "throughput",
    "mbps_per_tib": "throughput per TiB",
}
UNITS = {
    "throughput_mbps": " MB/s",  # bytes, because storage is counted in bytes and links in bits
    "rate_mbps": " Mb/s",
    "mbps_per_tib": " MB/s",
    "_usd": " USD",
    "_minutes": " min",
    "_seconds": " s",
    "_mib": " MiB",
    "_gib": " GiB",
    "gib": " GiB",
}
PARTS = {"pods": "way", "directory": "uri", "launch": "instance_type"}
"""Fields of parts that a plan may lack, and the field that names such a part."""
UNLIMITED = frozenset({"time_limit_minutes", "accelerators_max", "monthly_usd"})
_NAME, _WITHIN = "\0", "\1"
"""Placeholders in a sentence: the entry it is about, and the entry around that.

They make the same sentence about many entries equal, so that it appears once.
"""


@dataclass(frozen=True)
class ComparedSide:
    """A side of a comparison: a stack, its plan, and its state in the backend."""

    name: str
    plan: Plan
    stamped: str = ""
    """Fingerprint of the last stamp; empty if the stack was never stamped."""
    unknown: str = ""
    """Reason why the backend could not be asked."""


def verdict(a: ComparedSide, b: ComparedSide) -> Verdict:
    """Return "equal" only if both plans are the same, and both stacks run the same."""
    declared = any(each.kind == "difference" for each in differences(a.plan, b.plan))
    if declared or (a.stamped and b.stamped and a.stamped != b.stamped):
        return "different"
    if a.unknown or b.unknown:
        return "unknown"
    # a stack that is not stamped yet will be as its plan says
    return "equal" if (a.stamped or fingerprint(a.plan)) == (b.stamped or fingerprint(b.plan)) else "different"


def comparison_text(a: ComparedSide, b: ComparedSide) -> str:
    """Return the comparison as text. It ends with a newline."""
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
        "Consequences": after,
        "Expected between siblings": sentences(expected, a.name, b.name),
        SHARED: [each["text"] for each in shared(a.plan, b.plan, a.name, b.name)],
        "Fingerprints": [_stamped(a), _stamped(b)],
    }
    title = next(iter(sections))
    blocks = [[each, *(INDENT + line for line in lines)] for each, lines in sections.items() if lines or each == title]
    return "\n\n".join("\n".join(map(printable, block)) for block in blocks) + "\n"


def comparison_data(a: ComparedSide, b: ComparedSide) -> dict[str, Any]:
    """Return the comparison as data, with each difference by itself."""
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
    both = shared(a.plan, b.plan, a.name, b.name)
    return {"verdict": verdict(a, b), "a": _side(a), "b": _side(b), "differences": found, "shared": both}


def sentences(found: Sequence[Difference], a: str, b: str) -> list[str]:
    """Return a line for each difference. The same one of many nodes, rails or leaves is one line."""
    about: dict[tuple[str, str], list[str]] = {}
    for each in found:
        text, keys = _sentence(each, a, b), [step.key for step in each.way if step.key]
        about.setdefault((text, keys[-2] if _WITHIN in text else ""), []).extend(keys[-1:])
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (text, within), names in about.items():
        alike.setdefault((text, tuple(names)), []).append(within)
    return [text.replace(_NAME, fold(names)).replace(_WITHIN, fold(within)) for (text, names), within in alike.items()]


def _sentence(each: Difference, a: str, b: str) -> str:
    last = each.way[-1]
    if last.key:
        return f"{_thing(each.way)}: only in {b if each.a is None else a}{summary(each.a or each.b)}"
    if last.field == "order":
        listed = each.way[-2].field.replace("groups", "pools")
        return f"order of {listed}: {', '.join(each.a)} in {a}, {', '.join(each.b)} in {b}"
    if last.field == "count":
        return f"{_thing(each.way[:-1])}: {each.a} nodes in {a}, {each.b} in {b}"
    named_by_it = last.field in ("name", "value") and len(each.way) > 1  # a machine, a release, an expectation
    what = _thing(each.way[:-1] if named_by_it else each.way)
    return f"{what}: {shown(each.a, last.field, each.unit)} in {a}, {shown(each.b, last.field, each.unit)} in {b}"


def _thing(way: Sequence[PathStep]) -> str:
    """Return the subject, from the innermost entry on: `pool gpu machine`, `queue main time limit`, `network range`."""
    entries = [index for index, step in enumerate(way) if step.key]
    inner = entries[-1] if entries else 0
    start = entries[-2] if way[inner].field in ("trunks", "core_trunks") and len(entries) > 1 else inner
    keys = [_NAME if index == inner else _WITHIN if index == start else step.key for index, step in enumerate(way)]
    return " ".join(map(_step, way[start:], keys[start:]))


def _step(step: PathStep, key: str) -> str:
    words = FIELDS | THINGS if step.key else FIELDS  # the plan's groups are pools; a role has its own groups
    name = words.get(step.field, step.field)
    if step.field == "groups" and step.key in NO_POOLS:
        name = "group"
    if step.key:
        return f"{name.removesuffix('s') if name == step.field else name} {key}".strip()
    for unit in UNITS:
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def shown(value: Any, field: str, unit: str) -> str:
    """Return a value in words, with its unit. None is `unknown`."""
    if field in PARTS and not isinstance(value, str):  # the directory of people, and not that of checkpoints
        return str(getattr(value, PARTS[field])) if value else "none"
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field == "nodes":
        return fold(value)
    if field == "rail_addresses":
        return _addresses(value)
    if isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
        return fold(each.name for each in value)
    if isinstance(value, tuple):
        return ", ".join(map(_entry, value)) or "none"
    if field in UNLIMITED and value == 0:
        return "no limit"
    unit = next((unit for suffix, unit in UNITS.items() if field.endswith(suffix)), f" {unit}" if unit else "")
    return f"{value:g}{unit}" if isinstance(value, float) else f"{value}{unit}" if value != "" else "none"


def _addresses(value: Sequence[str]) -> str:
    """Name the first and the last of many addresses: each rail has its own range."""
    if not all(value):
        return f"{len(value)} that the cloud chooses"
    return f"{value[0]} to {value[-1]}, {len(value)} rails" if len(value) > 2 else ", ".join(value) or "none"


def _entry(value: Any) -> str:
    return " ".join(filter(None, map(_entry, value))) if isinstance(value, tuple) else str(value)


def summary(entry: Any) -> str:
    """Describe an entry that is added or removed; empty if its name is enough."""
    if isinstance(entry, Group):
        return f", {entry.counts} x {entry.machine.name}"
    if isinstance(entry, Storage):
        kind = " ".join(filter(None, (entry.kind, entry.tier)))
        unit = catalog.file_systems()[entry.kind].capacity_unit if entry.kind in catalog.file_systems() else ""
        capacity = f"{entry.capacity} {unit}".strip() if entry.capacity else ""
        return f", {', '.join(filter(None, (kind, capacity, *entry.bought)))} at {entry.mount}"
    if isinstance(entry, Queue):
        limit = f", {entry.time_limit_minutes} min" if entry.time_limit_minutes else ""
        return f", of {', '.join(entry.pools)}{limit}{', by default' if entry.default else ''}"
    if isinstance(entry, User):
        return f", uid {entry.uid}{' of ' if entry.accounts else ''}{', '.join(entry.accounts)}"
    if isinstance(entry, Team):
        return f", gid {entry.gid}"
    return ""


def _data(value: Any) -> Any:
    return to_dict(value) if dataclasses.is_dataclass(value) else value


def _side(side: ComparedSide) -> dict[str, Any]:
    return {
        "stack": side.name,
        "cluster": side.plan.name,
        "release": side.plan.release.name,
        "fingerprint": fingerprint(side.plan),
        "stamped": None if side.unknown else side.stamped,
        "text": _stamped(side),
    }


def _stamped(side: ComparedSide) -> str:
    now = fingerprint(side.plan)
    if side.unknown:
        return f"{side.name}: {now}; state of the stamped cluster unknown: {side.unknown}"
    if not side.stamped:
        return f"{side.name}: {now}; not stamped yet"
    if side.stamped == now:
        return f"{side.name}: {now}; stamped as declared"
    return f"{side.name} was stamped from an earlier declaration: fingerprint {side.stamped}, now {now}"
