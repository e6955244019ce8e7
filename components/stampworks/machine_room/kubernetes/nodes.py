"""Simulated nodes of a Kubernetes: kwok reports each as healthy, and its pods as running."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.machine_room import Progress, RoomError
from stampworks.machine_room.errors import AGAIN
from stampworks.machine_room.kubernetes import control_plane
from stampworks.machine_room.kubernetes.addons import SIMULATED
from stampworks.machine_room.kubernetes.kubectl import Kubectl
from stampworks.text.amounts import quantity

_READY_S, _POLL_S = 120.0, 0.5
_NOT_READY = "node.kubernetes.io/not-ready"
"""Taint of a new node, until Kubernetes has seen that it is ready."""
_OS = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}
"""Labels that a node's kubelet would set. Kubernetes writes to the node once more if one is missing."""
_POOL = "stampworks/simulated-pool"
"""Label that marks the nodes of a pool, even if their other labels change."""


@dataclass(frozen=True)
class SimulatedPool:
    """The declared nodes of one pool."""

    name: str
    labels: Mapping[str, Mapping[str, str]]
    """Labels by the name of each node."""
    capacity: Mapping[str, str]


def ensure(cluster: str, pool: SimulatedPool, leave: Sequence[str], progress: Progress) -> None:
    """Bring the nodes to their declared state, and remove leaving ones."""
    asked = control_plane.kubectl(cluster)
    _delete(asked, leave)
    asked.apply("cannot make nodes", [_node(pool, name) for name in pool.labels])
    deadline, wrong = time.monotonic() + _READY_S, drift(cluster, pool)
    while wrong and time.monotonic() < deadline:
        progress(f"{len(wrong)} of {len(pool.labels)} nodes are not ready yet")
        time.sleep(_POLL_S)
        wrong = drift(cluster, pool)
    if wrong:
        what = f"{wrong[0][0]}, a simulated node, is {wrong[0][1]} after {_READY_S:g} s"
        raise RoomError(asked.where, what, "", AGAIN)
    progress(f"{len(pool.labels)} nodes of pool {pool.name} stand for machines that do not exist")


def leaving(cluster: str, pool: SimulatedPool) -> list[str]:
    """Return the nodes that are no longer declared, or whose machine differs."""
    found = {node["metadata"]["name"]: node for node in _pool_nodes(control_plane.kubectl(cluster), pool.name)}
    return [name for name, node in found.items() if name not in pool.labels or _other_machine(node, pool)]


def drift(cluster: str, pool: SimulatedPool) -> list[tuple[str, str]] | None:
    """Return each node that differs from its declaration, and the difference; None if the pool has no nodes."""
    unknown = [(pool.name, "the state of its nodes is unknown, for the server of Kubernetes does not answer")]
    if not control_plane.answers(cluster):
        return unknown
    try:
        found = {node["metadata"]["name"]: node for node in _pool_nodes(control_plane.kubectl(cluster), pool.name)}
    except RoomError:  # the repair of the server repairs this, too
        return unknown
    if not found and pool.labels:
        return None
    wrong = [(name, "missing") for name in pool.labels if name not in found]
    for name, node in found.items():
        wrong += [(name, what) for what in _wrong(node, pool, name)]
    return wrong


def _wrong(node: Mapping[str, Any], pool: SimulatedPool, name: str) -> Iterator[str]:
    if name not in pool.labels:
        yield "not declared"
        return
    said = node["metadata"].get("labels", {})
    for key, value in pool.labels[name].items():
        if said.get(key) != value:
            yield f"label {key} is {said.get(key, 'missing')}, not {value}"
    if _other_machine(node, pool):
        yield "without the resources of its machine"
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    if not ready or any(each["key"] == _NOT_READY for each in node["spec"].get("taints", ())):
        yield "not ready"


def members(cluster: str, name: str) -> list[str]:
    """Return the names of a group's simulated nodes."""
    return [node["metadata"]["name"] for node in _pool_nodes(control_plane.kubectl(cluster), name)]


def delete(cluster: str, name: str) -> None:
    """Delete a group's simulated nodes."""
    _delete(control_plane.kubectl(cluster), members(cluster, name))


def _delete(asked: Kubectl, names: Sequence[str]) -> None:
    if names:
        asked.said("cannot remove nodes", ["delete", "node", "--ignore-not-found", "--wait=false", *names])


def _pool_nodes(asked: Kubectl, pool: str) -> list[dict[str, Any]]:
    return asked.listed("cannot look at nodes", "nodes", f"--selector={_POOL}={pool}")


def _node(pool: SimulatedPool, name: str) -> dict[str, Any]:
    amounts = {**pool.capacity, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {SIMULATED: "fake"},
            "labels": {**_OS, _POOL: pool.name, **pool.labels[name]},
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _other_machine(node: Mapping[str, Any], pool: SimulatedPool) -> bool:
    """Whether the resources of a node differ from its pool's. A node's resources are written once, when it is made.

    The server normalizes amounts: 2048Mi becomes 2Gi, and 1000 becomes 1k.
    """
    said = node["status"].get("capacity", {})
    return any(quantity(said.get(name)) != quantity(amount) for name, amount in pool.capacity.items())
