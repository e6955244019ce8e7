"""Ranges of addresses: of a cluster, and of the internet that may reach it."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from typing import Annotated

from stampworks.declaration.forms import TextForm, wrong
from stampworks.declaration.wording import shown

CIDR_PATTERN = r"^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+/[0-9]+$"
PRIVATE_RANGES = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
NOWHERE_RANGES = (
    *PRIVATE_RANGES,
    *map(ipaddress.IPv4Network, ("0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")),
)
"""Ranges that no host on the internet has: private, shared, local and reserved (RFC 6890)."""
PREFIX_MAX = 28
WORLD_PREFIX_MAX = 7
"""Smallest prefix length: the largest range ever assigned is a /8, and a larger one would include everybody."""


def cidr(value: str) -> str:
    """Refuse all but a private IPv4 range that is written by its first address and has room for a cluster."""
    network = _network(value, "write it like 10.77.0.0/16")
    if not any(network.subnet_of(private) for private in PRIVATE_RANGES):
        ranges = ", ".join(map(str, PRIVATE_RANGES))
        raise wrong(f"{shown(value)} is not a private range", f"take a part of one of {ranges}")
    if network.prefixlen > PREFIX_MAX:
        raise wrong(
            f"{shown(value)} has only {network.num_addresses} addresses",
            f"the smallest range a cluster can have is a /{PREFIX_MAX}; a usual one is a /16",
        )
    return _from_its_first(value, network)


def public_cidr(value: str) -> str:
    """Refuse all but an assigned public IPv4 range, written by its first address."""
    network = _network(value, "write it like 203.0.113.0/24, or 203.0.113.7/32 for one address")
    if network.prefixlen <= WORLD_PREFIX_MAX:
        hint = "name the ranges of your office, VPN or runners, like 203.0.113.0/24"
        raise wrong(f"{shown(value)} admits the whole internet", hint)
    if any(network.overlaps(nowhere) for nowhere in NOWHERE_RANGES):
        hint = "write the public address that these machines use; machines in the cluster's network need no entry"
        raise wrong(f"{shown(value)} holds addresses that are not public", hint)
    return _from_its_first(value, network)


def _network(value: str, hint: str) -> ipaddress.IPv4Network:
    with contextlib.suppress(ValueError):
        if re.fullmatch(CIDR_PATTERN, value):
            return ipaddress.IPv4Network(value, strict=False)
    raise wrong(f"{shown(value)} is not an IPv4 address range", hint)


def _from_its_first(value: str, network: ipaddress.IPv4Network) -> str:
    if value != str(network):
        raise wrong(f"{shown(value)} is an address inside a range", f"write the range as {network}")
    return value


Cidr = Annotated[str, TextForm(cidr, CIDR_PATTERN)]
PublicCidr = Annotated[str, TextForm(public_cidr, CIDR_PATTERN)]
