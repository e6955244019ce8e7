"""The current members of a cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Member:
    """A member of the cluster, as its cloud reports it."""

    name: str
    group: str
    instance: str
    """Instance id; changes when the node is replaced or restarted."""
    address: str
    rail_addresses: tuple[str, ...]
    host_key: str
    """The node's public ssh host key, as reported by its cloud and not by the node."""
    target: str = ""
    """The host name for ssh or for the roster's proxy; empty when ssh connects to the address."""
    places: tuple[str, ...] | None = None
    """Domains of the cloud's network that contain the node, outermost first; None when unknown."""


@dataclass(frozen=True)
class Ending:
    """The end of reserved capacity, and with it of the nodes of a group."""

    group: str
    reservation: str
    """The cloud's name for the capacity."""
    at: str
    """Formatted like 2026-12-01T11:30Z; empty when unknown."""
    why: str
    """Why the time is unknown."""


@dataclass(frozen=True)
class Refusal:
    """The latest failed attempt of a cloud to start a machine of a group."""

    group: str
    at: str
    """Formatted like 2026-12-01T11:30Z; empty when unknown."""
    why: str
    """The cloud's message, shortened to one line, or the reason why there is none."""
    lasting: bool
    """Whether the cause remains until a person removes it, so that waiting does not help."""
    hint: str
    """The action that removes the cause."""

    @property
    def words(self) -> str:
        """The refusal in a line, for messages."""
        return f"{self.group}{f', tried at {self.at}' if self.at else ''}: {self.why}"


def remedies(refused: Iterable[Refusal]) -> str:
    """Return the hints of these refusals, each hint once; empty when there are none."""
    return "; ".join(dict.fromkeys(each.hint for each in refused if each.hint))


ENDS_SOON_DAYS: Final = 2
"""The shortest capacity blocks last one or two days. Capacity that ends within this time needs a successor now."""


def generation(instances: Mapping[str, str]) -> str:
    """Return an id that changes when any of these nodes is replaced or restarted."""
    return hashlib.sha256(json.dumps(instances, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Roster:
    """The current members of a cluster, and how to reach them."""

    cluster: str
    cloud: str
    reach: tuple[str, ...]
    """Command prefix that runs another command in the members' network; empty if that is this machine's."""
    user: str
    """The login user."""
    identity_file: str
    """The path of the private key to log in with, never the key itself."""
    members: tuple[Member, ...]
    region: str = ""
    """Empty when the cloud has no regions, or when listing members does not need the region."""
    proxy: tuple[str, ...] = ()
    """Command that ssh uses as its proxy, with %h for a member's target; empty when ssh connects directly."""

    def host(self, member: Member) -> str:
        """Return the host name or address that ssh connects to."""
        return member.target or member.address

    @property
    def is_administered(self) -> bool:
        """Whether the login user is the cluster's administrator; otherwise it is a user with rights of her own."""
        return self.user == "root"
