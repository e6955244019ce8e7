"""File systems that a cluster can mount: kinds, their tiers, and the effects of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from stampworks.catalog.hardware import machines
from stampworks.catalog.rows import UNKNOWN, CatalogError, Unknown, load, rows

KINDS, FILE = "file_system_kinds.yaml", "file_systems.yaml"
"""The tables of kinds and of tiers; the latter is many times as large."""

Ranges = tuple[tuple[int | Unknown, ...], ...]
"""Valid values of a number: (first, last, step), (first, last, step), ... in ascending order.

An unknown last value means that no maximum is published.
"""


@dataclass(frozen=True)
class FileSystem:
    """A kind of file system. Properties that depend on the way of purchase are in its tiers."""

    name: str
    title: str
    """The vendor's name."""
    clouds: tuple[str, ...]
    """Clouds that offer it; empty for file systems on the user's own servers."""
    managed: bool
    """Whether a cloud runs its servers."""
    protocol: Literal["lustre", "nfs", "weka", "beegfs", "gpfs", "daos", "s3", "blob", "gcs", "local"]
    mount: Literal["lustre", "nfs", "weka", "beegfs", "gpfs", "fuse", "directory"]
    """The client that mounts it on a node."""
    posix: bool
    """Whether the mount behaves like a file system: rename, append, locks."""
    capacity_unit: Literal["GiB", "GB"]
    """The unit in which the cloud, and our declarations, count capacity."""
    units_per_tib: int
    """Number of these units in the vendor's TiB, by which throughput is sold."""
    client_gbs: float | Unknown
    """Maximum rate of one node over TCP."""
    client_efa_gbs: float | Unknown
    """Maximum rate of one node over EFA."""
    client_gds_gbs: float | Unknown
    """Maximum rate of one node over EFA with GPUDirect Storage."""
    without_efa: tuple[str, ...]
    """Machines with EFA that cannot use it for this kind."""
    exclusive: tuple[tuple[str, ...], ...]
    """Features that exclude each other."""
    source: str
    read: str
    """The time when the source was read."""


