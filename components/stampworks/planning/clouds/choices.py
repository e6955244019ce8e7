"""What a cloud decides about a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stampworks import catalog
from stampworks.plan import Egress, Interface, Purchase, SchedulerKind, traits_of

ANY_SERVER = "the controller runs no jobs: any server without accelerators does"
"""Why the controller runs on one, where nobody has names for sizes."""
PODS_MIN = 16
"""What the declaration allows."""


@dataclass(frozen=True)
class Subnets:
    """What a cloud does with the ranges of a network of ours."""

    reserved: int
    """Addresses of each subnet that nobody gets."""
    reserved_why: str
    shortest_prefix: int
    """Of the largest network."""
    longest_prefix: int
    """Of the smallest subnet."""
    nic_networks: bool = False
    """Whether each NIC of a node is in a network of its own, and has a subnet of its own."""


@dataclass(frozen=True)
class PodAddressing:
    """Where the pods of a Kubernetes on a cloud have their addresses from: the one way that is planned."""

    way: str
    """What the cloud calls it."""
    why: str
    """Why this one of the ways that there are."""
    node_addresses: Callable[[int], int]
    """What a node takes at most, by how many pods it may run."""
    node_why: str
    own_range: bool = True
    """Whether pods have a range apart from the cluster's; else it is the subnet of nodes."""
    lost: int = 0
    """Addresses of the subnet of nodes that fall away, beside those that the cloud keeps."""
    kept: tuple[str, ...] = ()
    """Ranges that the cloud needs itself."""
    surge: int = 0
    """Nodes that each group has besides its own while the cloud replaces them."""
    control: int = 0
    """Addresses that its control plane takes of the subnet of nodes, and as many of one in another zone."""
    services_longest_prefix: int = 28
    """Of the smallest range that services can have."""

    @property
    def apart(self) -> int:
        """Addresses of the subnet of nodes that no node gets, beside those that the cloud keeps."""
        return self.lost + self.control

    def fewer(self, pods: int, nodes: int, room: int) -> str:
        """How many pods a node may run for so many nodes to have room; nothing where that helps nobody."""
        fit = (each for each in range(pods - 1, PODS_MIN - 1, -1) if nodes * self.node_addresses(each) <= room)
        return f"write scheduler.pods_per_node: {found}" if (found := next(fit, 0)) else ""


@dataclass(frozen=True)
class GroupSize:
    """How many nodes the cloud's resource for a pool can have."""

    what: str
    """What the cloud calls it."""
    nodes_max: int
    rails_nodes_max: int | None = None
    """How many of them share a fabric for sure; None where that is no other number."""


@dataclass(frozen=True)
class Support:
    """Of a version of Kubernetes: the days on which a cloud's support of it ends."""

    standard: str
    extended: str
    """After that clusters get another version; until then, since the other day, they cost more."""


@dataclass(frozen=True)
class Managed:
    """A Kubernetes that a cloud runs, with nodes that it starts and names itself: no playbook makes them."""

    what: str
    """What the cloud calls it."""
    suite: str
    """What its nodes run; with accelerators the same, with what these need."""
    versions: Mapping[str, Support]
    """Of Kubernetes, as it has them."""
    versions_source: str
    system_nodes: int
    """What runs the pods of the cluster itself: the members of the head's group, and nothing else is a head."""
    system_why: str
    endpoints: tuple[str, ...]
    """Which of the cloud's services have to be in a network without a way out, besides."""
    registries: str
    """Those that nodes reach without one."""
    registry_of: Mapping[str, str]
    """By region, where in it the cloud has the images of its own programs."""
    group_size: GroupSize
    parts: tuple[str, ...]
    """What each of its clusters has, in versions of its own; so have drivers."""
    brought: Mapping[str, str]
    """Add-ons that are parts of it as well, with what the cloud calls them."""
    drivers: Mapping[str, str]
    """By the kind of a file system, what brings it into pods, as the cloud calls it."""
    scratch: str
    """Where its nodes have the disks inside a machine, as one array."""
    scratch_why: str
    page: str
    """Where the docs say how to reach its server without a public address."""
    programs: tuple[str, ...]
    """What has to be on a machine that its server is asked from."""
    programs_hint: str
    without_fabric: str
    """Why its nodes reach no file system over the fabric."""
    admin_refused: Callable[[str, str, Sequence[str]], tuple[str, str]]
    """Why it takes somebody for no administrator, and what to do about it; two empty texts where it does. By the
    region, and by how the roles begin that declared users act in."""


