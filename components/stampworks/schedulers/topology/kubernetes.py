"""The topology for Kubernetes and its schedulers, as JSON for `kubectl apply -f -`.

Kueue's objects have the version of releases (kueue.x-k8s.io/v1beta2, which 0.17 stores), and tests apply them to a real
server. Volcano's follow its published schema (topology.volcano.sh/v1alpha1) of 2026-08-23; no server has read them
here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stampworks.schedulers.topology.model import FABRIC, NodeDomains, Topology, TopologyError, parsed

PREFIX = "topology.stampworks"
POOL = "stampworks/pool"
HOSTNAME = "kubernetes.io/hostname"
WELL_KNOWN = {"region": "topology.kubernetes.io/region", "zone": "topology.kubernetes.io/zone"}
"""Levels for which Kubernetes itself has a label: kubernetes.io/docs/reference/labels-annotations-taints."""
KUEUE, VOLCANO = "kueue.x-k8s.io/v1beta2", "topology.volcano.sh/v1alpha1"
Manifest = dict[str, Any]


def key(level: str) -> str:
    """The label of a level."""
    return WELL_KNOWN.get(level, f"{PREFIX}/{level}")


def labels(topology: Topology, pools: Mapping[str, Sequence[str]]) -> str:
    """Nodes with the labels to apply on them: the pool, and where it is known the place."""
    pool_of = {node: pool for pool, nodes in pools.items() for node in nodes}
    keys = [key(level) for level in topology.levels]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": place.node,
                "labels": {
                    **({POOL: pool_of[place.node]} if place.node in pool_of else {}),
                    **dict(zip(keys, place.domains, strict=False)),
                },
            },
        }
        for place in topology.places
    ]
    return _list(nodes)


def read_labels(text: str, levels: Sequence[str], keys: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return each node's domains from the output of `labels`, or of `kubectl get nodes -o json`; empty if a level is
    missing.

    Clouds set keys of their own, with values in characters of their own: `of_places` makes a topology of them.
    """
    keys = keys or [key(level) for level in levels]
    found: dict[str, tuple[str, ...]] = {}
    for item in _items(text, "Node"):
        name, said = _name(item), item["metadata"].get("labels") or {}
        if not isinstance(said, dict) or not all(isinstance(said.get(one, ""), str) for one in keys):
            raise TopologyError(f"node {name!r} has labels that are none")
        domains = tuple(said[one] for one in keys if said.get(one))
        found[name] = domains if len(domains) == len(keys) else ()
    return found


def kueue(topology: Topology, pools: Mapping[str, Sequence[str]], name: str, keys: Sequence[str] = ()) -> str:
    """The levels for Kueue's topology-aware scheduling, and a flavor for each pool."""
    return _list(kueue_objects(topology, pools, name, keys))


def kueue_objects(
    topology: Topology,
    pools: Mapping[str, Sequence[str]],
    name: str,
    keys: Sequence[str] = (),
    labelled: Collection[str] = (),
) -> list[Manifest]:
    """Return the objects of Kueue.

    A flavor has levels if the places of its nodes are known, as in pools that the cloud labels, and otherwise only
    nodes: if some flavors of a queue have no topology, jobs without a request get only those. Other levels need another
    topology and other flavors: Kueue refuses to change a flavor, or to delete it while queues name it.
    """
    levels = (*(keys or [key(level) for level in topology.levels]), HOSTNAME)
    placed = {place.node for place in topology.placed}
    known = {pool for pool, nodes in pools.items() if nodes and placed.issuperset(nodes)} | {*labelled}
    by = {pool: levels if pool in known else (HOSTNAME,) for pool in pools}
    made = [
        _object(KUEUE, "Topology", _after(name, each), {"levels": [{"nodeLabel": one} for one in each]})
        for each in (levels, (HOSTNAME,))
        if each in by.values() or (each == levels and not by)
    ]
    for pool, its in by.items():
        spec = {"nodeLabels": {POOL: pool}, "topologyName": _after(name, its)}
        made.append(_object(KUEUE, "ResourceFlavor", _after(f"{name}-{pool}", its), spec))
    return made


