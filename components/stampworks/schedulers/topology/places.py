"""Places of nodes from the roster: their cloud knows them once the nodes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stampworks.schedulers.topology.model import Topology, of_places


def of_ways(ways: Mapping[str, Sequence[str]]) -> Topology:
    """Return the topology of a roster's nodes, with as many layers as the deepest network has."""
    depth = max(map(len, ways.values()), default=0)
    levels = tuple(f"layer-{layer}" for layer in range(1, depth + 1)) or ("layer-1",)
    # machines of another depth stand in another network
    return of_places(levels, {node: way if len(way) == depth else () for node, way in ways.items()})
