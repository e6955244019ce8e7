"""Id of a change, which approves this change and no other."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from stampworks.changes.differences import differences
from stampworks.plan import Plan, settled, to_dict

VARIABLE = "STAMPWORKS_ACCEPT"
"""The variable of the environment that carries the id of an accepted change."""
_LENGTH = 12


def change_id(a: Plan, b: Plan) -> str:
    """Return a digest of all differences, with their values: another value or direction is another change."""
    found = differences(*(settled(dataclasses.replace(each, reasons=())) for each in (a, b)))
    told = [(each.path, _data(each.a), _data(each.b)) for each in found if not each.is_a_place]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:_LENGTH]


def _data(value: object) -> object:
    if isinstance(value, tuple):
        return [_data(each) for each in value]
    return to_dict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
