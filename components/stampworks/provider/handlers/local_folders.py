"""Folders of a local cluster that outlive its nodes. Deleting one deletes its contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks import machine_room as room
from stampworks.properties import LOCAL_VOLUME, SHARED_DIRECTORY
from stampworks.provider.handler import Call, Handler


class _Folder(Handler):
    kind: ClassVar[room.Kind]
    refresh = True

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
    """A directory that every node sees. Deleting it deletes its contents."""

    table = SHARED_DIRECTORY
    kind = "exports"


class LocalVolume(_Folder):
    """A disk apart from the root disk of the node that mounts it. Deleting it deletes its contents."""

    table = LOCAL_VOLUME
    kind = "volumes"


def _place(identity: str) -> tuple[str, str]:
    cluster, _, name = identity.partition("/")
    return cluster, name
