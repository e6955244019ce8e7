"""Folders of a local cluster that outlive its nodes. Deleting one deletes what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks import machine_room as room
from stampworks.provider.handler import Call, Handler, Property


class _Folder(Handler):
    kind: ClassVar[room.Kind]
    refresh = True
    inputs: ClassVar[Mapping[str, Property]] = {
        "cluster": Property("string", "the cluster's name", replaces=True),
        "claim": Property("string", "the claim of the cluster's LocalRoom"),
        "name": Property("string", "what it is called among its kind", replaces=True),
    }
    outputs: ClassVar[Mapping[str, Property]] = {
        "path": Property("string", "where it is on this machine", stable=True),
    }

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return f"{inputs['cluster']}/{inputs['name']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        cluster, name = _place(call.id)
        return {"path": str(await call.thread(room.ensure_folder, cluster, call.inputs["claim"], self.kind, name))}

    async def read(self, call: Call) -> dict[str, Any] | None:
        cluster, name = _place(call.id)
        if not await call.thread(room.is_ours, cluster, call.inputs.get("claim", "")):
            return None
        path = await call.thread(room.read_folder, cluster, self.kind, name)
        return {"path": str(path)} if path else None

    async def delete(self, call: Call) -> None:
        cluster, name = _place(call.id)
        await call.thread(room.end_folder, cluster, call.inputs["claim"], self.kind, name)


class SharedDirectory(_Folder):
    """A directory that every node sees. Deleting it deletes what is in it."""

    token = "stampworks:local:SharedDirectory"  # noqa: S105
    kind = "exports"


class LocalVolume(_Folder):
    """A disk apart from that of the node which has it mounted. Deleting it deletes what is in it."""

    token = "stampworks:local:LocalVolume"  # noqa: S105
    kind = "volumes"


def _place(identity: str) -> tuple[str, str]:
    cluster, _, name = identity.partition("/")
    return cluster, name
