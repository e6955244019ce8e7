"""The model of nodes' places in the network, from which the formats of all schedulers are written.

A place is the path from the outermost level down to a node: with levels `spine` and `leaf`, the node gpu-001 may have
the domains `spine1` and `leaf3`. All nodes have a domain on every level, or none at all, because schedulers require it.
Places are in rank order, in which the nodes of a domain, on any level, are adjacent.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.plan import Domain, Plan, from_dict, to_json

FABRIC = "fabric"
"""Name of the domain above all others, for schedulers that need one."""
MANAGEMENT = "management"
"""Name of the domain of nodes without a fabric."""
LEVELS_MAX = 15
"""Kueue takes 16, and the innermost is the node."""
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A level or domain: a valid name for Slurm, for values of labels, and for objects of Kubernetes."""
NODE = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class TopologyError(ValueError):
    """Input that is not the topology of a cluster."""


@dataclass(frozen=True)
class NodeDomains:
    """The domains of a node, such as its spine and leaf."""

    node: str
    domains: tuple[str, ...]
    """Domain on each level, the outermost first; empty if the node is on no fabric, or its place is unknown."""


@dataclass(frozen=True)
class Topology:
    """All nodes with their domains, in the order of ranks."""

    levels: tuple[str, ...]
    """The outermost first, without the node itself."""
    places: tuple[NodeDomains, ...]
    """Places in rank order; nodes without domains last."""

    def __post_init__(self) -> None:
        _check_levels(self.levels)
        _check_nodes(self.places)
        _check_domains(self)
        if (grouped := tuple(_grouped(self.places, 0))) != self.places:
            object.__setattr__(self, "places", grouped)

    def domains(self, level: int) -> dict[str, list[str]]:
        """Nodes by domain of a level, which is counted from the outermost, 0."""
        found: dict[str, list[str]] = {}
        for place in self.placed:
            found.setdefault(place.domains[level], []).append(place.node)
        return found

    def children(self, level: int) -> dict[str, list[str]]:
        """Return the children of each domain of a level: domains of the next level, or nodes."""
        if level == len(self.levels) - 1:
            return self.domains(level)
        found: dict[str, dict[str, None]] = {}
        for place in self.placed:
            found.setdefault(place.domains[level], {})[place.domains[level + 1]] = None
        return {name: list(below) for name, below in found.items()}

    @property
    def placed(self) -> tuple[NodeDomains, ...]:
        """Nodes with known domains."""
        return tuple(place for place in self.places if place.domains)

    @property
    def unplaced(self) -> tuple[str, ...]:
        """Names of the nodes without domains."""
        return tuple(place.node for place in self.places if not place.domains)

    def of(self, nodes: Iterable[str]) -> Topology:
        """Return the same for some of the nodes, as for those of a job."""
        wanted = set(nodes)
        return Topology(self.levels, tuple(place for place in self.places if place.node in wanted))

    def of_levels(self, levels: Sequence[str]) -> Topology:
        """The same with some of the levels only."""
        kept = [self.levels.index(level) for level in levels]
        places = (NodeDomains(place.node, tuple(place.domains[level] for level in kept)) for place in self.placed)
        return Topology(tuple(levels), (*places, *(NodeDomains(node, ()) for node in self.unplaced)))


def of_plan(plan: Plan, members: Mapping[str, Sequence[str]] | None = None) -> Topology:
    """Return the topology of the plan's nodes, or of the given ones by pool."""
    leaf_of = {node: leaf.name for leaf in plan.fabric.leaves for node in leaf.nodes}
    leaf_of |= {node.name: node.leaf for pool in plan.scheduling_only for node in pool.nodes if node.leaf}
    levels = {
        "spine": _domain_of(plan.fabric.spines),
        "leaf": leaf_of,
        "nvlink": _domain_of(plan.fabric.nvlink_domains),
    }
    levels = {level: domain_of for level, domain_of in levels.items() if domain_of}
    pools = (*plan.pools, *plan.scheduling_only)
    named = {pool.name: tuple(node.name for node in pool.nodes) for pool in pools} if members is None else members
    nodes = [node for names in named.values() for node in names]
    return of_places(
        tuple(levels) or ("leaf",),
        {node: tuple(of[node] for of in levels.values()) if node in leaf_of else () for node in nodes},
    )


