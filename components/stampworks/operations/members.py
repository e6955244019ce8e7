"""Who is in a cluster now, asked of the cloud that it runs on."""

from __future__ import annotations

import importlib
from pathlib import Path

from stampworks.operations.errors import InputError, nearest
from stampworks.plan import Roster

_CLOUDS = Path(__file__).resolve().parents[1] / "clouds"


def members(cloud: str, cluster: str) -> Roster:
    """The roster as the cloud reports it now; every cloud answers through its module `members`."""
    known = [path.parent.name for path in _CLOUDS.glob("*/members.py")]
    if cloud not in known:
        raise InputError(f"no cloud is called {cloud!r}", nearest(cloud, known))
    found = importlib.import_module(f"stampworks.clouds.{cloud}.members").members(cluster)
    if not isinstance(found, Roster):
        raise TypeError(f"clouds.{cloud}.members.members gave {type(found).__name__} where a Roster was due")
    return found
