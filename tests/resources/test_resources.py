"""The Python classes of the toolkit's resources against their tables, and the tables against the plugin."""

from __future__ import annotations

import inspect

import pytest
from stampworks import properties, resources
from stampworks.properties import PropertyTable
from stampworks.provider.handlers import PACKAGE
from stampworks.resources.base import Resource, _snake

FACES = {face.table.token: face for face in (getattr(resources, name) for name in resources.__all__)}
TABLES = [table for table in vars(properties).values() if isinstance(table, PropertyTable)]
TYPES = {"string": "Output[str]", "integer": "Output[int]", "boolean": "Output[bool]"}
each_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.token)


def test_each_table_has_a_face_and_a_handler() -> None:
    """A resource missing in one of them could not be declared or created."""
    handlers = {handler.token: handler.table for handler in PACKAGE.handlers}
    assert handlers == {table.token: table for table in TABLES}
    assert {token: face.table for token, face in FACES.items()} == handlers


@each_table
def test_a_face_takes_every_input(table: PropertyTable) -> None:
    """Arguments of the constructor are the inputs of the table, so that none is missing in a program."""
    parameters = inspect.signature(FACES[table.token].__init__).parameters.values()
    given = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name != "opts"]
    assert sorted(given) == sorted(map(_snake, table.inputs))


@each_table
def test_a_face_gives_every_property_its_type(table: PropertyTable) -> None:
    """Annotations are the properties of the table, and their types fit its kinds."""
    annotated: dict[str, str] = {}
    for base in FACES[table.token].__mro__:
        if issubclass(base, Resource) and base is not Resource:
            annotated |= inspect.get_annotations(base)
    rows = {**table.inputs, **table.outputs}
    assert annotated == {_snake(name): TYPES.get(row.kind, "Output[Any]") for name, row in rows.items()}
