"""Schema of the package for other languages of Pulumi, computed from the handlers' tables."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stampworks.properties import Property
from stampworks.provider.handler import Handler, Package

_ANY = {"$ref": "pulumi.json#/Any"}


def schema(package: Package) -> dict[str, Any]:
    """Return the schema of all resources, in the form of Pulumi's package schema."""
    return {
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "resources": {handler.token: _resource(handler) for handler in package.handlers},
    }


def _resource(handler: Handler) -> dict[str, Any]:
    state = {**handler.inputs, **handler.outputs}
    return {
        "description": inspect.getdoc(handler) or "",
        "inputProperties": _properties(handler.inputs),
        "requiredInputs": _required(handler.inputs),
        "properties": _properties(state),
        "required": _required(state),
    }


def _required(table: Mapping[str, Property]) -> list[str]:
    return [name for name, row in table.items() if row.required]


def _properties(table: Mapping[str, Property]) -> dict[str, Any]:
    return {name: _property(row) for name, row in table.items()}


def _property(row: Property) -> dict[str, Any]:
    described: dict[str, Any] = {"type": row.kind, "description": row.description}
    if row.kind == "array":
        described["items"] = _ANY
    if row.kind == "object":
        described["additionalProperties"] = _ANY
    if row.secret:
        described["secret"] = True
    if row.replaces:
        described["replaceOnChanges"] = True
    return described
