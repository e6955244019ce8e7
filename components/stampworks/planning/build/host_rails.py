"""Ports of a machine that exists, which become its rails."""

from __future__ import annotations

import re

from stampworks import catalog
from stampworks.declaration import LockedRail
from stampworks.plan.host_facts import HostSurvey, RdmaPort

ACTIVE = "ACTIVE"
RDMA = ("infiniband", "roce")
_SIMULATED = re.compile(r"rail(0|[1-9][0-9]{0,2})")
_IPV4 = re.compile(r"[0-9.]+/[0-9]+")


def rails_of(row: catalog.Machine, survey: HostSurvey) -> tuple[LockedRail, ...]:
    """Return the ports of the fabric, in the order of the PCI bus; none where the catalog does not know how many."""
    count = catalog.known_nics(row)
    if row.simulated:
        numbers = {int(name[1]): each for each in survey.interfaces if (name := _SIMULATED.fullmatch(each.name))}
        names = [numbers[number].name for number in sorted(numbers)]
    elif catalog.protocol_of(row) in RDMA:
        names = [port.interface or port.device for port in _best(fabric_ports(row, survey), count)]
    else:
        names = []
    return tuple(LockedRail(name, _address(survey, name)) for name in names[:count])


def fabric_ports(row: catalog.Machine, survey: HostSurvey) -> list[RdmaPort]:
    """Return the ports that can be the fabric's, by PCI address. A port that is not active does not show its rate."""
    rate = row.nic_rate_gbps if isinstance(row.nic_rate_gbps, (int, float)) else None
    ports = [each for each in survey.ports if rate is None or each.state != ACTIVE or each.rate_gbps == rate]
    return sorted(ports, key=_on_the_bus)


def _best(ports: list[RdmaPort], count: int) -> list[RdmaPort]:
    """Return as many ports as the machine has; active ones first, because others may belong to no fabric."""
    return sorted(sorted(ports, key=lambda each: each.state != ACTIVE)[:count], key=_on_the_bus)


def _on_the_bus(port: RdmaPort) -> tuple[str, str, int]:
    return port.pci, port.device, port.number


def _address(survey: HostSurvey, interface: str) -> str:
    addresses = [each for one in survey.interfaces if one.name == interface for each in one.addresses]
    return next((each for each in addresses if _IPV4.fullmatch(each)), "")