def _domain_of(domains: Sequence[Domain] | None) -> dict[str, str]:
    return {node: domain.name for domain in domains or () for node in domain.nodes}


def of_places(levels: Sequence[str], places: Mapping[str, Sequence[str]]) -> Topology:
    """Return the topology that a cloud reports: domains of each node, the outermost first, with any characters.

    A domain without a valid or unique name is named after its path from the top.
    """
    paths = {tuple(domains[: depth + 1]) for domains in places.values() for depth in range(len(domains))}
    shared = Counter(path[-1] for path in paths)

    def name(path: tuple[str, ...]) -> str:
        last = path[-1]
        proper = NAME.fullmatch(last) and shared[last] == 1 and last not in (FABRIC, MANAGEMENT)
        return last if proper else _made_up(levels[len(path) - 1], path)

    for node, domains in places.items():
        if len(domains) not in (0, len(levels)):
            said = f"{len(domains)} domains for {len(levels)} levels ({', '.join(levels)})"
            raise TopologyError(f"node {node!r} has {said}: give one for each level, or none where it is not known")
    names = {path: name(path) for path in paths}
    return Topology(
        tuple(levels),
        tuple(
            NodeDomains(node, tuple(names[tuple(domains[: depth + 1])] for depth in range(len(domains))))
            for node, domains in places.items()
        ),
    )


def _made_up(level: str, path: tuple[str, ...]) -> str:
    digest = hashlib.sha256(json.dumps(path).encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9]+", "-", path[-1].lower())[:24].strip("-")
    return "-".join(part for part in (level, readable, digest) if part)


def to_text(topology: Topology) -> str:
    """Return the topology as JSON, the form of `--as json`."""
    return to_json(topology)


def from_text(text: str) -> Topology:
    """Return the topology in a text, which may have been written by hand."""
    try:
        return from_dict(Topology, parsed(text))
    except ValueError as error:
        raise TopologyError(str(error)) from None


def parsed(text: str) -> Any:
    """JSON of unknown origin."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"not JSON: {error}") from None


def _check_levels(levels: tuple[str, ...]) -> None:
    for level in levels:
        if not NAME.fullmatch(level):
            raise TopologyError(f"level {level!r} is not a name: lower-case letters, digits and -, 63 at most")
    if len(set(levels)) != len(levels) or len(levels) > LEVELS_MAX:
        raise TopologyError(f"levels {', '.join(levels)}: each once, and {LEVELS_MAX} at most")


def _check_nodes(places: tuple[NodeDomains, ...]) -> None:
    for place in places:
        if not NODE.fullmatch(place.node):
            raise TopologyError(f"node {place.node!r} has no host name: lower-case letters, digits, - and .")
    if twice := [node for node, times in Counter(place.node for place in places).items() if times > 1]:
        raise TopologyError(f"node {twice[0]!r} stands in two places")


def _check_domains(topology: Topology) -> None:
    """Check that a domain is on one level, in one domain of the next outer level."""
    above: dict[str, tuple[str, ...]] = {}
    for place in topology.placed:
        if len(place.domains) != len(topology.levels):
            said = f"{len(place.domains)} domains for {len(topology.levels)} levels"
            raise TopologyError(f"node {place.node!r} has {said}")
        for depth, domain in enumerate(place.domains):
            if domain in above:
                if above[domain] != place.domains[:depth]:
                    raise TopologyError(
                        f"domain {domain!r} stands in two places; node {place.node!r} is in one of them"
                    )
                continue
            if not NAME.fullmatch(domain) or domain in (FABRIC, MANAGEMENT):
                raise TopologyError(f"domain {domain!r} of node {place.node!r} is no name, or one with a meaning")
            above[domain] = place.domains[:depth]


def _grouped(places: Iterable[NodeDomains], level: int) -> Iterator[NodeDomains]:
    """Domains in the order in which they first appear, each with its nodes together."""
    groups: dict[str, list[NodeDomains]] = {}
    ended: list[NodeDomains] = []
    for place in places:
        if level < len(place.domains):
            groups.setdefault(place.domains[level], []).append(place)
        else:
            ended.append(place)
    for group in groups.values():
        yield from _grouped(group, level + 1)
    yield from ended
