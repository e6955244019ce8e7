"""Facts about parts of an account that a cluster uses and that belong to the account's owners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnedNetwork:
    id: str
    ranges: tuple[str, ...]
    names: bool
    """Whether private names of endpoints and file systems resolve in it."""


@dataclass(frozen=True)
class OwnedSubnet:
    id: str
    network: str
    zone: str
    cidr: str
    free: int
    public: bool
    """Whether it gives public addresses to the machines that start in it."""
    ways_out: tuple[str, ...]
    """Kinds of its default routes: nat, gateway (for public addresses only), other."""
    routed: tuple[str, ...]
    """Services that its routes lead to."""


@dataclass(frozen=True)
class Opening:
    """A rule of a group that lets all traffic through."""

    inward: bool
    peer: str
    """A group, or a range."""


@dataclass(frozen=True)
class OwnedGroup:
    """A security group."""

    id: str
    network: str
    openings: tuple[Opening, ...]
