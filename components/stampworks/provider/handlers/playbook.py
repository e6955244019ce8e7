"""A playbook that was run on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stampworks import configuration, operations, plan
from stampworks.configuration import drift
from stampworks.operations.drain import LEAVES
from stampworks.operations.slurm.service import SlurmService
from stampworks.properties import PLAYBOOK
from stampworks.provider.handler import Call, Handler

_LOOK_MINUTES = 10
"""Minutes for the look of a refresh, which waits for nothing on the nodes."""


class Playbook(Handler):
    """Runs a playbook on the members of a roster, and again whenever one of its inputs has changed."""

    table = PLAYBOOK

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Run the playbook on all hosts, after nodes that leave are drained."""
        await call.thread(_drain_those_who_leave, call)
        recap = await configuration.play(
            call.inputs["playbook"],
            json.loads(call.inputs["inventory"]),
            _roster(call.inputs).reach,
            call.inputs["secrets"],
            call.progress,
            timeout_minutes=call.inputs["timeoutMinutes"],
            roles=call.inputs["roles"],
        )
        return {"changed": recap.changed, "hosts": recap.hosts, "drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Report what a run would change now, and what the hosts report, in one pass over running hosts."""
        left = await self.remains(call)
        return {**left, "drift": await _look(call)} if "inventory" in call.inputs else left

    async def remains(self, call: Call) -> dict[str, Any]:
        """Return the last outputs: results of a run cannot be read back. A failed run counts, too: it has changed
        hosts."""
        return {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}

    async def delete(self, call: Call) -> None:
        """Do nothing: the hosts are deleted with all changes on them."""
        # the hosts are deleted, with all changes on them


def _roster(inputs: Mapping[str, Any]) -> plan.Roster:
    return plan.from_dict(plan.Roster, inputs["roster"])


async def _look(call: Call) -> list[str]:
    """Return each difference from playbook and plan in words. Nodes that cannot be reached are among them."""
    inventory, known = json.loads(call.inputs["inventory"]), _roster(call.inputs)
    now = await call.thread(operations.members, known.cloud, known.cluster, known.region)
    up = {member.name for member in now.members}
    hosts = [host for host in inventory["all"]["hosts"] if host in up]
    seen = configuration.CheckModeResult()
    if hosts:
        seen = await configuration.look(
            call.inputs["playbook"],
            inventory,
            hosts,
            now.reach,
            call.inputs["secrets"],
            call.progress,
            timeout_minutes=min(_LOOK_MINUTES, call.inputs["timeoutMinutes"]),
            roles=call.inputs.get("roles", ()),  # states of an earlier version have none
        )
    return drift.of_look(inventory, hosts, seen, call.mask)


def _drain_those_who_leave(call: Call) -> None:
    """Drain the nodes that leave the scheduler, so that they finish their jobs first."""
    if "roster" not in call.old_inputs:
        return
    if "slurm_controller" not in json.loads(call.inputs["inventory"])["all"]["children"]:
        return  # Kubernetes forgets no node because of a playbook: leaving nodes have been vacated
    staying = _scheduled(call.inputs)
    if reasons := {name: LEAVES for name in _scheduled(call.old_inputs) if name not in staying}:
        service, timeout = SlurmService(_roster(call.inputs)), call.inputs["drainTimeoutMinutes"]
        operations.vacate_for_good(service, reasons, timeout, call.progress)


def _scheduled(inputs: Mapping[str, Any]) -> list[str]:
    """Return the members and the elastic nodes.

    Elastic nodes are in no roster, and run jobs all the same.
    """
    told = json.loads(inputs["inventory"])["all"]["vars"].get("power_settings", {"pools": {}})
    elastic = [name for pool in told["pools"].values() for name in pool["nodes"]]
    return list(dict.fromkeys([*(member.name for member in _roster(inputs).members), *elastic]))
