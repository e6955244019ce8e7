"""Facts about an account in the region of one cluster, with the time of reading. No plan depends on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from stampworks.plan import from_dict
from stampworks.planning.rules.days import day_number
from stampworks.planning.rules.owned import (
    Boundary,
    OwnedGroup,
    OwnedKey,
    OwnedNetwork,
    OwnedStorage,
    OwnedSubnet,
    TagRule,
)

VERSION: Final = 6


@dataclass(frozen=True)
class Reading:
    """The time when a fact was read, and the reason when it is unknown; an empty reason means that it is known."""

    fact: str
    at: str
    """Formatted like 2026-11-22T17:30Z."""
    why: str


@dataclass(frozen=True)
class MachineOffer:
    """The zones that offer a machine type. No API tells whether one is free."""

    instance_type: str
    zones: tuple[str, ...]


@dataclass(frozen=True)
class Described:
    """The cloud's own description of a machine type."""

    instance_type: str
    vcpus: int
    cards: int
    fabric_interfaces: int
    """The maximum number of fabric interfaces."""


@dataclass(frozen=True)
class Limit:
    """A quota of the account, with its current value."""

    name: str
    value: float


@dataclass(frozen=True)
class RunningNodes:
    """Running nodes of other clusters, outside of reservations."""

    instance_type: str
    spot: bool
    count: int


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation or capacity block of the account."""

    id: str
    instance_type: str
    zone: str
    state: str
    block: bool
    """Whether it is a capacity block, which has an end from the beginning."""
    total: int
    available: int
    ours: int
    """Number of this cluster's nodes that run in it."""
    begins: str
    """The day; empty when unknown."""
    ends: str
    placement_group: str
    """The placement group in which it was created; empty for none."""
    own: bool
    """Whether it belongs to the account, and is not shared with it."""


@dataclass(frozen=True)
class ReservationGroup:
    """A reservation group that was declared when the account was read."""

    name: str
    reservations: tuple[str, ...] | None
    """None when the group does not exist."""


@dataclass(frozen=True)
class AccountImage:
    """A locked image as the account sees it now."""

    id: str
    name: str
    created: str
    architecture: str
    state: str
    deprecated: str
    """The day from which it is deprecated; empty for none."""


@dataclass(frozen=True)
class Newest:
    """The newest image that the cloud's parameter names now."""

    parameter: str
    image: str
    """Empty when the region has no such parameter."""


@dataclass(frozen=True)
class EndpointService:
    """A service that can have an endpoint in a network, and its zones."""

    name: str
    zones: tuple[str, ...]


@dataclass(frozen=True)
class SubnetNow:
    """The present state of a declared subnet."""

    name: str
    """The name in the plan."""
    zone: str
    free: int
    public: bool
    """Whether it gives public addresses to the machines that start in it."""


@dataclass(frozen=True)
class FileSystemNow:
    """A file system that is not part of this cluster."""

    kind: str
    gib: int


@dataclass(frozen=True)
class GroupSpread:
    """Distances in the network between the running nodes of a group."""

    group: str
    nodes: int
    switches: tuple[int, ...]
    """Number of switches above the nodes in each network layer, starting with the layer farthest from the nodes."""


@dataclass(frozen=True)
class JudgedRight:
    """A right that an `up` needs, as the cloud's simulator of policies judges it."""

    action: str
    resource: str
    given: tuple[tuple[str, str], ...]
    decision: Literal["allowed", "denied", "depends"]
    why: str
    """Reason of a denial: statement, boundary or organisation; empty if nothing allows it. Otherwise the condition that
    decides."""


@dataclass(frozen=True)
class TriedLaunch:
    """A launch of a group's nodes that the cloud was asked to try without starting any."""

    group: str
    outcome: Literal["accepted", "refused", "not tried"]
    why: str


@dataclass(frozen=True)
class Account:
    """All facts about an account. A missing fact is None, and its reading gives the reason."""

    version: int
    cloud: str
    account: str
    region: str
    cluster: str
    elsewhere: str
    """Address that answered instead of the cloud, for example a simulated cloud; empty for the cloud itself."""
    deployer: str
    """The user or role whose rights were judged, and who runs an `up`."""
    readings: tuple[Reading, ...]
    offers: tuple[MachineOffer, ...] | None
    reservations: tuple[Reservation, ...] | None
    reservation_groups: tuple[ReservationGroup, ...] | None
    running: tuple[RunningNodes, ...] | None
    node_addresses: int | None
    """Addresses of this cluster's nodes and their pods."""
    described: tuple[Described, ...] | None
    machine_limits: tuple[Limit, ...] | None
    network_limits: tuple[Limit, ...] | None
    storage_limits: tuple[Limit, ...] | None
    networks: int | None
    """Like the fields below, the number that does not belong to this cluster."""
    gateways: int | None
    addresses: int | None
    interfaces: int | None
    placement_groups: int | None
    file_systems: tuple[FileSystemNow, ...] | None
    images: tuple[AccountImage, ...] | None
    newest: tuple[Newest, ...] | None
    services: tuple[EndpointService, ...] | None
    subnets: tuple[SubnetNow, ...] | None
    """Subnets of this cluster, like the two fields below; empty before it was created. Of a cluster in an existing
    network, these are its subnets there."""
    endpoints: tuple[str, ...] | None
    ways_out: tuple[str, ...] | None
    """Routes from its private subnets to the internet: nat, gateway."""
    spreads: tuple[GroupSpread, ...] | None
    owned_networks: tuple[OwnedNetwork, ...] | None
    """Existing parts of the plan, here and below, that the account has in the region."""
    owned_subnets: tuple[OwnedSubnet, ...] | None
    owned_groups: tuple[OwnedGroup, ...] | None
    owned_storage: tuple[OwnedStorage, ...] | None
    owned_keys: tuple[OwnedKey, ...] | None
    owned_profiles: tuple[str, ...] | None
    """Instance profiles."""
    boundaries: tuple[Boundary, ...] | None
    tag_rules: tuple[TagRule, ...] | None
    """Policies of the account's organisation for the names of the plan's tags; not only of existing parts."""
    rights: tuple[JudgedRight, ...] | None
    """Policies; empty for a deployer without limits."""
    launches: tuple[TriedLaunch, ...] | None

    def why(self, fact: str) -> str:
        """Return why a fact is unknown."""
        said = next((each.why for each in self.readings if each.fact == fact), "")
        return said or "it was not looked up"


FACTS: Final = tuple(each.name for each in fields(Account))[8:]
"""Names of the facts that may be unknown."""


def account_of(data: Any) -> Account:
    """Parse a file's data; raise ValueError when it is not an account."""
    account = from_dict(Account, data)
    if account.version != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    told = {each.fact for each in account.readings}
    if missing := [name for name in FACTS if name not in told]:
        raise ValueError(f"it does not say when {missing[0]} was read")
    if not all(math.isfinite(each.value) for each in _limits(account)):
        raise ValueError("a limit is a number")
    for day in _days(account):
        day_number(day)
    for each in account.readings:
        if each.fact in FACTS and (getattr(account, each.fact) is None) != bool(each.why):
            raise ValueError(f"{each.fact} has neither a value nor a reason why it is unknown")
    return account


def _limits(account: Account) -> Iterator[Limit]:
    for each in (account.machine_limits, account.network_limits, account.storage_limits):
        yield from each or ()


def _days(account: Account) -> Iterator[str]:
    """Yield all dates."""
    yield from (each.at for each in account.readings)
    for one in account.reservations or ():
        yield from filter(None, (one.begins, one.ends))
    for image in account.images or ():
        yield from filter(None, (image.created, image.deprecated))
