"""Rows and tables of properties. Names are those on the wire; the Python face has them with underscores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["string", "integer", "number", "boolean", "array", "object"]


@dataclass(frozen=True)
class Property:
    """A row of a resource's table: Check, Diff, a preview's unknowns, secrecy and the schema all come from it."""

    kind: Kind
    description: str
    required: bool = True
    secret: bool = False
    replaces: bool = False
    """Another value means another resource."""
    silent: bool = False
    """Told along: another value alone is no change."""
    settled: bool = False
    """An input that its own operation settles: another value is one that differs from what that left."""
    told_as_text: bool = False
    """JSON, of which the engine takes up each value on every way when it is plain data: another value is one that says
    something else, and an earlier version may have said the same in plain data."""
    stable: bool = False
    """An output that an update does not change, so that a preview can show it."""


@dataclass(frozen=True)
class PropertyTable:
    """The properties of one type of resource."""

    token: str
    """Its type, as the engine and the state of a stack have it."""
    inputs: Mapping[str, Property]
    outputs: Mapping[str, Property] = field(default_factory=dict)


CLUSTER = Property("string", "the cluster's name", replaces=True)
CLAIM = Property("string", "the claim of the cluster's LocalRoom")
