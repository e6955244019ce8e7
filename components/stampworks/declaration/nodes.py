"""A declaration as read: plain data in which every value knows its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from stampworks.declaration.errors import Problem
from stampworks.declaration.wording import shown

Path: TypeAlias = tuple[str | int, ...]


class UnreadValue:
    """Value of a node with unsupported syntax, such as an alias."""


@dataclass(frozen=True)
class FilePosition:
    """A character in a file; line 0 for an origin that has no lines."""

    file: str
    line: int = 0
    column: int = 0
    source: str = ""

    def problem(self, path: str, message: str, hint: str = "") -> Problem:
        """Return a problem at this position; `path` is the field's."""
        return Problem(self.file, self.line, self.column, path, message, hint, self.source)


@dataclass(frozen=True)
class Defect:
    """Defect that the reader found inside a node, before its meaning was considered."""

    place: FilePosition
    key: str
    """The entry it is about; empty for the node itself."""
    message: str
    hint: str
    last: bool = False
    """The same as `last` of a problem."""


Value: TypeAlias = "bool | int | float | str | list[ValueNode] | dict[str, ValueNode] | UnreadValue | None"


@dataclass(frozen=True)
class ValueNode:
    """A value, and where to point when it is wrong."""

    value: Value
    entry: FilePosition
    """Position of its key, or, in a list, of its beginning."""
    place: FilePosition
    """Position of problems with the value: the scalar itself, or the entry that contains it."""
    written: str = ""
    """A scalar as written in the file."""
    defects: tuple[Defect, ...] = ()


def plain(node: ValueNode) -> Any:
    """The bare data."""
    if isinstance(node.value, dict):
        return {key: plain(entry) for key, entry in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def walk(node: ValueNode, path: Path = ()) -> Iterator[tuple[Path, ValueNode]]:
    """The node and all below it, in the order of the file."""
    yield path, node
    if isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from walk(entry, (*path, key))
    elif isinstance(node.value, list):
        for index, item in enumerate(node.value):
            yield from walk(item, (*path, index))


def find(node: ValueNode, path: Path) -> tuple[ValueNode, bool]:
    """Return the node at a path, or the last node towards it, and whether it is the requested one."""
    for step in path:
        below = _below(node, step)
        if below is None:
            return node, False
        node = below
    return node, True


def merged(base: ValueNode, over: ValueNode) -> ValueNode:
    """Merge a declaration with its base: mappings merge, everything else replaces."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    value = dict(base.value)
    for key, entry in over.value.items():
        value[key] = merged(value[key], entry) if key in value else entry
    return replace(over, value=value, defects=(*base.defects, *over.defects))


def spelled(path: Path) -> str:
    """A path as messages show it: pools[0].count."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_][\w-]{0,40}", step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def parsed(path: str) -> Path:
    """The inverse of spelled, for the keys that can be declared."""
    return tuple(int(index) if index else key for index, key in re.findall(r"\[(\d+)\]|([^.\[\]]+)", path))


def _below(node: ValueNode, step: str | int) -> ValueNode | None:
    if isinstance(node.value, dict):
        return node.value.get(str(step))
    if isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None
