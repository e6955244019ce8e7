"""Options from outside into a dataclass: unknown names and wrong kinds are refused, all of them at once."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import difflib
import json
import types
import typing
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

BYTES_MAX = 2**24
PACKED = "packed:"
"""Prefix of options in base64 of zlib: the options of a thousand nodes exceed the limit of an argument."""
Options = TypeVar("Options")


class OptionError(Exception):
    """Errors of the options, one on each line."""


def load(text: str) -> dict[str, Any]:
    """The JSON object that is given itself, packed, or as the name of a file."""
    if text.startswith(PACKED):
        where, given = "the options", _unpacked(text.removeprefix(PACKED))
    else:
        where, given = ("the options", text) if text.lstrip().startswith("{") else (text, _content(text))
    try:
        found = json.loads(given, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{where}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise OptionError(f"{where}: must be a JSON object, program name to its options, not {_kind_of(found)}")
    return found


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number that can be measured")


def _unpacked(text: str) -> str:
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(text, validate=True), BYTES_MAX)
    except (binascii.Error, zlib.error) as error:
        raise OptionError(f"the options: not packed as they should be: {error}") from None
    if not unpacker.eof:
        raise OptionError(f"the options: not whole, or more than {BYTES_MAX} bytes, which no options need")
    return content.decode(errors="replace")


def _content(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise OptionError(f"{path}: cannot read the options: {error.strerror}") from None
    if len(content) > BYTES_MAX:
        raise OptionError(f"{path}: has more than {BYTES_MAX} bytes, which no options need")
    return content.decode(errors="replace")


def read(kind: type[Options], given: Any, place: str) -> Options:
    """Return the options of a program, or raise all errors of them."""
    problems: list[str] = []
    found = _read(kind, given, place, problems)
    if problems:
        raise OptionError("\n".join(problems))
    return typing.cast("Options", found)


def _read(kind: Any, given: Any, place: str, problems: list[str]) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, given, place, problems)
    if origin is tuple:
        if isinstance(given, list) and len(arguments) == 2 and arguments[1] is not Ellipsis:
            if len(given) == len(arguments):
                pairs = zip(arguments, given, strict=True)
                return tuple(_read(one, each, f"{place}[{i}]", problems) for i, (one, each) in enumerate(pairs))
            problems.append(f"{place}: must have {len(arguments)} items, not {len(given)}")
            return None
        if isinstance(given, list):
            return tuple(_read(arguments[0], each, f"{place}[{i}]", problems) for i, each in enumerate(given))
    elif kind is float and isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    elif isinstance(kind, type) and type(given) is kind:
        return given
    problems.append(f"{place}: must be {_name(kind)}, not {_kind_of(given)}")
    return None


def _read_fields(kind: Any, given: Any, place: str, problems: list[str]) -> Any:
    if not isinstance(given, Mapping):
        problems.append(f"{place}: must be an object, not {_kind_of(given)}")
        return None
    hints = typing.get_type_hints(kind)
    for name in given:
        if name not in hints:
            near = difflib.get_close_matches(str(name), hints, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(hints)}"
            problems.append(f"{place}: knows no option {name!r}: {hint}")
    known = {name: _read(hints[name], given[name], f"{place}.{name}", problems) for name in hints if name in given}
    required = [each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING]
    if absent := [name for name in required if name not in given]:
        problems.append(f"{place}: lacks {', '.join(absent)}")
    if problems:
        return None
    try:
        return kind(**known)
    except ValueError as error:
        problems.append(f"{place}: {error}")
        return None


def _name(kind: Any) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(kind, "a list")


def _kind_of(given: Any) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text", types.NoneType: "null"}
    return names.get(type(given), json.dumps(given))
