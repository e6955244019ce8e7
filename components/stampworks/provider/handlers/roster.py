"""The members of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stampworks import operations, plan
from stampworks.operations import WantedMembers
from stampworks.properties import ROSTER
from stampworks.provider.handler import Call, Handler
from stampworks.wire.values import said


class Roster(Handler):
    """Waits until all groups have the members that always run, and lists them."""

    table = ROSTER
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cloud and cluster, by which an import names it."""
        return f"{inputs['cloud']}/{inputs['cluster']}"

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Report members that should run and do not."""
        there = [plan.from_dict(plan.Member, each).name for each in outputs.get("members", ())]
        short = operations.missing(wanted(outputs), there)
        return {"members": [f"cloud: {short}"]} if short else {}

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Wait for members, and let surplus ones go when their jobs have ended."""
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
        """Return the members that run now."""
        cloud, cluster = call.id.split("/", 1)
        where = (cloud, cluster, call.inputs.get("region", ""))
        now = await call.thread(operations.members, *where)
        found = _outputs(now, await call.thread(operations.endings, *where))
        # A pool that was removed from the declaration exists until the end of the same `up`. Elastic members of a group
        # are never missing. Without a declaration, as in an import, all members are returned.
        groups = {each.group: each.always for each in wanted(call.inputs)}
        if groups:
            found["members"] = [one for one in found["members"] if one["name"] in groups.get(one["group"], ())]
        return found if found["members"] else None

    async def delete(self, call: Call) -> None:
        """Do nothing: the nodes are deleted by their own resources."""
        # a list; its nodes are deleted by their own resources


def wanted(inputs: Mapping[str, Any]) -> list[WantedMembers]:
    """Return the wanted members of each group.

    A declaration of an earlier version has no names: leave it out.
    """
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
