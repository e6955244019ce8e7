"""The types of catalog rows, and the parser of the data files."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import yaml


class Unknown(enum.Enum):
    """A fact that was not looked up. It is no number and has no truth value, so that it cannot pass for zero."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        raise TypeError("an unknown fact is neither true nor false: compare it with UNKNOWN")

    def __str__(self) -> str:
        return self.value


UNKNOWN: typing.Final = Unknown.UNKNOWN


@dataclass(frozen=True)
class Accelerator:
    """An accelerator: memory, rates and links, as its vendor publishes them."""

    name: str
    memory_gib: int | Unknown
    """Memory that a program can use, in whole GiB. Vendors round it up, and some count in GB."""
    memory_bandwidth_gbs: float | Unknown
    bf16_dense_tflops: float | Unknown
    fp8_dense_tflops: float | Unknown
    """Zero when the accelerator has no such arithmetic."""
    bf16_measured_tflops: float | Unknown
    """The best published value, with random operands."""
    links: Literal["switched", "mesh", "torus", "none"]
    """Topology of NVLink, or of its equivalent: accelerators are joined through switches, each to each other, or to
    neighbours."""
    nvlink_gbs: float | Unknown
    """Rate of all links of one accelerator together, in one direction."""
    switch_reduces: bool | Unknown
    """Whether the switch between the accelerators adds up data in transit."""
    mig: bool | Unknown
    """Whether it has NVIDIA's MIG, which divides it into several isolated accelerators."""
    pci: tuple[str, ...] | Unknown
    """Ids by which it shows itself on the PCI bus of a machine, like 10de:2330; a virtual machine may show another."""
    source: str
    read: str
    """The month or day when it was looked up."""


@dataclass(frozen=True)
class HostLink:
    """A link between an accelerator and its host."""

    name: str
    rate_gbs: float
    """Rate in one direction."""
    data_share: float | Unknown
    """The part of the rate that can be data."""
    accelerators: int
    """The number of accelerators that may share it."""


@dataclass(frozen=True)
class Nic:
    """A kind of NIC on the fabric."""

    name: str
    protocol: Literal["infiniband", "roce", "efa", "tcp"]
    rdma_only: bool
    """Whether it carries only fabric traffic, so that nodes need another NIC for all other traffic."""
    addresses: int
    """Addresses that a NIC takes from the cloud's network; 0 if the fabric has its own addresses."""
    own_subnet: bool
    """Whether each rail is a separate subnet of the cloud's network."""
    source: str
    read: str


@dataclass(frozen=True)
class Disks:
    """The local disks of a machine, all of one size."""

    count: int | Unknown
    gb: int | Unknown
    """Size of one disk, in units of 10^9 bytes."""


@dataclass(frozen=True)
class Machine:
    """A machine that a cloud sells, or a simulated one."""

    name: str
    cloud: str
    aliases: tuple[str, ...]
    """Other names: first the cloud's, then common ones."""
    simulated: bool
    accelerator: str
    """Name of the accelerator; empty for a machine without one."""
    accelerators: int
    sockets: int | Unknown
    cores: int | Unknown
    """Cores of all sockets together; a core that runs two threads counts once."""
    threads: int | Unknown
    """Hardware threads per core."""
    memory_mib: int | Unknown
    local_nvme: Disks
    nic: str | Unknown
    """Name of the kind of fabric NIC; empty for a machine without one."""
    nics: int | Unknown
    """Number of fabric NICs, which is the number of rails of the machine; unknown together with their kind."""
    nic_rate_gbps: int | Unknown
    """Rate of one NIC, in one direction."""
    nics_rate_gbps: int | Unknown
    """The vendor's figure for all of them together."""
    other_nics: int | Unknown
    """NICs for all other traffic, each with its own address in the cloud's network."""
    host_link: str | Unknown
    """Name of the link between an accelerator and the host."""
    nvlink_nodes: int | Unknown
    """Number of nodes that can share one NVLink fabric; 1 when it ends at the node."""
    fabric_reduces: bool | Unknown
    """Whether the switches between nodes can add up data in transit."""
    storage_client_gbs: float | Unknown
    """Maximum rate at which a node can read from or write to shared storage."""
    quota_family: str | Unknown
    """The cloud's name for the limit that its nodes count against; empty if it has none."""
    quota_units: int | Unknown
    """Units of that limit that one node takes."""
    billing_unit: Literal["node-hour", "accelerator-hour", "none"] | Unknown
    """The unit of quoted prices; none for a machine that the user owns."""
    power_kw: float | Unknown
    """The vendor's figure for the maximum."""
    source: str
    read: str


@dataclass(frozen=True)
class Regions:
    """All regions of a cloud that lists them; the regions of other clouds are unknown."""

    name: str
    names: tuple[str, ...]
    source: str
    read: str


