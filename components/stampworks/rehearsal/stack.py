"""The stack to rehearse: its project, and its configuration without secrets."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stampworks.declaration.errors import DeclarationError, Problem
from stampworks.declaration.files import displayed, stack_file
from stampworks.declaration.loader import load_stack
from stampworks.declaration.nodes import parsed, plain
from stampworks.declaration.wording import did_you_mean, shown
from stampworks.rehearsal.scenario import ConfigurationChange

DECLARED = "stampworks:cluster"
SIZE_MAX_KIB = 1024


@dataclass(frozen=True)
class Stack:
    """A stack as the rehearsal runs it."""

    name: str
    project: Path
    """Folder with Pulumi.yaml."""
    folder: Path
    """Folder with the files of its stacks."""
    project_name: str
    config: Mapping[str, Any]
    declared: Any
    """Declaration of the stack with its bases; None if it declares no cluster."""


def read_stack(name: str, project: Path, folder: Path, secrets: Mapping[str, str]) -> Stack:
    """Read a stack. Encrypted values are replaced by the placeholders of the scenario."""
    file = stack_file(name, folder)
    root, data = _read(file)
    config = data.get("config") or {}
    found = dict(_encrypted(root))
    problems = [
        Problem(
            displayed(file),
            line + 1,
            1,
            f"config.{key}",
            "is encrypted, and a rehearsal decrypts nothing",
            f"give a value for it in the scenario: secrets: {{{key!r}: anything}}",
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
        declared.pop("extends", None)  # the bases are included here
    project_name = _read(project / "Pulumi.yaml")[1].get("name")
    # Pulumi's full names are organization/project/stack
    return Stack(name.rpartition("/")[2], project, folder, str(project_name), config, declared)


def changed(stack: Stack, config: Mapping[str, Any], change: ConfigurationChange) -> dict[str, Any]:
    """Return the configuration after a change. A declaration is changed as a whole, together with its bases."""
    if change.config:
        return {**config, change.path: change.value}
    if stack.declared is None:
        hint = "name another key of its configuration with config:"
        raise DeclarationError([change.problem(f"stack {stack.name} declares no cluster", hint)])
    declared = copy.deepcopy(stack.declared if config[DECLARED] == stack.config[DECLARED] else config[DECLARED])
    way = parsed(change.path) or ("",)
    place = declared
    for step in way[:-1]:
        place = place[_step(place, step, change)]
    if change.value is None:
        del place[_step(place, way[-1], change)]
    else:
        place[_step(place, way[-1], change, new=True)] = change.value
    return {**config, DECLARED: declared}


def _step(place: Any, step: str | int, change: ConfigurationChange, new: bool = False) -> Any:
    """Return the key or index that a step means. Entries of lists have names. A new key need not exist."""
    if isinstance(place, list):
        for index, entry in enumerate(place):
            if step == index or (isinstance(entry, Mapping) and entry.get("name") == step):
                return index
    elif isinstance(place, Mapping) and step and (new or step in place):
        return step
    names = list(place) if isinstance(place, Mapping) else []
    if isinstance(place, list):
        names = [entry["name"] for entry in place if isinstance(entry, Mapping) and "name" in entry]
    message = f"the declaration has no {shown(str(step))} on the way to {change.path}"
    hint = did_you_mean(str(step), map(str, names)) or "it is empty"
    raise DeclarationError([change.problem(message, hint)])


def _read(file: Path) -> tuple[yaml.MappingNode, dict[str, Any]]:
    """Read a file's mapping, as nodes with places and as plain data."""
    with file.open("rb") as opened:
        content = opened.read(SIZE_MAX_KIB * 1024 + 1)
    if len(content) > SIZE_MAX_KIB * 1024:
        raise DeclarationError([Problem(displayed(file), 0, 0, "", f"is larger than {SIZE_MAX_KIB} KiB", "", "")])
    try:
        root, data = yaml.compose(content, Loader=yaml.SafeLoader), yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):
        root = data = None
    if not isinstance(root, yaml.MappingNode) or not isinstance(data.get("config") or {}, dict):
        hint = "`pulumi config` shows the error"
        raise DeclarationError([Problem(displayed(file), 0, 0, "", "is not a mapping in YAML", hint, "")])
    return root, data


def _encrypted(root: yaml.MappingNode) -> Iterator[tuple[str, int]]:
    """Yield the keys of the configuration with an encrypted part, and their lines."""
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
