"""What exists: machines, fabrics, releases. Data files and typed lookups, each fact once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from stampworks.catalog.rows import (
    UNKNOWN,
    Accelerator,
    CatalogError,
    Fabric,
    HostLink,
    Machine,
    Release,
    Unknown,
    load,
    rows,
)

__all__ = [
    "UNKNOWN",
    "Accelerator",
    "CatalogError",
    "Fabric",
    "HostLink",
    "Machine",
    "Release",
    "Unknown",
    "accelerators",
    "fabrics",
    "host_links",
    "machine_names",
    "machines",
    "newest_release",
    "releases",
]


@cache
def machines() -> Mapping[str, Machine]:
    table = rows(Machine, load("machines.yaml")["machines"], "machines.yaml")
    for machine in table.values():
        if bool(machine.accelerator) != (machine.accelerators > 0) or machine.accelerator not in {"", *accelerators()}:
            raise CatalogError(f"machines.yaml: {machine.name}: accelerator and accelerators do not fit together")
        if machine.host_link is not UNKNOWN and machine.host_link not in host_links():
            raise CatalogError(f"machines.yaml: {machine.name}: host_link: no link is called {machine.host_link!r}")
    return table


@cache
def machine_names() -> Mapping[str, Machine]:
    """Every name that a machine is known by, its own and the others."""
    table: dict[str, Machine] = {}
    for machine in machines().values():
        for name in (machine.name, *machine.aliases):
            if table.setdefault(name, machine) is not machine:
                raise CatalogError(f"machines.yaml: {machine.name}: another machine is called {name!r}, too")
    return MappingProxyType(table)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    return rows(Accelerator, load("machines.yaml")["accelerators"], "machines.yaml")


@cache
def host_links() -> Mapping[str, HostLink]:
    return rows(HostLink, load("machines.yaml")["host_links"], "machines.yaml")


@cache
def fabrics() -> Mapping[str, Fabric]:
    return rows(Fabric, load("fabrics.yaml"), "fabrics.yaml")


@cache
def releases() -> Mapping[str, Release]:
    return rows(Release, load("releases.yaml"), "releases.yaml")


@cache
def newest_release() -> str:
    """The release that a declaration without one gets. Names are year.month, so that they sort by age."""
    return max(releases(), key=lambda name: tuple(int(part) for part in name.split(".")))
