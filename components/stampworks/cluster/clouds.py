"""The one place where a cloud's name becomes its code."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Cloud(NamedTuple):
    """What every cloud yields: modules whose `create` makes resources from a slice of the plan."""

    place: Any
    network: Any
    nodes: Any
    storage: Any


def load(name: str) -> Cloud:
    """The cloud's components. Only that cloud's SDK gets imported."""
    return Cloud(*(importlib.import_module(f"stampworks.clouds.{name}.{part}") for part in Cloud._fields))
