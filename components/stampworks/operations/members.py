"""Who is in a cluster now, asked of the cloud that it runs on."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.plan import Ending, Refusal, Roster, remedies

_CLOUDS = Path(__file__).resolve().parents[1] / "clouds"


class MembersMissingError(OperationError):
    """Some group did not become complete in time."""


def members(of: str, cluster: str, region: str) -> Roster:
    """The roster as the cloud reports it now; every cloud answers through its module `members`."""
    found = cloud(of).members(cluster, region)
    if not isinstance(found, Roster):
        raise TypeError(f"clouds.{of}.members.members gave {type(found).__name__} where a Roster was due")
    return found


def endings(of: str, cluster: str, region: str) -> tuple[Ending, ...]:
    """When capacity ends that nodes of a cluster are in, as the cloud says it now."""
    return tuple(cloud(of).endings(cluster, region))


def waiting(short: str, refused: Sequence[Refusal]) -> str:
    """Who is missing, and what the cloud says of that."""
    return "; ".join([short, *(each.words for each in refused)])


def too_few(what: str, refused: Sequence[Refusal], else_: str = "") -> MembersMissingError:
    """The same at the end of a wait; `else_` is what to do where the cloud says nothing."""
    return MembersMissingError("\n  ".join([what, *(each.words for each in refused)]), remedies(refused) or else_)


def retag(of: str, cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
    """Has these tags on all machines that run, and those no more."""
    cloud(of).retag(cluster, region, wanted, gone)


def renewal(of: str) -> ModuleType:
    """The cloud's module that knows outdated nodes and makes them anew."""
    cloud(of)
    return importlib.import_module(f"stampworks.clouds.{of}.renewal")


def cloud(name: str) -> ModuleType:
    """The cloud's module that knows who is there."""
    known = [path.parent.name for path in _CLOUDS.glob("*/members.py")]
    if name not in known:
        raise InputError(f"no cloud is called {name!r}", nearest(name, known))
    return importlib.import_module(f"stampworks.clouds.{name}.members")