@dataclass(frozen=True)
class FileSystemSubnet:
    """Size of a file system's subnet by capacity, in one of two forms."""

    name: str
    prefixes: tuple[tuple[int, ...], ...]
    """Pairs (maximum capacity, longest prefix) in ascending order."""
    addresses_per_100000: int
    """Addresses for each 100,000 capacity units; 0 when prefixes determine the size."""
    source: str
    read: str

    def addresses(self, capacity: int, reserved: int) -> int | Unknown:
        """Return the addresses for a capacity: those of the smallest sufficient prefix row, or by proportion. Unknown
        above all rows."""
        if self.addresses_per_100000:
            return -(-capacity * self.addresses_per_100000 // 100_000)
        prefix = next((longest for most, longest in self.prefixes if capacity <= most), None)
        return UNKNOWN if prefix is None else (1 << (32 - prefix)) - reserved


@dataclass(frozen=True)
class EfaClients:
    """Access of nodes to a kind of file system over EFA."""

    name: str
    interfaces: Mapping[str, int]
    """Number of NICs that a node uses for it, by machine."""
    interfaces_else: int
    """The number for every other machine, if it has that many."""
    connections: int
    """Maximum number of these NICs over all nodes of a file system."""
    source: str
    read: str


@dataclass(frozen=True)
class FileSystemTier:
    """A way to buy a kind of file system: throughput per TiB, and valid numbers."""

    name: str
    kind: str
    tier: str
    """The cloud's name, without the throughput."""
    mbps_per_tib: int | Unknown
    """Declared throughput per TiB, in MB/s; 0 when capacity brings none by declaration."""
    read_mbps_per_tib: float | Unknown
    """Sustained rate of its disks, without bursts; 0 when throughput does not depend on capacity."""
    write_mbps_per_tib: float | Unknown
    capacity: Ranges | Unknown
    """Valid capacities; empty when none is declared because the file system grows automatically."""
    capacity_efa: Ranges | Unknown
    """Valid capacities with EFA; empty when EFA is not supported, unknown when it is supported without published
    values."""
    throughput_mbps: Ranges | Unknown
    """Valid throughputs when throughput is declared separately; otherwise empty."""
    read_cache_gib: Ranges | Unknown
    """Valid read caches for each step of throughput; empty when none can be declared."""
    metadata_iops: Ranges | Unknown
    """Valid numbers of metadata operations per second; empty when they cannot be declared."""
    metadata_automatic: bool | Unknown
    """Whether the cloud can choose the number of metadata operations."""
    efa_needs: tuple[str, ...]
    """Further options that EFA requires."""
    zone: Literal["zone", "region", "node"] | Unknown
    """Scope of its location: a zone (nodes elsewhere pay and wait), a region, or the node itself."""
    survives: bool | Unknown
    """Whether its data outlives the server that stores it."""
    features: Mapping[str, bool | Unknown]
    """Further features, supported or not; unlisted ones are unknown."""


Effect = Literal["in place", "replace", "refused"]


@dataclass(frozen=True)
class FileSystemChange:
    """The effect of changing one option. The first matching row applies."""

    name: str
    kind: str
    option: str
    tiers: tuple[str, ...]
    """Tiers to which it applies; empty for all."""
    efa: Literal["any", "with", "without"]
    up: Effect
    """Effect of a larger number, or of any other value of an option without order."""
    down: Effect
    within_range: bool
    """Whether a larger number must stay in the current range of valid values."""
    interrupts: str | Unknown
    """Interruption that clients notice during the change; empty for none."""
    rule: str
    """The cloud's rule, in the toolkit's words."""


@cache
def file_systems() -> Mapping[str, FileSystem]:
    """Return the kinds of file systems by name."""
    return rows(FileSystem, load(KINDS)["kinds"], KINDS)


@cache
def file_system_subnets() -> Mapping[str, FileSystemSubnet]:
    """Return the subnet sizes by kind."""
    table = rows(FileSystemSubnet, load(KINDS)["subnets"], KINDS)
    for each in table.values():
        if each.name not in file_systems():
            raise CatalogError(f"{KINDS}: subnets: no file system is called {each.name!r}")
        if bool(each.prefixes) == bool(each.addresses_per_100000):
            raise CatalogError(f"{KINDS}: subnets: {each.name}: needs prefixes or addresses_per_100000")
    return table


@cache
def efa_clients() -> Mapping[str, EfaClients]:
    """Return the EFA clients by kind."""
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
    """Return the rows of all tiers. Raise CatalogError for an unknown kind or an invalid range."""
    table = rows(FileSystemTier, load(FILE)["tiers"], FILE)
    for tier in table.values():
        if tier.kind not in file_systems():
            raise CatalogError(f"{FILE}: {tier.name}: kind: no file system is called {tier.kind!r}")
        for name in ("capacity", "capacity_efa", "throughput_mbps", "read_cache_gib", "metadata_iops"):
            _check_ranges(getattr(tier, name), f"{FILE}: {tier.name}: {name}")
    return table


@cache
def file_system_changes() -> Mapping[str, FileSystemChange]:
    """Return the effects of changed options. Raise CatalogError for an unknown kind or tier."""
    table = rows(FileSystemChange, load(FILE)["changes"], FILE)
    for change in table.values():
        if change.kind not in file_systems():
            raise CatalogError(f"{FILE}: {change.name}: kind: no file system is called {change.kind!r}")
        tiers = {tier.tier for tier in file_system_tiers().values() if tier.kind == change.kind}
        if strange := [tier for tier in change.tiers if tier not in tiers]:
            raise CatalogError(f"{FILE}: {change.name}: tiers: {change.kind} has no {', '.join(strange)}")
    return table


def tiers_of(kind: str) -> list[FileSystemTier]:
    """Return the tiers of a kind, in the order of the file."""
    return [tier for tier in file_system_tiers().values() if tier.kind == kind]


def _check_ranges(ranges: Ranges | Unknown, place: str) -> None:
    for first, last, step, following in _with_next(ranges, place):
        if first <= 0 or step <= 0:
            raise CatalogError(f"{place}: {first} and {step} have to be more than 0")
        if last is None and following is not None:
            raise CatalogError(f"{place}: only the last range can have no maximum")
        if last is not None and (last < first or (last - first) % step):
            raise CatalogError(f"{place}: no number of steps of {step} leads from {first} to {last}")
        if last is not None and following is not None and following < last:
            raise CatalogError(f"{place}: {following} follows {last}")


def _with_next(ranges: Ranges | Unknown, place: str) -> Iterator[tuple[int, int | None, int, int | None]]:
    """Yield each range with the first value of the next one."""
    if isinstance(ranges, Unknown):
        return
    for index, each in enumerate(ranges):
        if len(each) != 3:
            raise CatalogError(f"{place}: {list(each)} is not [first, last, step]")
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
