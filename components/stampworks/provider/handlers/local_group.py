"""The nodes of one pool of a local cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stampworks import machine_room as room
from stampworks import operations, plan
from stampworks.clouds.local.rooms import group_spec, image_spec, rail_specs
from stampworks.configuration import drift
from stampworks.machine_room.kubernetes import joined, nodes
from stampworks.machine_room.specs import RailSpec
from stampworks.operations.drain import LEAVES
from stampworks.operations.slurm.service import SlurmService
from stampworks.properties import LOCAL_GROUP
from stampworks.provider.handler import Call, Handler
from stampworks.provider.leaving import vacate
from stampworks.provider.node_image import ensure_node_image


class LocalGroup(Handler):
    """The nodes of one pool, running."""

    table = LOCAL_GROUP
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cluster and pool, by which an import names it."""
        return f"{inputs['cluster']}/{inputs['group']['name']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Start, replace and end nodes until the pool is as declared."""
        cluster, group = call.inputs["cluster"], _group(call.inputs)
        declared, rails = group_spec(group), _rails(call.inputs)
        image = await call.thread(ensure_node_image, *_image(call.inputs), call.progress, call.waiter())
        await call.thread(_shrink, call, group)
        if _image(call.inputs)[0].kubernetes:
            await call.thread(vacate, call, await call.thread(nodes.members, cluster, group.name))
            new = await call.thread(room.new_nodes, cluster, declared, image)
            await call.thread(joined.renew, cluster, new)
            await call.thread(joined.bury, cluster, new)
            if again := [name for name in await call.thread(room.starting_nodes, cluster, declared) if name not in new]:
                await call.thread(joined.taint, cluster, again, plan.UNPROVEN_TAINT, plan.UNPROVEN_AGAIN)
        instances = await call.thread(room.ensure_nodes, cluster, declared, rails, image, call.progress)
        return {"generation": plan.generation(instances), "drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return generation and drift; None if the room or all nodes are gone."""
        cluster, _, name = call.id.partition("/")
        if not await call.thread(room.is_ours, cluster, call.inputs.get("claim", "")):
            return None
        members = _of(name, await call.thread(room.read_nodes, cluster))
        if not members:
            return None
        instances = {member.name: member.instance for member in members}
        return {"generation": plan.generation(instances), "drift": await call.thread(_drift, members, call.inputs)}

    async def delete(self, call: Call) -> None:
        """End the nodes without waiting for jobs.

        The playbook has drained a pool that leaves, and `destroy` is explicit.
        """
        cluster, _, name = call.id.partition("/")
        members = _of(name, await call.thread(room.read_nodes, cluster))
        names = [member.name for member in members]
        await call.thread(room.end_nodes, cluster, call.inputs["claim"], names, call.progress)


def _group(inputs: Mapping[str, Any]) -> plan.Group:
    return plan.from_dict(plan.Group, inputs["group"])


def _rails(inputs: Mapping[str, Any]) -> list[RailSpec]:
    return rail_specs(plan.from_dict(plan.Rail, rail) for rail in inputs["rails"])


def _image(inputs: Mapping[str, Any]) -> tuple[plan.Release, str]:
    return plan.from_dict(plan.Release, inputs["image"]["release"]), inputs["image"]["content"]


def _of(group: str, states: Sequence[room.NodeState]) -> list[room.NodeState]:
    """Return the room's nodes of a group, including those of an earlier, larger declaration."""
    return [state for state in states if state.group == group]


def _shrink(call: Call, group: plan.Group) -> None:
    """Wait until jobs have ended on nodes that leave, and remove these nodes."""
    cluster = call.inputs["cluster"]
    kept = {node.name for node in group.nodes}
    leaving = {state.name: state.alive for state in _of(group.name, room.read_nodes(cluster)) if state.name not in kept}
    if ending := sorted(name for name, alive in leaving.items() if alive):
        if _image(call.inputs)[0].kubernetes:
            vacate(call, ending)
        else:
            service = SlurmService(operations.members("local", cluster, ""))
            timeout = call.inputs["drainTimeoutMinutes"]
            operations.vacate(service, dict.fromkeys(ending, LEAVES), timeout, call.progress)
    room.end_nodes(cluster, call.inputs["claim"], list(leaving), call.progress)


def _drift(members: list[room.NodeState], inputs: Mapping[str, Any]) -> list[str]:
    """Return the differences between members and declaration; none for an import, which has no declaration."""
    if "group" not in inputs:
        return []
    try:
        group, rails = _group(inputs), _rails(inputs)
    except ValueError:  # a plan of an earlier version that cannot be read: `up` writes a new one
        return []
    found = {member.name: member for member in members}
    release, content = _image(inputs)
    image = room.image_of(image_spec(release), content)
    late = room.outdated_nodes(inputs["cluster"], group_spec(group), image)  # the roll reports these
    wrong = [(name, "the node is not declared") for name in found if name not in {node.name for node in group.nodes}]
    for node in group.nodes:
        if node.name not in found:
            wrong.append((node.name, "the node is missing"))
            continue
        if node.name not in late:
            wrong += [(node.name, what) for what in room.node_drift(found[node.name], rails)]
    return drift.lines("cloud", wrong)
