"""Valid parts of a declaration in which some paths are known to be wrong.

Wrong values, and values that a wrong one may have meant, are left out, so that no problem follows from them.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo

from stampworks.declaration.checks import Entry
from stampworks.declaration.fields import is_list, section_of
from stampworks.declaration.models import Declaration, Section
from stampworks.declaration.nodes import Path

Root = TypeVar("Root", bound=Section)


def sound(data: Any, wrong: frozenset[Path]) -> Entry:
    """Return the data without invalid values."""
    return {} if () in wrong else _sound_section(Declaration, data, wrong, ())


def part(data: Any, wrong: frozenset[Path], model: type[Root]) -> Root:
    """Return valid data as a model. The model raises AbsentError when an absent value is read."""
    above = frozenset(path[:length] for path in wrong for length in range(len(path) + 1))
    found: Root = _part_section(model, data, wrong, above, ())
    return found


def _sound_section(model: type[Section], data: Any, wrong: frozenset[Path], path: Path) -> Entry:
    result: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        here = (*path, name)
        if here in wrong:
            continue
        if name in data:
            result[name] = _sound_value(field, data[name], wrong, here)
        elif not field.is_required():
            default = field.get_default()
            result[name] = default.model_dump() if isinstance(default, Section) else default
    return result


def _sound_value(field: FieldInfo, value: Any, wrong: frozenset[Path], path: Path) -> Any:
    section = section_of(field)
    if not is_list(field):
        return _sound_section(section, value, wrong, path) if section else value
    return [_sound_item(section, item, wrong, (*path, index)) for index, item in enumerate(value)]


def _sound_item(section: type[Section] | None, item: Any, wrong: frozenset[Path], path: Path) -> Any:
    """Return an item of a list; a wrong item leaves a gap, so that the others keep their places."""
    if section:
        return {} if path in wrong else _sound_section(section, item, wrong, path)
    return None if path in wrong else item


def _part_section(model: type[Section], data: Any, wrong: frozenset[Path], above: frozenset[Path], path: Path) -> Any:
    """Return the sound sections of a list, each for itself; other lists and mappings need all of their parts."""
    values: dict[str, Any] = {}
    absent: list[str] = []
    for name, field in model.model_fields.items():
        here, section = (*path, name), section_of(field)
        if path in wrong or here in (wrong if section else above):
            absent.append(name)
        elif name not in data:
            continue
        elif section and is_list(field):
            items = enumerate(data[name])
            values[name] = tuple(_part_section(section, item, wrong, above, (*here, index)) for index, item in items)
        elif section:
            values[name] = _part_section(section, data[name], wrong, above, here)
        else:
            values[name] = _adapter(model, name).validate_python(data[name])
    made = model(**values)  # with its defaults
    for name in absent:
        vars(made).pop(name, None)
    return made


@functools.cache
def _adapter(model: type[Section], name: str) -> TypeAdapter[Any]:
    """Return the adapter of a single field: a model validates all of its fields, or none."""
    return TypeAdapter(model.model_fields[name].rebuild_annotation(), config=ConfigDict(strict=True))
