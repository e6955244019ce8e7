"""The stack that is rehearsed: its project, and its configuration without anything that only its owner can read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stampworks.declaration.errors import DeclarationError, Problem
from stampworks.declaration.loader import load_stack
from stampworks.declaration.nodes import parsed, plain
from stampworks.declaration.wording import shown
from stampworks.rehearsal.scenario import Change

DECLARED = "stampworks:cluster"
SIZE_MAX_KIB = 1024


@dataclass(frozen=True)
class Stack:
    name: str
    project: Path
    """The folder with Pulumi.yaml."""
    project_name: str
    config: Mapping[str, Any]
    declared: Any
    """What the stack declares with all that it extends; None where it declares no cluster."""
    secrets: tuple[str, ...]
    """The keys of the configuration that are encrypted in the stack's file."""


def read_stack(name: str, project: Path, folder: Path, secrets: Mapping[str, str]) -> Stack:
    """What is rehearsed: with stand-ins, which the scenario names, for what is encrypted."""
    file = folder / f"Pulumi.{name}.yaml"
    root = _compose(file)
    config = _construct(root).get("config") or {}
    found = dict(_encrypted(root))
    problems = [
        Problem(
            str(file),
            line + 1,
            1,
            f"config.{key}",
            "is encrypted, and a rehearsal decrypts nothing",
            f"say in the scenario what stands for it: secrets: {{{key!r}: anything}}",
            file.read_text().splitlines()[line],
        )
        for key, line in found.items()
        if key not in secrets
    ]
    if problems:
        raise DeclarationError(problems)
    for key in found:
        config[key] = secrets[key]
    declared = None
    if DECLARED in config:
        source = load_stack(name, folder)
        source.refuse_problems()
        declared = plain(source.root)
    project_name = _construct(_compose(project / "Pulumi.yaml")).get("name")
    return Stack(name, project, str(project_name), config, declared, tuple(found))


def changed(stack: Stack, config: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The configuration after a change. That of a declaration is made in what it says together with its bases."""
    if change.config:
        return {**config, change.path: change.value}
    if stack.declared is None:
        hint = "name another key of its configuration with config:"
        raise DeclarationError([change.problem(f"stack {stack.name} declares no cluster", hint)])
    declared = copy.deepcopy(stack.declared if config[DECLARED] == stack.config[DECLARED] else config[DECLARED])
    *way, last = parsed(change.path)
    place = declared
    for step in way:
        place = place[_step(place, step, change)]
    if isinstance(place, list) or last not in place:
        last = _step(place, last, change) if isinstance(place, list) else last
    if change.value is None:
        del place[_step(place, last, change)]
    else:
        place[last] = change.value
    return {**config, DECLARED: declared}


def _step(place: Any, step: str | int, change: Change) -> str | int:
    """The key or index that a step means: entries of lists have names."""
    if isinstance(place, list):
        for index, entry in enumerate(place):
            if step == index or (isinstance(entry, Mapping) and entry.get("name") == step):
                return index
    elif isinstance(place, Mapping) and step in place:
        return step
    names = [entry.get("name") for entry in place] if isinstance(place, list) else list(place or ())
    message = f"the declaration has no {shown(str(step))} on the way to {change.path}"
    raise DeclarationError([change.problem(message, f"there is {', '.join(map(str, names)) or 'nothing'}")])


def _compose(file: Path) -> yaml.MappingNode:
    with file.open("rb") as opened:
        content = opened.read(SIZE_MAX_KIB * 1024 + 1)
    if len(content) > SIZE_MAX_KIB * 1024:
        raise DeclarationError([Problem(str(file), 0, 0, "", f"is larger than {SIZE_MAX_KIB} KiB", "", "")])
    try:
        root = yaml.compose(content, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        root = None
    if not isinstance(root, yaml.MappingNode):
        raise DeclarationError([Problem(str(file), 0, 0, "", "is no mapping in YAML", "`pulumi about` says more", "")])
    return root


def _construct(root: yaml.MappingNode) -> dict[str, Any]:
    loader = yaml.SafeLoader("")
    try:
        return dict(loader.construct_document(root))
    finally:
        loader.dispose()


def _encrypted(root: yaml.MappingNode) -> Iterator[tuple[str, int]]:
    """The keys of the configuration of which some part is encrypted, and in which line."""
    for key, value in root.value:
        if key.value == "config" and isinstance(value, yaml.MappingNode):
            for name, entry in value.value:
                if any(node.value == "secure" for node in _keys(entry)):
                    yield name.value, name.start_mark.line


def _keys(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield from _keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _keys(item)
