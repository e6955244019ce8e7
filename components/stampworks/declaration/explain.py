"""Turn pydantic's errors into messages for the author of the declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from stampworks.declaration.errors import PROBLEMS_MAX, Problem
from stampworks.declaration.fields import pattern
from stampworks.declaration.models import VERSION
from stampworks.declaration.nodes import Path, UnreadValue, ValueNode, find, spelled
from stampworks.declaration.wording import alternatives, brief, only, shown, similar

Fields: TypeAlias = Mapping[str, FieldInfo]
"""The fields of the file that was read, by path."""
# The expected kind of value for each complaint about a type.
NEEDS = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "dict_type": "a mapping",
}
# Words for true and false of other languages, and of old versions of YAML.
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "y", "1"), "true"),
    **dict.fromkeys(("false", "no", "off", "n", "0"), "false"),
}


def problem(error: ErrorDetails, root: ValueNode, known: Fields) -> Problem:
    """Return a complaint of pydantic as a problem at the user's line."""
    path: Path = error["loc"]
    node, found = find(root, path)
    place = node.entry if error["type"] == "extra_forbidden" else node.place
    message, hint = _value_message(error, path, node, known) if found else ("is missing", _description(path, known))
    return place.problem(spelled(path), message, hint)


def worth_saying(errors: Sequence[ErrorDetails], root: ValueNode, known: Fields) -> list[ErrorDetails]:
    """Return the errors that do not follow from another problem."""
    misspelled = meant(errors, known)
    return [error for error in errors if error["loc"] not in misspelled and not _follows(error, root)]


def meant(errors: Sequence[ErrorDetails], known: Fields) -> set[Path]:
    """Return the keys that unknown ones probably meant: their values are unknown."""
    unknown = [error["loc"] for error in errors if error["type"] == "extra_forbidden"]
    # Search only for the first keys: no more are shown, and a key that then looks missing does not justify a long
    # search.
    near = ((path, similar(str(path[-1]), _keys(path[:-1], known))) for path in unknown[: PROBLEMS_MAX + 1])
    return {(*path[:-1], key) for path, key in near if key}


def of_another_version(root: ValueNode) -> Problem | None:
    """Return the problem of a declaration of another version, in which keys may have another meaning."""
    node, found = find(root, ("version",))
    if not found or type(node.value) is not int or node.value == VERSION:
        return None
    message = f"this release of stampworks reads version {VERSION}, not {node.written}"
    hint = "install a release of stampworks that reads it" if node.value > VERSION else f"write version: {VERSION}"
    return node.place.problem("version", message, hint)


def _follows(error: ErrorDetails, root: ValueNode) -> bool:
    """Return whether an error follows from another one that the reader has reported."""
    node, found = find(root, error["loc"])
    if error["type"] == "missing":
        return any(not defect.key for defect in node.defects)
    if error["type"] == "too_short":  # pydantic does not count the items that are wrong
        return bool(error["input"])
    return found and isinstance(node.value, UnreadValue) and error["type"] != "extra_forbidden"


def _value_message(error: ErrorDetails, path: Path, node: ValueNode, known: Fields) -> tuple[str, str]:
    """The message and the hint for a value that is there and wrong."""
    kind, given = error["type"], _shown_value(node)
    if kind == "value":
        return error["ctx"]["message"], error["ctx"]["hint"]
    if kind == "extra_forbidden":
        return "there is no such key", _key_hint(path, known)
    if node.value is None:
        return "has no value", _description(path, known)
    if choices := _choices(path, known):
        return f"must be {alternatives(choices)}, not {given}", _choice_hint(node, choices) or _description(path, known)
    if kind in NEEDS:
        return f"must be {NEEDS[kind]}, not {given}", _type_hint(kind, path, node, known) or _description(path, known)
    if kind in ("greater_than_equal", "less_than_equal"):
        return f"must be {_range(path, known)}, not {given}", _description(path, known)
    if kind in ("too_short", "string_too_short"):
        return "is empty", _description(path, known)
    if kind == "too_long":
        return f"has {error['ctx']['actual_length']} entries, and {error['ctx']['max_length']} at most", _description(
            path, known
        )
    return error["msg"], _description(path, known)


def _shown_value(node: ValueNode) -> str:
    if isinstance(node.value, str):
        return shown(node.value)
    if isinstance(node.value, list):
        return "a list"
    return "a mapping" if isinstance(node.value, dict) else brief(node.written)


def _description(path: Path, known: Fields) -> str:
    """Return the description of a field; for an item of a list, that of the list."""
    field = known.get(pattern(path).removesuffix("[]"))
    text = ((field and field.description) or "").removesuffix(".")
    return text[:1].lower() + text[1:]


def _key_hint(path: Path, known: Fields) -> str:
    """Return a hint for an unknown key: a near spelling here, another section, or the keys of this section."""
    *above, key = path
    here = _keys(tuple(above), known)
    if near := similar(str(key), here):
        return f"did you mean '{near}'?"
    if elsewhere := [name.rpartition(".")[0] for name in known if name.rpartition(".")[2] == key]:
        return f"'{key}' belongs to {alternatives([name or 'the top level' for name in elsewhere])}"
    return only(here)


def _keys(path: Path, known: Fields) -> list[str]:
    """The keys of the section at a path."""
    prefix = f"{pattern(path)}." if path else ""
    below = [name.removeprefix(prefix) for name in known if name.startswith(prefix)]
    return [name for name in below if "." not in name]


def _choices(path: Path, known: Fields) -> list[str]:
    """Return the members of a closed set, except the empty one, which users never write."""
    where = pattern(path)
    field = known.get(where.removesuffix("[]"))
    closed: Any = field.annotation if field else None
    if where.endswith("[]") and get_origin(closed) is tuple:
        closed = get_args(closed)[0]
    return [str(choice) for choice in get_args(closed) if choice != ""] if get_origin(closed) is Literal else []


def _choice_hint(node: ValueNode, choices: list[str]) -> str:
    if not isinstance(node.value, str):
        return ""
    if node.value in choices:  # a number, in quotes
        return f"write {node.value} without quotes"
    near = similar(node.value, choices)
    return f"did you mean '{near}'?" if near else ""


def _type_hint(kind: str, path: Path, node: ValueNode, known: Fields) -> str:
    """Return a hint on how to write a value of the expected type."""
    scalar = not isinstance(node.value, (list, dict))
    if kind == "model_type":
        return f"its keys are {alternatives(_keys(path, known), last='and')}"
    if kind == "int_type" and isinstance(node.value, str) and node.value.isdecimal():
        return f"write {int(node.value)} without quotes" if len(node.value) < 10 else ""
    if kind == "int_type" and isinstance(node.value, float) and node.value.is_integer():
        return f"write {int(node.value)}"
    if kind == "bool_type" and (word := BOOLEANS.get(node.written.lower())):
        return f"write {word}"
    if kind == "string_type" and scalar:
        return f'write it in quotes: "{brief(node.written)}"'
    if kind == "tuple_type":
        return f"write [{brief(node.written)}]" if scalar else "begin each entry with '- '"
    return ""


def _range(path: Path, known: Fields) -> str:
    bounds = {
        name: getattr(limit, name)
        for limit in known[pattern(path)].metadata
        for name in ("ge", "le")
        if hasattr(limit, name)
    }
    return f"from {bounds['ge']} to {bounds['le']}"
