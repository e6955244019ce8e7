"""A directory that every node of a local cluster sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks.clouds.local import room
from stampworks.provider.handler import Call, Handler, Property


class SharedDirectory(Handler):
    """A directory that every node sees. Deleting it deletes what is in it."""

    token = "stampworks:local:SharedDirectory"  # noqa: S105
    refresh = True
    inputs: ClassVar[Mapping[str, Property]] = {
        "cluster": Property("string", "the cluster's name", replaces=True),
        "networkInstance": Property("string", "the instance of the cluster's LocalNetwork"),
        "storage": Property("object", "the plan's storage"),
    }
    outputs: ClassVar[Mapping[str, Property]] = {
        "path": Property("string", "where it is on this machine", stable=True),
    }

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return f"{inputs['cluster']}/{inputs['storage']['name']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        return {"path": str(await call.thread(room.ensure_share, *_place(call.id)))}

    async def read(self, call: Call) -> dict[str, Any] | None:
        path = await call.thread(room.read_share, *_place(call.id))
        return {"path": str(path)} if path else None

    async def delete(self, call: Call) -> None:
        await call.thread(room.end_share, *_place(call.id))


def _place(identity: str) -> tuple[str, str]:
    cluster, _, name = identity.partition("/")
    return cluster, name
