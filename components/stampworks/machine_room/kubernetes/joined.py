"""Nodes that run pods, after they have joined: their labels, their accelerators and the routes to their pods."""

from __future__ import annotations

import base64
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from stampworks.machine_room import Progress, RoomError, hands, network
from stampworks.machine_room.commands import run
from stampworks.machine_room.errors import AGAIN
from stampworks.machine_room.kubernetes import control_plane
from stampworks.machine_room.kubernetes.kubectl import Kubectl
from stampworks.machine_room.room import Room, of_cluster

_READY_S, _POLL_S = 90.0, 0.5
_FORWARD = "echo 1 >/proc/sys/net/ipv4/ip_forward"
_SERVING = "kubernetes.io/kubelet-serving"
POOL = "stampworks/joined-pool"
"""Label that marks the nodes of a pool, even if their other labels change."""


@dataclass(frozen=True)
class JoinedPool:
    """The declared nodes of one pool."""

    name: str
    addresses: Mapping[str, str]
    """Addresses by the name of each node."""
    labels: Mapping[str, Mapping[str, str]]
    accelerators: Mapping[str, str]
    """Simulated accelerators, which no device plugin reports; empty for a machine with real ones."""


def pool_of(
    name: str,
    addresses: Mapping[str, str],
    labels: Mapping[str, Mapping[str, str]],
    capacity: Mapping[str, str],
) -> JoinedPool:
    """Return the pool. A kubelet reports real resources itself, so that only simulated ones are kept."""
    own = {node: labels[node] for node in addresses}
    return JoinedPool(name, addresses, own, {resource: each for resource, each in capacity.items() if "/" in resource})


def ensure(cluster: str, pool: JoinedPool, progress: Progress) -> None:
    """Make Kubernetes know these nodes, and no others of the pool."""
    forget(cluster, pool.name, keep=tuple(pool.addresses))
    admit(cluster, pool, progress)


def admit(cluster: str, pool: JoinedPool, progress: Progress) -> None:
    """Wait until all nodes are ready, and label them."""
    asked, room = control_plane.kubectl(cluster), of_cluster(cluster)
    deadline = time.monotonic() + _READY_S
    while True:
        _vouch(asked, pool)
        found = _pool_nodes(asked, pool)
        _label(asked, pool, found)
        _lead(room, pool, found)
        wrong = list(_drift(pool, found)) or list(_unreached(asked, pool))
        if not wrong:
            break
        if time.monotonic() > deadline:
            raise RoomError(asked.where, f"{wrong[0][0]} is {wrong[0][1]} after {_READY_S:g} s", "", AGAIN)
        progress(f"{len({name for name, _ in wrong})} of {len(pool.addresses)} nodes do not run pods yet")
        time.sleep(_POLL_S)
    progress(f"{len(pool.addresses)} nodes of pool {pool.name} run pods")


def drift(cluster: str, pool: JoinedPool) -> list[tuple[str, str]]:
    """Return each node that differs from its declaration, and the difference."""
    unknown = [(pool.name, "the state of its nodes is unknown, for the server of Kubernetes does not answer")]
    if not control_plane.answers(cluster):
        return unknown
    asked = control_plane.kubectl(cluster)
    try:
        return [*_drift(pool, _pool_nodes(asked, pool)), *_unvouched(asked, pool)]
    except RoomError:  # the repair of the server repairs this, too
        return unknown


def members(cluster: str, name: str) -> list[str]:
    """Return the pool's nodes that Kubernetes knows; none when the server does not run, because it is removed then."""
    if not control_plane.answers(cluster):
        return []
    there = control_plane.kubectl(cluster).listed("cannot look at nodes", "nodes", f"--selector={POOL}={name}")
    return [node["metadata"]["name"] for node in there]


def forget(cluster: str, name: str, keep: Sequence[str] = ()) -> None:
    """Remove the pool's nodes from Kubernetes, except those to keep."""
    renew(cluster, [each for each in members(cluster, name) if each not in keep])


def renew(cluster: str, names: Sequence[str]) -> None:
    """Remove nodes from Kubernetes that are about to be replaced under their names. They join again as new ones."""
    if names and control_plane.answers(cluster):
        command = ["delete", "node", "--ignore-not-found", "--wait=false", *names]
        control_plane.kubectl(cluster).said("cannot remove nodes", command)


def taint(cluster: str, names: Sequence[str], key: str, value: str) -> None:
    """Keep new pods from these nodes, as far as Kubernetes knows them. A present taint of this key stays."""
    asked = control_plane.kubectl(cluster)
    if untainted := [name for name, keys in _taints(asked).items() if name in names and key not in keys]:
        asked.said("cannot keep pods from nodes", ["taint", "node", *untainted, f"{key}={value}:NoSchedule"])


def untaint(cluster: str, names: Sequence[str], key: str) -> None:
    """Remove the taint of this key from these nodes."""
    asked = control_plane.kubectl(cluster)
    if tainted := [name for name, keys in _taints(asked).items() if name in names and key in keys]:
        asked.said("cannot let pods onto nodes", ["taint", "node", *tainted, f"{key}-"])


def _taints(asked: Kubectl) -> dict[str, set[str]]:
    there = asked.listed("cannot look at nodes", "nodes")
    return {node["metadata"]["name"]: {each["key"] for each in node["spec"].get("taints", ())} for node in there}


