"""Differences of a resource's inputs: those that count, and one line of words about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from stampworks.properties import Property
from stampworks.wire.values import PropertyChange, changes, is_known, said, top

_SHOWN = 4
_LENGTH_MAX = 40
"""Maximum characters of a value. For a longer value the line says only that it differs."""


def input_changes(
    table: Mapping[str, Property], olds: Mapping[str, Any], old_inputs: Mapping[str, Any], news: Mapping[str, Any]
) -> list[PropertyChange]:
    """Return the differences between old and new inputs, without those that the table calls silent."""
    before, after = dict(old_inputs), dict(news)
    before |= {name: olds[name] for name, row in table.items() if row.settled and name in olds}
    for values in (before, after):
        values |= {name: said(values[name]) for name, row in table.items() if row.told_as_text and name in values}
    silent = {name for name, row in table.items() if row.silent}
    return [each for each in changes(before, after) if top(each.path) not in silent]


def in_words(found: Iterable[PropertyChange], secrets: Collection[str]) -> str:
    """Return the line. It shows no value of a secret; the engine's own details have everything else."""
    parts = list(dict.fromkeys(_parts(found, secrets)))
    more = f"; {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(parts[:_SHOWN]) + more


def _parts(found: Iterable[PropertyChange], secrets: Collection[str]) -> Iterator[str]:
    """Yield changes with their values first, unknown ones last: these follow from others."""
    vague, follow = [], []
    for each in sorted(found, key=lambda each: each.path):
        name = top(each.path)
        if not is_known(each.new):
            follow.append(name)
        elif name not in secrets and (words := _with_values(each)):
            yield words
        else:
            vague.append(name if name in secrets else each.path.partition("[")[0])
    for name in vague:
        yield f"{name} differs"
    if follow:
        yield f"{', '.join(dict.fromkeys(follow))} known when the resources before are updated"


def _with_values(change: PropertyChange) -> str:
    """Return the change with its values; empty where they are no short texts."""
    if change.kind == "update":
        values = [_value(each) for each in (change.old, change.new)]
        return f"{change.path} {' to '.join(values)}" if all(values) else ""
    value = change.old if change.kind == "delete" else change.new
    name = value.get("name") if isinstance(value, Mapping) else _value(value)
    place = change.path.rpartition("[")[0] if change.path.endswith("]") else change.path
    return f"{place} {'without' if change.kind == 'delete' else 'with'} {name}" if name else ""


def _value(value: Any) -> str:
    """Return a short value as text; empty for any other."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if isinstance(value, (str, int, float)) and text.isprintable() and len(text) <= _LENGTH_MAX else ""
