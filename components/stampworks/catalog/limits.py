"""The names of an account's limits, by the resources that count against them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from stampworks.catalog.rows import load, rows

_FILE = "limits.yaml"


@dataclass(frozen=True)
class MachineLimit:
    """A limit on running machines of some families, spot and other purchases apart."""

    name: str
    spot: bool
    families: tuple[str, ...]
    source: str
    read: str


@dataclass(frozen=True)
class NetworkLimit:
    """A limit on one kind of network resource."""

    name: str
    counts: Literal["networks", "gateways", "addresses", "interfaces", "placement_groups"]
    fixed: int
    """The value for every account; 0 when each account has its own, which the cloud reports."""
    source: str
    read: str


@dataclass(frozen=True)
class StorageLimit:
    """A limit on the capacity of some kinds of file systems."""

    name: str
    kinds: tuple[str, ...]
    source: str
    read: str


def machine_limit(cloud: str, instance_type: str, spot: bool) -> str:
    """Return the limit that a machine type counts against; empty when unknown."""
    family = instance_type.partition(".")[0]
    letters = re.match("[a-z]*", family)
    named = {family, letters[0] if letters else ""}
    return next((one.name for one in _machines(cloud).values() if one.spot is spot and named & {*one.families}), "")


def storage_limit(cloud: str, kind: str) -> str:
    """Return the name of the limit that a kind of file system counts against; empty if none is known."""
    return next((one.name for one in _storage(cloud).values() if kind in one.kinds), "")


@cache
def network_limits(cloud: str) -> Mapping[str, NetworkLimit]:
    """Return a cloud's limits on network resources, by name."""
    return rows(NetworkLimit, _table(cloud, "network"), f"{_FILE}: {cloud}: network")


@cache
def _machines(cloud: str) -> Mapping[str, MachineLimit]:
    return rows(MachineLimit, _table(cloud, "machines"), f"{_FILE}: {cloud}: machines")


@cache
def _storage(cloud: str) -> Mapping[str, StorageLimit]:
    return rows(StorageLimit, _table(cloud, "storage"), f"{_FILE}: {cloud}: storage")


def _table(cloud: str, kind: str) -> object:
    return load(_FILE).get(cloud, {}).get(kind, {})
