"""Who is in a cluster now."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from stampworks import operations, plan
from stampworks.provider.handler import Call, Handler, Property

_POLL_S = 0.5


class MembersMissingError(Exception):
    """Some group did not become complete in time."""


class Roster(Handler):
    """Waits until all members of all groups are there, and says who they are."""

    token = "stampworks:cluster:Roster"  # noqa: S105
    refresh = True
    inputs: ClassVar[Mapping[str, Property]] = {
        "cluster": Property("string", "the cluster's name", replaces=True),
        "cloud": Property("string", "the cloud whose members they are", replaces=True),
        "groups": Property("array", "of each group its name, how many members it has, and its generation"),
    }
    outputs: ClassVar[Mapping[str, Property]] = {
        "reach": Property("array", "command that runs another one where the members can be reached"),
        "user": Property("string", "whom to log in as"),
        "identityFile": Property("string", "path of the key to log in with"),
        "members": Property("array", "the members, with their addresses and host keys"),
    }

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return f"{inputs['cloud']}/{inputs['cluster']}"

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        missing = _missing(outputs.get("groups", ()), outputs.get("members", ()))
        return {"members": [f"cloud: {missing}"]} if missing else {}

    async def ensure(self, call: Call) -> dict[str, Any]:
        patience_s = operations.patience_s(call.inputs["cloud"])
        deadline = time.monotonic() + patience_s
        while True:
            found = await _members(call, call.inputs["cloud"], call.inputs["cluster"])
            missing = _missing(call.inputs["groups"], found["members"])
            if not missing:
                return found
            if time.monotonic() > deadline:
                raise MembersMissingError(f"{missing} after {patience_s:.0f} s; pulumi up starts what is dead")
            call.progress(missing)
            await asyncio.sleep(_POLL_S)

    async def read(self, call: Call) -> dict[str, Any] | None:
        found = await _members(call, *call.id.split("/", 1))
        return found if found["members"] else None

    async def delete(self, call: Call) -> None:
        pass  # a list; what it lists is deleted by whoever made it


async def _members(call: Call, cloud: str, cluster: str) -> dict[str, Any]:
    """The declared groups' members; all there are where nobody declared any, as in an import."""
    data = plan.to_dict(await call.thread(operations.members, cloud, cluster))
    declared = {group["name"] for group in call.inputs.get("groups", ())}
    return {
        "reach": list(data["reach"]),
        "user": data["user"],
        "identityFile": data["identity_file"],
        # A pool that was taken out of the declaration is there until the end of the same `up`.
        "members": [one for one in data["members"] if not declared or one["group"] in declared],
    }


def _missing(groups: Any, members: Any) -> str:
    """Which groups are not complete, in words; empty when all are."""
    there = Counter(member["group"] for member in members)
    short = [
        f"{group['name']}: {there[group['name']]} of {group['count']} members"
        for group in groups
        if there[group["name"]] != group["count"]
    ]
    return ", ".join(short)