@dataclass(frozen=True)
class CloudNodes:
    """Labels and conditions that a cloud's software writes on its nodes, and a service that it offers to them."""

    name: str
    place_labels: tuple[str, ...]
    """Kubernetes labels for the location of a node, the outermost domain first."""
    rights_from_address: bool | Unknown
    """Whether a machine gets its rights from an address that every user on it can reach."""
    health_conditions: tuple[str, ...]
    """Kubernetes conditions for the health of a node."""
    announces_interruptions: bool | Unknown
    """Whether its metadata service announces interruptions in the form that the role `interruptions` reads."""
    block_ends_early_minutes: int | Unknown
    """Minutes before the end of a capacity block from which its machines end."""
    source: str
    read: str


@dataclass(frozen=True)
class Shape:
    """The numbers in which nodes of a machine are sold together, and their ways of purchase."""

    name: str
    counts: tuple[int, ...]
    """Numbers of nodes in one unit of sale."""
    several: bool
    """Whether a pool can consist of several units."""
    step: int
    """Divisor of larger, unlisted numbers; 0 when all numbers are listed."""
    purchases: tuple[str, ...]
    """The only ways to buy them; empty when all purchases of the cloud are possible."""
    source: str
    read: str


@dataclass(frozen=True)
class Fabric:
    """A protocol between NICs, with the bytes that it adds to data."""

    name: str
    mtu_bytes: int
    framing_bytes: int
    """Bytes on the link for each packet, in addition to the packet itself."""
    headers_bytes: int
    """IP and TCP headers among a packet's bytes."""
    burst_bytes_min: int
    burst_bytes_per_mbps: int
    """Bytes that a link passes at once before its rate applies: the larger of the two, with the latter multiplied by
    the rate."""


@dataclass(frozen=True)
class Deployment:
    """Published failures of a large number of accelerators."""

    name: str
    accelerator: str
    accelerators: int
    failures: int
    """Unplanned failures."""
    hours: float
    """The hours in which they were counted."""
    source: str
    read: str
    """The month in which the source was read."""


@dataclass(frozen=True)
class TrainedModel:
    """A model of published runs."""

    name: str
    parameters: int
    active: int
    """Active parameters of a token: all of them, except in a model with experts."""
    layers: int
    hidden: int
    heads: int
    head: int
    """Width of the query and key of one head."""
    value_head: int
    vocabulary: int
    source: str
    read: str


@dataclass(frozen=True)
class PublishedRun:
    """The published speed of a training run, as FLOPs or tokens per second of one accelerator."""

    name: str
    model: str
    sequence: int
    """Tokens of a sample."""
    accelerator: str
    accelerators: int
    precision: Literal["bfloat16", "float8"]
    layout: str
    tokens_per_second: float | Unknown
    tflops: float | Unknown
    source: str
    read: str


@dataclass(frozen=True)
class Software:
    """Software that a role installs on the nodes that need it."""

    packages: Mapping[str, str]
    """Version prefix by package name; empty when the suite has the package. No entries when the suite has no
    packages."""
    repository: str
    """The publisher's repository; empty when nodes find the packages themselves."""
    source: str
    read: str


@dataclass(frozen=True)
class Source:
    """Software that a role builds on its nodes, because no packages exist."""

    name: str
    repository: str
    """URL of the git repository."""
    tag: str
    """The release tag of the commit, for people; nothing is fetched by tag."""
    commit: str
    """Hash that identifies the whole content."""
    command: tuple[str, ...]
    """Command that builds the programs, run in the top directory of the source."""
    makes: tuple[str, ...]
    """Files to install, relative to the top directory."""
    source: str
    read: str


@dataclass(frozen=True)
class Image:
    """A container image of a release."""

    repository: str
    tag: str
    digest: str | Unknown


@dataclass(frozen=True)
class AddOn:
    """An extension of a Kubernetes cluster."""

    what: str
    wanted: Literal["always", "hardware", "needed", "asked", "brought"]
    """Condition of the add-on in a cluster by default: always, with its hardware, when another add-on needs it, only on
    request, or when the cloud provides it."""
    accelerators: tuple[str, ...]
    """Accelerators that it is for, by the names in parts.yaml; empty for none."""
    fabrics: tuple[str, ...]
    chart: str
    """Name of the Helm chart; empty when none is published."""
    repository: str
    """The publisher's place of the chart or its equivalent."""
    version: str
    """Version of the chart."""
    namespace: str
    kubernetes_min: str | Unknown
    """The oldest and the newest Kubernetes that its publisher supports or tests."""
    kubernetes_max: str | Unknown
    needs: tuple[str, ...]
    """Add-ons of the release that it requires."""
    excludes: tuple[str, ...]
    """Add-ons that do not work together with it."""
    images: Mapping[str, Image]
    """Images by the part of its values that names them."""
    source: str
    read: str


@dataclass(frozen=True)
class VendorImage:
    """An image of a vendor, for nodes that need its preinstalled parts."""

    kind: str
    """Completes the suite in the images of instances.yaml."""
    owner: str
    """The name of its owner, by which the cloud lists its images."""
    image: str
    """The whole name of the image that the parts are of, with its day."""
    parts: Mapping[str, Mapping[str, str]]
    """Version prefixes by role and name of the part. The toolkit installs none of them: each node is compared with
    them."""
    source: str
    read: str


