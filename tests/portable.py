"""One declaration for every cloud of the catalog: 16 nodes of 8 H100 with the cloud's best fabric, and a shared
parallel file system. Only the words differ that each cloud has for its own parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning.clouds import CLOUDS

from tests.planning.places import REGIONS

NODES, ACCELERATORS = 16, 8
MOUNT = "/data"
PARALLEL: Mapping[str, Mapping[str, Any]] = {
    "aws": {"kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "mbps_per_tib": 500, "capacity": 48_000},
    "azure": {"kind": "azure-managed-lustre", "mbps_per_tib": 500, "capacity": 48 * 1024},
    "google": {"kind": "google-managed-lustre", "tier": "set performance", "mbps_per_tib": 500, "capacity": 54_000},
    "oracle": {"kind": "oracle-managed-lustre", "mbps_per_tib": 500, "capacity": 52_000},
}
"""Managed parallel file systems of about 50 TB. On other clouds the first one is asked for, and refused."""


def machine(cloud: str) -> catalog.Machine:
    """Return the cloud's machine of 8 H100 with the fastest NICs."""
    own = [row for row in catalog.machines().values() if row.cloud == cloud]
    fitting = [row for row in own if (row.accelerator, row.accelerators) == ("h100", ACCELERATORS)]
    assert fitting, f"the catalog has no machine of {ACCELERATORS} H100 on {cloud}: say here which one takes its place"
    return max(fitting, key=_nics)


def _nics(row: catalog.Machine) -> int:
    known = isinstance(row.nics, int) and isinstance(row.nic_rate_gbps, int)
    return int(str(row.nics)) * int(str(row.nic_rate_gbps)) if known else 0


def declared(cloud: str, scheduler: str, storage: bool = True) -> dict[str, Any]:
    """Return the declaration of this cluster on a cloud, with a scheduler."""
    kind = PARALLEL.get(cloud, PARALLEL["aws"])
    return {
        "version": 1,
        "name": "one",
        "cloud": cloud,
        **({"region": REGIONS[cloud]} if CLOUDS[cloud].regions else {}),
        "pools": [{"name": "gpu", "machine": machine(cloud).name, "count": NODES}],
        **({"storage": [{"name": "data", "mount": MOUNT, **kind}]} if storage else {}),
        "scheduler": {"kind": scheduler},
    }


def planned(cloud: str, scheduler: str) -> tuple[Plan, str]:
    """Return the plan of this cluster. Where the cloud lacks the file system, return the sentence that refuses it, and
    the plan without it."""
    try:
        return _plan(declared(cloud, scheduler)), ""
    except DeclarationError as error:
        [problem] = error.problems
        assert problem.path == "storage[0].kind", problem
        return _plan(declared(cloud, scheduler, storage=False)), f"{problem.message}: {problem.hint}"


def _plan(data: dict[str, Any]) -> Plan:
    return planning.plan(load_value(data, "one declaration"))
