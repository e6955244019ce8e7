"""The properties of a cloud that determine a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stampworks import catalog
from stampworks.plan import Egress, Interface, Plan, Purchase, SchedulerKind, traits_of
from stampworks.plan.rights import Right

ANY_SERVER = "the controller runs no jobs: any server without accelerators does"
"""Reason for the controller's machine, if servers have no size names."""
PODS_MIN = 16
"""The minimum that the declaration allows."""


@dataclass(frozen=True)
class Subnets:
    """A cloud's rules for the ranges of the toolkit's networks."""

    reserved: int
    """Addresses of each subnet that cannot be assigned."""
    reserved_why: str
    shortest_prefix: int
    """Prefix length of the largest network."""
    longest_prefix: int
    """Prefix length of the smallest subnet."""
    nic_networks: bool = False
    """Whether each NIC of a node needs a separate network, with a separate subnet."""
    rdma_network: bool = False
    """Whether all NICs that only do RDMA share one network, with a subnet for each rail."""
    fabric_ranges: tuple[str, ...] = ()
    """Ranges that the fabric of machines with rails reserves: none of their networks may overlap them."""
    fabric_ranges_why: str = ""


@dataclass(frozen=True)
class PodAddressing:
    """The source of pod addresses of a Kubernetes on a cloud."""

    way: str
    """The cloud's name for it."""
    why: str
    """Reason for this choice."""
    node_addresses: Callable[[int], int]
    """Maximum number of addresses of a node, by the number of pods that it may run."""
    node_why: str
    own_range: bool = True
    """Whether pods have a separate range; otherwise they use the subnet of nodes."""
    lost: int = 0
    """Unusable addresses of the nodes' subnet, besides those that the cloud reserves."""
    kept: tuple[str, ...] = ()
    """Ranges that the cloud itself needs."""
    surge: int = 0
    """Additional nodes of each group while the cloud replaces nodes."""
    control: int = 0
    """Addresses that the control plane takes from the nodes' subnet, and the same number from a subnet in another
    zone."""
    services_longest_prefix: int = 28
    """Prefix length of the smallest range for services."""

    @property
    def apart(self) -> int:
        """Return the addresses of the nodes' subnet that no node gets, besides those that the cloud reserves."""
        return self.lost + self.control

    def fewer(self, pods: int, nodes: int, room: int) -> str:
        """Return a hint with the number of pods per node that leaves room for all nodes; empty if none does."""
        fit = (each for each in range(pods - 1, PODS_MIN - 1, -1) if nodes * self.node_addresses(each) <= room)
        return f"write scheduler.pods_per_node: {found}" if (found := next(fit, 0)) else ""


@dataclass(frozen=True)
class GroupSize:
    """The maximum size of the cloud's resource for a pool."""

    what: str
    """The cloud's name for the resource."""
    nodes_max: int
    rails_nodes_max: int | None = None
    """Number of nodes that certainly share a fabric; None when it equals nodes_max."""
    rails_nodes_raised: int | None = None
    """Number that the cloud raises it to on request; None when unknown."""


@dataclass(frozen=True)
class Support:
    """The days on which a cloud's support of a Kubernetes version ends."""

    standard: str
    extended: str
    """The end of extended support. Between the two days a cluster costs more; afterwards it gets another version."""


@dataclass(frozen=True)
class Managed:
    """A managed Kubernetes, whose nodes the cloud starts and names; no playbook configures them."""

    what: str
    """The cloud's name for it."""
    suite: str
    """The operating system of its nodes; with accelerators, the variant with their software."""
    versions: Mapping[str, Support]
    """The supported versions of Kubernetes."""
    versions_source: str
    system_nodes: int
    """Number of nodes for the cluster's own pods. They form the head's group; there is no other head."""
    system_why: str
    endpoints: tuple[str, ...]
    """Additional services that need an endpoint in a network without egress."""
    registries: str
    """Registries that nodes reach without egress."""
    registry_of: Mapping[str, str]
    """The registry of the cloud's own images in each region."""
    group_size: GroupSize
    parts: tuple[str, ...]
    """Components of every cluster with their own versions; drivers have them too."""
    brought: Mapping[str, str]
    """Add-ons that are also such components, with the cloud's names."""
    drivers: Mapping[str, str]
    """CSI driver of each kind of file system, as the cloud names it."""
    scratch: str
    """Path of the array of local disks on its nodes."""
    scratch_why: str
    page: str
    """The docs section on reaching the API server without a public address."""
    programs: tuple[str, ...]
    """Programs that a machine needs to call the API server."""
    programs_hint: str
    without_fabric: str
    """Why its nodes reach no file system over the fabric."""
    admin_refused: Callable[[str, str, Sequence[str]], tuple[str, str]]
    """Function that explains why an administrator is refused, with a hint; both are empty for a valid one. Its
    arguments are the administrator, the region, and the name prefixes of the declared users' roles."""


@dataclass(frozen=True)
class Launches:
    """How a cloud starts nodes."""

    interfaces: Callable[[catalog.Machine, bool], tuple[Interface, ...]]
    """The NICs of a node with this machine; the flag says whether each card of the fabric has an address."""
    together: tuple[Purchase, ...]
    """Purchases that support placing nodes close to each other."""
    together_why: str
    apart_why: str
    disk_gib: int
    disk_why: str
    state_gib: int
    """Size of the volume for the scheduler's state."""
    endpoints: Mapping[Egress, tuple[str, ...]]
    """Services that need an endpoint in the network, by the kind of egress."""
    routed: tuple[str, ...]
    """Services among them that need only a route, which is free; the others need an address each."""
    programs: tuple[str, ...]
    """Programs that a machine needs to log in to nodes."""
    programs_hint: str
    tags_max: int
    """Maximum number of declared tags on one resource."""
    tags_why: str
    tags_unread: str
    """Characters that a tag's name must not have if machines read their own tags, as elastic nodes do."""


