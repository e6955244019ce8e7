"""Members of a Kubernetes whose cloud creates and names the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stampworks import operations, plan
from stampworks.clouds.errors import CloudError
from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes import door as kubernetes_door
from stampworks.operations.kubernetes import nodes as kubernetes_nodes
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.properties import KUBERNETES_NODES
from stampworks.provider.handler import Call, Handler

_PATIENCE_S = 1200.0
"""Seconds to wait: an instance with many NICs and much memory takes minutes until it joins."""


class KubernetesNodes(Handler):
    """Waits until each group has its nodes in Kubernetes, and lists them."""

    table = KUBERNETES_NODES
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cloud and cluster, by which an import names it."""
        return f"{inputs['cloud']}/{inputs['cluster']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Wait for the members that the plan counts."""
        where = _where(call.inputs)
        now = await call.thread(kubernetes_nodes.gather, *where, _counts(call.inputs), call.progress, _PATIENCE_S)
        # close it: it may keep a claim that has to be deleted
        await call.thread(kubernetes_door.close, KubernetesApi(*where))
        return await _outputs(call, now, ())

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the current members.

        The server may be reachable only from the cluster's network. If it does not answer, return the last known ones.
        """
        known = {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}
        if not call.inputs:
            return known
        counts = _counts(call.inputs)
        try:
            now = await call.thread(kubernetes_nodes.roster, *_where(call.inputs), counts)
        except OperationError as error:
            call.progress(f"its nodes cannot be listed: {str(error).splitlines()[0]}")
            return known
        return await _outputs(call, now, _missing(now, counts))

    async def delete(self, call: Call) -> None:
        """Do nothing: the nodes are deleted by their own resources."""
        # a list; its nodes are deleted by their own resources


async def _outputs(call: Call, now: plan.Roster, missing: Sequence[str]) -> dict[str, Any]:
    """Return the outputs.

    The cloud knows the ends of capacity, not Kubernetes. If it does not answer, keep the last known ones.
    """
    try:
        ends = await call.thread(operations.endings, now.cloud, now.cluster, now.region)
        endings = [plan.to_dict(each) for each in ends]
    except CloudError as error:
        call.progress(f"the end of its capacity cannot be read: {str(error).splitlines()[0]}")
        endings = list(call.old_outputs.get("endings") or ())
    return {"members": list(plan.to_dict(now)["members"]), "drift": list(missing), "endings": endings}


def _where(inputs: Mapping[str, Any]) -> tuple[str, str, str]:
    return inputs["cluster"], inputs["cloud"], inputs["region"]


def _counts(inputs: Mapping[str, Any]) -> dict[str, int]:
    return {each["name"]: int(each["count"]) for each in inputs["groups"]}


def _missing(now: plan.Roster, counts: Mapping[str, int]) -> Sequence[str]:
    there = {pool: sum(member.group == pool for member in now.members) for pool in counts}
    return [
        f"Kubernetes: {pool}: {there[pool]} of {count} nodes" for pool, count in counts.items() if there[pool] < count
    ]
