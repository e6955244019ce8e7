"""Networks: addresses of everything, and the fabric that connects the GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import IDENTITY, UNORDERED, WORDS
from stampworks.plan.nodes import Group

OVER_TCP = frozenset({"simulated", "tcp"})
"""Fabrics whose rails are plain Ethernet to a collective."""
OVER_EFA: Mapping[str, str] = {"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0", "NCCL_NET": "AWS Libfabric"}
"""Variables that keep a collective on EFA: a job without EFA fails instead of being slow. FI_PROVIDER selects EFA among
the libfabric providers, as the EC2 User Guide runs NCCL over it. NCCL_NET selects AWS's plug-in by the name that every
version answers to (aws-ofi-nccl, nccl_ofi_interface_nvidia.cpp, 8f2a23a3, read 2026-11-25). Without it NCCL silently
uses its sockets. Huge pages are off, as in AWS's training samples. With huge pages a data loader's fork copies them,
and fails when none is left (EFA cheat sheet of awsome-distributed-training, 0610db06, read 2026-11-24). Values that a
job sets itself stay."""
OVER_VERBS: Mapping[str, str] = {"NCCL_NET": "IB"}
"""Variables that keep a collective on InfiniBand or RoCE: NCCL has its own network module for both."""

Egress = Literal["", "nat", "none"]
DATABASE = "database"
"""Name of the subnet in another zone; a managed database requires it besides the subnet of file systems."""


@dataclass(frozen=True)
class Subnet:
    """A part of the cluster's range, from which the cloud, if any, assigns addresses."""

    name: str
    cidr: str = field(metadata=IDENTITY)
    reserved: int
    """Addresses that cannot be assigned."""
    needed: int | None
    """Addresses that this plan takes; None when a file system in the subnet does not document its number."""
    public: bool
    """Whether members of the subnet may have a public address."""

    @property
    def size(self) -> int:
        """Number of addresses, with those that a cloud reserves."""
        return 1 << (32 - int(self.cidr.rpartition("/")[2]))

    @property
    def room(self) -> int | None:
        """Return the number of free addresses."""
        return None if self.needed is None else self.size - self.reserved - self.needed


@dataclass(frozen=True)
class Pods:
    """The source of addresses for pods and services of a Kubernetes."""

    way: str
    """The cloud's name for this kind of pod network."""
    subnet: str
    """The subnet of pod addresses; empty when pods have a separate range."""
    cidr: str = field(metadata=IDENTITY)
    """The separate range of pods; empty for none."""
    per_node: int
    """The maximum number of pods on a node."""
    node_addresses: int
    """The maximum number of pod addresses that a node takes."""
    nodes_max: int = field(metadata=IDENTITY)
    """The number of nodes for which there are addresses."""
    services_cidr: str = field(metadata=IDENTITY)


@dataclass(frozen=True)
class ExistingSubnet:
    """A subnet of an existing network that the cluster uses."""

    name: str
    """Name of the subnet in the plan."""
    zone: str
    id: str
    entry: int = field(metadata=WORDS)
    """Index in the declaration, which may list subnets of other zones, too."""


@dataclass(frozen=True)
class ExistingNetwork:
    """An existing network of the account. The cluster uses it, and neither changes nor deletes any part of it."""

    vpc: str
    subnets: tuple[ExistingSubnet, ...]
    """Subnets in the order of the plan's."""
    nodes_group: str
    """Security group of nodes; empty, like the next one, if the cluster creates its own."""
    storage_group: str

    def subnet(self, name: str) -> ExistingSubnet:
        """Return the subnet with this name; each name of the plan has one."""
        return next(each for each in self.subnets if each.name == name)


