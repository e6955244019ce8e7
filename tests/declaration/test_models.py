"""Fields of a declaration, and the effects of their changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from pydantic import ValidationError
from stampworks.declaration import Change, change_of, load_value, schema
from stampworks.declaration.fields import fields, is_list, section_of

from .conftest import EXAMPLE

SEVERITY = get_args(Change)
MINIMAL = {"version": 1, "name": "a", "cloud": "local", "pools": [{"name": "gpu", "machine": "sim-cpu", "count": 1}]}


def example() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(EXAMPLE)
    return data


def test_defaults() -> None:
    """Version, name, cloud and pools are enough."""
    declaration = load_value(MINIMAL, "o").declaration
    assert (declaration.release, declaration.network.cidr) == ("", "10.77.0.0/16")
    assert declaration.fabric.model_dump() == {
        "kind": "",
        "rail_rate_mbps": 0,
        "leaf_nodes": 0,
        "spine_leaves": 0,
        "oversubscription": 1,
    }
    assert (declaration.storage, declaration.users, declaration.scheduler.queues) == ((), (), ())
    assert (declaration.scheduler.kind, declaration.scheduler.accounting) == ("slurm", False)


def test_frozen() -> None:
    """A declaration cannot be changed after it was judged."""
    declaration = load_value(example(), "o").declaration
    with pytest.raises(ValidationError, match="frozen"):
        declaration.name = "other"
    hash(declaration)


@pytest.mark.parametrize("path", fields())
def test_every_field_is_described(path: str) -> None:
    """Each field has a sentence about its meaning, and an effect of its change."""
    description = fields()[path].description or ""
    assert description[:1].isupper()
    assert description.endswith(".")
    assert change_of(path) in SEVERITY


@pytest.mark.parametrize("path", [path for path, field in fields().items() if section_of(field) and not is_list(field)])
def test_sections_are_as_strict_as_their_fields(path: str) -> None:
    """Asked for a section as a whole, the answer is the worst that a change inside it can do."""
    inside = [change_of(other) for other in fields() if other.startswith(f"{path}.")]
    assert change_of(path) == max(inside, key=SEVERITY.index)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("pools", "in place"),
        ("pools[].count", "in place"),
        ("pools[12].count", "in place"),
        ("pools[0].machine", "replace"),
        ("release", "roll"),
        ("fabric.rail_rate_mbps", "in place"),
        ("fabric.leaf_nodes", "roll"),
        ("network.cidr", "replace"),
        ("storage[0].kind", "refuse"),
        ("users[0].uid", "refuse"),
        ("scheduler.queues[1].pools", "in place"),
        ("cloud", "refuse"),
    ],
)
def test_change_of(path: str, change: Change) -> None:
    """The effect of a change has a path: of a value, or of all values of a list."""
    assert change_of(path) == change


def test_change_of_unknown_field() -> None:
    """An undeclarable path is an error of the caller."""
    with pytest.raises(KeyError, match="pools"):
        change_of("pools[].cuont")


@pytest.mark.parametrize(
    "data", [example(), MINIMAL, {**MINIMAL, "extends": "base.yaml"}], ids=["all", "least", "base"]
)
def test_schema_accepts(data: dict[str, Any]) -> None:
    """Editors accept what the loader accepts."""
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(data, schema(), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nam": "x"},
        {"fabric": {"rate": 1}},
        {"name": "Not Legal"},
        {"name": "a" * 21},
        {"pools": []},
        {"pools": [{"name": "gpu", "machine": "sim-cpu", "count": 0}]},
        {"fabric": {"oversubscription": 3}},
        {"network": {"cidr": "ten"}},
        {"version": 2},
        {"release": 2026.11},
        {"release": ""},
    ],
    ids=str,
)
def test_schema_refuses(wrong: dict[str, Any]) -> None:
    """Editors show what is wrong in a single value."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**MINIMAL, **wrong}, schema(), jsonschema.Draft202012Validator)


def test_schema_describes() -> None:
    """The schema carries the description and the change policy of every field."""
    document = schema()
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for section in (document, *document["$defs"].values()):
        assert section["additionalProperties"] is False
        for field in section["properties"].values():
            assert field["description"]
            assert field["x-change"] in SEVERITY
    assert document["$defs"]["Pool"]["properties"]["count"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 4096,
        "description": "Largest number of nodes; for none, take the pool out.",
        "x-change": "in place",
    }


def test_import_is_light() -> None:
    """Importing the room loads neither Pulumi nor modules of other commands."""
    heavy = (
        "pulumi",
        "grpc",
        "asyncio",
        "ansible_runner",
        "jinja2",
        "jsonschema",
        "urllib.request",
    )
    code = f"import sys, stampworks.declaration; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/"))
    assert done.stdout.strip() == "[]"


def test_schema_accepts_its_defaults() -> None:
    """A default that the schema states can be written out."""
    document = schema()
    validator = jsonschema.validators.validator_for(document)(document)
    for section in (document, *document["$defs"].values()):
        for field in section["properties"].values():
            if "default" in field:
                validator.evolve(schema={"$defs": document["$defs"], **field}).validate(field["default"])
