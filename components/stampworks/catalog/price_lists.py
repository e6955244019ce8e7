"""Published prices of nodes, file systems and other parts, with source and date of reading. Nothing is derived from
another region, machine or form of purchase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeVar

from stampworks.catalog.rows import UNKNOWN, CatalogError, Unknown, load, rows

FILE = "prices.yaml"
EVERYWHERE = "all"
"""The region of a price that holds in every region."""

Part = Literal["NAT gateway", "public address", "endpoint", "disk"]
"""Parts of a network that are billed by the hour, and disks other than file systems."""
Purchase = Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "block"]


@dataclass(frozen=True)
class PriceSource:
    """A published price list."""

    name: str
    source: str
    as_of: str | Unknown
    """The earliest month for which its prices hold."""
    read: str
    """The day or month when this project read it."""
    trust: Literal["primary", "secondary"]
    """Primary when the seller publishes it, otherwise secondary."""


@dataclass(frozen=True)
class PriceList:
    """The prices of one source for one machine and form of purchase."""

    name: str
    cloud: str
    machine: str
    purchase: Purchase
    unit: Literal["node", "accelerator"]
    """The unit that the source prices."""
    units: int
    """Number of these units in a node."""
    usd: Mapping[str, float]
    """Price of a unit per hour, by the cloud's name of the region; `all` for a price that holds everywhere."""
    source: str


@dataclass(frozen=True)
class StoragePriceList:
    """The prices of one source for one way to buy a file system."""

    name: str
    tier: str
    """Name of the tier's row in the catalog."""
    usd: Mapping[str, float]
    """Price per month and GiB, or per unit in which the kind counts capacity, by region."""
    source: str


@dataclass(frozen=True)
class PartPriceList:
    """The prices of one source for one part of a cluster that is neither a node nor a file system."""

    name: str
    cloud: str
    part: Part
    per: Literal["hour", "GiB and month"]
    usd: Mapping[str, float]
    """Prices by region, as above."""
    source: str


@dataclass(frozen=True)
class Price:
    """The price of one node per hour."""

    name: str
    cloud: str
    machine: str
    region: str
    purchase: Purchase
    usd_per_hour: float
    why: str
    """The source's own figure, when it is not for a node."""
    as_of: str | Unknown
    source: str
    read: str
    trust: Literal["primary", "secondary"]


@dataclass(frozen=True)
class StoragePrice:
    """The price of a file system per month and unit of capacity."""

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
    """The price of one part, per unit in which it is billed."""

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
    """Return all prices of nodes, including contradictory ones."""
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
    """Return all prices of file systems, including contradictory ones."""
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
    """Return all prices of parts, including contradictory ones."""
    table = {}
    for row in rows(PartPriceList, load(FILE)["parts"], FILE).values():
        source = _source(row.source, row.name)
        for region, usd in row.usd.items():
            name, facts = f"{row.name}/{region}", (source.as_of, source.source, source.read, source.trust)
            table[name] = PartPrice(name, row.cloud, row.part, region, usd, row.per, *facts)
    return MappingProxyType(table)


def price(cloud: str, machine: str, region: str, purchase: Purchase) -> Price | Unknown:
    """Return the newest price of a node; UNKNOWN when none is published for exactly these arguments."""
    found = conflicting_prices(cloud, machine, region, purchase)
    return found[0] if found else UNKNOWN


def conflicting_prices(cloud: str, machine: str, region: str, purchase: Purchase) -> tuple[Price, ...]:
    """Return all prices for the same item, newest first."""
    wanted = (cloud, machine, purchase)
    fitting = [each for each in prices().values() if (each.cloud, each.machine, each.purchase) == wanted]
    return _newest_first(each for each in fitting if each.region in (region, EVERYWHERE))


def prices_on_demand(machine: str) -> tuple[Price, ...]:
    """Return the newest on-demand price of a machine in each region, the lowest first."""
    offered = {(each.cloud, each.region) for each in prices().values() if each.machine == machine}
    found = [price(cloud, machine, region, "on-demand") for cloud, region in sorted(offered)]
    return tuple(sorted((each for each in found if isinstance(each, Price)), key=lambda each: each.usd_per_hour))


def storage_price(tier: str, region: str) -> StoragePrice | Unknown:
    """Return the newest price of a file system by the name of its tier's row."""
    fitting = [each for each in storage_prices().values() if each.tier == tier]
    found = _newest_first(each for each in fitting if each.region in (region, EVERYWHERE))
    return found[0] if found else UNKNOWN


def part_price(cloud: str, part: Part, region: str) -> PartPrice | Unknown:
    """Return the newest price of a part."""
    fitting = [each for each in part_prices().values() if (each.cloud, each.part) == (cloud, part)]
    found = _newest_first(each for each in fitting if each.region in (region, EVERYWHERE))
    return found[0] if found else UNKNOWN


def _newest_first(found: Iterable[Dated]) -> tuple[Dated, ...]:
    """Sort by the month of validity, undated prices last, and then by the day of reading."""
    return tuple(sorted(found, key=lambda each: (_month(each.as_of), each.read), reverse=True))


def _month(as_of: str | Unknown) -> str:
    return "" if isinstance(as_of, Unknown) else as_of


def _source(name: str, row: str) -> PriceSource:
    if name not in price_sources():
        raise CatalogError(f"{FILE}: {row}: source: no source is called {name!r}")
    return price_sources()[name]


@cache
def price_sources() -> Mapping[str, PriceSource]:
    """Return the price lists by the name that rows of prices refer to."""
    return rows(PriceSource, load(FILE)["sources"], FILE)
