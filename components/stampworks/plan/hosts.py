"""Machines that exist and answer ssh."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostRail:
    """A port of a host on the fabric."""

    interface: str
    address: str
    """Empty for a port without an address."""


@dataclass(frozen=True)
class Host:
    """A machine that may be a node of a group."""

    address: str
    """Name or address at which ssh reaches it."""
    port: int
    inside: str
    """Address at which the other hosts reach it."""
    host_key: str
    machine_id: str
    """The id that its operating system gave itself, by which the same machine with another address is recognized."""
    group: str
    rack: str
    """Empty when unknown."""
    rails: tuple[HostRail, ...]

    @property
    def id(self) -> str:
        """Return the name of the host for people, unique in its cluster."""
        return self.address if self.port == 22 else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class JumpHost:
    """A machine through which ssh reaches the hosts."""

    address: str
    port: int
    user: str
    host_key: str


@dataclass(frozen=True)
class Hosts:
    """The machines of a cluster that exist already, and the way to them."""

    provider: str
    """Empty for machines of the user's own."""
    user: str
    """The user of the hosts for ssh: root, or one with sudo."""
    identity_file: str
    """Path of the private key on the machine that runs `up`; empty for the keys that ssh finds."""
    via: JumpHost | None
    machines: tuple[Host, ...]
    """All machines, in the order in which they get names; what exceeds a group's count is its reserve."""

    def of_group(self, group: str) -> tuple[Host, ...]:
        """Return the machines that may be nodes of a group."""
        return tuple(each for each in self.machines if each.group == group)
