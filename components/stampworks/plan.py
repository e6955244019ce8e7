"""The plan: what a declaration means, complete and frozen.

Everything downstream of planning reads these types and nothing else. A plan has no blanks, no functions and no order
that depends on chance, so that two plans can be compared and one plan can be written to a file, read back and used.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

PLAN_VERSION = 1

STATE_DIRECTORY = "/var/lib/stampworks/state"
"""Where the controller has the volume with what only the scheduler knows."""

PROOF_TAINT = "stampworks/proof"
"""Of nodes that a proof has for itself."""

WORKLOADS_IMAGE = "localhost/stampworks/workloads:1"
"""What pods of bundled workloads start from, on nodes that bring the programs themselves."""

OVER_TCP = frozenset({"simulated", "tcp"})
"""The fabrics whose rails are plain Ethernet to a collective."""

UNPROVEN_TAINT = "stampworks/unproven"
"""Of nodes of a Kubernetes that take no pods before they have passed."""

KEPT: Mapping[str, str] = {"slurm": "queue and accounting", "kubernetes": "the state of Kubernetes"}
"""What is in that volume, by the kind of the scheduler."""

CLIENTS: Mapping[str, str] = {
    "lustre": "Lustre client",
    "nfs": "NFS client",
    "fuse": "program that mounts buckets",
}
"""What a release may have to mount file systems with, and what that is in words: packages, and no roles."""

Role = Literal["controller", "worker", "scheduling only", "login"]
SchedulerKind = Literal["slurm", "kubernetes"]
Preemption = Literal["off", "requeue", "cancel"]
Level = Literal["none", "quick", "standard", "burn-in"]
RollJobs = Literal["wait", "requeue"]
Layout = Literal["ddp", "fsdp", "hsdp", "tp"]
Precision = Literal["auto", "float32", "bfloat16", "float8"]
TrackerKind = Literal["files", "mlflow", "wandb"]
Egress = Literal["", "nat", "none"]
Purchase = Literal["owned", "on-demand", "spot", "reserved", "block"]

# What two stamps of one cluster may differ in says so beside the field: the fingerprint leaves it out, and what
# compares plans does not count it. A field without a mark counts.
IDENTITY: Final = {"apart": "identity"}
"""Which of several equal clusters it is: its name, where its addresses come from, where its files lie."""
COUNTED: Final = {"counted": True}
"""A list that is identity, and how many entries it has is not."""
RELEASE: Final = {"apart": "release"}
"""The software, which siblings get one after the other; the node image follows from it."""
WORDS: Final = {"apart": "words"}
"""Derivations for people: they say how a number came about, and the number itself counts."""
UNORDERED: Final = {"order": "free"}
"""A list whose order says nothing: with its entries in another order it is the same."""
FIRST: Final = {"order": "first"}
"""A list of which it says something which entry is the first, and nothing how the others follow."""
NUMBERED: Final = {"order": "numbered"}
"""A list whose order says something where the plan numbers ports, for addresses follow it, and else nothing."""


@dataclass(frozen=True)
class Source:
    """What is built on nodes, since nobody publishes packages of it."""

    name: str
    repository: str
    """Of git."""
    tag: str
    """What people call the commit; nothing is fetched by it."""
    commit: str
    """A digest of all that is in it."""
    command: tuple[str, ...]
    """What makes the programs, in the top of the source."""
    makes: tuple[str, ...]
    """The files that are installed, from there."""


@dataclass(frozen=True)
class Software:
    """What a role brings onto the nodes that need it."""

    name: str
    """The role's, or the client's."""
    packages: tuple[tuple[str, str], ...]
    """(package, the beginning of its version), empty where the suite itself has it."""
    source: Source | None = None
    """What the role builds with these packages."""


@dataclass(frozen=True)
class Release:
    """Software versions that go together, and the packages each part of a node needs."""

    name: str
    suite: str
    """The suite of the distribution that a node runs."""
    versions: tuple[tuple[str, str], ...]
    """(part, version) in alphabetical order: what a finished node must report."""
    base_packages: tuple[str, ...]
    """What a fresh machine has before any role ran."""
    packages: tuple[tuple[str, tuple[str, ...]], ...]
    """(role, packages its install part needs), in the order of the roles."""
    boot: tuple[str, ...] = ()
    """With what a node configures itself that starts later, where its image does not have it."""
    kernel: str = ""
    """The beginning of the version of the kernel that drivers are built for; empty where nodes need none."""
    hardware: tuple[Software, ...] = ()
    """What only some nodes get, for what they have, in the order of the roles."""
    clients: tuple[Software, ...] = ()
    """What mounts the cluster's file systems, by what CLIENTS calls it: no node has to start anew for it."""
    kubernetes: tuple[tuple[str, str], ...] = ()
    """(part, version) of Kubernetes and what it is extended by; none for another scheduler."""


