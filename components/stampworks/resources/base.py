"""What all our resources have in common: their names on the wire and the plugin's version."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import pulumi

from stampworks.text.version import VERSION


class Resource(pulumi.CustomResource):
    """A resource of the stampworks plugin. Its annotations are its properties; those not given are outputs."""

    token: ClassVar[str]

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        outputs = [one for one in self._on_the_wire() if one not in inputs]
        ours = pulumi.ResourceOptions(version=VERSION)
        super().__init__(
            self.token, name, {**inputs, **dict.fromkeys(outputs)}, pulumi.ResourceOptions.merge(ours, opts)
        )

    # Pulumi asks for keys at every depth, thousands of times for a plan of many nodes. Only the resource's own are ours
    # to translate: what lies below them is data.

    def translate_input_property(self, prop: str) -> str:
        return self._on_the_wire().get(prop, prop)

    def translate_output_property(self, prop: str) -> str:
        return self._from_the_wire().get(prop, prop)

    @classmethod
    @cache
    def _on_the_wire(cls) -> Mapping[str, str]:
        ours = [one for one in reversed(cls.__mro__) if issubclass(one, Resource)]
        return {name: _camel(name) for one in ours for name in inspect.get_annotations(one) if name != "token"}

    @classmethod
    @cache
    def _from_the_wire(cls) -> Mapping[str, str]:
        return {wire: name for name, wire in cls._on_the_wire().items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
