"""The scenario of a rehearsal: changes, failures, latencies and durations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from stampworks.declaration.errors import DeclarationError, Problem
from stampworks.declaration.nodes import UnreadValue, ValueNode, plain, spelled, walk
from stampworks.declaration.reading import read
from stampworks.declaration.wording import alternatives, did_you_mean, shown
from stampworks.rehearsal.rules import name_of, token_of

T = TypeVar("T")
SIZE_MAX_KIB = 64
LATENCY_MAX_S = 60
DURATION_MAX_S = 86400
Wrong = Callable[[str, str], Problem]
"""Makes a problem at its place from a message and a hint."""
KINDS = ("stock-out", "quota", "throttle", "crash")


@dataclass(frozen=True)
class ConfigurationChange:
    """A change of one value, in the declaration or in the rest of the stack's configuration."""

    name: str
    path: str
    value: Any
    config: bool = False
    """Whether the path is a key of the stack's configuration."""
    problem: Wrong = field(default=lambda message, hint: Problem("", 0, 0, "", message, hint, ""), compare=False)
    """Makes a problem at the line of this change."""


@dataclass(frozen=True)
class InjectedFailure:
    """A failure in the first `up` of a stack, at a single creation or at all matching ones."""

    kind: str
    at: int | None = None
    """Number of the creation in the list of the first `up`."""
    type: str = ""
    name: str = ""
    times: int = 1
    """Attempts at a throttled creation that are answered with "later"."""

    urn: str = ""
    """URN of the creation with that number. Another `up` that starts with nothing may create in another order."""

    def numbered(self, creations: Sequence[str]) -> InjectedFailure:
        """Return the failure with the URN of its number in the first `up`."""
        return self if self.at is None else replace(self, urn="".join(creations[self.at - 1 : self.at]))

    def hits(self, urn: str) -> bool:
        """Whether the failure applies to this resource."""
        if self.at is not None:
            return urn == self.urn
        return self.type in ("", token_of(urn)) and self.name in ("", name_of(urn))

    def __str__(self) -> str:
        if self.at is not None:
            return f"{self.kind} at creation {self.at}"
        return f"{self.kind} at {' '.join(word for word in (self.type, self.name) if word)}"


@dataclass(frozen=True)
class Scenario:
    """Everything that a rehearsal does besides the plain phases."""

    changes: tuple[ConfigurationChange, ...] = ()
    failures: tuple[InjectedFailure, ...] = ()
    latency: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a creation, by type: waited for, and counted in the critical path."""
    durations: Mapping[str, float] = field(default_factory=dict)
    """Seconds that only count in the critical path. They override a latency and the rules."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Placeholders for encrypted values of the stack's configuration, by key."""
    types: Sequence[tuple[str, Wrong]] = field(default=(), compare=False)
    """Every type that the scenario names, and a function for a problem at its line."""
    problems: Sequence[Problem] = field(default=(), compare=False)
    """Problems of the scenario itself. The rest of it is valid."""


