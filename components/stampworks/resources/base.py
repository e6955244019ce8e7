"""Base of the Python classes of the toolkit's resources: names on the wire, and the plugin's version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import pulumi

from stampworks.properties import PropertyTable
from stampworks.text.version import VERSION


class Resource(pulumi.CustomResource):
    """A resource of the stampworks plugin. Its table has its properties; annotations give them types."""

    table: ClassVar[PropertyTable]

    def __init__(self, name: str, arguments: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        """Take from a subclass's arguments those that have the name of an input."""
        names, rows = self._from_the_wire(), self.table.inputs
        inputs = {names[wire]: _guarded(row.secret, arguments[names[wire]]) for wire, row in rows.items()}
        outputs = dict.fromkeys(names[wire] for wire in self.table.outputs)
        ours = pulumi.ResourceOptions(version=VERSION)
        super().__init__(self.table.token, name, {**inputs, **outputs}, pulumi.ResourceOptions.merge(ours, opts))

    # Pulumi asks for keys at every depth, thousands of times for a plan of many nodes. Translate only the resource's
    # own properties: everything below them is data.

    def translate_input_property(self, prop: str) -> str:
        """Return an input's name on the wire. The SDK calls this."""
        return self._on_the_wire().get(prop, prop)

    def translate_output_property(self, prop: str) -> str:
        """Return an output's name in Python. The SDK calls this."""
        return self._from_the_wire().get(prop, prop)

    @classmethod
    @cache
    def _on_the_wire(cls) -> Mapping[str, str]:
        return {name: wire for wire, name in cls._from_the_wire().items()}

    @classmethod
    @cache
    def _from_the_wire(cls) -> Mapping[str, str]:
        return {wire: _snake(wire) for wire in (*cls.table.inputs, *cls.table.outputs)}


def _guarded(is_secret: bool, value: Any) -> Any:
    return pulumi.Output.secret(value) if is_secret else value


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)