@dataclass(frozen=True)
class Machine:
    """The facts of a catalog row that later steps need."""

    name: str
    simulated: bool
    accelerator: str
    """What Slurm calls the accelerator's type, for example h100."""
    accelerators: int
    accelerator_memory_gib: int | None
    """None here and below: nobody has published it."""
    cores: int | None
    memory_mib: int | None


@dataclass(frozen=True)
class Trunk:
    """The link from one leaf of a rail up to that rail's spine."""

    leaf: str
    rate_mbps: int


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
    spines: tuple[Domain, ...] | None = None
    """Nodes whose leaves share spines; None where all do, or nobody knows."""
    nvlink_domains: tuple[Domain, ...] | None = None
    """Nodes that share an NVLink fabric, within a leaf; None where nodes are alone."""

    def met_by(self, group: Group) -> tuple[Rail, ...]:
        """The rails that a group's machine is on: none where nobody says how many."""
        return self.rails[: group.rails or 0]

    def rails_of(self, group: Group) -> list[Rail]:
        """The same without their trunks: those are the network's."""
        return [dataclasses.replace(rail, trunks=()) for rail in self.met_by(group)]


@dataclass(frozen=True)
class Node:
    """A member that the plan can name beforehand: where it numbers ports itself, or says what machines are called."""

    name: str
    address: str = field(metadata=IDENTITY)
    """Empty for a node of a pool for scheduling only, and where a cloud hands addresses out."""
    rail_addresses: tuple[str, ...] = field(metadata=IDENTITY | COUNTED)
    """One for each rail that it is on, empty where its port takes none."""
    leaf: str
    """Empty for a node that has no rails."""


@dataclass(frozen=True)
class Volume:
    """A disk of its own for what must outlive its node, the one member of a group."""

    name: str
    mount: str
    gib: int = 0
    """0 where it takes what it needs of a disk that is there."""

    def of_node(self, node: str) -> str:
        """What it is called among all volumes of a cluster."""
        return f"{node}-{self.name}"


@dataclass(frozen=True)
class Interface:
    """A NIC of a node, as its cloud attaches it."""

    name: str
    card: int
    """On which of the machine's network cards it is."""
    device: int
    """Its place on that card."""
    fabric: bool
    """Whether it carries the fabric."""
    address: bool
    """Whether it has one, and carries everything else."""


@dataclass(frozen=True)
class Launch:
    """What a cloud is told when it starts a node."""

    instance_type: str
    """What the cloud calls the machine."""
    image: str = field(metadata=RELEASE)
    """What it boots, as the cloud calls it; empty until it was looked up."""
    published_image: str = field(metadata=RELEASE)
    """Where the cloud says which image of the release is the newest."""
    prepared: bool = field(metadata=RELEASE)
    """Whether the image has all that the release installs, so that a node needs nothing from anywhere."""
    user: str = field(metadata=RELEASE)
    """Who can log in to the published image, before anything lets the toolkit in."""
    root_device: str = field(metadata=RELEASE)
    """What the image calls the node's own disk."""
    agent: str = field(metadata=RELEASE)
    """The package of what lets people in, for an image that does not bring it."""
    disk_gib: int
    """Of the node's own disk."""
    interfaces: tuple[Interface, ...]
    """The first one is the node's own."""
    placed_together: bool
    """Whether nodes are to be close to each other."""


@dataclass(frozen=True)
class Offer:
    """One way to buy a node."""

    purchase: Purchase
    reservation: str = field(metadata=IDENTITY)
    """What the cloud calls the capacity that was bought before; empty for none."""
    placed_together: bool
    """Whether nodes are asked to be close to each other."""

    @property
    def name(self) -> str:
        """What it is known by among those of a group."""
        return f"{self.purchase} {self.reservation}".rstrip()


