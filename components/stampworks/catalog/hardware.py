"""Machines and their parts: one data file for each cloud, read when one of its machines is requested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Literal, get_args

from stampworks.catalog.rows import (
    UNKNOWN,
    Accelerator,
    CatalogError,
    HostLink,
    Machine,
    Nic,
    Unknown,
    load,
    rows,
    text,
)

Cloud = Literal[
    "local",
    "aws",
    "azure",
    "google",
    "oracle",
    "coreweave",
    "nebius",
    "lambda",
    "crusoe",
    "together",
    "runpod",
    "vast",
    "prime-intellect",
    "hyperbolic",
    "sf-compute",
    "hosts",
]
"""Providers of machines; machines/<cloud>.yaml has their rows. `hosts` are in the user's own racks."""
CLOUDS: tuple[Cloud, ...] = get_args(Cloud)
MACHINES_EXIST: frozenset[str] = frozenset({"hosts"})
"""Clouds whose machines exist before a cluster, which is stamped on those that its declaration lists."""
SIMULATED: Cloud = "local"
"""The cloud of simulated machines, which tests of others use, too."""
PARTS = "machines/parts.yaml"
_NAME = re.compile(r"^([^\s#][^:]*):", re.MULTILINE)
_ALIKE = 0.7
"""Minimum similarity of two names to suggest one for the other."""
_COMPARED_MAX = 60
"""Number of compared characters of a long name, because comparison is slow."""


