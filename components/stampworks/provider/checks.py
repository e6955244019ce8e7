"""Checks of inputs against a resource's table."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from stampworks.properties import Kind, Property
from stampworks.provider.handler import Handler, InputFailure
from stampworks.wire.values import UNKNOWN, is_known

_TYPES: dict[Kind, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def failures(handler: Handler, inputs: Mapping[str, Any]) -> list[InputFailure]:
    """Return all faults of the inputs, as far as their values are known."""
    found = [*_unknown_names(handler, inputs), *_ill_typed(handler, inputs)]
    if not found and is_known(inputs):
        found += handler.check(inputs)
    return found


def _unknown_names(handler: Handler, inputs: Mapping[str, Any]) -> Iterator[InputFailure]:
    for name in inputs:
        if name not in handler.inputs:
            close = difflib.get_close_matches(name, handler.inputs, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(handler.inputs)}"
            yield InputFailure(name, f"{handler.token} has no such input; {hint}")


def _ill_typed(handler: Handler, inputs: Mapping[str, Any]) -> Iterator[InputFailure]:
    for name, row in handler.inputs.items():
        if name not in inputs:
            if row.required:
                # Without the path: for a missing input the engine would show a value.
                yield InputFailure("", f"{name} is missing: {row.description}")
        elif not _fits(row, inputs[name]):
            # The value is not shown: it may be a secret in the wrong place.
            yield InputFailure(name, f"must be of type {row.kind}: {row.description}")


def _fits(row: Property, value: Any) -> bool:
    if value is UNKNOWN:
        return True
    return isinstance(value, _TYPES[row.kind]) and (row.kind == "boolean" or not isinstance(value, bool))