def bury(cluster: str, names: Sequence[str]) -> None:
    """Delete the pods of nodes, which frees their resources.

    Kubernetes does this only for nodes whose names are not used again.
    """
    if not names:
        return
    asked, ended = control_plane.kubectl(cluster), defaultdict[str, list[str]](list)
    for pod in asked.listed("cannot look at pods", "pods", "--all-namespaces"):
        if pod["spec"].get("nodeName") in names:
            ended[pod["metadata"]["namespace"]].append(pod["metadata"]["name"])
    for team, pods in ended.items():
        command = ["delete", "pod", "--ignore-not-found", "--wait=false", f"--namespace={team}", *pods]
        asked.said("cannot remove pods", command)


def _unreached(asked: Kubectl, pool: JoinedPool) -> Iterator[tuple[str, str]]:
    """Yield nodes that the server cannot ask about their pods, because it accepts only our certificates.

    A node that joins again shows as ready, as before, until its absence is noticed.
    """
    for name in pool.addresses:
        try:
            asked.said(f"cannot reach {name}", ["get", "--raw", f"/api/v1/nodes/{name}/proxy/healthz"])
        except RoomError:
            yield name, "not believed by the server"


def _unvouched(asked: Kubectl, pool: JoinedPool) -> Iterator[tuple[str, str]]:
    """Yield nodes with an open certificate request. Kubelets send one before their certificate ends."""
    for request in _requests(asked, pool):
        yield request["spec"]["username"].removeprefix("system:node:"), "waiting for a certificate to serve with"


def _pool_nodes(asked: Kubectl, pool: JoinedPool) -> dict[str, dict[str, Any]]:
    there = asked.listed("cannot look at nodes", "nodes")
    return {node["metadata"]["name"]: node for node in there if node["metadata"]["name"] in pool.addresses}


def _label(asked: Kubectl, pool: JoinedPool, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Label known nodes. An object for a node that never joined would count as that node."""
    late = [name for name, node in found.items() if any(_node_drift(pool, name, node))]
    if late:
        asked.apply("cannot label nodes", [_node(pool, name) for name in late])
    for name, node in found.items():
        if any(_counted(pool, node)):
            amounts = {"capacity": pool.accelerators, "allocatable": pool.accelerators}
            patch = ["patch", "node", name, "--subresource=status", "--type=merge", f"--patch={_json(amounts)}"]
            asked.said(f"cannot say what {name} has", patch)


def _node(pool: JoinedPool, name: str) -> dict[str, Any]:
    labels = {POOL: pool.name, **pool.labels[name]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _json(status: Mapping[str, Any]) -> str:
    return json.dumps({"status": status})


def _lead(room: Room, pool: JoinedPool, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Route between the pod ranges of nodes, as the network of a cloud does."""
    ranges = {name: node["spec"].get("podCIDR") for name, node in found.items()}
    routes = [
        f"route replace {range_} via {pool.addresses[name]} dev {network.MANAGEMENT}"
        for name, range_ in ranges.items()
        if range_
    ]
    if routes:
        run([*room.inside, "sh", "-c", _FORWARD], room.name, "cannot have the room forward packets", timeout=20)
        hands.arrange(room, [network.CommandBatch("", tuple(routes))])


def _drift(pool: JoinedPool, found: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for name in pool.addresses:
        node = found.get(name)
        if node is None:
            yield name, "not known to Kubernetes"
            continue
        yield from ((name, what) for what in (*_node_drift(pool, name, node), *_counted(pool, node)))
        if not any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"]):
            yield name, "not ready"


def _node_drift(pool: JoinedPool, name: str, node: Mapping[str, Any]) -> Iterator[str]:
    said = node["metadata"].get("labels", {})
    for key, value in {POOL: pool.name, **pool.labels[name]}.items():
        if said.get(key) != value:
            yield f"label {key} is {said.get(key, 'missing')}, not {value}"


def _counted(pool: JoinedPool, node: Mapping[str, Any]) -> Iterator[str]:
    for resource, amount in pool.accelerators.items():
        if (there := node["status"].get("allocatable", {}).get(resource, "0")) != amount:
            yield f"known with {there} of {amount} {resource}"


def _vouch(asked: Kubectl, pool: JoinedPool) -> None:
    """Approve the certificate requests with which kubelets serve."""
    for request in _requests(asked, pool):
        asked.said("cannot vouch for a node", ["certificate", "approve", request["metadata"]["name"]])


def _requests(asked: Kubectl, pool: JoinedPool) -> Iterator[dict[str, Any]]:
    """Yield open certificate requests of kubelets for their own name and address, and no other."""
    for request in asked.listed("cannot look at requests for certificates", "certificatesigningrequests"):
        spec = request["spec"]
        if spec["signerName"] == _SERVING and not request.get("status", {}).get("conditions") and _is_own(spec, pool):
            yield request


def _is_own(spec: Mapping[str, Any], pool: JoinedPool) -> bool:
    name = str(spec.get("username", "")).removeprefix("system:node:")
    if name not in pool.addresses:
        return False
    try:
        wanted = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        names = wanted.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    common = [str(each.value) for each in wanted.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    hosts = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    return common == [f"system:node:{name}"] and hosts <= {name, pool.addresses[name]}
