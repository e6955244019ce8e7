"""Who is in a cluster now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stampworks import operations, plan
from stampworks.operations import WantedMembers
from stampworks.properties import ROSTER
from stampworks.provider.handler import Call, Handler
from stampworks.wire.values import said


class Roster(Handler):
    """Waits until all members of all groups are there that always run, and says who they are."""

    table = ROSTER
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return f"{inputs['cloud']}/{inputs['cluster']}"

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        there = [plan.from_dict(plan.Member, each).name for each in outputs.get("members", ())]
        short = operations.missing(wanted(outputs), there)
        return {"members": [f"cloud: {short}"]} if short else {}

    async def ensure(self, call: Call) -> dict[str, Any]:
        given = call.inputs
        where = (given["cloud"], given["cluster"], given["region"])
        timeout = given["drainTimeoutMinutes"]
        known = wanted(given), wanted(call.old_inputs)
        now = await call.thread(operations.gather, *where, *known, timeout, call.progress)
        tags, before = given.get("tags", {}), call.old_inputs.get("tags", {})
        if tags or before:
            await call.thread(operations.retag, *where, tags, before.keys() - tags.keys())
        return _outputs(now, await call.thread(operations.endings, *where))

    async def read(self, call: Call) -> dict[str, Any] | None:
        cloud, cluster = call.id.split("/", 1)
        where = (cloud, cluster, call.inputs.get("region", ""))
        now = await call.thread(operations.members, *where)
        found = _outputs(now, await call.thread(operations.endings, *where))
        # A pool that was taken out of the declaration is there until the end of the same `up`; those of a group that
        # come and go with the work are nobody's to miss. All there are where nobody declared any, as in an import.
        groups = {each.group: each.always for each in wanted(call.inputs)}
        if groups:
            found["members"] = [one for one in found["members"] if one["name"] in groups.get(one["group"], ())]
        return found if found["members"] else None

    async def delete(self, call: Call) -> None:
        pass  # a list; what it lists is deleted by whoever made it


def wanted(inputs: Mapping[str, Any]) -> list[WantedMembers]:
    """Who is to be in each group; of one that an earlier version of the toolkit declared, nobody knows the names."""
    groups = [each for each in said(inputs.get("groups", [])) if "names" in each]
    return [WantedMembers(each["name"], tuple(each["names"]), int(each["count"])) for each in groups]


def _outputs(roster: plan.Roster, endings: Sequence[plan.Ending]) -> dict[str, Any]:
    data = plan.to_dict(roster)
    return {
        "reach": list(data["reach"]),
        "proxy": list(data["proxy"]),
        "user": data["user"],
        "identityFile": data["identity_file"],
        "members": list(data["members"]),
        "endings": [plan.to_dict(each) for each in endings],
    }