def load_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raise DeclarationError if the file cannot be read. Other problems are in the scenario, each at its line.
    """
    file = str(path)
    try:
        with path.open("rb") as opened:
            content = opened.read(SIZE_MAX_KIB * 1024 + 1)
    except OSError as error:
        raise DeclarationError([Problem(file, 0, 0, "", f"cannot be read: {error.strerror}", "", "")]) from None
    if len(content) > SIZE_MAX_KIB * 1024:
        raise DeclarationError([Problem(file, 0, 0, "", f"is larger than {SIZE_MAX_KIB} KiB", "split it", "")])
    try:
        root = read(content.decode(), file)
    except UnicodeDecodeError:
        raise DeclarationError([Problem(file, 0, 0, "", "is not UTF-8", "save it as UTF-8", "")]) from None
    if root is None:
        raise DeclarationError([Problem(file, 0, 0, "", "is empty", "write changes:, failures: or durations:", "")])
    reader = _Reader(root)
    return replace(reader.scenario(), types=reader.types, problems=reader.problems)


class _Reader:
    """Reader that continues past a problem, so that all are reported at once. It leaves out invalid entries."""

    def __init__(self, root: ValueNode) -> None:
        self._root = root
        self.problems = [
            defect.place.problem(spelled((*path, defect.key) if defect.key else path), defect.message, defect.hint)
            for path, node in walk(root)
            for defect in node.defects
        ]
        self.types: list[tuple[str, Wrong]] = []

    def scenario(self) -> Scenario:
        parts = self._members(self._root, "", ("changes", "failures", "latency", "durations", "secrets"))
        return Scenario(
            changes=tuple(self._sound(self._change, parts, "changes")),
            failures=tuple(self._sound(self._failure, parts, "failures")),
            latency=self._seconds(
                parts, "latency", LATENCY_MAX_S, "a rehearsal really waits; durations: are counted only"
            ),
            durations=self._seconds(parts, "durations", DURATION_MAX_S, "write at most a day"),
            secrets={key: self._text(*at) for key, at in self._pairs(parts.get("secrets"), "secrets")},
        )

    def _sound(self, read: Callable[[ValueNode, str], T], parts: Mapping[str, ValueNode], part: str) -> Iterator[T]:
        for node, where in self._items(parts.get(part), part):
            before = len(self.problems)
            entry = read(node, where)
            if len(self.problems) == before:
                yield entry

    def _change(self, node: ValueNode, where: str) -> ConfigurationChange:
        said = self._members(node, where, ("name", "path", "config", "value"))
        if ("path" in said) == ("config" in said):
            hint = "path: leads to a value of the declaration, config: to another key of the stack's configuration"
            self._wrong(node, where, "has either path: or config:", hint)
        if "value" not in said:
            self._wrong(node, where, "has no value:", "write its new value; value: null takes it out")
        key = "path" if "path" in said else "config"
        target = said.get(key, node)
        path = self._text(target, f"{where}.{key}")
        return ConfigurationChange(
            name=self._text(said["name"], f"{where}.name") if "name" in said else path,
            path=path,
            value=plain(said["value"]) if "value" in said else None,
            config=key == "config",
            problem=lambda message, hint: target.place.problem(f"{where}.{key}", message, hint),
        )

    def _failure(self, node: ValueNode, where: str) -> InjectedFailure:
        said = self._members(node, where, ("fail", "at", "type", "name", "times"))
        kind = self._text(said["fail"], f"{where}.fail") if "fail" in said else ""
        if kind not in KINDS:
            self._wrong(said.get("fail", node), f"{where}.fail", "is not a failure", f"write {alternatives(KINDS)}")
        if ("at" in said) == bool({"type", "name"} & said.keys()):
            hint = "write at: 3 for the third, or type: or name:, or both of these"
            self._wrong(node, where, "does not say which creation fails", hint)
        if "times" in said and kind != "throttle":
            self._wrong(said["times"], f"{where}.times", "is for throttle only", "take it out")
        return InjectedFailure(
            kind=kind,
            at=self._count(said["at"], f"{where}.at") if "at" in said else None,
            type=self._type(said["type"], f"{where}.type") if "type" in said else "",
            name=self._text(said["name"], f"{where}.name") if "name" in said else "",
            times=self._count(said["times"], f"{where}.times") if "times" in said else 1,
        )

    def _members(self, node: ValueNode, where: str, known: tuple[str, ...]) -> Mapping[str, ValueNode]:
        if not isinstance(node.value, dict):
            self._wrong(node, where, "must be a mapping", f"it may have {alternatives(known)}")
            return {}
        for key, entry in node.value.items():
            if key not in known:
                self._wrong(entry, where, f"there is no {shown(key)} here", did_you_mean(key, known), of_key=True)
        return {key: entry for key, entry in node.value.items() if key in known}

    def _items(self, node: ValueNode | None, where: str) -> Iterator[tuple[ValueNode, str]]:
        if node is None:
            return
        if not isinstance(node.value, list):
            self._wrong(node, where, "must be a list", "begin each entry with a dash")
            return
        yield from ((item, f"{where}[{index}]") for index, item in enumerate(node.value))

    def _pairs(self, node: ValueNode | None, where: str) -> Iterator[tuple[str, tuple[ValueNode, str]]]:
        if node is None:
            return
        if not isinstance(node.value, dict):
            self._wrong(node, where, "must be a mapping", "write key: value")
            return
        yield from ((key, (item, f"{where}[{key}]")) for key, item in node.value.items())

    def _text(self, node: ValueNode, where: str) -> str:
        if isinstance(node.value, str) and node.value:
            return node.value
        if not isinstance(node.value, UnreadValue):
            self._wrong(node, where, "must be a text", "put it in quotes")
        return ""

    def _type(self, node: ValueNode, where: str) -> str:
        text = self._text(node, where)
        if text:
            self.types.append((text, functools.partial(node.place.problem, where)))
        return text

    def _count(self, node: ValueNode, where: str) -> int:
        if isinstance(node.value, int) and not isinstance(node.value, bool) and 1 <= node.value <= 10**6:
            return node.value
        self._wrong(node, where, "must be a whole number from 1", "the first is 1")
        return 1

    def _seconds(self, parts: Mapping[str, ValueNode], part: str, most: int, hint: str) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for key, (node, where) in self._pairs(parts.get(part), part):
            value = node.value
            self.types.append((key, functools.partial(node.entry.problem, part)))
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most:
                found[key] = value
            else:
                self._wrong(node, where, f"must be seconds from 0 to {most}", hint)
        return found

    def _wrong(self, node: ValueNode, where: str, message: str, hint: str, of_key: bool = False) -> None:
        place = node.entry if of_key else node.place
        self.problems.append(place.problem(where, message, hint))
