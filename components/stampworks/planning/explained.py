"""Explain a value of a plan: where it was declared, why it was derived, and how a change of it takes effect."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stampworks.changes.differences import KEYS, PathStep
from stampworks.declaration import DeclarationSource, check_name, role_name
from stampworks.declaration.fields import change, fields, pattern
from stampworks.declaration.models import Section
from stampworks.declaration.nodes import Path, find, parsed
from stampworks.declaration.wording import alternatives, shown
from stampworks.plan import Expectation, Plan, Reason, declared_pools
from stampworks.planning.changes.policies import DECLARED, field_of
from stampworks.planning.cost import cost
from stampworks.planning.rules.findings import Finding
from stampworks.text.names import unfold


class NoSuchValueError(ValueError):
    """A path that leads to nothing; the hint names existing paths."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")


@dataclass(frozen=True)
class Explanation:
    """A value of a plan with its reasons and the policy of its change."""

    path: str
    value: Any
    """Plain data; parts are shortened. None when the value is unknown, or when a reason covers several values."""
    reasons: tuple[Reason, ...]
    """Reasons of the value, of its parents, and of its parts."""
    field: str
    """The declared field that determines it; empty for a derived value."""
    description: str
    change: str
    """Effect of a change of that field."""
    written: str
    """File and line of the declared field; empty if it is not written."""


def explain(plan: Plan, source: DeclarationSource | None, path: str, findings: Sequence[Finding] = ()) -> Explanation:
    """Explain one value by its path in the plan, in the declaration, or in the output of `stampworks plan`.

    A plan that was read from a file has no declaration: then reasons are known, and lines are not.
    """
    if found := _page_explanation(plan, findings, path):
        return found
    whole = re.sub("_(min|max)$", "", path)  # an expectation's minimum and maximum are unknown for the same reason
    if (reasons := tuple(each for each in plan.reasons if each.path in (path, whole))) and not _leads(plan, path):
        return Explanation(path, None, reasons, "", "", "", "")  # a reason for several values together
    try:
        way, value = _walked(plan, _steps(plan, path), path)
    except NoSuchValueError:
        if together := [each for each in plan.expectations if each.name.startswith((f"{path}.", f"{path}_"))]:
            return _expectation_explanation(path, together)
        if source and (found := _declared_explanation(source, path)):
            return replace(found, reasons=tuple(_unused(plan, found.field)))
        raise
    field = field_of(way, plan)
    described = fields().get(field)
    return Explanation(
        path=_spelled(way),
        value=_shown(value),
        reasons=tuple(_reasons(plan, way)),
        field=field,
        description=(described.description or "") if described else "",
        change=change(described) if described else "",
        written=_written(source, way, field) if source and field else "",
    )


def _leads(plan: Plan, path: str) -> bool:
    try:
        _walked(plan, _steps(plan, path), path)
    except NoSuchValueError:
        return False
    return True


def _page_explanation(plan: Plan, findings: Sequence[Finding], path: str) -> Explanation | None:
    """Explain values that only `stampworks plan` shows: expectations, costs and findings of rules."""
    names = unfold(path) if "[" in path else (path,)
    if found := [each for each in plan.expectations if each.name in names]:
        return _expectation_explanation(path, found)
    section, _, name = path.partition(".")
    if section == "cost":
        return _cost_explanation(plan, path, name)
    said = [each for each in findings if path == "rules" or each.id in (path, path.removeprefix("rules."))]
    reasons = tuple(
        Reason(each.id, f"{each.outcome}: {each.text}" + (f"; {each.hint}" if each.hint else "")) for each in said
    )
    return Explanation(path, None, reasons, "", "", "", "") if said else None


def _expectation_explanation(path: str, found: Sequence[Expectation]) -> Explanation:
    if len(found) > 1:
        reasons = tuple(Reason(each.name, f"{each.value:g} {each.unit}: {each.why}") for each in found)
        return Explanation(path, None, reasons, "", "", "", "")
    [one] = found
    return Explanation(path, {"value": one.value, "unit": one.unit}, (Reason(path, one.why),), "", "", "", "")


def _cost_explanation(plan: Plan, path: str, name: str) -> Explanation | None:
    """Explain the cost of everything, or of a pool, the head or a storage, named as on the page or as declared."""
    whole = cost(plan)
    found = [each for each in whole.charges if name in ("", each.what, each.what.partition(" ")[2])]
    if not found:
        return None
    usd = whole.usd_per_hour if not name else found[0].usd_per_hour
    reasons = [Reason(f"cost.{each.what.rpartition(' ')[2]}", f"{each.basis}; {each.why}") for each in found]
    if not name and whole.uncounted:
        reasons.append(Reason("cost", f"not counted: {'; '.join(whole.uncounted)}"))
    return Explanation(path, usd and {"value": usd, "unit": "USD an hour"}, tuple(reasons), "", "", "", "")


def _declared_explanation(source: DeclarationSource, path: str) -> Explanation | None:
    """Explain a declared value that is not in the plan because others follow from it. None when no field has the
    path."""
    steps = _split(path)
    value: Any = source.declaration
    here: Path = ()
    for step in steps:
        if isinstance(value, Section) and step in type(value).model_fields:
            here, value = (*here, step), getattr(value, step)
            continue
        names = _entries(pattern(here), value)
        if (named := _named(step, names)) not in names:
            return None
        here, value = (*here, names.index(named)), value[names.index(named)]
    field = pattern(here)
    if not (described := fields().get(field)):
        return None
    return Explanation(
        path=".".join(steps),
        value=list(type(value).model_fields) if isinstance(value, Section) else _entries(field, value) or _shown(value),
        reasons=(),
        field=field,
        description=described.description or "",
        change=change(described),
        written=_line(source, here),
    )


