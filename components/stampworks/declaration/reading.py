"""Parse YAML text or plain data into nodes.

Only a part of YAML is supported: no aliases, tags, dates, octal numbers or second word for true. The rest means the
same to every reader, and its memory use follows the size of the file.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import yaml

from stampworks.declaration.errors import DeclarationError
from stampworks.declaration.models import Section
from stampworks.declaration.nodes import Defect, FilePosition, UnreadValue, Value, ValueNode
from stampworks.declaration.syntax import broken
from stampworks.declaration.wording import brief, shown

DEPTH_MAX = 32
CORE_TAG = "tag:yaml.org,2002:"
TOO_DEEP = (f"nested more than {DEPTH_MAX} levels deep", "no field is deeper than 6")
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
WORDS: dict[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # line breaks of YAML
BYTE_ORDER_MARK = re.compile("\ufeff")  # YAML takes it for text

REPEAT_HINT = "write the value out, or put what is common into a base file and name it with extends:"


def read(text: str, file: str) -> ValueNode | None:
    """The document in a text, or nothing when it is empty; DeclarationError when it is not YAML."""
    return _Reader(text, file).document()


def from_value(value: Any, origin: str) -> ValueNode:
    """Plain data as nodes, which know where they come from but have no lines."""
    root = _from_value(value, FilePosition(origin), 1)
    if not isinstance(root.value, dict):
        raise DeclarationError([root.place.problem("", "the declaration must be a mapping", "")])
    if "extends" not in root.value:
        return root
    defect = Defect(
        root.place, "extends", "extends works in a file only, and this declaration comes from elsewhere", "write it out"
    )
    return replace(root, defects=(*root.defects, defect))


def _from_value(value: Any, place: FilePosition, depth: int) -> ValueNode:
    if depth > DEPTH_MAX:
        raise DeclarationError([place.problem("", *TOO_DEEP)])
    if isinstance(value, Section):
        value = value.given()
    if isinstance(value, Mapping):
        return ValueNode({str(key): _from_value(entry, place, depth + 1) for key, entry in value.items()}, place, place)
    if isinstance(value, (list, tuple)):
        return ValueNode([_from_value(item, place, depth + 1) for item in value], place, place)
    if value is None or isinstance(value, (bool, int, float, str)):
        return ValueNode(value, place, place, value if isinstance(value, str) else json.dumps(value))
    defect = Defect(place, "", f"values of type {type(value).__name__} are not read", "give plain data")
    return ValueNode(UnreadValue(), place, place, defects=(defect,))


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._lines = LINE_BREAK.split(text)
        self._starts = [0, *(match.end() for match in LINE_BREAK.finditer(text))]
        if illegal := yaml.reader.Reader.NON_PRINTABLE.search(text) or BYTE_ORDER_MARK.search(text):
            character = f"U+{ord(illegal[0]):04X}"
            raise self._stop(illegal.start(), f"the character {character} cannot stand in a file", "delete it")
        self._loader = yaml.SafeLoader(text)
        self._next: Callable[[], yaml.Event] = self._loader.get_event

    def document(self) -> ValueNode | None:
        try:
            return self._document()
        except yaml.MarkedYAMLError as error:
            syntax = broken(error)
            raise self._stop(syntax.at, syntax.message, syntax.hint) from None
        except (ValueError, OverflowError):  # PyYAML raises chr()'s errors for escapes such as \U00110000
            at = self._loader.get_mark().index
            raise self._stop(at, "the escape does not stand for a character", "write the character itself") from None

    def _document(self) -> ValueNode | None:
        self._next()
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        node = self._node(self._next(), None, 1)
        self._next()
        behind = self._next()
        if isinstance(behind, yaml.StreamEndEvent):
            return node
        raise self._stop(_start(behind), "a second document begins here", "keep one document in one file")

    def _node(self, event: yaml.Event, key: FilePosition | None, depth: int) -> ValueNode:
        start = self._place(_start(event))
        if depth > DEPTH_MAX:
            raise self._stop(_start(event), *TOO_DEEP)
        if isinstance(event, yaml.AliasEvent):
            defect = Defect(start, "", f"aliases such as {brief('*' + str(event.anchor))} are not read", REPEAT_HINT)
            return ValueNode(UnreadValue(), key or start, start, defects=(defect,))
        if isinstance(event, yaml.ScalarEvent):
            node = _scalar(event, key or start, start)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(key or start, depth)
        else:
            node = self._mapping(key or start, depth)
        if (tag := getattr(event, "tag", None)) is None:
            return node
        defect = Defect(
            start, "", f"tags such as {brief(tag.replace(CORE_TAG, '!!'))} are not read", "leave the tag out"
        )
        return replace(node, value=UnreadValue(), defects=(defect,))

    def _sequence(self, entry: FilePosition, depth: int) -> ValueNode:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, None, depth + 1))
        return ValueNode(items, entry, entry)

    def _mapping(self, entry: FilePosition, depth: int) -> ValueNode:
        entries: dict[str, ValueNode] = {}
        defects = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, None, depth + 1)
            node = self._node(self._next(), key.entry, depth + 1)
            if defect := _refused(key, entries):
                defects.append(defect)
            else:
                entries[key.written] = node
        return ValueNode(entries, entry, entry, defects=tuple(defects))

    def _place(self, index: int) -> FilePosition:
        line = bisect_right(self._starts, index) - 1
        return FilePosition(self._file, line + 1, index - self._starts[line] + 1, self._lines[line])

    def _stop(self, index: int, message: str, hint: str) -> DeclarationError:
        return DeclarationError([self._place(index).problem("", message, hint)])


def _start(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _scalar(event: yaml.ScalarEvent, entry: FilePosition, start: FilePosition) -> ValueNode:
    value = event.value if event.style else _resolved(event.value)
    return ValueNode(value, entry, entry if value is None else start, event.value)


def _resolved(text: str) -> Value:
    """Return the value of a text without quotes."""
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if FLOAT.fullmatch(text) else text


def _refused(key: ValueNode, entries: dict[str, ValueNode]) -> Defect | None:
    if key.defects:
        return key.defects[0]
    if isinstance(key.value, (list, dict)):
        return Defect(key.entry, "", "a key must be a word", "write it like name: value")
    if key.written == "<<":
        return Defect(key.entry, "", "merge keys (<<) are not read", REPEAT_HINT)
    if first := entries.get(key.written):
        hint = f"keep one; the first is in line {first.entry.line}"
        return Defect(key.entry, key.written, f"{shown(key.written)} is written twice", hint)
    return None
