"""What is proven: the part of a plan whose change makes an earlier proof worthless."""

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
"""More than the programs wait for one that wakes, and for one that does not answer."""


@dataclass(frozen=True)
class Subject:
    cluster: str
    cloud: str
    release: str
    versions: tuple[tuple[str, str], ...]
    fabric: Fabric
    pools: tuple[Group, ...]
    mounts: tuple[str, ...]
    """What every node has mounted, and all see alike."""
    queues: tuple[Queue, ...]
    proof: plan.Proof
    scheduler: SchedulerKind = "slurm"
    image: str = ""
    """What programs start from; empty where nodes have them."""
    claims: tuple[tuple[str, str], ...] = ()
    """Of pods that start from it: by the path that each sees it at, what it claims."""

    def with_members(self, roster: Roster) -> Subject:
        """With the nodes that are there, in pools of which a plan knows only how many there are."""
        return replace(self, pools=tuple(_named(pool, roster) for pool in self.pools))

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {node.name: node for pool in self.pools for node in pool.nodes}

    @cached_property
    def pool_of(self) -> Mapping[str, Group]:
        return {node.name: pool for pool in self.pools for node in pool.nodes}

    @cached_property
    def shared(self) -> bool:
        """Whether nodes are simulated on one host, and take its processors from each other."""
        return any(pool.machine.simulated for pool in self.pools)

    def waking_s(self, node: str) -> float:
        """What a start may take longer where accelerators wake, one of which may never answer."""
        machine = self.pool_of[node].machine
        return ACCELERATORS_S if machine.accelerators and not machine.simulated else 0.0

    def leaf(self, node: str) -> str:
        return self.nodes[node].leaf

    def by_machine(self, nodes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """The nodes of each machine: what is usual among them is no measure for others."""
        machines: dict[str, list[str]] = {}
        for node in nodes:
            machines.setdefault(self.pool_of[node].machine.name, []).append(node)
        return tuple(map(tuple, machines.values()))

    def on_rail(self, rail: Rail, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Those of these nodes that have a NIC on the rail."""
        return tuple(name for name in nodes if len(self.nodes[name].rail_addresses) > rail.index)


def _named(pool: Group, roster: Roster) -> Group:
    if pool.nodes:
        return pool
    rails = ("",) * (pool.rails or 0)
    members = (member for member in roster.members if member.group == pool.name)
    return replace(pool, nodes=tuple(Node(member.name, member.address, rails, leaf="") for member in members))


def subject_of(of: Plan, claims: Mapping[str, str] = MappingProxyType({})) -> Subject:
    """`claims`: what pods that start from the image have, by where they see it: the rest of the storage none has."""
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
    """Of everything a proof depends on but the nodes themselves; `programs` stands for the content of the checks.

    How many nodes there are is no part of it: a cluster that grows needs a proof of what is new.
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
