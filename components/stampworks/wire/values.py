"""Values on the wire as plain Python data.

The engine marks three things inside a protobuf struct: values that are not known yet, secrets, and outputs and
references, which this plugin does not request. Here an unknown value is UNKNOWN. The name of a property tells whether
it is secret, so code that works with values never meets a wrapper.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from google.protobuf.struct_pb2 import Struct, Value

_UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 (a mark of the protocol, no password)


class UnknownValue:
    """A value that exists only after something else is created."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = UnknownValue()


def decode(struct: Struct) -> dict[str, Any]:
    """Return a struct as plain data: whole numbers as int, without empty members, secrets unwrapped."""
    return _valued((name, _decode(value)) for name, value in struct.fields.items())


def secret_names(struct: Struct) -> frozenset[str]:
    """Return the members that hold a secret at any depth."""
    return frozenset(name for name, value in struct.fields.items() if _holds_secret(value))


def encode(values: Mapping[str, Any], secrets: Collection[str] = ()) -> Struct:
    """Encode values as a struct; the inverse of decode. The engine encrypts the members named in `secrets`."""
    plain = {name: _encode(value) for name, value in values.items() if value is not None}
    for name in plain.keys() & set(secrets):
        plain[name] = {_SIGNATURE: _SECRET, "value": plain[name]}
    struct = Struct()
    struct.update(plain)
    return struct


def said(value: Any) -> Any:
    """Return the value of a JSON text, in the form that decode would give. Return any other value unchanged."""
    try:
        return json.loads(value, object_pairs_hook=_valued, parse_float=_number) if isinstance(value, str) else value
    except ValueError:
        return value


def is_known(value: Any) -> bool:
    """Whether no part of the value is unknown."""
    if isinstance(value, Mapping):
        return all(is_known(item) for item in value.values())
    if isinstance(value, list):
        return all(is_known(item) for item in value)
    return value is not UNKNOWN


class PropertyChange(NamedTuple):
    """A difference of two values, with its path."""

    path: str
    kind: Literal["add", "delete", "update"]
    old: Any = None
    new: Any = None


def top(path: str) -> str:
    """Return the property that a path leads into."""
    return path.replace("[", ".").split(".")[0]


def changes(old: Any, new: Any, path: str = "") -> Iterator[PropertyChange]:
    """Yield the differences, each with its path in the form of the engine and its users."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _change(old, new, key, _member(path, key))
    elif isinstance(old, list) and isinstance(new, list):
        old_items, new_items = dict(enumerate(old)), dict(enumerate(new))
        for index in range(max(len(old), len(new))):
            yield from _change(old_items, new_items, index, f"{path}[{index}]")
    elif type(old) is not type(new) or old != new:
        yield PropertyChange(path, "update", old, new)


def _change(old: Mapping[Any, Any], new: Mapping[Any, Any], key: Any, path: str) -> Iterator[PropertyChange]:
    if key not in new:
        yield PropertyChange(path, "delete", old[key])
    elif key not in old:
        yield PropertyChange(path, "add", None, new[key])
    else:
        yield from changes(old[key], new[key], path)


def _number(value: float | str) -> int | float:
    number = float(value)
    return int(number) if number.is_integer() else number


def _valued(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in members if value is not None}


def _member(path: str, key: str) -> str:
    if not key.replace("_", "a").isalnum():
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _decode(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        if _is_secret(value):
            return _decode(value.struct_value.fields["value"])
        return decode(value.struct_value)
    if kind == "list_value":
        return [_decode(item) for item in value.list_value.values]
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "string_value":
        return UNKNOWN if value.string_value == _UNKNOWN_TEXT else value.string_value
    return value.bool_value if kind == "bool_value" else None


def _encode(value: Any) -> Any:
    if value is UNKNOWN:
        return _UNKNOWN_TEXT
    if isinstance(value, Mapping):
        return {str(name): _encode(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return value


def _is_secret(value: Value) -> bool:
    fields = value.struct_value.fields
    return _SIGNATURE in fields and fields[_SIGNATURE].string_value == _SECRET


def _holds_secret(value: Value) -> bool:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _is_secret(value) or any(_holds_secret(item) for item in value.struct_value.fields.values())
    return kind == "list_value" and any(_holds_secret(item) for item in value.list_value.values)