@dataclass(frozen=True)
class Scratch:
    """The disks inside a node, as one file system for what may be lost."""

    path: str
    model: str
    """What each of the disks calls itself."""
    disks: int


@dataclass(frozen=True)
class Group:
    """The members of one pool, the controller or the login nodes: one resource on every cloud, or none."""

    name: str
    role: Role
    machine: Machine
    count: int
    """At most: what everything else is counted for."""
    count_min: int
    """How many of them always run; how many others do at a time is in no plan."""
    nodes: tuple[Node, ...]
    """Empty where the cloud names its nodes itself."""
    volumes: tuple[Volume, ...]
    rails: int | None
    """How many of the fabric's rails, the first ones, each node is on; None where nobody says what NICs it has."""
    purchase: Purchase
    zone: str = field(metadata=IDENTITY)
    """Empty where the cloud has none, or chooses."""
    reservation: str = field(metadata=IDENTITY)
    """What the cloud calls the capacity that was bought before; empty for none."""
    launch: Launch | None = None
    """None where a node is not started by a cloud."""
    fallbacks: tuple[Offer, ...] = ()
    """How else elastic nodes are bought, in this order, while there are none to be had as the group says."""
    hardware: tuple[str, ...] = field(default=(), metadata=RELEASE)
    """The roles of the release's hardware that its nodes get, for what they have."""
    scratch: Scratch | None = field(default=None, metadata=RELEASE)
    """None where no disks inside are known of."""
    storage_interfaces: int = 0
    """How many NICs of its fabric its nodes give to file systems; 0 where they reach none over it."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All ways in which its nodes are bought, the group's own first."""
        together = self.launch is not None and self.launch.placed_together
        return (Offer(self.purchase, self.reservation, together), *self.fallbacks)

    @property
    def elastic_nodes(self) -> tuple[Node, ...]:
        """Those that start and stop with the work; the others are there always."""
        return self.nodes[self.count_min :]

    @property
    def elastic(self) -> bool:
        """Whether some of its nodes start and stop by themselves, with the work."""
        return self.count_min < self.count

    @property
    def counts(self) -> str:
        """How many run, in words."""
        return f"{self.count_min} to {self.count}" if self.elastic else f"{self.count}"


def log_group(cluster: str) -> str:
    """What the cloud calls all that the nodes of a cluster say."""
    return f"/stampworks/{cluster}/nodes"


def template_name(cluster: str, group: Group, offer: Offer) -> str:
    """Under which a cloud keeps what an elastic node starts from: no name of a cluster or pool has a dot."""
    return f"{cluster}.{group.name}.{group.offers.index(offer)}"


def declared_pools(groups: Iterable[Group]) -> tuple[Group, ...]:
    """In their order, those for scheduling only among them."""
    return tuple(group for group in groups if group.role in ("worker", "scheduling only"))


@dataclass(frozen=True)
class Storage:
    name: str
    kind: str
    tier: str
    """Empty, as 0 and none below: not declared, which is right where there is one choice or none."""
    capacity: int
    """In the unit that its kind is sold in: GiB for most."""
    mbps_per_tib: int
    throughput_mbps: int
    """Of the whole, where it is bought apart from the capacity."""
    read_cache_gib: int
    metadata_iops: int
    efa: bool
    features: tuple[str, ...]
    mount: str
    protect: bool
    repository: str = field(default="", metadata=IDENTITY)
    """What its feature data-repository shows: another one of these by its name, or a place in a bucket."""
    driver: str = field(default="", metadata=RELEASE)
    """What the cloud calls that which brings it into pods; empty where no Kubernetes of the cloud's own is to."""

    @property
    def bought(self) -> tuple[str, ...]:
        """What its vendor may bill beside the capacity, in words."""
        amounts = {
            "MB/s a TiB": self.mbps_per_tib,
            "MB/s": self.throughput_mbps,
            "GiB of read cache": self.read_cache_gib,
            "metadata IOPS": self.metadata_iops,
        }
        numbers = (f"{amount} {unit}" for unit, amount in amounts.items() if amount)
        of = {"data-repository": f"data-repository of {self.repository}"}
        features = (of.get(each, each) for each in sorted(self.features))
        return (*numbers, *(["EFA"] if self.efa else []), *features)


@dataclass(frozen=True)
class Queue:
    """A partition of Slurm, a LocalQueue of Kubernetes."""

    name: str
    pools: tuple[str, ...] = field(metadata=UNORDERED)
    default: bool
    time_limit_minutes: int
    """0 means no limit."""
    priority: str
    """Name of the priority its jobs get when they ask for none; empty for none."""


