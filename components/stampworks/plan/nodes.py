"""Nodes: their machine, their launch parameters, and the groups that contain them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from stampworks.plan.marks import COUNTED, IDENTITY, RELEASE

CONTROLLER, LOGIN = "head", "login"
"""Group names of the controller and the login nodes; all other groups are pools."""
Role = Literal["controller", "worker", "scheduling only", "login"]
Purchase = Literal["owned", "on-demand", "spot", "reserved", "block"]


@dataclass(frozen=True)
class Machine:
    """The facts of a catalog row that later steps need."""

    name: str
    simulated: bool
    accelerator: str
    """Slurm's name for the accelerator type, for example h100."""
    accelerators: int
    accelerator_memory_gib: int | None
    """Value, here and below; None if it is not published."""
    cores: int | None
    threads: int | None
    """Hardware threads per core."""
    memory_mib: int | None

    @property
    def cpus(self) -> int | None:
        """Return the CPUs that schedulers count: threads, or cores when threads per core are unknown."""
        return None if self.cores is None else self.cores * (self.threads or 1)


@dataclass(frozen=True)
class Node:
    """A node that the plan can name in advance, because it numbers the ports itself or names the machines."""

    name: str
    address: str = field(metadata=IDENTITY)
    """Address; empty for a node of a scheduling-only pool, and if the cloud assigns addresses."""
    rail_addresses: tuple[str, ...] = field(metadata=IDENTITY | COUNTED)
    """One address for each rail of the node; an empty string for a port without an address."""
    leaf: str
    """Empty for a node that has no rails."""


@dataclass(frozen=True)
class Volume:
    """A separate disk for data that must outlive its node, which is the only member of its group."""

    name: str
    mount: str
    gib: int = 0
    """0 when it uses a part of an existing disk as needed."""

    def of_node(self, node: str) -> str:
        """Return the volume's name, unique within the cluster."""
        return f"{node}-{self.name}"


@dataclass(frozen=True)
class Interface:
    """A NIC of a node, as its cloud attaches it."""

    name: str
    card: int
    """Index of the machine's network card."""
    device: int
    """Device index on that card."""
    fabric: bool
    """Whether it carries the fabric."""
    address: bool
    """Whether it has an IP address and carries all other traffic."""


@dataclass(frozen=True)
class Launch:
    """Parameters with which a cloud starts a node."""

    instance_type: str
    """The cloud's name for the machine type."""
    image: str = field(metadata=RELEASE)
    """The cloud's id of the boot image; empty until it was looked up."""
    published_image: str = field(metadata=RELEASE)
    """The cloud's parameter that names the newest image of the release."""
    prepared: bool = field(metadata=RELEASE)
    """Whether the image contains everything that the release installs, so that a node downloads nothing."""
    user: str = field(metadata=RELEASE)
    """The user that can log in to the published image before the toolkit has set up access."""
    root_device: str = field(metadata=RELEASE)
    """The image's name for the node's root disk."""
    agent: str = field(metadata=RELEASE)
    """The package of the agent that provides access, for images that lack it."""
    disk_gib: int
    """Size of the node's root disk."""
    interfaces: tuple[Interface, ...]
    """The first one is the node's primary interface."""
    placed_together: bool
    """Whether nodes are placed close to each other."""

    @property
    def of_machine(self) -> Launch:
        """Return the parameters without those of the image: a machine with a new root disk keeps the rest, including
        the instructions of its first boot.

        A machine that was started with an agent package installs it, whatever its version. A machine whose image was to
        contain the agent installs nothing.
        """
        agent = "a package" if self.agent else ""
        return replace(self, image="", published_image="", prepared=False, user="", root_device="", agent=agent)


@dataclass(frozen=True)
class Offer:
    """One way to buy a node."""

    purchase: Purchase
    reservation: str = field(metadata=IDENTITY)
    """The cloud's name for the reserved capacity; empty for none."""
    placed_together: bool
    """Whether nodes should be close to each other."""

    @property
    def name(self) -> str:
        """Return the name that identifies the offer within its group."""
        return f"{self.purchase} {self.reservation}".rstrip()


@dataclass(frozen=True)
class Scratch:
    """The disks inside a node, as one file system for data that may be lost."""

    path: str
    model: str
    """The model name that each disk reports."""
    disks: int


@dataclass(frozen=True)
class Group:
    """Maximum number of nodes, for which everything else is sized."""

    name: str
    role: Role
    machine: Machine
    count: int
    """The maximum, for which everything else is sized."""
    count_min: int
    """The number that always runs. The plan does not contain how many of the others run at a time."""
    nodes: tuple[Node, ...]
    """Empty when the cloud names the nodes."""
    volumes: tuple[Volume, ...]
    rails: int | None
    """Number of the fabric's rails, counted from the first, that each node is on; None when its NICs are unknown."""
    purchase: Purchase
    zone: str = field(metadata=IDENTITY)
    """Zone; empty if the cloud has no zones, or chooses one."""
    reservation: str = field(metadata=IDENTITY)
    """The cloud's name for the reserved capacity; empty for none."""
    launch: Launch | None = None
    """Launch parameters; None if no cloud starts the nodes."""
    fallbacks: tuple[Offer, ...] = ()
    """Alternative ways to buy elastic nodes, in this order, while the group's own purchase has no capacity."""
    hardware: tuple[str, ...] = field(default=(), metadata=RELEASE)
    """Hardware roles of the release that the group's nodes need."""
    scratch: Scratch | None = field(default=None, metadata=RELEASE)
    """Local disks as one file system; None if none are known."""
    storage_interfaces: int = 0
    """Number of fabric NICs that a node uses for file systems; 0 when it reaches none over the fabric."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Return all ways in which the nodes are bought, the group's own first."""
        together = self.launch is not None and self.launch.placed_together
        return (Offer(self.purchase, self.reservation, together), *self.fallbacks)

    @property
    def started_as(self) -> tuple[Launch | None, Purchase, str]:
        """Return the properties that a new root disk cannot change: they require another machine."""
        return self.launch and self.launch.of_machine, self.purchase, self.reservation

    @property
    def elastic_nodes(self) -> tuple[Node, ...]:
        """Return the nodes that start and stop with the work; the others always run."""
        return self.nodes[self.count_min :]

    @property
    def elastic(self) -> bool:
        """Whether some nodes start and stop automatically with the work."""
        return self.count_min < self.count

    @property
    def counts(self) -> str:
        """Return the number of running nodes in words, as a range for an elastic group."""
        return f"{self.count_min} to {self.count}" if self.elastic else f"{self.count}"


def template_name(cluster: str, group: Group, offer: Offer) -> str:
    """Return the name of the cloud's launch template for elastic nodes. Cluster and pool names contain no dot."""
    return f"{cluster}.{group.name}.{group.offers.index(offer)}"


def declared_pools(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return the declared pools in their order, including those for scheduling only."""
    return tuple(group for group in groups if group.role in ("worker", "scheduling only"))
