"""Fields of Kubernetes objects. Members of teams can create some, so that readers expect nothing of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(each: Any, *path: str) -> Any:
    """Return the value at a path of an object; None if it has another shape."""
    for key in path:
        each = each.get(key) if isinstance(each, Mapping) else None
    return each


def text_at(each: Any, *path: str) -> str:
    """Return the text at a path; empty if it is missing or no text."""
    found = at(each, *path)
    return found if isinstance(found, str) else ""


def count_at(each: Any, *path: str, otherwise: int = 0) -> int:
    """Return the integer at a path; `otherwise` if it is missing or no integer."""
    found = at(each, *path)
    return found if type(found) is int else otherwise


def maps_at(each: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a list of an object."""
    found = at(each, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def texts_at(each: Any, *path: str) -> list[str]:
    """Return the listed texts, or an empty list if one is invalid."""
    found = at(each, *path)
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else []