@dataclass(frozen=True)
class Priority:
    """A QOS of Slurm, a WorkloadPriorityClass of Kubernetes."""

    name: str
    weight: int
    preempts: tuple[str, ...] = field(metadata=UNORDERED)


@dataclass(frozen=True)
class Account:
    name: str
    users: tuple[str, ...] = field(metadata=UNORDERED)
    share: int
    accelerators_max: int
    """0 means no limit."""


@dataclass(frozen=True)
class Image:
    part: str
    """Of an add-on's values, the one that names it."""
    name: str
    tag: str
    digest: str
    """Empty where no source says it."""


@dataclass(frozen=True)
class AddOn:
    """What a Kubernetes is extended by, at the version of the release."""

    name: str
    what: str = field(metadata=WORDS)
    by: Literal["helm", "cloud", "hand"]
    """Who installs it: a release of Helm of ours, the cloud, or whoever runs the cluster."""
    chart: str = field(metadata=RELEASE)
    """Empty where nobody publishes one."""
    repository: str = field(metadata=RELEASE)
    version: str = field(metadata=RELEASE)
    namespace: str
    needs: tuple[str, ...]
    """Those of the others that it comes after."""
    images: tuple[Image, ...] = field(metadata=RELEASE)
    driver: str = field(default="", metadata=RELEASE)
    """The version of the driver that the GPU operator brings; empty where nodes have one."""
    mig_strategy: str = ""
    mig_profile: str = ""
    """Into which parts it divides accelerators; empty where it leaves them whole."""


@dataclass(frozen=True)
class Scheduler:
    kind: SchedulerKind
    accounting: bool
    preemption: Preemption
    topology: Literal["flat", "tree", "block"]
    block_nodes: int
    """Nodes in a base block when topology is block, else 0."""
    drain_timeout_minutes: int
    protect: bool
    """Whether what it keeps may only be deleted after an explicit word."""
    state_directory: str
    """Where it keeps what only it knows: a volume apart from the controller's disk."""
    queues: tuple[Queue, ...] = field(metadata=UNORDERED)
    priorities: tuple[Priority, ...] = field(metadata=UNORDERED)
    accounts: tuple[Account, ...] = field(metadata=UNORDERED)
    database: Literal["head", "managed"] = "head"
    """Who runs the one of the accounting: managed is the cloud."""
    addons: tuple[AddOn, ...] = ()
    """Of a Kubernetes, in the order in which they are installed."""
    workloads_image: str = field(default="", metadata=RELEASE)
    """What proofs and runs start from; empty where nodes have the programs themselves."""

    @property
    def queue_directory(self) -> str:
        """Where slurmctld keeps the queue."""
        return f"{self.state_directory}/slurmctld"


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    accounts: tuple[str, ...] = field(metadata=FIRST)
    """The first one is charged where a job names none."""


@dataclass(frozen=True)
class Tag:
    """On all that a cloud makes for a cluster."""

    name: str
    value: str


@dataclass(frozen=True)
class Budget:
    """What a cluster may cost, and who is told in time."""

    monthly_usd: int
    """0 means no limit."""
    notify: tuple[str, ...] = field(metadata=UNORDERED)
    """Addresses for mail."""


@dataclass(frozen=True)
class Logs:
    """What nodes say, kept by the cloud."""

    days: int
    """For how long; 0 where nobody keeps it."""


@dataclass(frozen=True)
class OwnRole:
    """An Ansible role that is not ours."""

    name: str
    path: str = field(metadata=IDENTITY)
    """Its folder, from the folder of the declaration: where it lies says nothing about the cluster."""
    groups: tuple[str, ...] = field(metadata=UNORDERED)
    variables: str
    """A JSON object: data of any shape, which no type of a plan could hold."""


@dataclass(frozen=True)
class OwnCheck:
    """A check of a node that is not ours."""

    name: str
    path: str = field(metadata=IDENTITY)
    """Its file, as above."""
    pools: tuple[str, ...] = field(metadata=UNORDERED)
    timeout_seconds: int


@dataclass(frozen=True)
class Extras:
    """What the user adds to a cluster."""

    roles: tuple[OwnRole, ...]
    """In the order in which they run."""
    checks: tuple[OwnCheck, ...] = field(metadata=UNORDERED)


