"""A cluster's place on this machine."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from stampworks import machine_room as room
from stampworks.properties import LOCAL_ROOM
from stampworks.provider.handler import Call, Handler


class LocalRoom(Handler):
    """A cluster's place on this machine: the claim that everything in it bears. Deleting it leaves nothing of it.

    It comes before all that is in the room and goes after it, so that what a killed `up` left and no state knows of is
    found here. Making it makes nothing: if that is interrupted, there is nothing that could be forgotten.
    """

    table = LOCAL_ROOM

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return str(inputs["cluster"])

    async def ensure(self, call: Call) -> dict[str, Any]:
        claim = call.old_outputs.get("claim") or f"{_stack(call.urn)}, claim {secrets.token_hex(8)}"
        await call.thread(room.expect_owner, call.inputs["cluster"], claim)
        return {"claim": claim}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """The state is the only place where a claim is known to be ours: the room may be another stack's."""
        return {"claim": call.old_outputs["claim"]} if "claim" in call.old_outputs else None

    async def delete(self, call: Call) -> None:
        await call.thread(room.remove_room, call.id, call.old_outputs["claim"])


def _stack(urn: str) -> str:
    stack, project = urn.removeprefix("urn:pulumi:").split("::")[:2]
    return f"stack {stack} of project {project}"
