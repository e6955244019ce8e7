"""Every field of a declaration, or of a similar file, by its path: pools[].count."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import get_args, get_origin

from pydantic.fields import FieldInfo

from stampworks.declaration.models import CHANGE_KEY, Change, Declaration, Section
from stampworks.declaration.nodes import Path


@functools.cache
def fields(model: type[Section] = Declaration) -> dict[str, FieldInfo]:
    """Return all fields in the order of their declaration, sections before their fields."""
    return dict(_fields(model, ""))


def pattern(path: Path) -> str:
    """The path of the field that a value belongs to: pools[0].count belongs to pools[].count."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def section_of(field: FieldInfo) -> type[Section] | None:
    """Return the model of a section, or of the entries of a list."""
    kind = get_args(field.annotation)[0] if is_list(field) else field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def is_list(field: FieldInfo) -> bool:
    """Whether the field is declared as a list; its items then have `[]` in their paths."""
    return get_origin(field.annotation) is tuple


def change(field: FieldInfo) -> Change:
    """Return the change policy of a field. Every field in models/ has one."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict)  # noqa: S101  # a field without a policy is a mistake in models/
    policy: Change = extra[CHANGE_KEY]  # type: ignore[assignment]
    return policy


def _fields(model: type[Section], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        yield path, field
        if section := section_of(field):
            yield from _fields(section, f"{path}[]." if is_list(field) else f"{path}.")
