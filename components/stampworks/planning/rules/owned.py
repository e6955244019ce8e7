"""Facts about parts of an account that a cluster uses and that belong to the account's owners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnedNetwork:
    """An existing network that the declaration names."""

    id: str
    ranges: tuple[str, ...]
    names: bool
    """Whether private names of endpoints and file systems resolve in it."""


@dataclass(frozen=True)
class OwnedSubnet:
    """An existing subnet that the declaration names."""

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
    """A rule of a security group that allows all traffic."""

    inward: bool
    peer: str
    """A group, or a range."""


@dataclass(frozen=True)
class OwnedGroup:
    """A security group."""

    id: str
    network: str
    openings: tuple[Opening, ...]


@dataclass(frozen=True)
class OwnedStorage:
    """A file system or bucket."""

    id: str
    kind: str
    networks: tuple[str, ...]
    """Networks that it can be mounted in; empty for a bucket."""
    zones: tuple[str, ...]
    """Zones in which it has an address."""
    tier: str
    """The tier as declared; empty for none."""
    capacity: int
    efa: bool
    region: str


@dataclass(frozen=True)
class OwnedKey:
    """An existing encryption key that the declaration names."""

    id: str
    state: str
    """Enabled, or why it encrypts nothing now."""
    encrypts: bool
    """Whether it is a key for encrypting data, and not for signatures."""


@dataclass(frozen=True)
class Boundary:
    """The policy that limits roles: patterns of actions, as s3:Get*."""

    id: str
    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    depends: tuple[str, ...]
    """Actions that are allowed or denied under conditions, for some resources, or by their absence in a list."""


@dataclass(frozen=True)
class TagRule:
    """Policy of the organisation for one tag."""

    name: str
    """The name with its only right spelling."""
    values: tuple[str, ...]
    """Allowed values, with * for any end; empty for all."""
    enforced: bool
    """Whether the cloud refuses to create resources that violate it."""
