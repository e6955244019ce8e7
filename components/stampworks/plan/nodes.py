"""Nodes: their machine, what a cloud is told when it starts one, and the groups that they are in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from stampworks.plan.marks import COUNTED, IDENTITY, RELEASE

CONTROLLER, LOGIN = "head", "login"
"""The groups of the controller and of the nodes that users log in to; all others are pools."""
Role = Literal["controller", "worker", "scheduling only", "login"]
Purchase = Literal["owned", "on-demand", "spot", "reserved", "block"]


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
    threads: int | None
    """That a core runs."""
    memory_mib: int | None

    @property
    def cpus(self) -> int | None:
        """What schedulers count: threads, and cores where nobody knows how many each runs."""
        return None if self.cores is None else self.cores * (self.threads or 1)


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

    @property
    def of_machine(self) -> Launch:
        """The same without what is the image's: what a machine keeps that gets a new disk.

        What its first boot is told it keeps, too: it installs the package that it was started with, of whichever
        version, and nothing where the image was to bring it.
        """
        agent = "a package" if self.agent else ""
        return replace(self, image="", published_image="", prepared=False, user="", root_device="", agent=agent)


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
    def started_as(self) -> tuple[Launch | None, Purchase, str]:
        """What no new disk changes of a node: another machine does."""
        return self.launch and self.launch.of_machine, self.purchase, self.reservation

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


def template_name(cluster: str, group: Group, offer: Offer) -> str:
    """Under which a cloud keeps what an elastic node starts from: no name of a cluster or pool has a dot."""
    return f"{cluster}.{group.name}.{group.offers.index(offer)}"


def declared_pools(groups: Iterable[Group]) -> tuple[Group, ...]:
    """In their order, those for scheduling only among them."""
    return tuple(group for group in groups if group.role in ("worker", "scheduling only"))
