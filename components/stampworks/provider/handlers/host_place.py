"""The claim of a cluster on hosts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from stampworks.clouds.hosts import groups
from stampworks.plan import Hosts, from_dict
from stampworks.properties import HOST_PLACE
from stampworks.provider.handler import Call, Handler


class HostPlace(Handler):
    """The claim of a cluster on hosts. Deleting it leaves nothing of the cluster on those that answer.

    It comes before everything on the hosts and goes after it, so it finds hosts that a killed `up` has claimed.
    """

    table = HOST_PLACE

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the cluster, by which an import names it."""
        return str(inputs["cluster"])

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Make the claim. It changes nothing on the hosts."""
        stack, project = call.urn.removeprefix("urn:pulumi:").split("::")[:2]
        made = f"stack {stack} of project {project}, claim {secrets.token_hex(8)}"
        return {"claim": call.old_outputs.get("claim") or made}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the claim in the state, its only place."""
        return {"claim": call.old_outputs["claim"]} if "claim" in call.old_outputs else None

    async def delete(self, call: Call) -> None:
        """Give back each host that still has the claim."""
        hosts = from_dict(Hosts, call.inputs["hosts"])
        await call.thread(groups.give_back_all, hosts, call.id, call.old_outputs["claim"], call.progress)
