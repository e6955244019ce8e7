"""The place of a cluster on this machine."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from stampworks import machine_room as room
from stampworks.properties import LOCAL_ROOM
from stampworks.provider.handler import Call, Handler


class LocalRoom(Handler):
    """The place of a cluster on this machine: the claim on everything in it.

    Deleting it leaves nothing of the cluster. It is created before everything in the room and deleted after it, so that
    it finds parts that a killed `up` left outside of any state. Creating it makes nothing, so that an interrupted
    creation leaves nothing.
    """

    table = LOCAL_ROOM

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the cluster, by which an import names it."""
        return str(inputs["cluster"])

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Claim the room for this stack. Raise an error if another stack has it."""
        claim = call.old_outputs.get("claim") or f"{_stack(call.urn)}, claim {secrets.token_hex(8)}"
        await call.thread(room.expect_owner, call.inputs["cluster"], claim)
        return {"claim": claim}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the claim in the state, the only place that shows it as ours. The room may be another stack's."""
        return {"claim": call.old_outputs["claim"]} if "claim" in call.old_outputs else None

    async def delete(self, call: Call) -> None:
        """Remove the folder of the room."""
        await call.thread(room.remove_room, call.id, call.old_outputs["claim"])


def _stack(urn: str) -> str:
    stack, project = urn.removeprefix("urn:pulumi:").split("::")[:2]
    return f"stack {stack} of project {project}"
