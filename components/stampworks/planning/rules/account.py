"""What was read of an account, in the region of one cluster, and when: no plan depends on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

from stampworks.plan import from_dict
from stampworks.planning.rules.days import day_number

VERSION: Final = 4


@dataclass(frozen=True)
class Reading:
    """When a fact was asked for, and why it is unknown; known where no reason is."""

    fact: str
    at: str
    """As 2026-11-22T17:30Z."""
    why: str


@dataclass(frozen=True)
class MachineOffer:
    """Where a kind of machine is offered at all; whether there is one left nobody says."""

    instance_type: str
    zones: tuple[str, ...]


@dataclass(frozen=True)
class Described:
    """What the cloud itself says of a kind of machine."""

    instance_type: str
    vcpus: int
    cards: int
    fabric_interfaces: int
    """How many of the fabric's interfaces it takes at most."""


@dataclass(frozen=True)
class Limit:
    name: str
    value: float


@dataclass(frozen=True)
class RunningNodes:
    """Nodes that run outside of what was reserved, and are not of this cluster."""

    instance_type: str
    spot: bool
    count: int


@dataclass(frozen=True)
class Reservation:
    id: str
    instance_type: str
    zone: str
    state: str
    block: bool
    """Whether it is a block of capacity, which has an end from the beginning."""
    total: int
    available: int
    ours: int
    """How many nodes of this cluster run in it."""
    begins: str
    """The day; empty where nobody says one."""
    ends: str
    placement_group: str
    """The one that it was made in; empty for none."""
    own: bool
    """Whether it is the account's own, and not shared with it."""


@dataclass(frozen=True)
class ReservationGroup:
    """One that was declared when the account was read."""

    name: str
    reservations: tuple[str, ...] | None
    """None where there is no such group."""


@dataclass(frozen=True)
class AccountImage:
    id: str
    name: str
    created: str
    architecture: str
    state: str
    deprecated: str
    """From which day on; empty for none."""


@dataclass(frozen=True)
class Newest:
    parameter: str
    image: str
    """Empty where the region has no such parameter."""


@dataclass(frozen=True)
class EndpointService:
    """A service that can have an address in a network, and in which zones."""

    name: str
    zones: tuple[str, ...]


@dataclass(frozen=True)
class SubnetNow:
    name: str
    """As the plan has it."""
    zone: str
    free: int
    public: bool
    """Whether it gives whatever starts in it an address that the world knows."""


@dataclass(frozen=True)
class FileSystemNow:
    """One that is not this cluster's."""

    kind: str
    gib: int


@dataclass(frozen=True)
class GroupSpread:
    """How far from each other the nodes of a group are that run."""

    group: str
    nodes: int
    switches: tuple[int, ...]
    """How many of each layer of the network they are below, those that are farthest from nodes first."""


@dataclass(frozen=True)
class Account:
    """Every fact that is not there is None, and its reading says why."""

    version: int
    cloud: str
    account: str
    region: str
    cluster: str
    elsewhere: str
    """Who answered in the place of the cloud, as a simulated one does; empty for the cloud itself."""
    readings: tuple[Reading, ...]
    offers: tuple[MachineOffer, ...] | None
    reservations: tuple[Reservation, ...] | None
    reservation_groups: tuple[ReservationGroup, ...] | None
    running: tuple[RunningNodes, ...] | None
    node_addresses: int | None
    """Those that nodes of this cluster have, and their pods."""
    described: tuple[Described, ...] | None
    machine_limits: tuple[Limit, ...] | None
    network_limits: tuple[Limit, ...] | None
    storage_limits: tuple[Limit, ...] | None
    networks: int | None
    """As those below: how many there are that are not this cluster's."""
    gateways: int | None
    addresses: int | None
    interfaces: int | None
    placement_groups: int | None
    file_systems: tuple[FileSystemNow, ...] | None
    images: tuple[AccountImage, ...] | None
    newest: tuple[Newest, ...] | None
    services: tuple[EndpointService, ...] | None
    subnets: tuple[SubnetNow, ...] | None
    """Of this cluster, as the two below; none before it was made."""
    endpoints: tuple[str, ...] | None
    ways_out: tuple[str, ...] | None
    """What leads from its private subnets to the world: nat, gateway."""
    spreads: tuple[GroupSpread, ...] | None

    def why(self, fact: str) -> str:
        """Why a fact is unknown."""
        said = next((each.why for each in self.readings if each.fact == fact), "")
        return said or "it was not asked for"


FACTS: Final = tuple(each.name for each in fields(Account))[7:]
"""The names of what may be unknown."""


def account_of(data: Any) -> Account:
    """What a file says, as it was written; ValueError for anything else."""
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
            raise ValueError(f"{each.fact} is either known, or there is a reason why not")
    return account


def _limits(account: Account) -> Iterator[Limit]:
    for each in (account.machine_limits, account.network_limits, account.storage_limits):
        yield from each or ()


def _days(account: Account) -> Iterator[str]:
    """All that are said."""
    yield from (each.at for each in account.readings)
    for one in account.reservations or ():
        yield from filter(None, (one.begins, one.ends))
    for image in account.images or ():
        yield from filter(None, (image.created, image.deprecated))
