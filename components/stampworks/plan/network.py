"""Where everything has its address, and what joins the GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import IDENTITY, UNORDERED
from stampworks.plan.nodes import Group

OVER_TCP = frozenset({"simulated", "tcp"})
"""The fabrics whose rails are plain Ethernet to a collective."""
OVER_EFA: Mapping[str, str] = {"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0", "NCCL_NET": "AWS Libfabric"}
"""What keeps a collective on EFA: where that cannot be had a job fails, and is not slow. Of libfabric's providers EFA,
as the EC2 User Guide runs NCCL over it. Of NCCL's networks AWS's plug-in, by the one of its names that every version
answers to (aws-ofi-nccl, nccl_ofi_interface_nvidia.cpp, 8f2a23a3, read 2026-11-25): without it NCCL takes its sockets
and says nothing. No huge pages, as AWS's samples train: with some a data loader's fork copies them, and fails when none
is left (EFA cheat sheet of awsome-distributed-training, 0610db06, read 2026-11-24). What a job sets for itself
stays."""
OVER_VERBS: Mapping[str, str] = {"NCCL_NET": "IB"}
"""The same on InfiniBand and RoCE, both of which NCCL has a network of its own for."""

Egress = Literal["", "nat", "none"]


@dataclass(frozen=True)
class Subnet:
    """A part of the cluster's range, from which its cloud hands out addresses where there is one."""

    name: str
    cidr: str = field(metadata=IDENTITY)
    reserved: int
    """Addresses that nobody gets."""
    needed: int | None
    """Addresses that this plan takes; None where nobody says it of one of the file systems in it."""
    public: bool
    """Whether what is in it may have an address that the world knows."""

    @property
    def size(self) -> int:
        return 1 << (32 - int(self.cidr.rpartition("/")[2]))

    @property
    def room(self) -> int | None:
        """Addresses that are left."""
        return None if self.needed is None else self.size - self.reserved - self.needed


@dataclass(frozen=True)
class Pods:
    """Where a Kubernetes has addresses for pods and services from."""

    way: str
    """What its cloud calls it."""
    subnet: str
    """The subnet that pods have theirs from; empty where they have a range of their own."""
    cidr: str = field(metadata=IDENTITY)
    """That range; empty where there is none."""
    per_node: int
    """How many pods a node runs at most."""
    node_addresses: int
    """What a node takes for them at most."""
    nodes_max: int = field(metadata=IDENTITY)
    """How many nodes there are addresses for."""
    services_cidr: str = field(metadata=IDENTITY)


@dataclass(frozen=True)
class Network:
    cidr: str = field(metadata=IDENTITY)
    """The whole range the cluster may use; empty where nodes come with addresses."""
    management_cidr: str = field(metadata=IDENTITY)
    gateway: str = field(metadata=IDENTITY)
    """The room's own address on the management network: where the toolkit reaches the nodes from. Empty on a cloud."""
    subnets: tuple[Subnet, ...]
    """Where the plan numbers every port itself, those of NICs beside the first, with the numbers of management."""
    zone: str = field(default="", metadata=IDENTITY)
    """Where its subnets are; empty where the cloud chooses, or nobody makes them."""
    pods: Pods | None = None
    """None for another scheduler than Kubernetes, and where nobody knows."""
    egress: Egress = ""
    """How nodes reach the world; empty where the cloud has its own way, or none has to be made."""
    endpoints: tuple[str, ...] = field(default=(), metadata=UNORDERED)
    """The cloud's services that have an address in the network, as the cloud calls them."""
    card_addresses: bool = False
    """Whether each network card of a node's fabric has an address; else a node has one."""


SPINE, CORE = "spine", "core"
"""The spine of a rail that has only one, and what joins spines where there are several."""


@dataclass(frozen=True)
class Trunk:
    """The link from one leaf of a rail up to its spine, or from one spine up to the rail's core."""

    leaf: str
    """Or the spine."""
    rate_mbps: int
    to: str = SPINE


@dataclass(frozen=True)
class Rail:
    """The i-th NIC of every node and the switches it meets."""

    index: int
    interface: str
    """The NIC's name on every node: rail0, rail1, ..."""
    cidr: str = field(metadata=IDENTITY)
    """Empty where its ports have no address in the cluster's range."""
    rate_mbps: int
    trunks: tuple[Trunk, ...]
    """One for each leaf, empty when a single leaf holds every node and no spine is needed."""
    core_trunks: tuple[Trunk, ...] = ()
    """One for each spine, which carries what all its leaves can; empty where there is one at most, or real ones."""


@dataclass(frozen=True)
class Domain:
    """Nodes that share what joins them on a level beside that of leaves."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Leaf:
    """The nodes that share a leaf switch on every rail."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Fabric:
    kind: str
    """What its NICs speak; empty where there are none, unknown where nobody says."""
    oversubscription: int | None
    """How many times the rails of a leaf exceed its trunk: 1, 2 or 4; None where the fabric is the cloud's own."""
    leaf_nodes: int | None
    """None where it is the cloud that places nodes."""
    rails: tuple[Rail, ...]
    leaves: tuple[Leaf, ...]
    spine_leaves: int = 0
    """How many leaves of a pool share a simulated spine; 0 where that was not declared."""
    spines: tuple[Domain, ...] | None = None
    """Nodes whose leaves share spines; None where all do, or nobody knows."""
    nvlink_domains: tuple[Domain, ...] | None = None
    """Nodes that share an NVLink fabric, within a leaf; None where nodes are alone."""

    def met_by(self, group: Group) -> tuple[Rail, ...]:
        """The rails that a group's machine is on: none where nobody says how many."""
        return self.rails[: group.rails or 0]

    def rails_of(self, group: Group) -> list[Rail]:
        """The same without their trunks: those are the network's."""
        return [dataclasses.replace(rail, trunks=(), core_trunks=()) for rail in self.met_by(group)]