def _after(name: str, levels: Sequence[str]) -> str:
    return f"{name}-{hashlib.sha256(' '.join(levels).encode()).hexdigest()[:6]}"


def read_kueue(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of the levels, the outermost first; and the pools that have a flavor with them."""
    flavors = _items(text, "ResourceFlavor")
    try:
        whole = max(_items(text, "Topology"), key=lambda each: len(each["spec"]["levels"]))
        keys = tuple(str(level["nodeLabel"]) for level in whole["spec"]["levels"])
        own = (item["spec"] for item in flavors if item["spec"].get("topologyName") == _name(whole))
        pools = tuple(str(spec["nodeLabels"][POOL]) for spec in own)
    except (KeyError, TypeError, ValueError):
        raise TopologyError("levels or flavors without their labels") from None
    if not keys or keys[-1] != HOSTNAME:
        raise TopologyError(f"the innermost level is not {HOSTNAME}")
    return keys[:-1], pools


def volcano(topology: Topology) -> str:
    """Return a HyperNode for each domain: tier 1 holds nodes, and each further tier those of the tier below."""
    inner = len(topology.levels) - 1
    found = [
        _hypernode(name, inner - level + 1, "Node" if level == inner else "HyperNode", below)
        for level in range(inner, -1, -1)
        for name, below in topology.children(level).items()
    ]
    if topology.placed and len(roots := list(topology.domains(0))) > 1:
        found.append(_hypernode(FABRIC, inner + 2, "HyperNode", roots))
    return _list(found)


def _hypernode(name: str, tier: int, kind: str, below: Sequence[str]) -> Manifest:
    members = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in below]
    return _object(VOLCANO, "HyperNode", name, {"tier": tier, "members": members})


def read_volcano(text: str, levels: Sequence[str]) -> Topology:
    """Read the output of `volcano`, or of `kubectl get hypernodes -o json`. Nodes without a place are left out."""
    inside: dict[str, tuple[str, ...]] = {}
    nodes: dict[str, list[str]] = {}
    for item in _items(text, "HyperNode"):
        name, members = _name(item), item["spec"].get("members")
        for kind, below in map(_member, members if isinstance(members, list) else []):
            if kind == "Node":
                nodes.setdefault(name, []).append(below)
            elif below in inside:
                raise TopologyError(f"HyperNode {below!r} is in two others")
            else:
                inside[below] = (name,)
    places = [NodeDomains(node, _way(name, inside)) for name, below in nodes.items() for node in below]
    return Topology(tuple(levels), tuple(places))


def _member(member: Any) -> tuple[str, str]:
    try:
        kind, name = member["type"], member["selector"]["exactMatch"]["name"]
    except (KeyError, TypeError):
        raise TopologyError("a member of a HyperNode that is not called by its name") from None
    return str(kind), str(name)


def _way(name: str, inside: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    way = [name]
    while above := inside.get(way[0]):
        if above[0] in way:
            raise TopologyError(f"HyperNode {name!r} is inside itself")
        way.insert(0, above[0])
    return tuple(way[1:] if way[0] == FABRIC else way)


def _object(version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _list(items: Sequence[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}, indent=2) + "\n"


def _items(text: str, kind: str) -> list[Manifest]:
    found = parsed(text)
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TopologyError("not a list of Kubernetes' objects")
    chosen = [item for item in items if item.get("kind") == kind]
    if any(not isinstance(item.get("metadata"), dict) or not isinstance(item.get("spec", {}), dict) for item in chosen):
        raise TopologyError(f"a {kind} without metadata")
    return [{"spec": {}, **item} for item in chosen]


def _name(item: Manifest) -> str:
    return str(item["metadata"].get("name", ""))
