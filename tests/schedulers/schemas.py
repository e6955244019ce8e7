"""Operators' published schemas, as a judge that refuses every unknown field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import yaml

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv"
FOLDERS = (
    "kubernetes/share/kueue/crd/bases",
    "kubernetes/share/jobset/crd/bases",
    "published/schemas/trainer",
    "published/schemas/mpi-operator",
)


def definitions() -> list[Path]:
    """The files with them."""
    found = [file for folder in FOLDERS for file in sorted((ENVIRONMENT / folder).glob("*_*.yaml"))]
    assert {file.parent for file in found} == {ENVIRONMENT / folder for folder in FOLDERS}, (
        "definitions are missing: python3 -m tools.prepare --kubernetes --training"
    )
    return found


def wrong(manifest: Mapping[str, Any]) -> list[str]:
    """Return the positions and reasons at which an object violates its published schema."""
    validator = _validators()[manifest["apiVersion"], manifest["kind"]]
    errors = sorted(validator.iter_errors(manifest), key=lambda error: error.json_path)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


def known(manifest: Mapping[str, Any]) -> bool:
    return (manifest["apiVersion"], manifest["kind"]) in _validators()


@cache
def _validators() -> dict[tuple[str, str], Any]:
    found = {}
    for definition in (yaml.load(file.read_text(), yaml.CSafeLoader) for file in definitions()):
        spec = definition["spec"]
        for version in spec["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[key] = jsonschema.Draft7Validator(schema)
    return found


def _strict(schema: Any) -> Any:
    """Make a structural schema strict: it lists all fields of an object unless it allows unknown ones."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(each) for name, each in schema.items()}
    whole = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if whole and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """All of them that these operators define."""
    for each in value if isinstance(value, list) else [value]:
        if known(each):
            yield each
