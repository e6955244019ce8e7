"""Nodes that start and stop by themselves, of which the engine knows none."""

from __future__ import annotations

from typing import Any

from stampworks import operations
from stampworks.properties import ELASTIC_NODES
from stampworks.provider.handler import Call, Handler


class ElasticNodes(Handler):
    """The nodes of a group that start and stop by themselves: what is left of them ends when this is deleted.

    Whoever starts them has to be gone by then, or what it starts them from.
    """

    table = ELASTIC_NODES

    async def ensure(self, call: Call) -> dict[str, Any]:  # noqa: ARG002
        return {}  # they start with the work

    async def read(self, call: Call) -> dict[str, Any] | None:  # noqa: ARG002
        return {}

    async def delete(self, call: Call) -> None:
        given, progress = call.inputs, call.progress
        where = given["cloud"], given["cluster"], given["region"], given["group"]
        await call.thread(operations.end_elastic, *where, progress)