BUDGET_MINUTES: Mapping[Level, int] = {"none": 10, "quick": 10, "standard": 10, "burn-in": 240}
"""How long a proof may take where nobody says it."""


@dataclass(frozen=True)
class Proof:
    """How the finished cluster is measured against its plan before anything may rely on it."""

    level: Level
    budget_minutes: int
    """What has not been measured by then is unknown."""
    failed_nodes_max: int
    """As many nodes may be held back before the whole counts as failed."""


@dataclass(frozen=True)
class Roll:
    """How nodes that run are made anew: in waves, each of which is proven before the next one begins."""

    unavailable_max: tuple[tuple[str, int], ...] = field(metadata=UNORDERED)
    """Of each pool, how many of its nodes may be out of service at once because of it."""
    jobs: RollJobs
    """Jobs on a node whose turn has come: waited for, or started anew elsewhere where they allow it."""


@dataclass(frozen=True)
class Tracker:
    """Who else is told how a training run goes."""

    kind: TrackerKind
    url: str
    experiment: str


@dataclass(frozen=True)
class Checkpoints:
    directory: str
    """Below it each run has a directory of its own; empty: in the run's folder."""
    keep: int


@dataclass(frozen=True)
class Model:
    """What is to be trained; None: nobody said it. Without parameters no model is declared."""

    parameters: int | None
    tokens: int | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    head: int | None
    """How wide a query and a key of one head are; None: as a layer divides by its heads."""
    value_head: int | None
    kv_rank: int | None
    """Of latent attention; None: it has another kind."""
    query_rank: int | None
    rotary: int | None
    ffn: int | None
    vocabulary: int | None
    sequence: int | None
    gated: bool
    tied: bool
    experts: int | None
    """Of each layer; None: it has none."""
    experts_per_token: int | None
    dense_layers: int | None
    """The first ones, without experts."""
    dense_ffn: int | None
    active: int | None
    """Parameters that a token passes through; None: all of them."""


@dataclass(frozen=True)
class Training:
    """What a training run takes where nobody says it."""

    layout: Layout
    tensor_parallel: int
    precision: Precision
    steps: int
    batch: int
    tracker: Tracker
    checkpoints: Checkpoints
    node_ranks: int
    """How many ranks a node has; 0: as many as it has accelerators, or one."""
    ranks: tuple[tuple[str, int], ...] = field(metadata=UNORDERED)
    """The same of each pool, worked out."""
    peak_tflops: tuple[tuple[str, float], ...] = field(metadata=UNORDERED)
    """What one accelerator reaches in that precision as its maker says; a pool that is not there: not known, or
    simulated."""
    model: Model


@dataclass(frozen=True)
class Expectation:
    """A predicted number with its derivation."""

    name: str
    value: float
    unit: str
    why: str = field(metadata=WORDS)


@dataclass(frozen=True)
class Reason:
    """Why a derived value is what it is."""

    path: str
    why: str


@dataclass(frozen=True)
class Plan:
    version: int
    name: str = field(metadata=IDENTITY)
    cloud: str
    region: str = field(metadata=IDENTITY)
    """Empty where the cloud has none."""
    release: Release = field(metadata=RELEASE)
    network: Network
    fabric: Fabric
    groups: tuple[Group, ...] = field(metadata=NUMBERED)
    """The controller first, then the pools as declared, then the login nodes."""
    storage: tuple[Storage, ...] = field(metadata=FIRST)
    """Runs have their folders on the first one."""
    scheduler: Scheduler
    users: tuple[User, ...] = field(metadata=UNORDERED)
    tags: tuple[Tag, ...] = field(metadata=UNORDERED | IDENTITY)
    budget: Budget = field(metadata=IDENTITY)
    logs: Logs
    extras: Extras
    proof: Proof
    roll: Roll
    training: Training
    expectations: tuple[Expectation, ...] = field(metadata=UNORDERED)
    reasons: tuple[Reason, ...] = field(metadata=WORDS)

    @property
    def controller(self) -> Group:
        return next(group for group in self.groups if group.role == "controller")

    @property
    def pools(self) -> tuple[Group, ...]:
        """Those whose nodes run jobs."""
        return tuple(group for group in self.groups if group.role == "worker")

    @property
    def running(self) -> tuple[Group, ...]:
        """Those that have nodes at all, in their order."""
        return tuple(group for group in self.groups if group.role != "scheduling only")

    @property
    def stamped(self) -> tuple[Group, ...]:
        """Those whose nodes are made: of a Kubernetes the cloud has the control plane, and nobody logs in."""
        return self.pools if self.scheduler.kind == "kubernetes" else self.running

    @property
    def managed(self) -> bool:
        """Whether the cloud runs its Kubernetes and makes its nodes: no playbook does, and a plan names none."""
        return self.scheduler.kind == "kubernetes" and any(group.launch for group in self.groups)

    @property
    def login(self) -> tuple[Group, ...]:
        """The group of login nodes, where there are some."""
        return tuple(group for group in self.groups if group.role == "login")

    @property
    def scheduling_only(self) -> tuple[Group, ...]:
        """Pools that only the scheduler knows: it places jobs on their nodes, which are nowhere."""
        return tuple(group for group in self.groups if group.role == "scheduling only")