@dataclass(frozen=True)
class Accounts:
    """The names and counts of a cloud's account resources."""

    limits_hint: str = "look the limit up at the cloud"
    """Advice when an account lists no limit of that name."""
    endpoint_variable: str = ""
    """Environment variable that redirects requests from the cloud to another address."""
    reservations_console: str = ""
    """The console page that lists reservations."""
    groups_console: str = ""
    """The console page that lists reservation groups."""
    is_group: Callable[[str], bool] = lambda _: False
    """Whether a reservation name is that of a group."""
    coming: tuple[str, ...] = ()
    """States of a reservation before it begins."""
    among_machines: tuple[str, ...] = ()
    """Resources whose limits the account lists with those of machines."""
    of_one_zone: tuple[str, ...] = ()
    """Resources that are counted in all zones, but limited in each."""
    rights: Callable[[Plan], tuple[Right, ...]] = lambda _: ()
    """All rights that an `up` of a plan needs."""
    statement: Callable[[Sequence[Right], str], Mapping[str, Any]] = lambda *_: {}
    """The statement of a policy that allows rights on one resource in an account."""
    policy: Callable[[Sequence[Right]], Mapping[str, Any]] = lambda _: {}
    """The smallest policy with these rights, for any account."""
    unlimited: Callable[[str], bool] = lambda _: False
    """Whether no policy limits a caller, who has all rights."""


@dataclass(frozen=True)
class Existing:
    """Existing parts of an account that clusters of a cloud can use, by their forms of names."""

    vpc: str
    """Regular expression, like the next two."""
    subnet: str
    security_group: str
    hint: str
    storage: Mapping[str, str]
    """Forms of file systems and buckets by their kinds."""
    key: Callable[[str], str]
    """Form of keys of a region."""
    without_key: tuple[str, ...]
    """Prefixes of tiers that do not support a key of the account."""
    boundary: str
    profile: str
    rights: Callable[[Plan], tuple[str, ...]]
    """Actions that roles of nodes need, which a boundary must allow."""


@dataclass(frozen=True)
class Choices:
    """The decisions of a cloud for plans; one value for each cloud."""

    controller_machine: str
    """The catalog's name of the controller's machine."""
    purchases: tuple[Purchase, ...]
    """Supported purchases; the first one is the default."""
    regions: bool
    """Whether a cluster must declare its region."""
    zones_begin_with_region: bool
    """Whether zone names begin with the name of their region, like us-east-1a."""
    numbers_ports: bool
    """Whether the plan assigns the address of every port, because no cloud does."""
    storage: Literal["directory", "file systems", "both"]
    """Whether nodes share a directory of the same machine, or file systems of vendors."""
    subnets: Subnets | None
    """None when the plan or the cloud numbers every port."""
    pods: PodAddressing | None
    """None when unknown."""
    stamped: bool = False
    """Whether its clusters can be stamped; else they can only be planned, estimated and reviewed."""
    region_apart: Callable[[str], str] = lambda _: ""
    """Why the toolkit supports no clusters in a region that the cloud has; empty for a supported region."""
    name_refused: Callable[[str], str] = lambda _: ""
    """Why the cloud refuses a cluster name that the toolkit allows; empty for an accepted one."""
    not_on_rails: Mapping[Purchase, str] = field(default_factory=dict)
    """Purchases that are refused for machines with rails, each with the reason."""
    reservation: str = ""
    """Regular expression for names of reserved capacity; empty when unknown."""
    reservation_hint: str = ""
    controller_why: str = "the controller runs no jobs, so it takes a small machine without accelerators"
    launches: Launches | None = None
    """None when nothing starts nodes yet."""
    account: Accounts = Accounts()
    bare_metal: Callable[[str], bool] = lambda _: False
    """Whether a machine, by its name, has no hypervisor. Then we configure how devices reach each other; on a virtual
    machine the cloud does."""
    group_size: GroupSize | None = None
    """None when no limit is known."""
    managed: Managed | None = None
    """The cloud's managed Kubernetes; None when the toolkit creates none."""
    log_days: tuple[int, ...] = ()
    """Valid numbers of days to keep logs of nodes; empty when no log storage is created."""
    managed_database: bool = False
    """Whether it runs a database for accounting."""
    brings: Mapping[str, str] = field(default_factory=dict)
    """Add-ons, and parts of them, that its Kubernetes or its node images contain, each with the reason."""
    no_charts: str = ""
    """Why no charts are installed; empty when they are."""
    existing: Existing | None = None
    """None when clusters make all their parts themselves."""
    takes_names: bool = False
    """Whether machines get the names that they are created with. Nodes of its managed Kubernetes have others."""
    told: str = ""
    """Notifications about spending and ending capacity; empty if none are created."""

    def names_nodes(self, scheduler: SchedulerKind) -> bool:
        """Whether a plan knows the names of nodes: it does when it numbers ports, when the cloud starts nodes for us,
        and when machines get the names that we ask for; never when a managed Kubernetes makes them."""
        if self.numbers_ports:
            return True
        if self.launches:
            return not self.runs(scheduler)
        return self.takes_names and not traits_of(scheduler).runs_pods

    def runs(self, scheduler: SchedulerKind) -> Managed | None:
        """Return the managed service for this kind of scheduler, if the cloud has one."""
        return self.managed if traits_of(scheduler).runs_pods else None
