"""Who is in the cluster now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Member:
    """One node that is in the cluster now, as its cloud reports it."""

    name: str
    group: str
    instance: str
    """Changes when the node is another one, or the same one started anew."""
    address: str
    rail_addresses: tuple[str, ...]
    host_key: str
    """The node's public ssh host key, known from its cloud and not from asking the node."""
    target: str = ""
    """What the roster's proxy calls it; empty where ssh connects to its address."""
    places: tuple[str, ...] | None = None
    """The domains of the cloud's own network that it is in, the outermost first; None where nobody says."""


@dataclass(frozen=True)
class Ending:
    """That nodes of a group go with the capacity that they are in."""

    group: str
    reservation: str
    """What the cloud calls that capacity."""
    at: str
    """As 2026-12-01T11:30Z; empty where nobody can say."""
    why: str
    """Why nobody can."""


@dataclass(frozen=True)
class Refusal:
    """That a cloud has not started a machine of a group when it last tried to."""

    group: str
    at: str
    """As 2026-12-01T11:30Z; empty where nobody can say."""
    why: str
    """In the cloud's own words, shortened to a line, or why nobody can say it."""
    lasting: bool
    """Whether waiting does not change it."""
    hint: str
    """What does."""

    @property
    def words(self) -> str:
        return f"{self.group}{f', tried at {self.at}' if self.at else ''}: {self.why}"


def remedies(refused: Iterable[Refusal]) -> str:
    """What to do about them, each once; empty where nobody says."""
    return "; ".join(dict.fromkeys(each.hint for each in refused if each.hint))


ENDS_SOON_DAYS: Final = 2
"""The shortest blocks are sold for a day or two: what ends so soon is to be followed by another one now."""


def generation(instances: Mapping[str, str]) -> str:
    """Another one when any of these nodes is another one, or was started anew."""
    return hashlib.sha256(json.dumps(instances, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Roster:
    """Who is in the cluster now, and how to get there."""

    cluster: str
    cloud: str
    reach: tuple[str, ...]
    """Command that runs another one where the members' addresses can be reached; empty when that is here."""
    user: str
    """Whom to log in as."""
    identity_file: str
    """The private key to log in with; a path, never the key."""
    members: tuple[Member, ...]
    region: str = ""
    """Empty where the cloud has none, or nobody has to know it to ask who is there."""
    proxy: tuple[str, ...] = ()
    """Command that ssh talks through, with %h for a member's target; empty where ssh connects by itself."""

    def host(self, member: Member) -> str:
        """What ssh is told to connect to."""
        return member.target if self.proxy else member.address
