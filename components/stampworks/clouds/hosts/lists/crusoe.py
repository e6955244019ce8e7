"""Crusoe's list of machines, as `crusoe compute vms list -f json` prints it: an array of VMs with their interfaces.

The form is that of the `jq` filters in Crusoe's published solutions (read 2026-11-29). Host keys are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

RUNNING = "STATE_RUNNING"


def machines(data: list[Any]) -> list[dict[str, str]]:
    """Return the VMs that run. Raise ValueError for one without an address."""
    return [dict(_machine(vm)) for vm in data if not isinstance(vm, Mapping) or vm.get("state", RUNNING) == RUNNING]


def _machine(vm: Any) -> Iterator[tuple[str, str]]:
    name = vm.get("name") if isinstance(vm, Mapping) else None
    try:
        addresses = vm["network_interfaces"][0]["ips"][0]
        public, private = (_address(addresses.get(kind)) for kind in ("public_ipv4", "private_ipv4"))
    except (AttributeError, IndexError, KeyError, TypeError):
        public = private = ""
    if not private:
        raise ValueError(f"VM {name!r} has no network_interfaces[0].ips[0].private_ipv4.address")
    yield "address", public or private
    yield "inside", private


def _address(data: Any) -> str:
    address = data.get("address") if isinstance(data, Mapping) else None
    return address if isinstance(address, str) else ""
