"""The roll of a cluster, which renews outdated nodes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from stampworks import configuration, operations, plan, qualification
from stampworks.configuration import drift
from stampworks.properties import ROLL
from stampworks.provider.handler import Call, Handler
from stampworks.provider.handlers.qualification import read_certificate


class Roll(Handler):
    """Renews, in waves, nodes that run on an earlier image or were condemned. Other nodes continue their jobs."""

    table = ROLL
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cloud and cluster, by which an import names it."""
        return f"{inputs['cloud']}/{inputs['cluster']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Renew outdated nodes, a batch at a time, and prove each before it takes jobs."""
        secrets, key = _secrets(call)
        earlier = read_certificate(call.old_outputs, qualification.public_key(key)) if key else None
        kept = {"certificate": call.old_outputs.get("certificate", "")}

        def keep(certificate: qualification.Certificate) -> None:
            kept["certificate"] = qualification.signed(certificate, key)

        call.left = kept  # the measurements outlive a failed roll
        order = _order(call.inputs)
        play = _play(call, order, secrets)
        await call.thread(operations.roll, order, earlier, call.progress, play, keep)
        now = await _members(call)
        return {**await _now(call, now), **kept, "generations": {name: _generation(now, name) for name in _names(call)}}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the certificate and the generations of the nodes."""
        kept = {name: call.old_outputs.get(name, none) for name, none in (("certificate", ""), ("generations", {}))}
        if not isinstance(call.inputs.get("plan"), str):  # an import has none, and an earlier version kept no text
            return kept
        return {**await _now(call, await _members(call)), **kept, **call.left}

    async def delete(self, call: Call) -> None:
        """Do nothing: the resource owns no nodes."""
        # the nodes go


def _order(inputs: Mapping[str, Any]) -> operations.Order:
    whole = plan.from_dict(plan.Plan, json.loads(inputs["plan"]))
    return operations.Order(whole, inputs["content"], inputs["programs"], inputs["fingerprint"])


def _secrets(call: Call) -> tuple[dict[str, str], str]:
    """Return the secrets of the playbook, and the signing key, which is empty without a proof."""
    given = dict(call.inputs["secrets"])
    return {name: given[name] for name in given if name != "signing_key"}, given.get("signing_key", "")


async def _members(call: Call) -> plan.Roster:
    given = call.inputs
    region = json.loads(given["plan"]).get("region", "")
    return await call.thread(operations.members, given["cloud"], given["cluster"], region)


def _names(call: Call) -> list[str]:
    return [group["name"] for group in call.inputs["groups"]]


def _generation(of: plan.Roster, group: str) -> str:
    return plan.generation({each.name: each.instance for each in of.members if each.group == group})


async def _now(call: Call, known: plan.Roster) -> dict[str, Any]:
    """Return the current generations of the groups, as far as the engine has one, and the outdated nodes."""
    groups = [
        {**group, "generation": _generation(known, group["name"]) if group["generation"] else ""}
        for group in call.inputs["groups"]
    ]
    try:
        late = await call.thread(operations.outdated, _order(call.inputs).plan, call.inputs["content"])
    except ValueError:  # a plan of an earlier version that cannot be read: `up` writes a new one
        late = {}
    return {
        "groups": groups,
        "drift": drift.lines("cloud", [(name, f"to be renewed: {late[name]}") for name in late]),
    }


def _play(call: Call, order: operations.Order, secrets: Mapping[str, str]) -> operations.Play:
    """Return a function that runs the cluster's playbook on some nodes, with the current roster."""
    wait, told = call.waiter(), call.inputs["playbook"]
    attached = plan.from_dict(plan.Attached, told["attached"])

    def play(roster: plan.Roster, hosts: Collection[str]) -> None:
        inventory = operations.instructions(order, roster, told["checks"], attached)
        more = {"timeout_minutes": told["timeoutMinutes"], "roles": told["roles"], "hosts": hosts}
        wait(configuration.play(told["name"], inventory, roster.reach, secrets, call.progress, **more))

    return play
