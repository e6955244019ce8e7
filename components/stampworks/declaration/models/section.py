"""Base of all parts of a declaration, and the effects of changes of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Strict

from stampworks.declaration.errors import AbsentError

Change = Literal["in place", "roll", "replace", "refuse"]
CHANGE_KEY = "x-change"

IN_PLACE: Final[dict[str, Any]] = {CHANGE_KEY: "in place"}
"""The running cluster applies it, and jobs continue."""
ROLL: Final[dict[str, Any]] = {CHANGE_KEY: "roll"}
"""Node by node: drain, change, prove again, return."""
REPLACE: Final[dict[str, Any]] = {CHANGE_KEY: "replace"}
"""A change replaces the described resource."""
REFUSE: Final[dict[str, Any]] = {CHANGE_KEY: "refuse"}
"""Data or state would be lost: the change needs another cluster, or a manual migration."""

# YAML has lists where a frozen model has tuples; everything inside them is as strict as elsewhere.
FromList = Strict(False)


class Section(BaseModel):
    """A part of the declaration: frozen, without unknown keys or implicit conversions.

    A part built in Python is validated with the whole declaration, not before: then all problems are reported together,
    as for a file, each with its path.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    if not TYPE_CHECKING:  # a type checker sees each field as an argument

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise AbsentError(name)
            return super().__getattr__(name)

        def __init__(self, /, **given: Any) -> None:
            fields = type(self).model_fields.items()
            defaults = {name: field.get_default() for name, field in fields if not field.is_required()}
            object.__setattr__(self, "__dict__", defaults | given)
            object.__setattr__(self, "__pydantic_fields_set__", set(given))
            object.__setattr__(self, "__pydantic_extra__", None)
            object.__setattr__(self, "__pydantic_private__", None)

        __init__.__pydantic_base_init__ = True  # pydantic has validated the values already and needs no call of it

    def given(self) -> dict[str, Any]:
        """Return the given values without defaults; some of them may be sections in turn."""
        return {name: value for name, value in self.__dict__.items() if name in self.model_fields_set}
