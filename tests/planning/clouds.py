"""Short helpers for declarations and plans of clouds."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning import Facts, Finding
from stampworks.planning.clouds import CLOUDS

from tests.planning.places import REGIONS

MACHINES = [machine for machine in catalog.machines().values() if machine.accelerators]

LUSTRE = {"name": "scratch", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "capacity": 9600, "mount": "/fsx"}


def count(machine: catalog.Machine) -> int:
    """Return the largest count that can be declared: 16 for joined nodes, or if the joining is unknown."""
    joined = machine.nvlink_nodes if isinstance(machine.nvlink_nodes, int) else 1
    return 16 if machine.nics != 0 or joined >= 16 else joined


def declared(machine: catalog.Machine, **fields: Any) -> dict[str, Any]:
    region = {"region": REGIONS[machine.cloud]} if CLOUDS[machine.cloud].regions else {}
    pools = [{"name": "gpu", "machine": machine.name, "count": count(machine)}]
    return {"version": 1, "name": "test", "cloud": machine.cloud, "pools": pools, **region, **fields}


def planned(data: dict[str, Any]) -> Plan:
    return planning.plan(load_value(data, "test"))


def on_aws(*pools: dict[str, Any], **fields: Any) -> Plan:
    return planned({"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools, **fields})


def gpu(**fields: Any) -> dict[str, Any]:
    return {"name": "gpu", "machine": "p5", "count": 16, "zone": "us-east-1a", **fields}


def found(plan: Plan, rule: str, facts: Facts | None = None) -> list[Finding]:
    return [finding for finding in planning.rules(plan, facts) if finding.id == rule]


def refusal(**fields: Any) -> str:
    with pytest.raises(DeclarationError) as error:
        on_aws(fields.pop("pool", gpu()), **fields)
    return str(error.value)
