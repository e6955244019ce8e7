"""What nodes, file systems and what stands beside them cost: what somebody published, where, and when that was read.
Nothing is derived from another region, another machine or another form of purchase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeVar

from stampworks.catalog.rows import UNKNOWN, CatalogError, Unknown, load, rows

FILE = "prices.yaml"
EVERYWHERE = "all"
"""The region of a price that holds in every one."""

Part = Literal["NAT gateway", "public address", "endpoint", "disk"]
"""What a network needs that is billed by the hour, and disks beside those of a node's own."""
Purchase = Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "block"]


@dataclass(frozen=True)
class PriceSource:
    name: str
    source: str
    as_of: str | Unknown
    """The month for which its prices hold, at the earliest."""
    read: str
    """When somebody of this project read it."""
    trust: Literal["primary", "secondary"]
    """Whether whoever sells says so, or somebody else."""


@dataclass(frozen=True)
class PriceList:
    """What one source says of one machine and form of purchase."""

    name: str
    cloud: str
    machine: str
    purchase: Purchase
    unit: Literal["node", "accelerator"]
    """What the source's prices are for."""
    units: int
    """How many of these a node is."""
    usd: Mapping[str, float]
    """An hour of a unit, by region as the cloud calls it; `all` where the source says that its price holds anywhere."""
    source: str


@dataclass(frozen=True)
class StoragePriceList:
    """What one source says of one way to buy a file system."""

    name: str
    tier: str
    """Name of the row of the catalog's file systems."""
    usd: Mapping[str, float]
    """By region. A month of a GiB, or of the unit in which its kind counts capacity."""
    source: str


@dataclass(frozen=True)
class PartPriceList:
    """What one source says of one part of a cluster that is neither a node nor a file system."""

    name: str
    cloud: str
    part: Part
    per: Literal["hour", "GiB and month"]
    usd: Mapping[str, float]
    """By region, as above."""
    source: str


@dataclass(frozen=True)
class Price:
    """What one node costs for an hour."""

    name: str
    cloud: str
    machine: str
    region: str
    purchase: Purchase
    usd_per_hour: float
    why: str
    """The source's own figure, where it is for something else than a node."""
    as_of: str | Unknown
    source: str
    read: str
    trust: Literal["primary", "secondary"]


@dataclass(frozen=True)
class StoragePrice:
    """What a file system costs for a month of each unit of its capacity."""

    name: str
    tier: str
    region: str
    usd_per_month: float
    as_of: str | Unknown
    source: str
    read: str
    trust: Literal["primary", "secondary"]


@dataclass(frozen=True)
class PartPrice:
    """What one part costs, for each of what it is billed by."""

    name: str
    cloud: str
    part: Part
    region: str
    usd: float
    per: Literal["hour", "GiB and month"]
    as_of: str | Unknown
    source: str
    read: str
    trust: Literal["primary", "secondary"]


Dated = TypeVar("Dated", Price, StoragePrice, PartPrice)


@cache
def prices() -> Mapping[str, Price]:
    """All prices of nodes, also those that contradict each other."""
    table = {}
    for row in rows(PriceList, load(FILE)["nodes"], FILE).values():
        source = _source(row.source, row.name)
        for region, usd in row.usd.items():
            table[f"{row.name}/{region}"] = Price(
                name=f"{row.name}/{region}",
                cloud=row.cloud,
                machine=row.machine,
                region=region,
                purchase=row.purchase,
                usd_per_hour=round(usd * row.units, 6),
                why="" if row.unit == "node" else f"{row.units} x {usd} for one {row.unit}",
                as_of=source.as_of,
                source=source.source,
                read=source.read,
                trust=source.trust,
            )
    return MappingProxyType(table)


@cache
def storage_prices() -> Mapping[str, StoragePrice]:
    """All prices of file systems, also those that contradict each other."""
    table = {}
    for row in rows(StoragePriceList, load(FILE)["file_systems"], FILE).values():
        source = _source(row.source, row.name)
        for region, usd in row.usd.items():
            name = f"{row.name}/{region}"
            table[name] = StoragePrice(
                name, row.tier, region, usd, source.as_of, source.source, source.read, source.trust
            )
    return MappingProxyType(table)


@cache
def part_prices() -> Mapping[str, PartPrice]:
    """All prices of parts, also those that contradict each other."""
    table = {}
    for row in rows(PartPriceList, load(FILE)["parts"], FILE).values():
        source = _source(row.source, row.name)
        for region, usd in row.usd.items():
            name, facts = f"{row.name}/{region}", (source.as_of, source.source, source.read, source.trust)
            table[name] = PartPrice(name, row.cloud, row.part, region, usd, row.per, *facts)
    return MappingProxyType(table)


def price(cloud: str, machine: str, region: str, purchase: Purchase) -> Price | Unknown:
    """The newest price of a node there; UNKNOWN if nobody has published one for exactly this."""
    found = conflicting_prices(cloud, machine, region, purchase)
    return found[0] if found else UNKNOWN


def conflicting_prices(cloud: str, machine: str, region: str, purchase: Purchase) -> tuple[Price, ...]:
    """All prices for the same thing, the newest first."""
    wanted = (cloud, machine, purchase)
    fitting = [each for each in prices().values() if (each.cloud, each.machine, each.purchase) == wanted]
    return _newest_first(each for each in fitting if each.region in (region, EVERYWHERE))


def storage_price(tier: str, region: str) -> StoragePrice | Unknown:
    """The newest price of a file system there, by the name of its row."""
    fitting = [each for each in storage_prices().values() if each.tier == tier]
    found = _newest_first(each for each in fitting if each.region in (region, EVERYWHERE))
    return found[0] if found else UNKNOWN


def part_price(cloud: str, part: Part, region: str) -> PartPrice | Unknown:
    """The newest price of a part there."""
    fitting = [each for each in part_prices().values() if (each.cloud, each.part) == (cloud, part)]
    found = _newest_first(each for each in fitting if each.region in (region, EVERYWHERE))
    return found[0] if found else UNKNOWN


def _newest_first(found: Iterable[Dated]) -> tuple[Dated, ...]:
    """What holds for a known month stands before what does not say; then what was read last."""
    return tuple(sorted(found, key=lambda each: (_month(each.as_of), each.read), reverse=True))


def _month(as_of: str | Unknown) -> str:
    return "" if isinstance(as_of, Unknown) else as_of


def _source(name: str, row: str) -> PriceSource:
    if name not in price_sources():
        raise CatalogError(f"{FILE}: {row}: source: no source is called {name!r}")
    return price_sources()[name]


@cache
def price_sources() -> Mapping[str, PriceSource]:
    return rows(PriceSource, load(FILE)["sources"], FILE)