@dataclass(frozen=True)
class Mount:
    """How a node mounts what was made apart from it."""

    source: str
    path: str
    type: str = "none"
    options: str = "bind"


@dataclass(frozen=True)
class Driven:
    """How a driver of Kubernetes finds what was made apart from it."""

    driver: str
    handle: str
    attributes: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    """Of the mount."""
    own_handles: bool = False
    """Whether the driver wants another handle for each volume that leads there."""


@dataclass(frozen=True)
class Disk:
    """A disk that is attached to one node and outlives it."""

    serial: str
    """By which that node finds it."""
    path: str


@dataclass(frozen=True)
class Attached:
    """Where nodes find what was made apart from them: no plan knows it, for its cloud names it."""

    mounts: tuple[Mount, ...] = ()
    disks: tuple[Disk, ...] = ()
    """Of the controller."""
    database: str = ""
    """The machine that has the database of the accounting; empty where that is the controller."""


@dataclass(frozen=True)
class Member:
    """One node that is in the cluster now, as its cloud reports it."""

    name: str
    group: str
    instance: str
    """Changes when the node is another one, or the same one started anew."""
    address: str
    rail_addresses: tuple[str, ...]
    host_key: str
    """The node's public ssh host key, known from its cloud and not from asking the node."""
    target: str = ""
    """What the roster's proxy calls it; empty where ssh connects to its address."""
    places: tuple[str, ...] | None = None
    """The domains of the cloud's own network that it is in, the outermost first; None where nobody says."""


@dataclass(frozen=True)
class Ending:
    """That nodes of a group go with the capacity that they are in."""

    group: str
    reservation: str
    """What the cloud calls that capacity."""
    at: str
    """As 2026-12-01T11:30Z; empty where nobody can say."""
    why: str
    """Why nobody can."""


ENDS_SOON_DAYS: Final = 2
"""The shortest blocks are sold for a day or two: what ends so soon is to be followed by another one now."""


