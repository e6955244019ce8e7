"""File systems that a cluster can mount: kinds, the tiers each comes in, and what changing one does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from stampworks.catalog.hardware import machines
from stampworks.catalog.rows import UNKNOWN, CatalogError, Unknown, load, rows

KINDS, FILE = "file_system_kinds.yaml", "file_systems.yaml"
"""The tables of kinds, and of the ways to buy each, which is many times as large."""

Ranges = tuple[tuple[int | Unknown, ...], ...]
"""Legal values of a number: (first, last, step), (first, last, step), ... in ascending order.

A last value that is unknown means that no maximum is published.
"""


@dataclass(frozen=True)
class FileSystem:
    """A kind of file system. What differs between the ways to buy it stands in its tiers."""

    name: str
    title: str
    """What its vendor calls it."""
    clouds: tuple[str, ...]
    """Where it can be had; empty for what runs on servers of one's own, wherever they stand."""
    managed: bool
    """Whether a cloud runs its servers."""
    protocol: Literal["lustre", "nfs", "weka", "beegfs", "gpfs", "daos", "s3", "blob", "gcs", "local"]
    mount: Literal["lustre", "nfs", "weka", "beegfs", "gpfs", "fuse", "directory"]
    """What mounts it on a node."""
    posix: bool
    """Whether what mounts it behaves as a file system: rename, append, locks."""
    capacity_unit: Literal["GiB", "GB"]
    """What the cloud counts capacities in, and ours are written in, too."""
    units_per_tib: int
    """How many of these its vendor counts as the TiB that throughput is sold by."""
    client_gbs: float | Unknown
    """What one node reaches at most over TCP."""
    client_efa_gbs: float | Unknown
    """The same over EFA."""
    client_gds_gbs: float | Unknown
    """The same over EFA with GPUDirect Storage."""
    without_efa: tuple[str, ...]
    """Machines that have EFA and cannot reach it over that."""
    exclusive: tuple[tuple[str, ...], ...]
    """Features of which it can have only one at a time."""
    source: str
    read: str
    """When the source was read."""


