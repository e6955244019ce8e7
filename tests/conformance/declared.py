"""The same cluster on every cloud, by the names that only the cloud's own catalog has."""

from __future__ import annotations

from typing import Any

from stampworks.planning.clouds import CLOUDS

from tests.planning.places import REGIONS
from tests.portable import machine


def declared(cloud: str, **fields: Any) -> dict[str, Any]:
    """Return a declaration of two nodes of 8 H100."""
    region = {"region": REGIONS[cloud]} if CLOUDS[cloud].regions else {}
    pools = [{"name": "gpu", "machine": machine(cloud).name, "count": 2}]
    return {"version": 1, "name": "test", "cloud": cloud, "pools": pools, **region, **fields}
