"""Catalog rows: the types, and how a data file becomes them."""

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
    """A fact that nobody has looked up. It is no number and has no truth value, so it cannot pass for zero."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        raise TypeError("an unknown fact is neither true nor false: compare it with UNKNOWN")

    def __str__(self) -> str:
        return self.value


UNKNOWN: typing.Final = Unknown.UNKNOWN


@dataclass(frozen=True)
class Accelerator:
    name: str
    memory_gib: int | Unknown
    """What a program can use, in whole GiB: vendors round it up, and some count in GB."""
    memory_bandwidth_gbs: float | Unknown
    bf16_dense_tflops: float | Unknown
    fp8_dense_tflops: float | Unknown
    """Zero where there is no such arithmetic."""
    bf16_measured_tflops: float | Unknown
    """The best that anybody published, with random operands."""
    links: Literal["switched", "mesh", "torus", "none"]
    """How NVLink, or what stands for it, joins accelerators: through switches, each to each other, or to neighbours."""
    nvlink_gbs: float | Unknown
    """All links of one accelerator together, in one direction."""
    switch_reduces: bool | Unknown
    """Whether the switch between the accelerators adds up what passes through it."""
    mig: bool | Unknown
    """Whether it has NVIDIA's MIG, by which one becomes several that know nothing of each other."""
    source: str
    read: str
    """When somebody looked: a month or a day."""


@dataclass(frozen=True)
class HostLink:
    name: str
    rate_gbs: float
    """In one direction."""
    data_share: float | Unknown
    """What part of it can be data."""
    accelerators: int
    """How many may have to share it."""


@dataclass(frozen=True)
class Nic:
    """A kind of NIC on the fabric."""

    name: str
    protocol: Literal["infiniband", "roce", "efa", "tcp"]
    rdma_only: bool
    """Whether it carries nothing but the fabric's traffic, so that nodes need another NIC for everything else."""
    addresses: int
    """What one NIC takes of the cloud's network: none where the fabric numbers its ports itself."""
    own_subnet: bool
    """Whether each rail is a subnet of the cloud's network, apart from the nodes' own."""
    source: str
    read: str


@dataclass(frozen=True)
class Disks:
    count: int | Unknown
    gb: int | Unknown
    """Of one, in units of 10^9 bytes."""


@dataclass(frozen=True)
class Machine:
    name: str
    cloud: str
    aliases: tuple[str, ...]
    """What else it is called: by its cloud first, then by people."""
    simulated: bool
    accelerator: str
    """Name of the accelerator, empty for a machine without."""
    accelerators: int
    sockets: int | Unknown
    cores: int | Unknown
    """Of all sockets together; a core that runs two threads is one."""
    threads: int | Unknown
    """That a core runs."""
    memory_mib: int | Unknown
    local_nvme: Disks
    nic: str | Unknown
    """Name of the kind of its NICs on the fabric, empty for a machine without."""
    nics: int | Unknown
    """NICs on the fabric, which is the number of rails the machine meets; unknown together with their kind."""
    nic_rate_gbps: int | Unknown
    """Of one NIC, in one direction."""
    nics_rate_gbps: int | Unknown
    """What its vendor says of all of them together."""
    other_nics: int | Unknown
    """NICs for everything else, each with an address of its own in the cloud's network."""
    host_link: str | Unknown
    """Name of the link between an accelerator and the host."""
    nvlink_nodes: int | Unknown
    """How many nodes can share one NVLink fabric: 1 when it ends at the node."""
    fabric_reduces: bool | Unknown
    """Whether the switches between nodes can add up what passes through them."""
    storage_client_gbs: float | Unknown
    """What one node can read from or write to shared storage at most."""
    quota_family: str | Unknown
    """What the cloud calls the limit that its nodes count against, empty where there is none."""
    quota_units: int | Unknown
    """How much of that limit one node takes."""
    billing_unit: Literal["node-hour", "accelerator-hour", "none"] | Unknown
    """What prices are quoted by; a machine that somebody owns has none."""
    power_kw: float | Unknown
    """At most, as its vendor says."""
    source: str
    read: str


@dataclass(frozen=True)
class Regions:
    """Of a cloud that lists them all; of another one they are unknown."""

    name: str
    names: tuple[str, ...]
    source: str
    read: str


@dataclass(frozen=True)
class CloudNodes:
    """What the software of a cloud writes on its nodes and answers to them."""

    name: str
    place_labels: tuple[str, ...]
    """Labels of Kubernetes that say where a node stands, the outermost domain first."""
    rights_from_address: bool | Unknown
    """Whether a machine gets its rights from an address that every user on it reaches."""
    health_conditions: tuple[str, ...]
    """Conditions of Kubernetes that say whether a node is well."""
    source: str
    read: str


@dataclass(frozen=True)
class Shape:
    """In what numbers nodes of a machine can be had together, and how they can be bought."""

    name: str
    counts: tuple[int, ...]
    """Nodes of one whole."""
    several: bool
    """Whether a pool can be several of them."""
    step: int
    """What larger ones that are not listed are multiples of; 0 where all are."""
    purchases: tuple[str, ...]
    """The only ways to buy them; empty where all of the cloud's are."""
    source: str
    read: str


@dataclass(frozen=True)
class Fabric:
    name: str
    mtu_bytes: int
    framing_bytes: int
    """What a packet costs on the link beside its own bytes."""
    headers_bytes: int
    """What of a packet's bytes is IP and TCP."""
    burst_bytes_min: int
    burst_bytes_per_mbps: int
    """What a link lets pass at once, before its rate counts: the larger of the two, the latter times its rate."""


