"""Fields of a declaration and the effects of their changes, for editors, documentation and previews."""

from __future__ import annotations

import re
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from stampworks.declaration.fields import change, fields
from stampworks.declaration.models import Change, Declaration


class _Untitled(GenerateJsonSchema):
    """JSON schema without the titles that pydantic derives from names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def change_of(path: str) -> Change:
    """Return the effect of changing a field, by its path: of a single entry (pools[0].count) or of all
    (pools[].count)."""
    return change(fields()[re.sub(r"\[\d*\]", "[]", path)])


def schema() -> dict[str, Any]:
    """JSON schema of the value of stampworks:cluster, with a description and a change policy for every field."""
    document = Declaration.model_json_schema(schema_generator=_Untitled)
    for section in (document, *document["$defs"].values()):
        for field in section["properties"].values():
            if field.get("default") == "":  # "not given"; as a value it would be refused
                del field["default"]
            elif "default" in field:
                field["default"] = _without_empty(field["default"])
    return {"$schema": _Untitled.schema_dialect, **document}


def _without_empty(default: Any) -> Any:
    """Return a section's defaults, except empty ones."""
    if not isinstance(default, dict):
        return default
    return {name: _without_empty(value) for name, value in default.items() if value != ""}