@dataclass(frozen=True)
class Release:
    """Versions of software that were tested together."""

    name: str
    suite: str
    clouds: tuple[str, ...]
    """Clouds whose nodes can have it; empty for all."""
    accelerators: tuple[str, ...]
    """Accelerators for which its packages have a driver, by their names in parts.yaml."""
    kernel: str
    """Version prefix of the kernel that its drivers are built for."""
    base_packages: tuple[str, ...]
    packages: Mapping[str, tuple[str, ...]]
    """Packages by role, in the order of the roles."""
    versions: Mapping[str, Mapping[str, str]]
    """Versions by role: the parts that the role installs."""
    kubernetes: Mapping[str, str]
    """Versions of a Kubernetes cluster: Kubernetes itself, and the software for queues and gangs."""
    addons: Mapping[str, AddOn]
    """Add-ons of such a cluster, in installation order."""
    accounting_roles: tuple[str, ...]
    """Roles that only a cluster with accounting needs."""
    jobs_need_accounting: bool
    """Whether its Slurm refuses jobs without accounting."""
    boot: tuple[str, ...]
    """Packages with which a node configures itself when it starts later; empty when none are known. An entry
    name==version is a wheel that only images have, because the suite lacks a suitable package. Wheels for another
    Python come with it."""
    hardware: Mapping[str, Software]
    """Software by role, in the order of the roles."""
    sources: Mapping[str, Source]
    """Sources by hardware role; the packages of such a role include the build dependencies."""
    clients: Mapping[str, Software]
    """Clients of file systems, by the kind of mount."""
    vendor_images: Mapping[str, VendorImage]
    """Images by cloud; empty for a release that installs everything itself."""

    @property
    def takes_found(self) -> bool:
        """Whether nodes keep the kernel, driver and fabric that they have."""
        return bool(self.clouds) and not self.vendor_images and "driver" not in self.hardware


Row = TypeVar("Row")
_READ = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])(-[0-3][0-9])?")


class CatalogError(Exception):
    """An error in the catalog itself: a mistake of its editor, not of the user."""


@cache
def load(file: str) -> Any:
    """Parse a data file of this package, also from inside a wheel."""
    return yaml.load(text(file), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (either is safe)


@cache
def text(file: str) -> str:
    """Return a data file of the catalog as text."""
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def rows(kind: type[Row], data: Any, place: str, **given: str) -> Mapping[str, Row]:
    """Return the rows of a table by name, in the order of the file; `given` values apply to all rows."""
    if not isinstance(data, dict):
        raise CatalogError(f"{place}: is not a mapping of rows by name")
    table = {name: _row(kind, facts, f"{place}: {name}", {"name": name, **given}) for name, facts in data.items()}
    return MappingProxyType(table)


def _row(kind: Any, facts: Any, place: str, given: Mapping[str, Any]) -> Any:
    if not isinstance(facts, dict):
        raise CatalogError(f"{place}: is not a mapping of facts by name")
    hints = {name: hint for name, hint in _hints(kind).items() if name not in given}
    if missing := [each for each in hints if each not in facts]:
        raise CatalogError(f"{place}: lacks {', '.join(missing)} (write unknown for a fact that was not looked up)")
    if strange := [str(each) for each in facts if each not in hints]:
        raise CatalogError(f"{place}: no fact is called {', '.join(strange)}")
    row = kind(**given, **{each: _value(hint, facts[each], f"{place}: {each}") for each, hint in hints.items()})
    if "read" in hints and not (_READ.fullmatch(row.read) and row.source):
        raise CatalogError(f"{place}: needs a source, and when it was read, like '2026-11' or '2026-11-22', in quotes")
    return row


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def _value(hint: Any, data: Any, place: str) -> Any:
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if Unknown in kinds and data == UNKNOWN.value:
        return UNKNOWN
    kind = next(each for each in kinds if each is not Unknown)
    if typing.get_origin(kind) is tuple and isinstance(data, list):
        return tuple(_value(typing.get_args(kind)[0], each, place) for each in data)
    if typing.get_origin(kind) is Mapping and isinstance(data, dict):
        return MappingProxyType({e: _value(typing.get_args(kind)[1], data[e], f"{place}: {e}") for e in data})
    if dataclasses.is_dataclass(kind) and isinstance(data, dict):
        return _row(kind, data, place, {})
    legal = typing.get_args(kind) if typing.get_origin(kind) is Literal else None
    if (data in legal) if legal else (type(data) is kind and (isinstance(data, str) or _is_sound(data))):
        return data
    word = "a list" if typing.get_origin(kind) is tuple else _WORDS.get(kind, "a table")
    wanted = [*map(str, legal)] if legal else [word]
    wanted += ["unknown"] if Unknown in kinds else []
    raise CatalogError(f"{place}: {data!r} does not fit: it is {' or '.join(wanted)}")


_WORDS = {int: "a whole number", float: "a number with a point", bool: "true or false", str: "a text"}


def _is_sound(data: Any) -> bool:
    """Return whether a number is finite and not negative."""
    return math.isfinite(data) and data >= 0
