"""Answers of clouds about the places of their nodes, in each cloud's own format.

A node with an incomplete answer has no place: missing parts are not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks.schedulers.topology.model import Topology, TopologyError, of_places, parsed


def of_google(text: str, names: Mapping[str, str]) -> Topology:
    """Read `gcloud compute instances list --format json`; `names` has the node of each instance."""
    said: dict[str, tuple[str, ...]] = {}
    for one in _mappings(parsed(text), "the answer"):
        status = one.get("resourceStatus")
        where = status.get("physicalHostTopology") if isinstance(status, dict) else None
        if str(one.get("name")) in names and isinstance(where, dict):
            said[names[str(one["name"])]] = _words([where.get("block"), where.get("subblock")])
    return of_places(("block", "subblock"), _all(names, said))


def of_oracle(answers: Mapping[str, str]) -> Topology:
    """Read the answers of each node's metadata service at host/rdmaTopologyData, by node."""
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
