"""Hosts that are the nodes of one pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks import operations, plan
from stampworks.clouds.hosts import groups, marks
from stampworks.clouds.hosts.choice import Choice, choose
from stampworks.clouds.hosts.groups import WantedNodes
from stampworks.configuration import drift
from stampworks.operations.drain import LEAVES
from stampworks.operations.slurm.service import SlurmService
from stampworks.plan import Hosts, from_dict
from stampworks.properties import HOST_GROUP
from stampworks.provider.handler import Call, Handler


class HostGroup(Handler):
    """Hosts that are the nodes of one pool."""

    table = HOST_GROUP
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cluster and pool, by which an import names it."""
        return f"{inputs['cluster']}/{inputs['group']['name']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Choose hosts for the nodes; let those that leave finish their jobs, and give them back."""
        wanted, hosts = _wanted(call.inputs), _hosts(call.inputs)
        before = _hosts(call.old_inputs).machines if call.old_inputs.get("hosts") else ()
        chosen = await call.thread(groups.look, wanted, hosts, before, call.progress)
        await call.thread(_vacate, call, chosen)
        leaving = (*chosen.leaving, *chosen.stale)
        await call.thread(groups.give_back, hosts, call.id, leaving, call.progress)
        await call.thread(groups.commission, wanted, hosts, chosen.new, call.progress)
        there = await call.thread(_nodes, wanted, hosts)
        return {"generation": _generation(there), "drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return generation and drift; None when no host is a node of the group."""
        if "hosts" not in call.inputs:
            return None
        try:
            wanted, hosts = _wanted(call.inputs), _hosts(call.inputs)
        except ValueError:  # a plan of an earlier version that cannot be read: `up` writes a new one
            return dict(call.old_outputs)
        there = await call.thread(_nodes, wanted, hosts)
        if not there.kept:
            return None
        wrong = [(name, "no host that answers is this node") for name in (*there.new, *there.missing)]
        wrong += [
            (each.mark.node, f"{each.host.id} is a node that is not declared") for each in there.leaving if each.mark
        ]
        return {"generation": _generation(there), "drift": drift.lines("cloud", wrong)}

    async def delete(self, call: Call) -> None:
        """Give the hosts back without waiting for jobs.

        The playbook has drained a pool that leaves, and `destroy` is explicit.
        """
        wanted, hosts = _wanted(call.inputs), _hosts(call.inputs)
        there = await call.thread(_nodes, wanted, hosts)
        all_ = (*there.kept.values(), *there.leaving, *there.stale)
        await call.thread(groups.give_back, hosts, call.id, all_, call.progress)


def _wanted(inputs: Mapping[str, Any]) -> WantedNodes:
    group = from_dict(plan.Group, inputs["group"])
    return WantedNodes(
        cluster=inputs["cluster"],
        claim=inputs["claim"],
        group=group.name,
        names=tuple(node.name for node in group.nodes),
        made_with=inputs["madeWith"],
        public_key=inputs["sshPublicKey"],
    )


def _hosts(inputs: Mapping[str, Any]) -> Hosts:
    return from_dict(Hosts, inputs["hosts"])


def _nodes(wanted: WantedNodes, hosts: Hosts) -> Choice:
    there = marks.read(hosts, hosts.of_group(wanted.group))
    return choose(wanted.claim, wanted.group, wanted.names, there, ())


def _generation(there: Choice) -> str:
    return plan.generation({name: state.instance for name, state in there.kept.items()})


def _vacate(call: Call, chosen: Choice) -> None:
    """Wait until the jobs of nodes have ended whose hosts leave."""
    if leaving := {each.mark.node for each in chosen.leaving if each.mark}:
        service = SlurmService(operations.members("hosts", call.inputs["cluster"], ""))
        timeout = call.inputs["drainTimeoutMinutes"]
        operations.vacate(service, dict.fromkeys(sorted(leaving), LEAVES), timeout, call.progress)
