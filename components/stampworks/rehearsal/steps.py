"""Steps, creations and outputs of a run, from the engine's events and its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stampworks.provider.handler import Handler
from stampworks.provider.handlers import PACKAGE
from stampworks.rehearsal.engine import Ran
from stampworks.rehearsal.result import CriticalPath, ResourceStep, Why
from stampworks.rehearsal.rules import ResourceRule, name_of, rules_of, token_of

_TOLD = frozenset({"create", "update", "replace", "delete", "import", "read"})
_LOOKED_UP = frozenset({"import", "read"})
_ENGINES_OWN = "pulumi:"
_STACK = "pulumi:pulumi:Stack"
_SECRET = "4dabf18193072939515e22adb298388d"  # noqa: S105  # the mark of special values in the engine's own format
_OWN: Mapping[str, Handler] = {handler.token: handler for handler in PACKAGE.handlers}


def rule_of(token: str) -> ResourceRule | None:
    """Return the rule of a type, from the file of its package."""
    return rules_of(token.partition(":")[0]).rule(token)


def shown(urn: str) -> str:
    """Return type and name of a resource, for messages."""
    return f"{token_of(urn)} {name_of(urn)}"


def steps(ran: Ran) -> tuple[ResourceStep, ...]:
    """Return the steps in their order, without the engine's own resources and without unchanged ones."""
    return tuple(map(_step, _done(ran)))


def creations(ran: Ran) -> tuple[str, ...]:
    """Return the URNs of the created resources in their order, numbered as in the list of steps."""
    return tuple(each["urn"] for each in _done(ran) if each["op"] == "create" and _counted(each))


def _done(ran: Ran) -> Iterable[Mapping[str, Any]]:
    done = {(each["op"], each["urn"]): each for each in _metadata(ran, "resOutputsEvent") if each["op"] in _TOLD}
    return done.values()  # the outputs of a component are reported twice


def _counted(metadata: Mapping[str, Any]) -> bool:
    state = metadata.get("new") or metadata.get("old") or {}
    return bool(state.get("custom")) and metadata["op"] not in _LOOKED_UP


def changes(ran: Ran) -> int:
    """Count the resources that changed."""
    counted = [each.get("resourceChanges") or {} for each in ran.of("summaryEvent")]
    return sum(number for each in counted for op, number in each.items() if op != "same")


def unruled(resources: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the types without a rule."""
    types = {each["type"] for each in resources if each.get("custom") and not each["type"].startswith(_ENGINES_OWN)}
    return tuple(sorted(each for each in types if each not in _OWN and rule_of(each) is None))


def _metadata(ran: Ran, kind: str) -> Iterator[Mapping[str, Any]]:
    for event in ran.of(kind):
        metadata = event["metadata"]
        if not metadata["type"].startswith(_ENGINES_OWN):
            yield metadata


def _step(metadata: Mapping[str, Any]) -> ResourceStep:
    urn = metadata["urn"]
    token = token_of(urn)
    detailed = metadata.get("detailedDiff") or {}
    why = tuple(
        Why(path, said["diffKind"].endswith("-replace"), _source(token)) for path, said in sorted(detailed.items())
    )
    return ResourceStep(metadata["op"], token, name_of(urn), why, _counted(metadata))


def _source(token: str) -> str:
    if token in _OWN:
        return "as this toolkit's own table has it"
    rule = rule_of(token)
    return str(rule.source) if rule and rule.source else ""


def critical_path(resources: Sequence[Mapping[str, Any]], said: Mapping[str, float]) -> CriticalPath:
    """Return the longest chain of dependencies. Of two with equal duration, take the one with more creations."""
    known = {each["urn"]: each for each in resources if each.get("custom")}
    takes = {urn: _seconds(each["type"], said) for urn, each in known.items()}
    longest: dict[str, tuple[float, int, tuple[str, ...]]] = {}
    for urn in known:  # a state has each resource after its dependencies
        before = [longest[each] for each in sorted(_dependencies(known[urn])) if each in longest]
        seconds, length, chain = max(before, default=(0.0, 0, ()), key=lambda one: one[:2])
        longest[urn] = (seconds + (takes[urn] or 0.0), length + 1, (*chain, urn))
    seconds, _, chain = max(longest.values(), default=(0.0, 0, ()), key=lambda one: one[:2])
    unknown = tuple(shown(urn) for urn in chain if takes[urn] is None)
    return CriticalPath(tuple(map(shown, chain)), seconds, unknown)


def kinds(resources: Sequence[Mapping[str, Any]], meant: Sequence[Mapping[str, Any]]) -> str:
    """Count resources by type.

    The types with the most dependencies, such as nodes, come first.
    """
    before: dict[str, set[str]] = {}
    for each in resources:  # a state has each resource after its dependencies
        direct = _dependencies(each)
        before[each["urn"]] = direct.union(*(before.get(urn, ()) for urn in direct))
    most_first = sorted(meant, key=lambda each: (-len(before[each["urn"]]), each["type"]))
    names = [each["type"].rpartition(":")[2] for each in most_first]
    return ", ".join(f"{number} {name}" for name, number in Counter(names).items())


def _seconds(token: str, said: Mapping[str, float]) -> float | None:
    rule = rule_of(token)
    return said.get(token, rule.seconds if rule else None)


def _dependencies(resource: Mapping[str, Any]) -> set[str]:
    of_properties = (urns or () for urns in (resource.get("propertyDependencies") or {}).values())
    return {*(resource.get("dependencies") or ()), *(urn for urns in of_properties for urn in urns)}


def outputs(resources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the outputs of the stack without secrets, which are encrypted in the state."""
    [found] = [each.get("outputs", {}) for each in resources if each["type"] == _STACK]
    return {name: value for name, value in found.items() if not (isinstance(value, dict) and _SECRET in value)}
