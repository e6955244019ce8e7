"""Nodes that start and stop by themselves. The engine has no resources for them."""

from __future__ import annotations

from typing import Any

from stampworks import operations
from stampworks.properties import ELASTIC_NODES
from stampworks.provider.handler import Call, Handler


class ElasticNodes(Handler):
    """The elastic nodes of a group, which start and stop by themselves. Deleting this ends those that are left.

    The programs or templates that start them have to be deleted first.
    """

    table = ELASTIC_NODES

    async def ensure(self, call: Call) -> dict[str, Any]:  # noqa: ARG002
        """Do nothing: jobs start the nodes."""
        return {}  # nodes start with the work

    async def read(self, call: Call) -> dict[str, Any] | None:  # noqa: ARG002
        """Return no outputs: the set of nodes is not part of the state."""
        return {}

    async def delete(self, call: Call) -> None:
        """End the nodes that run when the pool is removed."""
        given, progress = call.inputs, call.progress
        where = given["cloud"], given["cluster"], given["region"], given["group"]
        await call.thread(operations.end_elastic, *where, progress)
