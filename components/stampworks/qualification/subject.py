"""The subject of a proof: the part of a plan whose change invalidates an earlier proof."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from stampworks import plan
from stampworks.plan import Fabric, Group, Node, Plan, Queue, Rail, Roster, SchedulerKind

ACCELERATORS_S = 120.0
"""Seconds; longer than programs wait for an accelerator that wakes or does not answer."""


@dataclass(frozen=True)
class Subject:
    """The parts of a plan that a proof covers."""

    cluster: str
    cloud: str
    release: str
    versions: tuple[tuple[str, str], ...]
    fabric: Fabric
    pools: tuple[Group, ...]
    mounts: tuple[str, ...]
    """Paths that every node mounts, with the same content for all."""
    queues: tuple[Queue, ...]
    proof: plan.Proof
    scheduler: SchedulerKind = "slurm"
    image: str = ""
    """Image that programs start from; empty when the nodes have the programs."""
    claims: tuple[tuple[str, str], ...] = ()
    """Volume claims of pods that start from the image: pairs (mount path, claim name)."""

    def with_members(self, roster: Roster) -> Subject:
        """Return the subject with the roster's members as nodes, in pools whose nodes the plan does not name."""
        return replace(self, pools=tuple(_named(pool, roster) for pool in self.pools))

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """The planned nodes of all pools by name."""
        return {node.name: node for pool in self.pools for node in pool.nodes}

    @cached_property
    def pool_of(self) -> Mapping[str, Group]:
        """The pool of each planned node."""
        return {node.name: pool for pool in self.pools for node in pool.nodes}

    @cached_property
    def shared(self) -> bool:
        """Whether nodes are simulated on one host and compete for its processors."""
        return any(pool.machine.simulated for pool in self.pools)

    def waking_s(self, node: str) -> float:
        """Return the extra seconds that a start may take while accelerators wake; one of them may never answer."""
        machine = self.pool_of[node].machine
        return ACCELERATORS_S if machine.accelerators and not machine.simulated else 0.0

    def leaf(self, node: str) -> str:
        """Return the leaf of a planned node. Raise KeyError for another name."""
        return self.nodes[node].leaf

    def by_machine(self, nodes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Group nodes by machine, because nodes of one machine are no measure for those of another."""
        machines: dict[str, list[str]] = {}
        for node in nodes:
            machines.setdefault(self.pool_of[node].machine.name, []).append(node)
        return tuple(map(tuple, machines.values()))

    def on_rail(self, rail: Rail, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes that have a NIC on the rail."""
        return tuple(name for name in nodes if len(self.nodes[name].rail_addresses) > rail.index)


def _named(pool: Group, roster: Roster) -> Group:
    if pool.nodes:
        return pool
    rails = ("",) * (pool.rails or 0)
    members = (member for member in roster.members if member.group == pool.name)
    return replace(pool, nodes=tuple(Node(member.name, member.address, rails, leaf="") for member in members))


def subject_of(of: Plan, claims: Mapping[str, str] = MappingProxyType({})) -> Subject:
    """Extract the subject of a plan. `claims` maps mount paths to the volume claims of pods that start from the image;
    such pods see no other storage."""
    image = of.scheduler.workloads_image
    mounts = claims if image else [each.mount for each in of.storage]
    return Subject(
        cluster=of.name,
        cloud=of.cloud,
        release=of.release.name,
        versions=of.release.versions,
        fabric=of.fabric,
        pools=of.pools,
        mounts=tuple(sorted(mounts)),
        queues=of.scheduler.queues,
        proof=of.proof,
        scheduler=of.scheduler.kind,
        image=image,
        claims=tuple(sorted(claims.items())) if image else (),
    )


def proven_digest(subject: Subject, programs: str) -> str:
    """Hash everything that a proof depends on except the nodes; `programs` stands for the content of the checks.

    The number of nodes is left out: a cluster that grows needs a proof of its new nodes only.
    """
    fabric = subject.fabric
    lasting = [
        [subject.cloud, subject.release, subject.versions, subject.mounts, subject.proof.level, programs],
        *([[subject.image]] if subject.image else []),
        [fabric.kind, fabric.oversubscription, fabric.leaf_nodes],
        [[rail.interface, rail.rate_mbps] for rail in fabric.rails],
        [[pool.name, plan.to_dict(pool.machine)] for pool in subject.pools],
    ]
    return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()[:16]
