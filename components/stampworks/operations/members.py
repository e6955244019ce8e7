"""Who is in a cluster now, asked of the cloud that it runs on."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from stampworks.operations.errors import InputError, nearest
from stampworks.plan import Roster

_CLOUDS = Path(__file__).resolve().parents[1] / "clouds"


def members(cloud: str, cluster: str) -> Roster:
    """The roster as the cloud reports it now; every cloud answers through its module `members`."""
    found = _cloud(cloud).members(cluster)
    if not isinstance(found, Roster):
        raise TypeError(f"clouds.{cloud}.members.members gave {type(found).__name__} where a Roster was due")
    return found


def patience_s(cloud: str) -> float:
    """How long members that are missing may still come by themselves."""
    return float(_cloud(cloud).PATIENCE_S)


def renewal(cloud: str) -> ModuleType:
    """The cloud's module that knows outdated nodes and makes them anew."""
    _cloud(cloud)
    return importlib.import_module(f"stampworks.clouds.{cloud}.renewal")


def _cloud(name: str) -> ModuleType:
    known = [path.parent.name for path in _CLOUDS.glob("*/members.py")]
    if name not in known:
        raise InputError(f"no cloud is called {name!r}", nearest(name, known))
    return importlib.import_module(f"stampworks.clouds.{name}.members")
