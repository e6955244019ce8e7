"""Registry of the clouds that have components. It imports no SDK: a part is imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from stampworks.clouds import aws, hosts, local
from stampworks.clouds.contract import Cloud

T = TypeVar("T")

CLOUDS: Mapping[str, Cloud] = MappingProxyType({"aws": aws.CLOUD, "hosts": hosts.CLOUD, "local": local.CLOUD})


def rehearsed() -> tuple[str, ...]:
    """Return the clouds whose clusters can be rehearsed."""
    return tuple(CLOUDS)


def stamped() -> tuple[str, ...]:
    """Return the clouds whose clusters can be stamped: their nodes can be listed and renewed."""
    return tuple(name for name, cloud in CLOUDS.items() if cloud.members and cloud.renewal)


def with_kubernetes() -> tuple[str, ...]:
    """Return the clouds whose Kubernetes can be stamped."""
    return tuple(name for name in stamped() if CLOUDS[name].kubernetes)


def needed(part: T | None, what: str, cloud: str) -> T:
    """Return a part that a plan needs. Planning offers only parts that the cloud has."""
    if part is None:
        raise LookupError(f"clouds.{cloud} has no {what}: its __init__.py has to name it")
    return part