@dataclass(frozen=True)
class Deployment:
    """What somebody published of the failures of many accelerators."""

    name: str
    accelerator: str
    accelerators: int
    failures: int
    """That nobody planned."""
    hours: float
    """In which these were counted."""
    source: str
    read: str
    """When the source was: year-month."""


@dataclass(frozen=True)
class TrainedModel:
    """What runs have trained."""

    name: str
    parameters: int
    active: int
    """So many of them a token passes through: all, but for one with experts."""
    layers: int
    hidden: int
    heads: int
    head: int
    """How wide a query and a key of one are."""
    value_head: int
    vocabulary: int
    source: str
    read: str


@dataclass(frozen=True)
class PublishedRun:
    """How fast somebody trained something: as FLOPs or as tokens, of one accelerator, as it was published."""

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
    """What a role brings onto the nodes that need it."""

    packages: Mapping[str, str]
    """By name the beginning of the version, empty where the suite has it; none where nobody has any for the suite."""
    repository: str
    """Where its publisher has them; empty where nodes find them by themselves."""
    source: str
    read: str


@dataclass(frozen=True)
class Source:
    """What a role builds on its nodes because nobody publishes packages of it."""

    name: str
    repository: str
    """Of git."""
    tag: str
    """What people call the commit; nothing is fetched by it."""
    commit: str
    """A digest of all that is in it."""
    command: tuple[str, ...]
    """What makes the programs, in the top of the source."""
    makes: tuple[str, ...]
    """The files that are installed, from there."""
    source: str
    read: str


@dataclass(frozen=True)
class Image:
    repository: str
    tag: str
    digest: str | Unknown


@dataclass(frozen=True)
class AddOn:
    """What a cluster whose scheduler is Kubernetes is extended by."""

    what: str
    wanted: Literal["always", "hardware", "needed", "asked", "brought"]
    """Where it is part of a cluster without a word: everywhere, with its hardware, where another one needs it, or where
    the cloud brings it."""
    accelerators: tuple[str, ...]
    """Its hardware, by the names in parts.yaml; empty where it is for none."""
    fabrics: tuple[str, ...]
    chart: str
    """Of Helm; empty where nobody publishes one."""
    repository: str
    """Where its publisher has the chart, or what stands for it."""
    version: str
    """Of the chart."""
    namespace: str
    kubernetes_min: str | Unknown
    """The oldest and the newest Kubernetes that its publisher says it is for, or tests it with."""
    kubernetes_max: str | Unknown
    needs: tuple[str, ...]
    """Others of the release that it does not work without."""
    excludes: tuple[str, ...]
    """Others that do not work beside it."""
    images: Mapping[str, Image]
    """By the part of its values that names it."""
    source: str
    read: str


@dataclass(frozen=True)
class Release:
    name: str
    suite: str
    clouds: tuple[str, ...]
    """The only ones whose nodes can be made with it; empty for all."""
    accelerators: tuple[str, ...]
    """Those that its packages have a driver for, by their names in parts.yaml."""
    kernel: str
    """The beginning of the version of the kernel that its drivers are built for."""
    base_packages: tuple[str, ...]
    packages: Mapping[str, tuple[str, ...]]
    """By role, in the order of the roles."""
    versions: Mapping[str, Mapping[str, str]]
    """By role: what that role brings, and its version."""
    kubernetes: Mapping[str, str]
    """What a cluster runs whose scheduler is Kubernetes, and the version: itself, and what queues and gangs need."""
    addons: Mapping[str, AddOn]
    """What is installed into such a cluster, in the order in which it is."""
    accounting_roles: tuple[str, ...]
    """Roles that only a cluster with accounting needs."""
    jobs_need_accounting: bool
    """Whether its Slurm starts no job of which nothing keeps account."""
    boot: tuple[str, ...]
    """Packages with which a node configures itself that starts later; one with its version, name==version, an image has
    from wheels, for the suite has none that would do, with the Python beside it where they are for another one. None
    where nobody knows any."""
    hardware: Mapping[str, Software]
    """By role, in the order of the roles."""
    sources: Mapping[str, Source]
    """By role of the hardware, whose packages are what it is built with, too."""
    clients: Mapping[str, Software]
    """What mounts file systems, by how they are mounted."""


Row = TypeVar("Row")
_READ = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])(-[0-3][0-9])?")


class CatalogError(Exception):
    """The catalog itself is wrong: a mistake of whoever edited it, not of the user."""


@cache
def load(file: str) -> Any:
    """A data file of this package, also when the package is inside a wheel."""
    return yaml.load(text(file), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (either is safe)


@cache
def text(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def rows(kind: type[Row], data: Any, place: str, **given: str) -> Mapping[str, Row]:
    """The rows of a table by name, in the order of the file; what is given is a fact of all of them."""
    if not isinstance(data, dict):
        raise CatalogError(f"{place}: is no table of rows by name")
    table = {name: _row(kind, facts, f"{place}: {name}", {"name": name, **given}) for name, facts in data.items()}
    return MappingProxyType(table)


def _row(kind: Any, facts: Any, place: str, given: Mapping[str, Any]) -> Any:
    if not isinstance(facts, dict):
        raise CatalogError(f"{place}: is no list of facts by name")
    hints = {name: hint for name, hint in _hints(kind).items() if name not in given}
    if missing := [each for each in hints if each not in facts]:
        raise CatalogError(f"{place}: lacks {', '.join(missing)} (a fact that nobody has looked up is written unknown)")
    if strange := [str(each) for each in facts if each not in hints]:
        raise CatalogError(f"{place}: knows no {', '.join(strange)}")
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
    """No amount of anything is below zero, or no number at all."""
    return math.isfinite(data) and data >= 0