def _unused(plan: Plan, field: str) -> Iterator[Reason]:
    """Yield a reason when a declared field belongs to a part that this plan lacks."""
    for place, written in DECLARED.items():
        above = place.rpartition(".")[0]
        if written == field and above and "[]" not in above and _walked(plan, above.split("."), above)[1] is None:
            yield Reason(field, f"nothing follows from it here: this plan has no {above}")


def _split(path: str) -> list[str]:
    """Split a path; groups[gpu].machine and groups.gpu.machine are equal."""
    return [step for step in re.split(r"[.\[\]]+", path) if step]


def _steps(plan: Plan, path: str) -> list[str]:
    """Split a path in the plan, where pools are called groups."""
    steps = _split(path)
    if not steps:
        raise NoSuchValueError("an empty path leads nowhere", "write one, like fabric.rails or groups.gpu.machine")
    if steps[0] != "pools":
        return steps
    pools = _pools(plan)
    below = [_named(step, pools) for step in steps[1:2]]
    if below and below[0] not in pools:
        raise _nothing(plan, path, "pools", below[0], pools)
    return ["groups", *below, *steps[2:]]


def _pools(plan: Plan) -> list[str]:
    return [pool.name for pool in declared_pools(plan.groups)]


def _named(step: str, names: Sequence[str]) -> str:
    """Return an entry's name, if it is asked for by its number."""
    return names[int(step)] if re.fullmatch("[0-9]{1,9}", step) and int(step) < len(names) else step


def _walked(plan: Plan, steps: Sequence[str], path: str) -> tuple[tuple[PathStep, ...], Any]:
    value: Any = plan
    way: list[PathStep] = []
    for step in steps:
        names = _names(value)
        if isinstance(value, tuple):
            step = _named(step, names)
        if step not in names:
            raise _nothing(plan, path, ".".join([each.key or each.field for each in way]), step, names)
        if isinstance(value, tuple):
            way[-1] = PathStep(way[-1].field, step)
            value = value[names.index(step)]
        else:
            way.append(PathStep(step))
            value = getattr(value, step)
    return tuple(way), value


def _names(value: Any) -> list[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    if isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
        return [str(next(getattr(each, key) for key in (*KEYS, "path") if hasattr(each, key))) for each in value]
    return []


def _nothing(plan: Plan, path: str, above: str, step: str, names: Sequence[str]) -> NoSuchValueError:
    everything = [each.name for each in plan.expectations] + list(_spellings(plan)) + list(names)
    near = difflib.get_close_matches(path, everything, n=1) or difflib.get_close_matches(step, names, n=1)
    there = f"there are {alternatives(names, last='and')}" if names else f"{above} has no parts"
    hint = f"did you mean {near[0]}?" if near else there
    return NoSuchValueError(f"{shown(path)}: there is no {shown(step)} in {above or 'a plan'}", hint)


def _spellings(plan: Plan) -> Iterator[str]:
    """Yield the paths of declared fields, with the names of this plan's entries."""
    for field in fields():
        if field.startswith("groups"):
            continue  # a plan calls these teams, and its groups are of nodes
        section, bracket, below = field.partition("[]")
        if not bracket:
            yield field
            continue
        entries: Any = plan
        for name in section.split("."):
            entries = getattr(entries, name, ())
        yield from (f"{section}.{name}{below}" for name in (_pools(plan) if section == "pools" else _names(entries)))


def _shown(value: Any) -> Any:
    """Return plain data. Parts are shortened to their names."""
    if dataclasses.is_dataclass(value):
        return {each.name: _short(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return _short(value)


def _short(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return getattr(value, "name", None) or _names(value)
    return _names(value) or (list(value) if isinstance(value, tuple) else value)


def _spelled(way: Sequence[PathStep]) -> str:
    return ".".join(".".join(filter(None, (step.field, step.key))) for step in way)


def _reasons(plan: Plan, way: Sequence[PathStep]) -> Iterator[Reason]:
    """Yield reasons of the value first, then of its parents, then of its parts. Reasons for all entries of a list count
    too, like groups.launch.disk_gib."""
    path, of_all = _spelled(way), ".".join(step.field for step in way)
    about = [each for each in plan.reasons if each.path in (path, of_all)]
    around = [each for each in plan.reasons if f"{path}.".startswith(f"{each.path}.") and each not in about]
    of_parts = (f"{path}.",) if way and way[-1].key else (f"{path}.", f"{of_all}.")
    within = [each for each in plan.reasons if each.path.startswith(of_parts)]
    yield from (*about, *reversed(around), *within)
    for each in plan.expectations:
        if path == "expectations":
            yield Reason(each.name, each.why)


def _written(source: DeclarationSource, way: Sequence[PathStep], field: str) -> str:
    """Return the file and line of a declared field; in a list, of the entry with the same name."""
    keys = [step.key for step in way if step.key]
    path = field
    for key in keys:
        if "[]" not in path:
            break
        section = path.partition("[]")[0]
        entries: Any = source.declaration
        for name in section.split("."):
            entries = getattr(entries, name)
        names = _entries(section, entries)
        if key not in names:
            return ""
        path = path.replace("[]", f"[{names.index(key)}]", 1)
    return _line(source, parsed(path))


def _line(source: DeclarationSource, path: Path) -> str:
    node, there = find(source.root, path)
    return f"{node.place.file}:{node.place.line}" if there and node.place.line else ""


def _entries(field: str, declared: Any) -> list[str]:
    """Return the plan's names of the entries of a declared list; empty when it has none."""
    if not isinstance(declared, tuple) or not all(isinstance(each, Section) for each in declared):
        return []
    of_path = {"extras.roles": role_name, "extras.checks": check_name}.get(field)
    return [of_path(each.path) if of_path else each.name for each in declared]
