"""The Python face of our resources against what the plugin serves."""

from __future__ import annotations

import pytest
from stampworks import resources
from stampworks.provider.handler import Handler
from stampworks.provider.handlers import PACKAGE
from stampworks.resources.base import _camel

FACES = {face.token: face for face in (getattr(resources, name) for name in resources.__all__)}


@pytest.mark.parametrize("handler", PACKAGE.handlers, ids=lambda handler: handler.token)
def test_a_resource_has_every_property_of_its_handler(handler: Handler) -> None:
    """An input or output that is not declared cannot be given or read in a program."""
    assert {_camel(name) for name in FACES[handler.token]._on_the_wire()} == {*handler.inputs, *handler.outputs}
