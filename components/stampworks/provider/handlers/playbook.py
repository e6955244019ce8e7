"""A playbook that was run on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks import configuration, operations, plan
from stampworks.operations.drain import LEAVES
from stampworks.provider.handler import Call, Handler, Property


class Playbook(Handler):
    """Runs a playbook on the members of a roster, again whenever anything it depends on has changed."""

    token = "stampworks:cluster:Playbook"  # noqa: S105
    inputs: ClassVar[Mapping[str, Property]] = {
        "playbook": Property("string", "its file, in the folder of playbooks"),
        "inventory": Property("string", "the inventory, as JSON text"),
        "roster": Property("object", "the roster that the inventory was made from"),
        "digest": Property("string", "a digest of all playbooks and roles"),
        "secrets": Property("object", "variables that must not be seen", secret=True),
        "timeoutMinutes": Property("integer", "how long it may take"),
        "drainTimeoutMinutes": Property("integer", "how long nodes that leave may go on with their jobs"),
    }
    outputs: ClassVar[Mapping[str, Property]] = {
        "changed": Property("integer", "how many tasks changed something in the last run"),
        "hosts": Property("integer", "on how many hosts it ran"),
    }

    async def ensure(self, call: Call) -> dict[str, Any]:
        await call.thread(_drain_those_who_leave, call)
        recap = await configuration.play(
            call.inputs["playbook"],
            json.loads(call.inputs["inventory"]),
            _roster(call.inputs).reach,
            call.inputs["secrets"],
            call.progress,
            timeout_minutes=call.inputs["timeoutMinutes"],
        )
        return {"changed": recap.changed, "hosts": recap.hosts}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """What a run did cannot be looked up. One that failed counts too: it has changed hosts."""
        return {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}

    async def delete(self, call: Call) -> None:
        pass  # the hosts go, and with them what was done to them


def _roster(inputs: Mapping[str, Any]) -> plan.Roster:
    return plan.from_dict(plan.Roster, inputs["roster"])


def _drain_those_who_leave(call: Call) -> None:
    """Nodes that the scheduler is about to forget finish their jobs first, however they leave the cluster."""
    if "roster" not in call.old_inputs:
        return
    now, before = _roster(call.inputs), _roster(call.old_inputs)
    staying = {member.name for member in now.members}
    leaving = [member.name for member in before.members if member.name not in staying]
    if leaving:
        reasons = dict.fromkeys(leaving, LEAVES)
        operations.vacate(now, reasons, call.inputs["drainTimeoutMinutes"], call.progress)
