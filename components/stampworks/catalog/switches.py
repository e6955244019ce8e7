"""Switches of the fabrics between nodes, and the switch with which each generation of NICs is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stampworks.catalog.rows import CatalogError, load, rows


@dataclass(frozen=True)
class Switch:
    """A switch of InfiniBand or Ethernet, with its ports by rate."""

    name: str
    aliases: tuple[str, ...]
    kind: str
    """infiniband or ethernet."""
    generation: str
    ports: Mapping[int, int]
    """Number of ports by their rate in Gb/s."""
    planes: Mapping[int, int]
    """Number of fabrics over which NICs of a rate are split, if more than one."""
    source: str
    read: str

    @property
    def rate_gbps(self) -> int:
        """Return the rate of a port that is not split."""
        return max(self.ports)


@cache
def switches() -> Mapping[str, Switch]:
    """Return the switches by name. Raise CatalogError for a kind or split that no switch has."""
    table = rows(Switch, load("switches.yaml")["switches"], "switches.yaml")
    for switch in table.values():
        if switch.kind not in PROTOCOLS.values():
            raise CatalogError(f"switches.yaml: {switch.name}: kind is one of {', '.join(sorted(PROTOCOLS.values()))}")
        if any(ports % switch.ports[switch.rate_gbps] for ports in switch.ports.values()):
            raise CatalogError(f"switches.yaml: {switch.name}: a split port gives a whole number of ports")
    return table


PROTOCOLS: Mapping[str, str] = MappingProxyType({"infiniband": "infiniband", "roce": "ethernet"})
"""The kind of switch that carries each NIC protocol; other protocols belong to clouds that sell no switches."""


@cache
def switch_names() -> Mapping[str, Switch]:
    """Return the switches by name and alias, in lower case."""
    table: dict[str, Switch] = {}
    for switch in switches().values():
        for name in {switch.name, *switch.aliases}:
            if table.setdefault(name.lower(), switch) is not switch:
                raise CatalogError(f"switches.yaml: {switch.name}: another switch is called {name!r}, too")
    return MappingProxyType(table)


def built_with(protocol: str, rate_gbps: int) -> Switch | None:
    """Return the switch of the published designs with such NICs; None when there is none."""
    name = load("switches.yaml")["built_with"].get(protocol, {}).get(rate_gbps)
    if name is not None and name not in switches():
        raise CatalogError(f"switches.yaml: built_with: {protocol}: {rate_gbps}: no switch is called {name!r}")
    return switches()[name] if name else None
