"""Where a cloud says that its nodes stand, which nobody knows before they are there, in the cloud's own words.

A node of which the answer does not say all is on no domain: what is half known is not made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stampworks.schedulers.topology.model import Topology, TopologyError, of_places, parsed

# Labels that a cloud's own Kubernetes has on its nodes, the outermost first: levels for Kueue without labels of ours.
LABELS: Mapping[str, tuple[str, ...]] = {
    # AWS, "Using topology-aware scheduling in SageMaker HyperPod task governance", read 2026-11-22
    "aws": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
    # Google, "Schedule GKE workloads with Topology Aware Scheduling", read 2026-11-22
    "google": ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    # Oracle, oci-hpc-oke, "Using RDMA network locality when running workloads on OKE", read 2026-11-22
    "oracle": tuple(
        f"oci.oraclecloud.com/rdma.{each}" for each in ("hpc_island_id", "network_block_id", "local_block_id")
    ),
}


def of_ways(ways: Mapping[str, Sequence[str]]) -> Topology:
    """Of what a roster has of each node: as many layers as the deepest network has, three on AWS."""
    depth = max(map(len, ways.values()), default=0)
    levels = tuple(f"layer-{layer}" for layer in range(1, depth + 1)) or ("layer-1",)
    # machines of another depth stand in another network
    return of_places(levels, {node: way if len(way) == depth else () for node, way in ways.items()})


def of_google(text: str, names: Mapping[str, str]) -> Topology:
    """`gcloud compute instances list --format json`; names has the node of each instance that is one."""
    said: dict[str, tuple[str, ...]] = {}
    for one in _mappings(parsed(text), "the answer"):
        status = one.get("resourceStatus")
        where = status.get("physicalHostTopology") if isinstance(status, dict) else None
        if str(one.get("name")) in names and isinstance(where, dict):
            said[names[str(one["name"])]] = _words([where.get("block"), where.get("subblock")])
    return of_places(("block", "subblock"), _all(names, said))


def of_oracle(answers: Mapping[str, str]) -> Topology:
    """What each node's metadata service says at host/rdmaTopologyData, by node."""
    keys = ("customerHPCIslandId", "customerNetworkBlock", "customerLocalBlock")
    said = {node: parsed(text) for node, text in answers.items()}
    ways = {
        node: _words([where.get(key) for key in keys]) if isinstance(where, dict) else ()
        for node, where in said.items()
    }
    return of_places(("hpc-island", "network-block", "local-block"), ways)


def _all(names: Mapping[str, str], said: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {node: said.get(node, ()) for node in names.values()}


def _words(said: Any) -> tuple[str, ...]:
    """All of them, or none."""
    return tuple(said) if isinstance(said, list) and all(isinstance(one, str) and one for one in said) else ()


def _mappings(found: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise TopologyError(f"{what} is no list of instances")
    return found