@dataclass(frozen=True)
class FileSystemSubnet:
    """How large the subnet of a kind has to be: one of the two, by its capacity."""

    name: str
    prefixes: tuple[tuple[int, ...], ...]
    """(capacity at most, longest prefix) in ascending order."""
    addresses_per_100000: int
    """For each 100,000 of its capacity unit; 0 where prefixes say it."""
    source: str
    read: str

    def addresses(self, capacity: int, reserved: int) -> int | Unknown:
        """What the largest capacity of a row takes, or what this one does; unknown above all rows."""
        if self.addresses_per_100000:
            return -(-capacity * self.addresses_per_100000 // 100_000)
        prefix = next((longest for most, longest in self.prefixes if capacity <= most), None)
        return UNKNOWN if prefix is None else (1 << (32 - prefix)) - reserved


@dataclass(frozen=True)
class EfaClients:
    """How nodes reach a kind over EFA."""

    name: str
    interfaces: Mapping[str, int]
    """By machine, how many of its NICs a node gives to it."""
    interfaces_else: int
    """The same of every other machine, if it has as many."""
    connections: int
    """How many such NICs of all nodes together a file system takes."""
    source: str
    read: str


@dataclass(frozen=True)
class FileSystemTier:
    """One way to buy a kind: what throughput a TiB brings, and which numbers are legal."""

    name: str
    kind: str
    tier: str
    """What the cloud calls it, without the throughput."""
    mbps_per_tib: int | Unknown
    """The throughput that is asked for with each TiB, in MB/s; 0 where capacity does not bring any by declaration."""
    read_mbps_per_tib: float | Unknown
    """What its disks carry, without bursts; 0 where throughput does not come with capacity."""
    write_mbps_per_tib: float | Unknown
    capacity: Ranges | Unknown
    """Legal capacities; empty where none is declared because it grows by itself."""
    capacity_efa: Ranges | Unknown
    """Legal capacities with EFA; empty where EFA is not supported, unknown where it is and none is declared."""
    throughput_mbps: Ranges | Unknown
    """Legal throughputs where throughput is declared by itself; empty otherwise."""
    read_cache_gib: Ranges | Unknown
    """Legal read caches for each step of throughput; empty where none can be declared."""
    metadata_iops: Ranges | Unknown
    """Legal numbers of metadata operations a second; empty where they cannot be declared."""
    metadata_automatic: bool | Unknown
    """Whether the cloud can choose their number."""
    efa_needs: tuple[str, ...]
    """What else has to be declared with EFA."""
    zone: Literal["zone", "region", "node"] | Unknown
    """What it stands in: a zone (nodes elsewhere pay and wait), a region, or the node itself."""
    survives: bool | Unknown
    """Whether its data outlives the server that holds it."""
    features: Mapping[str, bool | Unknown]
    """What else can be asked for, or not; what is not named here is unknown, too."""


Effect = Literal["in place", "replace", "refused"]


@dataclass(frozen=True)
class FileSystemChange:
    """What a change of one option does. The first row that fits counts."""

    name: str
    kind: str
    option: str
    tiers: tuple[str, ...]
    """Tiers that it holds for; empty for all."""
    efa: Literal["any", "with", "without"]
    up: Effect
    """What a larger number does, or any other value of an option that has no order."""
    down: Effect
    within_range: bool
    """Whether a larger number has to stay in the range of legal values that the present one is in."""
    interrupts: str | Unknown
    """What clients notice meanwhile; empty for nothing."""
    rule: str
    """The cloud's rule, in our words."""


@cache
def file_systems() -> Mapping[str, FileSystem]:
    return rows(FileSystem, load(KINDS)["kinds"], KINDS)


@cache
def file_system_subnets() -> Mapping[str, FileSystemSubnet]:
    """By kind."""
    table = rows(FileSystemSubnet, load(KINDS)["subnets"], KINDS)
    for each in table.values():
        if each.name not in file_systems():
            raise CatalogError(f"{KINDS}: subnets: no file system is called {each.name!r}")
        if bool(each.prefixes) == bool(each.addresses_per_100000):
            raise CatalogError(f"{KINDS}: subnets: {each.name}: needs prefixes or addresses_per_100000")
    return table


@cache
def efa_clients() -> Mapping[str, EfaClients]:
    """By kind."""
    table = rows(EfaClients, load(KINDS)["efa_clients"], KINDS)
    for each in table.values():
        if each.name not in file_systems():
            raise CatalogError(f"{KINDS}: efa_clients: no file system is called {each.name!r}")
        for name in each.interfaces:
            if name not in machines():
                raise CatalogError(f"{KINDS}: efa_clients: {each.name}: no machine is called {name!r}")
    return table


@cache
def file_system_tiers() -> Mapping[str, FileSystemTier]:
    table = rows(FileSystemTier, load(FILE)["tiers"], FILE)
    for tier in table.values():
        if tier.kind not in file_systems():
            raise CatalogError(f"{FILE}: {tier.name}: kind: no file system is called {tier.kind!r}")
        for name in ("capacity", "capacity_efa", "throughput_mbps", "read_cache_gib", "metadata_iops"):
            _check_ranges(getattr(tier, name), f"{FILE}: {tier.name}: {name}")
    return table


@cache
def file_system_changes() -> Mapping[str, FileSystemChange]:
    table = rows(FileSystemChange, load(FILE)["changes"], FILE)
    for change in table.values():
        if change.kind not in file_systems():
            raise CatalogError(f"{FILE}: {change.name}: kind: no file system is called {change.kind!r}")
        tiers = {tier.tier for tier in file_system_tiers().values() if tier.kind == change.kind}
        if strange := [tier for tier in change.tiers if tier not in tiers]:
            raise CatalogError(f"{FILE}: {change.name}: tiers: {change.kind} has no {', '.join(strange)}")
    return table


def tiers_of(kind: str) -> list[FileSystemTier]:
    """The ways to buy a kind, in the order of the file."""
    return [tier for tier in file_system_tiers().values() if tier.kind == kind]


def _check_ranges(ranges: Ranges | Unknown, place: str) -> None:
    for first, last, step, following in _with_following(ranges, place):
        if first <= 0 or step <= 0:
            raise CatalogError(f"{place}: {first} and {step} have to be more than 0")
        if last is None and following is not None:
            raise CatalogError(f"{place}: only the last range can have no maximum")
        if last is not None and (last < first or (last - first) % step):
            raise CatalogError(f"{place}: no number of steps of {step} leads from {first} to {last}")
        if last is not None and following is not None and following < last:
            raise CatalogError(f"{place}: {following} follows {last}")


def _with_following(ranges: Ranges | Unknown, place: str) -> Iterator[tuple[int, int | None, int, int | None]]:
    """Each range with the first value of the next one."""
    if isinstance(ranges, Unknown):
        return
    for index, each in enumerate(ranges):
        if len(each) != 3:
            raise CatalogError(f"{place}: {list(each)} is not first, last and step")
        first, last, step = each
        if isinstance(first, Unknown) or isinstance(step, Unknown):
            raise CatalogError(f"{place}: first and step have to be known: write unknown for all of it")
        following = ranges[index + 1][0] if index + 1 < len(ranges) else None
        yield (
            first,
            None if isinstance(last, Unknown) else last,
            step,
            following if isinstance(following, int) else None,
        )
