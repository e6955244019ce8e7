"""What can be declared, and what changing it does."""

from __future__ import annotations

from typing import Any

from stampworks.declaration.models import Change, Declaration


def schema() -> dict[str, Any]:
    """JSON schema of a declaration."""
    return Declaration.model_json_schema()


def change_of(path: str) -> Change:
    """What changing the field at this path does."""
    raise NotImplementedError(path)
