"""Writes docs/reference/settings.md from the declaration's schema: python -m tests.docs.settings"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stampworks.declaration import schema

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
HEADER = """\
# Settings

Every field of a declaration: the value of `stampworks:cluster` in `stacks/Pulumi.<stack>.yaml`, or a YAML file of its
own. This page is made from the schema (`stampworks schema`); `python -m tests.docs.settings` writes it again.

Unknown fields are refused. A field without a default is required in its section.

Effects of a change on a running cluster:

| change | meaning |
| --- | --- |
| in place | the running cluster is adjusted |
| roll | nodes are renewed |
| replace | the part with the field is replaced |
| refuse | not possible on a running cluster: the part holds data, or everything else depends on it |

`pulumi up` first drains leaving nodes, and renews nodes in waves. It refuses changes with the policies replace and
refuse until a user approves them: see [Review a change](../how-to/reviews.md).

"""


def page() -> str:
    """The whole page."""
    document = schema()
    parts = [section(title, found) for title, found in sections("", document, document["$defs"])]
    return HEADER + "\n".join(parts)


def sections(path: str, found: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The declaration and everything below it, in the order in which it is declared."""
    yield path, found
    for name, field in found["properties"].items():
        many = field.get("type") == "array"
        if reference := _reference(field.get("items", {}) if many else field):
            below = f"{path}.{name}".removeprefix(".") + ("[]" if many else "")
            yield from sections(below, defs[reference], defs)


def section(path: str, found: Mapping[str, Any]) -> str:
    lines = [f"## {path or 'The declaration'}", ""]
    if path and (description := found.get("description")):
        lines += [description, ""]
    lines += ["| field | type | default | change | meaning |", "| --- | --- | --- | --- | --- |"]
    required = found.get("required", ())
    for name, field in found["properties"].items():
        cells = (f"`{name}`", kind(field), default(field, name in required), field["x-change"], field["description"])
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "\\<") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def kind(field: Mapping[str, Any]) -> str:
    """Return the type in words, with its allowed values."""
    if _reference(field):
        return "section"
    if field.get("type") == "array":
        return f"list of {'sections' if _reference(field['items']) else 'texts'}"
    if "anyOf" in field:
        number, other = field["anyOf"]
        return kind(number) if other == {"type": "null"} else "count, as in `8B` or `1.4e12`"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}"
    return {"string": "text", "boolean": "`true`, `false`", "object": "mapping"}[field["type"]]


def default(field: Mapping[str, Any], required: bool) -> str:
    value = field.get("default")
    if required:
        return ""
    if isinstance(value, dict) and value:
        return "those of its fields"
    return "none" if value in (None, [], {}) else f"`{json.dumps(value).strip(chr(34))}`"


def _reference(field: Mapping[str, Any]) -> str:
    return str(field.get("$ref", "")).rpartition("/")[2]


if __name__ == "__main__":
    PAGE.write_text(page())