class Machines(Mapping[str, Machine]):
    """Machines by name. A lookup parses the file of one cloud, which takes most of its time."""

    def __getitem__(self, name: str) -> Machine:
        for cloud in CLOUDS:
            if name in names(cloud):
                return machines_of(cloud)[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:  # Mapping's own method would read the row, and parse its file
        return any(name in names(cloud) for cloud in CLOUDS)

    def __iter__(self) -> Iterator[str]:
        for cloud in CLOUDS:
            yield from names(cloud)

    def __len__(self) -> int:
        return sum(len(names(cloud)) for cloud in CLOUDS)


@cache
def machines() -> Mapping[str, Machine]:
    """Return all machines, in the order of CLOUDS and of their files."""
    return Machines()


@cache
def names(cloud: str) -> tuple[str, ...]:
    """Return the names of a cloud's machines without parsing YAML: they are at the beginning of lines."""
    return tuple(_NAME.findall(text(_file(cloud))))


@cache
def machines_of(cloud: str) -> Mapping[str, Machine]:
    """Return a cloud's machines by name. Raise CatalogError for a part that parts.yaml does not have."""
    table = rows(Machine, load(_file(cloud)), _file(cloud), cloud=cloud)
    for machine in table.values():
        for fact, name, known in (
            ("accelerator", machine.accelerator, ("", *accelerators())),
            ("host_link", machine.host_link, (UNKNOWN, *host_links())),
            ("nic", machine.nic, ("", UNKNOWN, *nics())),
        ):
            if name not in known:
                raise CatalogError(f"{_file(cloud)}: {machine.name}: {fact}: {PARTS} has no {name!r}")
        for fact, part, count in (
            ("accelerators", machine.accelerator, machine.accelerators),
            ("nics", machine.nic, machine.nics),
        ):
            if _exists(part) != _exists(count):
                raise CatalogError(f"{_file(cloud)}: {machine.name}: {fact}: {count} does not fit '{part}'")
    return table


def _exists(fact: str | int | Unknown) -> bool | Unknown:
    return fact if isinstance(fact, Unknown) else bool(fact)


@cache
def machine_names() -> Mapping[str, Machine]:
    """Return machines by name and alias."""
    table: dict[str, Machine] = {}
    for machine in machines().values():
        for name in (machine.name, *machine.aliases):
            if table.setdefault(name, machine) is not machine:
                raise CatalogError(f"{_file(machine.cloud)}: {machine.name}: another machine is called {name!r}, too")
    return MappingProxyType(table)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Return the rows of accelerators in parts.yaml, by name."""
    return rows(Accelerator, load(PARTS)["accelerators"], f"{PARTS}: accelerators")


@cache
def host_links() -> Mapping[str, HostLink]:
    """Return the rows of links between an accelerator and its host, by name."""
    return rows(HostLink, load(PARTS)["host_links"], f"{PARTS}: host_links")


@cache
def nics() -> Mapping[str, Nic]:
    """Return the rows of NICs in parts.yaml, by name."""
    return rows(Nic, load(PARTS)["nics"], f"{PARTS}: nics")


def nic_of(machine: Machine) -> Nic | None:
    """Return the kind of a machine's fabric NICs; None when it has none, or when they are unknown."""
    return None if isinstance(machine.nic, Unknown) else nics().get(machine.nic)


def known_nics(machine: Machine) -> int:
    """Return the number of NICs for which rails can be planned; 0 when unknown."""
    return 0 if isinstance(machine.nics, Unknown) else machine.nics


def protocol_of(machine: Machine) -> str:
    """Return the protocol of a machine's NICs; empty when it has none, or when they are unknown."""
    nic = nic_of(machine)
    return "simulated" if machine.simulated else nic.protocol if nic else ""


def _file(cloud: str) -> str:
    return f"machines/{cloud}.yaml"


@dataclass(frozen=True)
class Suggestions:
    """Suggestions for a name that no machine has."""

    near: Machine | None
    """The machine with the most similar name."""
    accelerator: str
    """Accelerator in the requested name, or that of the nearest machine; empty if there is none."""
    having_it: tuple[Machine, ...]
    """Machines with that accelerator: all of the requested cloud, then one of each other cloud."""


def suggestions(name: str, cloud: str = "") -> Suggestions:
    """Suggest machines for an unknown name. Case, dots and kinds of dashes are ignored."""
    named = machine_names().get(name)
    near = _nearest(name, cloud)
    accelerator = named.accelerator if named else _accelerator_in(name)
    if not near and not named and not accelerator:
        near = _nearest(name)
    accelerator = accelerator or (near.accelerator if near else "")
    if not accelerator:
        return Suggestions(near, "", ())
    here = [row for row in machines().values() if row.cloud == cloud and row.accelerator == accelerator]
    elsewhere = [row for row in with_accelerator(accelerator) if row.cloud != cloud]
    return Suggestions(near, accelerator, (*here, *elsewhere))


def _nearest(name: str, cloud: str = "") -> Machine | None:
    """Return the nearest machine. A name with a family, like g5.xlarge, matches only similar families."""
    named = {each: row for each, row in machine_names().items() if cloud in ("", row.cloud)}
    family, dot, _ = name[:_COMPARED_MAX].lower().partition(".")
    if dot:
        families = {each.lower().partition(".")[0] for each in named}
        alike = {*get_close_matches(family, families, n=len(families) + 1, cutoff=_ALIKE)}
        named = {each: row for each, row in named.items() if each.lower().partition(".")[0] in alike}
    spelled = {_plain(each): row for each, row in named.items()}
    found = get_close_matches(_plain(name[:_COMPARED_MAX]), spelled, n=1, cutoff=_ALIKE)
    return spelled[found[0]] if found else None


def with_accelerator(accelerator: str) -> Iterator[Machine]:
    """Yield the first machine of each cloud with this accelerator, except simulated ones."""
    clouds: set[str] = set()
    for machine in machines().values():
        if machine.accelerator == accelerator and not machine.simulated and machine.cloud not in clouds:
            clouds.add(machine.cloud)
            yield machine


def _accelerator_in(name: str) -> str:
    """Return the longest name of an accelerator that is part of another name: gb200 and not b200."""
    found = [each for each in accelerators() if _plain(each) in _plain(name)]
    return max(found, key=len, default="")


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
