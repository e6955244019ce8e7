"""Documented behaviour of providers as data, a file for each package, so that the code knows no cloud's types."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stampworks.rehearsal.refusals import RefusedState
from stampworks.wire.values import UNKNOWN

FOLDER = Path(__file__).with_name("rules")
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class RuleSource:
    """Source of a rule, and the day on which it was read."""

    url: str
    read: str

    def __str__(self) -> str:
        return f"as documented, not observed: {self.url}, read {self.read}"


@dataclass(frozen=True)
class ResourceRule:
    """Rule of one type of resource."""

    id: str = "{digest}"
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Outputs that a provider computes if the program gives none.

    Text in braces is an input, the `id`, the resource's `name` in the program, a `digest`, or the `unique` name.
    """
    unique: str = ""
    """Input with a name that is unique for the type; made up if the program gives none."""
    replaces: frozenset[str] = frozenset()
    """Inputs whose change replaces the resource."""
    replaces_when: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Inputs whose change replaces the resource if other inputs have certain values."""
    replaces_when_smaller: frozenset[str] = frozenset()
    """Numbers and versions that can grow in place, but not shrink."""
    counts: tuple[str, ...] = ()
    """Outputs that each update increments."""
    refuses: tuple[RefusedState, ...] = ()
    """States that the cloud refuses."""
    source: RuleSource | None = None
    """Source of the replacements."""
    seconds: float | None = None
    """Duration of a creation; None if no source has one."""
    seconds_source: RuleSource | None = None

    def replacing(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether a change at this path replaces the resource. Inputs that are not known yet may have any value."""
        if any(new.get(name) in (value, UNKNOWN) for name, value in self.replaces_when.get(path, {}).items()):
            return True
        if path in self.replaces_when_smaller:
            before, after = _at(old, path), _at(new, path)
            alike = any(isinstance(before, kind) and isinstance(after, kind) for kind in ((int, float), str))
            return not (alike and after > before)
        plain = re.sub(r"\[[^\]]*\]", "", path)
        below = {key.removeprefix(f"{plain}.") for key in self.replaces if key.startswith(f"{plain}.")}
        return any(f"{plain}.".startswith(f"{key}.") for key in self.replaces) or any(
            below & _paths(_at(each, path)) for each in (old, new)
        )


@dataclass(frozen=True)
class Rules:
    """Rules of one package; empty without a file."""

    package: str
    types: Mapping[str, ResourceRule] = field(default_factory=dict)
    functions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    every: Mapping[str, Any] = field(default_factory=dict)
    """Outputs that every type of the package has."""
    attempts: int = 1
    """Attempts of the provider at a throttled call; 1 if no source says that it retries."""
    attempts_source: RuleSource | None = None
    version: str = ""
    """Version of the plugin, for a package that programs use without its SDK."""

    @property
    def file(self) -> Path:
        """The file of the rules, for messages."""
        return FOLDER / f"{self.package}.yaml"

    def rule(self, token: str) -> ResourceRule | None:
        """Return the rule of a type; None if nothing special is documented."""
        return self.types.get(token)

    def outputs(self, urn: str, number: int, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return id and outputs of the n-th resource that was ever created for a URN, without clock or chance.

        Inputs from the program are returned unchanged.
        """
        rule = self.rule(token_of(urn)) or ResourceRule()
        digest, name = hashlib.sha256(f"{urn} {number}".encode()).hexdigest()[:17], name_of(urn)
        unique = inputs.get(rule.unique) or f"{name}-{digest[:7]}"
        words = {**inputs, "digest": digest, "name": name, "unique": unique}
        words["id"] = _filled(rule.id, words)
        return str(words["id"]), {**_filled({**self.every, **rule.outputs}, words), **inputs}

    def computed(self, token: str) -> frozenset[str]:
        """Return the outputs that are not known before creation, unless the program gives them."""
        rule = self.rule(token) or ResourceRule()
        return frozenset(self.every) | frozenset(rule.outputs)


@functools.cache
def rules_of(package: str) -> Rules:
    """Return the rules of a package, which may be empty."""
    empty = Rules(package)
    if not empty.file.is_file():
        return empty
    data = yaml.safe_load(empty.file.read_text())
    tries = data.get("attempts") or {}
    return Rules(
        package,
        types={token: _rule(said, data) for token, said in (data.get("types") or {}).items()},
        functions=data.get("functions") or {},
        every=data.get("every") or {},
        attempts=tries.get("count", 1),
        attempts_source=_source(tries, data),
        version=str(data.get("version", "")),
    )


def _rule(said: Mapping[str, Any], file: Mapping[str, Any]) -> ResourceRule:
    takes = said.get("takes", {})
    return ResourceRule(
        id=said.get("id", "{digest}"),
        outputs=said.get("outputs", {}),
        unique=said.get("unique", ""),
        replaces=frozenset(said.get("replaces", ())),
        replaces_when=said.get("replaces_when", {}),
        replaces_when_smaller=frozenset(said.get("replaces_when_smaller", ())),
        counts=tuple(said.get("counts", ())),
        refuses=tuple(
            RefusedState(
                each["kind"], tuple(each["paths"]), each["error"], each.get("within", ""), each.get("unless", {})
            )
            for each in said.get("refuses", ())
        ),
        source=_source(said, file),
        seconds=takes.get("seconds"),
        seconds_source=_source(takes, file),
    )


def _source(said: Mapping[str, Any], file: Mapping[str, Any]) -> RuleSource | None:
    read = said.get("read", file["read"])
    return RuleSource(f"{file['sources']}{said['source']}", str(read)) if "source" in said else None


def without_sdk() -> dict[str, str]:
    """Return the packages that programs use without their SDK, with the version of their plugin."""
    packages = {file.stem: rules_of(file.stem).version for file in FOLDER.glob("*.yaml")}
    return {package: version for package, version in packages.items() if version}


def name_of(urn: str) -> str:
    """Return the logical name in a URN."""
    return urn.split("::", 3)[3]


def token_of(urn: str) -> str:
    """Return the type token in a URN, without its parents'."""
    return urn.split("::", 3)[2].split("$")[-1]


def _at(data: Any, path: str) -> Any:
    """Return the value at a path such as disks[0].size; None if there is none."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if index:
            data = data[int(index)] if isinstance(data, list) and int(index) < len(data) else None
        else:
            data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _paths(value: Any, path: str = "") -> set[str]:
    """Return the paths of all parts of a value, without list indexes."""
    if isinstance(value, Mapping):
        return {each for key, item in value.items() for each in _paths(item, f"{path}.{key}" if path else key)}
    if isinstance(value, list):
        return {each for item in value for each in _paths(item, path)}
    return {path}


def _filled(template: Any, words: Mapping[str, Any]) -> Any:
    """Return the template with its placeholders filled. Leave out members with a placeholder without a value."""
    if isinstance(template, Mapping):
        return {key: value for key, item in template.items() if (value := _filled(item, words)) is not None}
    if isinstance(template, list):
        return [_filled(item, words) for item in template]
    if not isinstance(template, str):
        return template
    if any(words.get(name) is None for name in _names(template)):
        return None
    if whole := _PLACE.fullmatch(template):  # keep the type of the value, such as tags
        return words[whole[1]]
    return _PLACE.sub(lambda place: str(words[place[1]]), template)


def _names(template: str) -> Iterator[str]:
    return (place[1] for place in _PLACE.finditer(template))
