"""Nodes that start and stop by themselves, of which the engine knows none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks import operations
from stampworks.provider.handler import Call, Handler, Property


class ElasticNodes(Handler):
    """The nodes of a group that start and stop by themselves: what is left of them ends when this is deleted.

    Whoever starts them has to be gone by then, or what it starts them from.
    """

    token = "stampworks:cluster:ElasticNodes"  # noqa: S105
    inputs: ClassVar[Mapping[str, Property]] = {
        "cluster": Property("string", "the cluster's name", replaces=True),
        "cloud": Property("string", "the cloud that it is on", replaces=True),
        "region": Property("string", "where that cloud has them", replaces=True),
        "group": Property("string", "the group", replaces=True),
    }

    async def ensure(self, call: Call) -> dict[str, Any]:  # noqa: ARG002
        return {}  # they start with the work

    async def read(self, call: Call) -> dict[str, Any] | None:  # noqa: ARG002
        return {}

    async def delete(self, call: Call) -> None:
        given, progress = call.inputs, call.progress
        where = given["cloud"], given["cluster"], given["region"], given["group"]
        await call.thread(operations.end_elastic, *where, progress)
