"""The inventory as a function of plan, roster and scheduler files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from stampworks import configuration
from stampworks.plan import Plan, Roster
from stampworks.schedulers import slurm

Case = tuple[Plan, Roster]
GOLDEN = Path(__file__).parent / "golden"
ROLES = configuration.playbooks_dir() / "roles"


def inventory_of(case: Case) -> dict[str, Any]:
    return configuration.inventory(*case, slurm.files(*case))


def groups(inventory: dict[str, Any]) -> dict[str, list[str]]:
    return {name: list(group["hosts"]) for name, group in inventory["all"]["children"].items()}


def test_golden_inventory_of_every_stack(stack: Case, golden: Callable[[Path, str], None]) -> None:
    """What Ansible is told is what was reviewed; pytest --regenerate writes it anew."""
    inventory = configuration.inventory(*stack, {name: f"the text of {name}\n" for name in slurm.files(*stack)})
    golden(GOLDEN / f"{stack[0].name}.yaml", yaml.safe_dump(inventory, sort_keys=False, width=120))


def test_the_inventory_is_plain_data(stack: Case) -> None:
    """It travels as JSON through the engine and comes back the same."""
    inventory = inventory_of(stack)
    assert json.loads(json.dumps(inventory)) == inventory


def test_groups_are_roles(stack: Case) -> None:
    """A group has the name of the role that it switches on."""
    assert set(groups(inventory_of(stack))) <= {path.name for path in ROLES.iterdir()}


def test_a_feature_is_off_when_nobody_has_it(case_of: Callable[..., Case]) -> None:
    """No accelerators, no rails, no storage, no accounting: none of their roles."""
    pools = [{"name": "cpu", "machine": "sim-cpu", "count": 2}]
    found = groups(inventory_of(case_of(pools=pools)))
    assert {"accelerator", "fabric", "collectives", "storage", "database", "slurm_accounting"}.isdisjoint(found)
    assert found["slurm_worker"] == ["cpu-001", "cpu-002"]


def test_the_head_takes_no_jobs(case_of: Callable[..., Case]) -> None:
    """The controller is every node's but no worker."""
    found = groups(inventory_of(case_of()))
    assert [name for name, hosts in found.items() if "head" in hosts] == [
        "packages",
        "base",
        "slurm_controller",
        "metrics",
    ]


def test_a_machine_with_fewer_nics_has_the_first_rails(case_of: Callable[..., Case]) -> None:
    """The i-th NIC meets the i-th rail, on every machine."""
    pools = [
        {"name": "big", "machine": "sim-h100", "count": 1},
        {"name": "small", "machine": "sim-a100-small", "count": 1},
    ]
    hosts = inventory_of(case_of(pools=pools))["all"]["hosts"]
    names = {name: [rail["interface"] for rail in host["node_rails"]] for name, host in hosts.items()}
    assert names == {"head": [], "big-001": ["rail0", "rail1"], "small-001": ["rail0"]}


def test_a_variable_is_set_in_one_place(stack: Case) -> None:
    """No host overrides what holds for all, so that reading one place is enough."""
    inventory = inventory_of(stack)["all"]
    assert all(set(host).isdisjoint(inventory["vars"]) for host in inventory["hosts"].values())
    assert all(set(group) == {"hosts"} for group in inventory["children"].values())


def test_slurmdbd_conf_is_not_among_the_controllers_files(case_of: Callable[..., Case]) -> None:
    """It gets its password and a mode of its own from another role."""
    variables = inventory_of(case_of(scheduler={"accounting": True}))["all"]["vars"]
    assert "slurmdbd.conf" not in variables["slurm_controller_files"]
    assert "StorageUser=slurm" in variables["slurm_accounting_configuration"]


def test_the_image_knows_nothing_of_a_cluster(stack: Case) -> None:
    """All clusters of a release can share one image."""
    plan, roster = stack
    builder = configuration.image_inventory(plan.release, roster, "deb file:/packages ./")
    text = json.dumps(builder["all"]["vars"])
    assert plan.name not in text.replace("local", "") or plan.name == "local"
    assert "cluster_name" not in text
    assert builder["all"]["vars"]["base_packages"] == sorted(
        {name for _, names in plan.release.packages for name in names}
    )