@dataclass(frozen=True)
class Network:
    """The addresses of a cluster, and the existing network that it may use."""

    cidr: str = field(metadata=IDENTITY)
    """The whole range of the cluster; empty if nodes have their own addresses."""
    management_cidr: str = field(metadata=IDENTITY)
    gateway: str = field(metadata=IDENTITY)
    """The machine room's address on the management network, from which the toolkit reaches the nodes. Empty on a
    cloud."""
    subnets: tuple[Subnet, ...]
    """Subnets of the cluster. When the plan numbers every port itself, there are only those of additional NICs, which
    repeat the numbers of management."""
    zone: str = field(default="", metadata=IDENTITY)
    """The zone of the subnets; empty when the cloud chooses it, or when no subnets are created."""
    pods: Pods | None = None
    """None when the scheduler is not Kubernetes, or when the addresses are unknown."""
    egress: Egress = ""
    """The way nodes reach the internet; empty when the cloud has its own way, or when nothing has to be created."""
    endpoints: tuple[str, ...] = field(default=(), metadata=UNORDERED)
    """The cloud's services that have a private endpoint in the network, as the cloud names them."""
    card_addresses: bool = False
    """Whether each network card of a node's fabric has an address; else a node has one."""
    existing: ExistingNetwork | None = field(default=None, metadata=IDENTITY)
    """None when the cluster makes a network of its own."""


@dataclass(frozen=True)
class AccountTerms:
    """Requirements of the account's owners for all created resources; empty if there are none."""

    key: str = ""
    """The key that encrypts disks, file systems, buckets and the database."""
    permissions_boundary: str = ""
    role_path: str = ""
    head_profile: str = ""
    """Existing rights of the head and of login nodes."""
    nodes_profile: str = ""


SPINE, CORE = "spine", "core"
"""Names of the only spine of a rail, and of the core that joins several spines."""


@dataclass(frozen=True)
class Trunk:
    """The link from a leaf of a rail up to its spine, or from a spine up to the rail's core."""

    leaf: str
    """Name of the leaf or of the spine."""
    rate_mbps: int
    to: str = SPINE


@dataclass(frozen=True)
class Rail:
    """The i-th NIC of every node, and the switches that it connects to."""

    index: int
    interface: str
    """The NIC's name on every node: rail0, rail1, ..."""
    cidr: str = field(metadata=IDENTITY)
    """Empty when its ports have no address in the cluster's range."""
    rate_mbps: int
    trunks: tuple[Trunk, ...]
    """Trunks, one for each leaf; empty if a single leaf holds every node and no spine is needed."""
    core_trunks: tuple[Trunk, ...] = ()
    """Uplinks of spines, one for each, with all traffic of its leaves. Empty with at most one spine, or with real
    spines."""


@dataclass(frozen=True)
class Domain:
    """Nodes that share a network level other than the leaves."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Leaf:
    """Nodes that share a leaf switch on every rail."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Fabric:
    """The network between GPUs: rails, leaves, trunks and the levels above the leaves."""

    kind: str
    """The protocol of the NICs; empty without NICs, `unknown` when undocumented."""
    oversubscription: int | None
    """Ratio of the rails of a leaf to its trunk: 1, 2 or 4; None when the fabric belongs to the cloud."""
    leaf_nodes: int | None
    """Nodes of a leaf; None if the cloud places the nodes."""
    rails: tuple[Rail, ...]
    leaves: tuple[Leaf, ...]
    spine_leaves: int = 0
    """Number of leaves of a pool that share a simulated spine; 0 when not declared."""
    spines: tuple[Domain, ...] | None = None
    """Nodes whose leaves share spines; None when all leaves do, or when it is unknown."""
    nvlink_domains: tuple[Domain, ...] | None = None
    """Nodes that share an NVLink fabric, within a leaf; None when NVLink ends at the node."""

    def met_by(self, group: Group) -> tuple[Rail, ...]:
        """Return the rails that the group's machine is on; none when the number is unknown."""
        return self.rails[: group.rails or 0]

    def rails_of(self, group: Group) -> list[Rail]:
        """Return the group's rails without their trunks, which belong to the network."""
        return [dataclasses.replace(rail, trunks=(), core_trunks=()) for rail in self.met_by(group)]
