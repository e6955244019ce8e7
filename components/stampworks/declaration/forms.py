"""A refusal with a hint, and a type for pydantic: the parts of values with a form of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema


def wrong(message: str, hint: str) -> PydanticCustomError:
    """Return an error for pydantic whose hint the loader prints below the message."""
    # A fixed template, because pydantic would expand braces that a user wrote.
    return PydanticCustomError("value", "{message}", {"message": message, "hint": hint})


@dataclass(frozen=True)
class TextForm:
    """A type for pydantic that checks text by a function, and in a JSON schema by a pattern, which is less strict."""

    judge: Callable[[str], str]
    pattern: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.judge, handler(source))

    def __get_pydantic_json_schema__(self, _: core_schema.CoreSchema, __: object) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}
