"""Convert any type of a plan to plain data and back."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def to_dict(value: Any) -> dict[str, Any]:
    """Convert a value of any plan type to plain data, in the order of its fields."""
    return {name: _plain(getattr(value, name)) for name in _names(value.__class__)}


def _plain(value: Any) -> Any:
    """Convert like `dataclasses.asdict`, which takes three times as long because it also copies immutable values."""
    if isinstance(value, (tuple, list)):
        return type(value)([_plain(each) for each in value])
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return to_dict(value) if dataclasses.is_dataclass(value) else value


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind))


def to_json(value: Any) -> str:
    """Return the only written form: stable, indented, with a newline at the end."""
    return json.dumps(to_dict(value), indent=2, ensure_ascii=False) + "\n"


def from_dict(kind: type[T], data: Any) -> T:
    """Invert to_dict; refuse data that does not fit, so that a hand-edited file cannot half work."""
    return typing.cast(T, _build(kind, data, kind.__name__))


def from_json(kind: type[T], text: str) -> T:
    """Read a value of this type from JSON. Raise ValueError for text that is no JSON."""
    return from_dict(kind, json.loads(text))


def _build(kind: Any, data: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, path)
    if origin is tuple:
        return _build_tuple(typing.get_args(kind), data, path)
    if origin is Literal:
        allowed = typing.get_args(kind)
        if data not in allowed:
            raise ValueError(f"{path}: {data!r} is none of {', '.join(map(repr, allowed))}")
        return data
    if origin in (typing.Union, types.UnionType):
        return _build_optional(typing.get_args(kind), data, path)
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is float and kind is int and data.is_integer():  # JSON from the engine has doubles only
        return int(data)
    if type(data) is not kind:
        raise ValueError(f"{path}: expected {kind.__name__}, got {data!r}")
    return data


def _build_optional(args: tuple[Any, ...], data: Any, path: str) -> Any:
    """Build an optional value. No other unions exist, because a file could not say which type it means."""
    kinds = [kind for kind in args if kind is not type(None)]
    if len(kinds) != 1:
        raise TypeError(f"{path}: plan types have no unions but with None")
    return None if data is None else _build(kinds[0], data, path)


def _build_dataclass(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{path}: expected a mapping, got {data!r}")
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    # The engine drops null values, and earlier versions did not write fields that now have a default.
    given: dict[str, Any] = {name: None for name in names if type(None) in typing.get_args(hints[name])}
    given |= {each.name: each.default for each in dataclasses.fields(kind) if each.default is not dataclasses.MISSING}
    if missing := [name for name in names if name not in data and name not in given]:
        raise ValueError(f"{path}: lacks {', '.join(missing)}")
    if unknown := [name for name in data if name not in names]:
        raise ValueError(f"{path}: knows no {', '.join(map(str, unknown))}")
    return kind(**{name: _build(hints[name], data.get(name, given.get(name)), f"{path}.{name}") for name in names})


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields. Cached: resolving them costs more than building one of a thousand
    nodes."""
    return typing.get_type_hints(kind)


def _build_tuple(args: tuple[Any, ...], data: Any, path: str) -> Any:
    if not isinstance(data, (list, tuple)):
        raise ValueError(f"{path}: expected a list, got {data!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_build(args[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if len(args) != len(data):
        raise ValueError(f"{path}: expected {len(args)} items, got {len(data)}")
    return tuple(_build(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(args, data, strict=True)))
