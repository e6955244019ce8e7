"""Catalog rows: the types, and how a data file becomes them."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

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
    memory_bandwidth_gbs: float | Unknown
    bf16_dense_tflops: float | Unknown
    bf16_measured_tflops: float | Unknown
    """The best that anybody published, with random operands."""
    nvlink_gbs: float | Unknown
    """All links of one accelerator together, in one direction."""
    switch_reduces: bool | Unknown
    """Whether the switch between the accelerators adds up what passes through it."""


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
class Machine:
    name: str
    cloud: str
    aliases: tuple[str, ...]
    """What else people call it."""
    simulated: bool
    accelerator: str
    """Name of the accelerator, empty for a machine without."""
    accelerators: int
    cores: int | Unknown
    memory_mib: int | Unknown
    nics: int
    """NICs on the fabric, which is the number of rails the machine meets."""
    nic_rate_gbps: int | Unknown
    """Of one NIC, in one direction."""
    nics_rate_gbps: int | Unknown
    """What its vendor says of all of them together."""
    host_link: str | Unknown
    """Name of the link between an accelerator and the host."""
    nvlink_nodes: int | Unknown
    """How many nodes can share one NVLink fabric: 1 when it ends at the node."""
    fabric_reduces: bool | Unknown
    """Whether the switches between nodes can add up what passes through them."""
    storage_client_gbs: float | Unknown
    """What one node can read from or write to shared storage at most."""


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
class Release:
    name: str
    suite: str
    base_packages: tuple[str, ...]
    packages: Mapping[str, tuple[str, ...]]
    """By role, in the order of the roles."""
    versions: Mapping[str, Mapping[str, str]]
    """By role: what that role brings, and its version."""
    accounting_roles: tuple[str, ...]
    """Roles that only a cluster with accounting needs."""


Row = TypeVar("Row")


class CatalogError(Exception):
    """The catalog itself is wrong: a mistake of whoever edited it, not of the user."""


@cache
def load(file: str) -> Any:
    """A data file of this package, also when the package is inside a wheel."""
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (either is a safe loader)


def rows(kind: type[Row], data: Any, place: str) -> Mapping[str, Row]:
    """The rows of a table by name, in the order of the file."""
    return MappingProxyType({name: _row(kind, name, facts, f"{place}: {name}") for name, facts in data.items()})


def _row(kind: Any, name: str, facts: Mapping[str, Any], place: str) -> Any:
    hints = typing.get_type_hints(kind)
    fields = [each.name for each in dataclasses.fields(kind) if each.name != "name"]
    if missing := [each for each in fields if each not in facts]:
        raise CatalogError(f"{place}: lacks {', '.join(missing)} (a fact that nobody has looked up is written unknown)")
    if strange := [each for each in facts if each not in fields]:
        raise CatalogError(f"{place}: knows no {', '.join(strange)}")
    return kind(name=name, **{each: _value(hints[each], facts[each], f"{place}: {each}") for each in fields})


def _value(hint: Any, data: Any, place: str) -> Any:
    arguments = typing.get_args(hint)
    if Unknown in arguments and data == UNKNOWN.value:
        return UNKNOWN
    if typing.get_origin(hint) is tuple:
        return tuple(_value(arguments[0], each, place) for each in data)
    if typing.get_origin(hint) is Mapping:
        return MappingProxyType({each: _value(arguments[1], data[each], f"{place}: {each}") for each in data})
    if data not in arguments and type(data) not in (arguments or (hint,)):
        raise CatalogError(f"{place}: {data!r} does not fit")
    return data