def generation(instances: Mapping[str, str]) -> str:
    """Another one when any of these nodes is another one, or was started anew."""
    return hashlib.sha256(json.dumps(instances, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Roster:
    """Who is in the cluster now, and how to get there."""

    cluster: str
    cloud: str
    reach: tuple[str, ...]
    """Command that runs another one where the members' addresses can be reached; empty when that is here."""
    user: str
    """Whom to log in as."""
    identity_file: str
    """The private key to log in with; a path, never the key."""
    members: tuple[Member, ...]
    region: str = ""
    """Empty where the cloud has none, or nobody has to know it to ask who is there."""
    proxy: tuple[str, ...] = ()
    """Command that ssh talks through, with %h for a member's target; empty where ssh connects by itself."""

    def host(self, member: Member) -> str:
        """What ssh is told to connect to."""
        return member.target if self.proxy else member.address


T = TypeVar("T")


def to_dict(value: Any) -> dict[str, Any]:
    """Any of these types as plain data, in the order of its fields."""
    return dataclasses.asdict(value)


def to_json(value: Any) -> str:
    """The one written form: stable, indented, ends with a newline."""
    return json.dumps(to_dict(value), indent=2, ensure_ascii=False) + "\n"


def from_dict(kind: type[T], data: Any) -> T:
    """The inverse of to_dict; refuses what does not fit, so that a file edited by hand cannot half work."""
    return typing.cast(T, _build(kind, data, kind.__name__))


def from_json(kind: type[T], text: str) -> T:
    return from_dict(kind, json.loads(text))


def apart(of: dataclasses.Field[Any]) -> str:
    """What sets a field apart from those that make two clusters different: identity, release, words; or nothing."""
    return str(of.metadata.get("apart", ""))


def ordered(of: dataclasses.Field[Any], value: Any) -> int | None:
    """Of how many entries of a list, from the first, the order says something; None for all."""
    order = of.metadata.get("order")
    if order == "numbered":
        return None if any(node.address for each in value for node in each.nodes) else 0
    return {"free": 0, "first": 1}.get(str(order))


def settled(value: T) -> T:
    """The same, with all whose order says nothing in one order: what is declared in another order is no change."""
    if isinstance(value, tuple):
        return typing.cast(T, tuple(settled(each) for each in value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return dataclasses.replace(value, **{each.name: _settled(each, value) for each in dataclasses.fields(value)})


def _settled(of: dataclasses.Field[Any], value: Any) -> Any:
    list_ = settled(getattr(value, of.name))
    upto = ordered(of, list_)
    return list_ if upto is None else (*list_[:upto], *_sorted(list_[upto:]))


def _sorted(entries: Iterable[Any]) -> list[Any]:
    return sorted(entries, key=lambda each: json.dumps(each, sort_keys=True, default=dataclasses.asdict))


def fingerprint(plan: Plan) -> str:
    """The digest of what two stamps of one cluster have in common, and that changes when anything else is declared."""
    text = json.dumps(_common(plan), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _common(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_common(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    counted = {each.name: _counted(each, value) for each in dataclasses.fields(value) if not apart(each)}
    return counted | {
        each.name: len(getattr(value, each.name)) for each in dataclasses.fields(value) if "counted" in each.metadata
    }


def _counted(of: dataclasses.Field[Any], value: Any) -> Any:
    list_ = getattr(value, of.name)
    common, upto = _common(list_), ordered(of, list_)
    if upto is None:
        return common
    return [*common[:upto], *_sorted(common[upto:])]


def _build(kind: Any, data: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, path)
    if origin is tuple:
        return _build_tuple(typing.get_args(kind), data, path)
    if origin is Literal:
        allowed = typing.get_args(kind)
        if data not in allowed:
            raise ValueError(f"{path}: {data!r} is none of {', '.join(map(repr, allowed))}")
        return data
    if origin in (typing.Union, types.UnionType):
        return _build_optional(typing.get_args(kind), data, path)
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is float and kind is int and data.is_integer():  # JSON from the engine has doubles only
        return int(data)
    if type(data) is not kind:
        raise ValueError(f"{path}: expected {kind.__name__}, got {data!r}")
    return data


def _build_optional(args: tuple[Any, ...], data: Any, path: str) -> Any:
    """A value that may be missing; there are no other unions, for a file could not say which it means."""
    kinds = [kind for kind in args if kind is not type(None)]
    if len(kinds) != 1:
        raise TypeError(f"{path}: plan types have no unions but with None")
    return None if data is None else _build(kinds[0], data, path)


def _build_dataclass(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{path}: expected a mapping, got {data!r}")
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    # the engine drops what is null on its way, and an earlier version did not have what has a default now
    given: dict[str, Any] = {name: None for name in names if type(None) in typing.get_args(hints[name])}
    given |= {each.name: each.default for each in dataclasses.fields(kind) if each.default is not dataclasses.MISSING}
    if missing := [name for name in names if name not in data and name not in given]:
        raise ValueError(f"{path}: lacks {', '.join(missing)}")
    if unknown := [name for name in data if name not in names]:
        raise ValueError(f"{path}: knows no {', '.join(map(str, unknown))}")
    return kind(**{name: _build(hints[name], data.get(name, given.get(name)), f"{path}.{name}") for name in names})


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Of a type's fields: resolving them costs more than building one of a thousand nodes."""
    return typing.get_type_hints(kind)


def _build_tuple(args: tuple[Any, ...], data: Any, path: str) -> Any:
    if not isinstance(data, (list, tuple)):
        raise ValueError(f"{path}: expected a list, got {data!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_build(args[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if len(args) != len(data):
        raise ValueError(f"{path}: expected {len(args)} items, got {len(data)}")
    return tuple(_build(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(args, data, strict=True)))