@dataclass(frozen=True)
class Launches:
    """How a cloud starts nodes."""

    interfaces: Callable[[catalog.Machine, bool], tuple[Interface, ...]]
    """The NICs that a node of this machine is given, by whether each card of the fabric has an address."""
    together: tuple[Purchase, ...]
    """Machines that are paid for in this way can be asked to be close to each other."""
    together_why: str
    apart_why: str
    disk_gib: int
    disk_why: str
    state_gib: int
    """Of the volume that what the scheduler knows is on."""
    endpoints: Mapping[Egress, tuple[str, ...]]
    """Which of its services have to be in the network, by how else nodes reach the world."""
    routed: tuple[str, ...]
    """Those of them that are a route, which costs nothing; each of the others takes an address."""
    programs: tuple[str, ...]
    """What has to be on a machine that nodes are logged in to from."""
    programs_hint: str
    tags_max: int
    """How many of the declaration's tags go on one resource."""
    tags_why: str
    tags_unread: str
    """Characters that are in no tag's name where machines read their own: those that start with the work do."""


@dataclass(frozen=True)
class Accounts:
    """How a cloud names and counts what is in an account."""

    limits_hint: str = "look the limit up at the cloud"
    """Advice where an account lists no limit of a name."""
    endpoint_variable: str = ""
    """Variable of the environment that has something else answer in the cloud's place."""
    reservations_console: str = ""
    """Console that lists reservations."""
    groups_console: str = ""
    """Console that lists groups of reservations."""
    is_group: Callable[[str], bool] = lambda _: False
    """Whether a name of reserved capacity is that of a group of reservations."""
    coming: tuple[str, ...] = ()
    """States of a reservation before it begins."""
    among_machines: tuple[str, ...] = ()
    """What is counted by a limit that the account lists among those of machines."""
    of_one_zone: tuple[str, ...] = ()
    """What is counted in all zones, and limited in each."""


@dataclass(frozen=True)
class Choices:
    controller_machine: str
    """The catalog's name of the machine that the scheduler's controller runs on."""
    purchases: tuple[Purchase, ...]
    """How machines can be paid for; the first one is what it is where nobody says it."""
    regions: bool
    """Whether a cluster has to say in which region it is."""
    zones_begin_with_region: bool
    """Whether the name of a zone begins with that of the region that it is in, as in us-east-1a."""
    numbers_ports: bool
    """Whether a plan says the address of every port, because no cloud does."""
    storage: Literal["directory", "file systems", "both"]
    """Whether nodes share a folder of a machine, or what vendors sell."""
    subnets: Subnets | None
    """None where the plan numbers every port itself, or the cloud every one."""
    pods: PodAddressing | None
    """None where it was not found out."""
    stamped: bool = False
    """Whether its clusters can be stamped; else they can be planned, estimated and reviewed only."""
    region_apart: Callable[[str], str] = lambda _: ""
    """Why nothing of ours makes a cluster in a region that the cloud has; empty where something does."""
    name_refused: Callable[[str], str] = lambda _: ""
    """Why it takes no cluster of a name that is legal here; empty where it does."""
    reservation: str = ""
    """What names of capacity that was bought before look like, a regular expression; empty where nobody knows."""
    reservation_hint: str = ""
    controller_why: str = "the controller runs no jobs, so it takes a small machine without accelerators"
    launches: Launches | None = None
    """None where nothing starts nodes yet."""
    account: Accounts = Accounts()
    bare_metal: Callable[[str], bool] = lambda _: False
    """Which of its machines, by their names, have no hypervisor below what we start: how devices reach each other there
    is ours to say. On a virtual machine it is the cloud's."""
    group_size: GroupSize | None = None
    """None where nobody has found a limit."""
    managed: Managed | None = None
    """Its own Kubernetes; None where nothing of ours makes one."""
    log_days: tuple[int, ...] = ()
    """For how many days it can be told to keep what nodes say; empty where nothing is made for that."""
    managed_database: bool = False
    """Whether it runs a database for the accounting."""
    brings: Mapping[str, str] = field(default_factory=dict)
    """Add-ons and parts of them that are in its Kubernetes, or in the image of its nodes, each with the reason."""
    no_charts: str = ""
    """Why nothing is installed from charts; empty where it is."""
    told: str = ""
    """How somebody is told what is spent, and what ends; empty where nothing is made for that."""

    @property
    def names_nodes(self) -> bool:
        """Whether a plan knows what nodes are called: it says so where no cloud does, and where it starts them."""
        return self.numbers_ports or self.launches is not None

    def runs(self, scheduler: SchedulerKind) -> Managed | None:
        """What it runs of this kind, nodes and all."""
        return self.managed if traits_of(scheduler).runs_pods else None
