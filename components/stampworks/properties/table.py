"""Rows and tables of properties. Names are those on the wire; the Python classes have them with underscores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["string", "integer", "number", "boolean", "array", "object"]


@dataclass(frozen=True)
class Property:
    """A row of a resource's table. Check, Diff, unknowns of a preview, secrecy and the schema all come from it."""

    kind: Kind
    description: str
    required: bool = True
    secret: bool = False
    replaces: bool = False
    """Whether a change replaces the resource."""
    silent: bool = False
    """Whether a change alone counts as no change."""
    settled: bool = False
    """Whether the operation settles this input. It is compared with the value that the last operation left."""
    told_as_text: bool = False
    """Whether the value is JSON as text, because the engine processes each value of plain data many times.

    A change is a change of its content. An earlier version may have sent the same as plain data.
    """
    stable: bool = False
    """Whether an update never changes this output, so that a preview can show it."""


@dataclass(frozen=True)
class PropertyTable:
    """The properties of one type of resource."""

    token: str
    """Type of the resource, as the engine and the state of a stack have it."""
    inputs: Mapping[str, Property]
    outputs: Mapping[str, Property] = field(default_factory=dict)


CLUSTER = Property("string", "name of the cluster", replaces=True)
CLAIM = Property("string", "claim of the cluster's LocalRoom")
