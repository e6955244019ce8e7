"""The inventory of the same cluster has the same variables on every cloud, apart from a listed few."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import configuration, planning
from stampworks.catalog.roles import ROLES
from stampworks.clouds.registry import stamped
from stampworks.declaration import load_value
from stampworks.schedulers import slurm

from tests.attached import attached
from tests.conformance.declared import declared
from tests.schedulers.conftest import roster_of

FIELDS: dict[str, Any] = {
    "users": [{"name": "alice", "uid": 2001}],
    "scheduler": {"accounting": True, "login_nodes": 1},
}
REFERENCE = "local"
OF_HARDWARE = tuple(f"{role.name}_" for role in ROLES if role.is_hardware)
OWN = {
    *("validate_software", "validate_kernel"),  # software for real hardware, checked on the nodes
    *("logs_group", "logs_region"),  # the place where the cloud keeps logs of nodes
    "node_scratch",  # disks that a machine has
    "lustre_efa_interfaces",  # NICs that a file system is reached by
}
"""Variables that not every cloud has, beside those of roles for hardware."""
ON_EVERY_CLOUD = {
    *("everyone", "head", "head with accounting", "head with its own database"),
    *("login nodes", "head and login nodes", "workers", "Slurm workers"),
}
"""Nodes (catalog/roles.py) whose roles depend on the declaration alone, and not on hardware, routes and rights."""


def inventory(cloud: str) -> dict[str, Any]:
    plan = planning.plan(load_value(declared(cloud, **FIELDS), "test"))
    roster = roster_of(plan)
    made = configuration.inventory(plan, roster, slurm.files(plan, roster), attached=attached(plan))
    return dict(made["all"])


def same(names: Any) -> set[str]:
    """Return the names that every cloud has to have."""
    return {name for name in names if name not in OWN and not name.startswith(OF_HARDWARE)}


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return inventory(REFERENCE)


@pytest.mark.parametrize("cloud", sorted({*stamped()} - {REFERENCE}))
def test_variables_are_the_same(cloud: str, reference: dict[str, Any]) -> None:
    """Compare variables of all hosts and of each kind of node, with values of the same form."""
    made = inventory(cloud)
    assert same(made["vars"]) == same(reference["vars"])
    for name in same(made["vars"]):
        assert type(made["vars"][name]) is type(reference["vars"][name]), name
    for group in ("head", "gpu", "login"):
        of_group = [
            next(each for each in found["hosts"].values() if each["node_group"] == group) for found in (made, reference)
        ]
        assert same(of_group[0]) == same(of_group[1]), group
        assert [*of_group[0]["node_machine"]] == [*of_group[1]["node_machine"]]


@pytest.mark.parametrize("cloud", sorted({*stamped()} - {REFERENCE}))
def test_roles_are_the_same(cloud: str, reference: dict[str, Any]) -> None:
    """Roles of the controller, workers and login nodes are on the same nodes."""
    roles = {role.name for role in ROLES if role.members in ON_EVERY_CLOUD}
    own, other = (
        {name: sorted(group["hosts"]) for name, group in made["children"].items() if name in roles}
        for made in (inventory(cloud), reference)
    )
    assert own == other
    assert set(own) >= {"slurm_controller", "slurm_accounting", "slurm_worker", "slurm_login"}
