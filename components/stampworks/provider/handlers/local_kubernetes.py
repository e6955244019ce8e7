"""A Kubernetes in the room of a local cluster: its control plane, its joined nodes and its simulated nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from stampworks import machine_room as room
from stampworks.configuration import drift
from stampworks.machine_room.kubernetes import addons, control_plane, joined, nodes
from stampworks.plan import UNPROVEN_TAINT
from stampworks.properties import JOINED_POOL, LOCAL_CONTROL_PLANE, SIMULATED_POOL
from stampworks.provider.handler import Call, Handler, InputFailure
from stampworks.provider.leaving import vacate


class LocalControlPlane(Handler):
    """The control plane of a Kubernetes, with Kueue and JobSet. Deleting it deletes all its data."""

    table = LOCAL_CONTROL_PLANE
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the cluster, by which an import names it."""
        return str(inputs["cluster"])

    def check(self, inputs: Mapping[str, Any]) -> list[InputFailure]:
        """Refuse versions other than those built on this machine."""
        return [InputFailure("versions", what) for what in control_plane.other_versions(inputs["versions"])]

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Start the control plane, or restart its outdated parts."""
        place, addresses = (call.inputs["cluster"], call.inputs["claim"]), _addresses(call.inputs)
        told = call.inputs["kueue"], _asked_for(call.inputs)
        return _outputs(await call.thread(control_plane.ensure, *place, addresses, call.progress, *told))

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the outputs of the running control plane; None if it is gone."""
        if not await call.thread(room.is_ours, call.id, call.inputs.get("claim", "")):
            return None
        found = await call.thread(control_plane.read, call.id, _addresses(call.inputs), _asked_for(call.inputs))
        return None if found is None else _outputs(found)

    async def delete(self, call: Call) -> None:
        """End the control plane."""
        await call.thread(control_plane.end, call.id, call.inputs["claim"])


class _Pool(Handler):
    """Nodes of one pool that Kubernetes knows."""

    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return f"{inputs['cluster']}/{inputs['pool']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        await call.thread(room.expect_owner, call.inputs["cluster"], call.inputs["claim"])
        await call.thread(self.make, call)
        return {"drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        cluster, _, _ = call.id.partition("/")
        if not await call.thread(room.is_ours, cluster, call.inputs.get("claim", "")):
            return None
        found = await call.thread(self.look, cluster, call.inputs)
        return None if found is None else {"drift": drift.lines("cloud", found)}

    async def delete(self, call: Call) -> None:
        cluster, _, name = call.id.partition("/")
        if await call.thread(room.is_ours, cluster, call.inputs["claim"]):
            await call.thread(self.end, call, cluster, name)

    @abstractmethod
    def make(self, call: Call) -> None:
        """Make Kubernetes know the declared nodes, and no others of the pool."""

    @abstractmethod
    def look(self, cluster: str, inputs: Mapping[str, Any]) -> list[tuple[str, str]] | None:
        """Return each node that differs from its declaration, and the difference; None if the pool does not exist."""

    @abstractmethod
    def end(self, call: Call, cluster: str, name: str) -> None:
        """Remove the nodes from Kubernetes."""


class SimulatedPool(_Pool):
    """Simulated nodes on which Kubernetes places pods. The pods appear to run, and nothing runs."""

    table = SIMULATED_POOL

    def make(self, call: Call) -> None:
        """Create and remove simulated nodes, after their pods have left."""
        _dismiss(call)
        cluster, pool = call.inputs["cluster"], _pool(call.inputs)
        leaving = nodes.leaving(cluster, pool)
        vacate(call, leaving)
        nodes.ensure(cluster, pool, leaving, call.progress)

    def look(self, cluster: str, inputs: Mapping[str, Any]) -> list[tuple[str, str]] | None:
        """Return the drift of the nodes; None if all are gone."""
        return nodes.drift(cluster, _pool(inputs))

    def end(self, call: Call, cluster: str, name: str) -> None:
        """Remove all nodes, after their pods have left."""
        vacate(call, nodes.members(cluster, name))
        nodes.delete(cluster, name)


class JoinedPool(_Pool):
    """Nodes that run pods, known to Kubernetes with their labels and resources. They are created and configured
    before."""

    table = JOINED_POOL

    def make(self, call: Call) -> None:
        """Label the nodes that have joined, and remove their taint if none is to be proven."""
        joined.ensure(call.inputs["cluster"], _joined(call.inputs), call.progress)
        if not call.inputs["proven"]:
            joined.untaint(call.inputs["cluster"], list(call.inputs["addresses"]), UNPROVEN_TAINT)

    def look(self, cluster: str, inputs: Mapping[str, Any]) -> list[tuple[str, str]] | None:
        """Return the drift of the nodes; None if all are gone."""
        return joined.drift(cluster, _joined(inputs))

    def end(self, call: Call, cluster: str, name: str) -> None:
        """Make Kubernetes forget all nodes, after their pods have left."""
        vacate(call, joined.members(cluster, name))
        joined.forget(cluster, name)


def _dismiss(call: Call) -> None:
    """Remove the machines of a pool that becomes simulated, before simulated nodes take their names.

    Kubernetes would take both for one node, and the engine would end the machines last.
    """
    cluster, pool = call.inputs["cluster"], call.inputs["pool"]
    machines = [state.name for state in room.read_nodes(cluster) if state.group == pool]
    vacate(call, machines)
    joined.renew(cluster, machines)
    joined.bury(cluster, machines)
    room.end_nodes(cluster, call.inputs["claim"], machines, call.progress)


def _addresses(inputs: Mapping[str, Any]) -> control_plane.Addresses:
    pods, of_node = inputs.get("podsCidr", ""), inputs.get("podsOfNode", 0)
    return control_plane.Addresses(inputs["address"], inputs["servicesCidr"], pods, of_node)


def _asked_for(inputs: Mapping[str, Any]) -> list[str]:
    return [name for name in inputs["versions"] if name in addons.ASKED]


def _joined(inputs: Mapping[str, Any]) -> joined.JoinedPool:
    return joined.JoinedPool(inputs["pool"], inputs["addresses"], inputs["labels"], inputs["accelerators"])


def _pool(inputs: Mapping[str, Any]) -> nodes.SimulatedPool:
    return nodes.SimulatedPool(inputs["pool"], inputs["labels"], inputs["capacity"])


def _outputs(found: control_plane.ControlPlaneState) -> dict[str, Any]:
    return {
        "kubeconfig": found.kubeconfig,
        "bootstrap": found.bootstrap,
        "authority": found.authority,
        "identity": found.identity,
        "drift": drift.lines("cloud", (("control plane", what) for what in found.drift)),
    }
