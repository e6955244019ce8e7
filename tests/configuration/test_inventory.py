"""The inventory as a function of plan, roster and scheduler files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import configuration
from stampworks.catalog.roles import HARDWARE, MEMBERS
from stampworks.catalog.roles import ROLES as REGISTRY
from stampworks.configuration.inventory import selections
from stampworks.plan import Egress, Ending, Plan, Roster
from stampworks.schedulers import slurm

from tests.attached import attached

Case = tuple[Plan, Roster]
GOLDEN = Path(__file__).parent / "golden"
ROLES = configuration.playbooks_dir() / "roles"
OF_PROGRAMS = ("dcgm", "nccl", "torch", "containers", "pyxis")
"""Groups of nodes with accelerators, for the programs that use and watch them."""


def inventory_of(case: Case) -> dict[str, Any]:
    return configuration.inventory(*case, slurm.files(*case), attached=attached(case[0]))


def groups(inventory: dict[str, Any]) -> dict[str, list[str]]:
    return {name: list(group["hosts"]) for name, group in inventory["all"]["children"].items()}


def test_golden_inventory_of_every_stack(stack: Case, golden: Callable[[Path, str], None]) -> None:
    """Ansible's input is the reviewed file; pytest --regenerate writes it again."""
    texts = {name: f"the text of {name}\n" for name in slurm.files(*stack)}
    inventory = configuration.inventory(*stack, texts, attached=attached(stack[0]))
    golden(GOLDEN / f"{stack[0].name}.yaml", yaml.safe_dump(inventory, sort_keys=False, width=120))


def test_the_inventory_is_plain_data(stack: Case) -> None:
    """The inventory passes the engine as JSON unchanged."""
    inventory = inventory_of(stack)
    assert json.loads(json.dumps(inventory)) == inventory


def test_groups_are_roles(stack: Case) -> None:
    """A group has the name of the role that it switches on."""
    found = groups(inventory_of(stack))
    assert set(found) <= {path.name for path in ROLES.iterdir()}
    assert list(found) == [role.name for role in REGISTRY if role.name in found]


def test_every_selection_of_the_registry_is_made(stack: Case) -> None:
    """A role without selected nodes would run nowhere."""
    found = set(selections(*stack, attached(stack[0])))
    assert found | {"all hosts", "another image", "images"} == {*MEMBERS}
    assert not found & {*HARDWARE}


def test_a_feature_is_off_when_nobody_has_it(case_of: Callable[..., Case]) -> None:
    """A cluster without accelerators, rails or accounting has none of their roles."""
    pools = [{"name": "cpu", "machine": "sim-cpu", "count": 2}]
    found = groups(inventory_of(case_of(pools=pools)))
    assert {"accelerator", "fabric", "collectives", "database", "slurm_accounting"}.isdisjoint(found)
    assert found["slurm_worker"] == ["cpu-001", "cpu-002"]


def test_login_nodes_have_what_submits_jobs_and_nothing_that_runs_them(case_of: Callable[..., Case]) -> None:
    """Users, storage and metrics as all nodes; no health check, for nothing would be kept from them."""
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 1}]
    storage = [{"name": "shared", "kind": "directory", "mount": "/shared"}]
    found = groups(inventory_of(case_of(pools=pools, storage=storage, scheduler={"login_nodes": 2})))
    assert found["slurm_login"] == ["login-001", "login-002"]
    has = {role for role, hosts in found.items() if "login-001" in hosts}
    assert has == {"access", "base", "storage", "slurm_login", "metrics"}


RENTED = {"cloud": "aws", "region": "us-east-1"}


def test_cloud_services_stop_where_they_are_off(case_of: Callable[..., Case]) -> None:
    """An earlier `up` may have started the service: its role is run without settings. On other clouds it never ran."""
    pools = [{"name": "gpu", "machine": "g6-8xlarge", "count": 2, "zone": "us-east-1a"}]
    inventory = inventory_of(case_of(pools=pools, logs={"days": 0}, **RENTED))
    found, told = groups(inventory), inventory["all"]["vars"]
    assert (found["power"], found["logs"]) == (["head"], ["head", "gpu-001", "gpu-002"])
    assert {"power_settings", "logs_group"}.isdisjoint(told)
    told = inventory_of(case_of(pools=[pools[0] | {"count_min": 1}], **RENTED))["all"]["vars"]
    assert told["power_settings"]["pools"]["gpu"]["nodes"] == ["gpu-002"]
    assert told["logs_group"] == "/stampworks/test/nodes"
    assert {"power", "logs"}.isdisjoint(groups(inventory_of(case_of())))


@pytest.mark.parametrize(
    "where",
    [
        {"pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}]},
        {
            "pools": [{"name": "gpu", "machine": "server", "count": 1}],
            "cloud": "hosts",
            "network": {"cidr": "10.0.0.0/8"},
        },
        {"pools": [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}], **RENTED},
    ],
    ids=["local", "hosts", "aws"],
)
def test_leftovers_of_file_systems_are_searched(where: dict[str, Any], case_of: Callable[..., Case]) -> None:
    """Leftovers are deleted once no node mounts the file system. No client is installed for it."""
    found = inventory_of(case_of(storage=[], **where))
    assert groups(found)["storage"] == ["head", "gpu-001"]
    told = {name: value for name, value in found["all"]["vars"].items() if name.startswith("storage_")}
    assert told == {"storage_packages": {}, "storage_lustre": "", "storage_mounts": []}


def test_devices_are_set_where_no_hypervisor_does(case_of: Callable[..., Case]) -> None:
    """The role applies to physical machines with accelerators and a fabric; on virtual machines the hypervisor
    decides."""
    pools = [{"name": "gpu", "machine": "dgx-h100", "count": 1}, {"name": "plain", "machine": "server", "count": 1}]
    found = groups(inventory_of(case_of(cloud="hosts", pools=pools, network={"cidr": "10.0.0.0/8"})))
    assert found["pci"] == ["gpu-001"]
    assert "gpu-001" in found["reboot"]
    rented = [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}]
    assert "pci" not in groups(inventory_of(case_of(pools=rented, **RENTED)))


@pytest.mark.parametrize(
    ("machine", "roles"),
    [
        ("p5", ["driver", "efa", "scratch", "persistence", "fabric_manager", *OF_PROGRAMS]),
        ("p6e-gb200", ["efa"]),  # the release has no driver for its accelerator, and its disks are unknown
        # one accelerator, so it has no switch
        ("g6-8xlarge", ["driver", "efa", "scratch", "persistence", *OF_PROGRAMS]),
    ],
)
def test_nodes_get_what_their_hardware_needs(machine: str, roles: list[str], case_of: Callable[..., Case]) -> None:
    """The head has neither accelerators nor a fabric, and gets only container settings."""
    pools = [{"name": "gpu", "machine": machine, "count": 1, "zone": "us-east-1a"}]
    plan, roster = case_of(pools=pools, **RENTED)
    inventory = inventory_of((plan, roster))
    known = {software.name for software in plan.release.hardware}
    found = {role: hosts for role, hosts in groups(inventory).items() if role in known}
    everywhere = {"pyxis": ["head", "gpu-001"]} if "containers" in roles else {}
    assert found == {role: everywhere.get(role, ["gpu-001"]) for role in roles}
    assert list(found) == roles
    assert groups(inventory)["reboot"] == ["gpu-001"]
    variables = inventory["all"]["vars"]
    expected = variables["validate_software"]
    assert set(expected) == set(roles) - {"pyxis"}, "the head may run another kernel"
    assert all(variables[f"{role}_packages"] == expected[role] for role in expected)
    assert variables["collectives_environment"] == {
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_HUGE_PAGE": "0",
        "NCCL_NET": "AWS Libfabric",
    }
    builder = configuration.image_inventory(plan.release, roster, "deb file:/packages ./", "a-digest")["all"]
    assert set(roles) <= set(builder["children"])
    assert "accelerator" not in {*groups(inventory), *builder["children"]}, "its stand-in would hide the real tool"


def test_disks_inside_a_node_are_scratch(case_of: Callable[..., Case]) -> None:
    """The number comes from the catalog, and the health program checks it; an unknown number creates no array."""
    pools = [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}]
    hosts = inventory_of(case_of(pools=pools, **RENTED))["all"]["hosts"]
    assert hosts["gpu-001"]["node_scratch"] == {
        "path": "/scratch",
        "model": "Amazon EC2 NVMe Instance Storage",
        "disks": 8,
    }
    assert "node_scratch" not in hosts["head"]
    pools[0]["machine"] = "p6e-gb200"
    plan, _ = case_of(pools=pools, **RENTED)
    assert {group.scratch for group in plan.groups} == {None}


def test_nodes_know_from_when_their_capacity_block_ends(case_of: Callable[..., Case]) -> None:
    """AWS ends the machines of a block half an hour before its end. Nodes of other reservations continue after its
    end."""
    block = {"machine": "p5", "count": 1, "zone": "us-east-1a"}
    pools = [
        {"name": "block", **block, "purchase": "block", "reservation": "cr-1"},
        {"name": "other", **block, "purchase": "reserved", "reservation": "cr-2"},
    ]
    plan, roster = case_of(pools=pools, **RENTED)
    ends = [Ending("block", "cr-1", "2026-12-01T11:30Z", ""), Ending("other", "cr-2", "2026-12-01T11:30Z", "")]
    made = configuration.inventory(plan, roster, slurm.files(plan, roster), endings=ends)
    assert groups(made)["interruptions"] == ["block-001", "other-001"]
    hosts = made["all"]["hosts"]
    assert hosts["block-001"]["interruptions_ends"] == "2026-12-01T11:00Z"
    assert "interruptions_ends" not in {**hosts["other-001"], **hosts["head"]}
    unknown = [Ending("block", "cr-1", "", "not permitted")]
    made = configuration.inventory(plan, roster, slurm.files(plan, roster), endings=unknown)
    assert "interruptions_ends" not in made["all"]["hosts"]["block-001"]


def test_simulated_nodes_need_no_hardware(case_of: Callable[..., Case]) -> None:
    """Roles for hardware would only slow down a cluster on a single machine."""
    plan, roster = case_of()
    inventory = inventory_of((plan, roster))
    assert plan.release.hardware == ()
    assert {"driver", "reboot", "validate_software"}.isdisjoint([*groups(inventory), *inventory["all"]["vars"]])


def test_the_head_takes_no_jobs(case_of: Callable[..., Case]) -> None:
    """The controller is every node's but no worker."""
    found = groups(inventory_of(case_of()))
    assert [name for name, hosts in found.items() if "head" in hosts] == [
        "packages",
        "base",
        "storage",
        "homes",
        "access",
        "slurm_controller",
        "metrics",
    ]


def test_a_user_with_an_empty_list_of_keys_has_none(case_of: Callable[..., Case]) -> None:
    """sshd gets an empty file of keys for this user, and no setting for a user without a list."""
    people = [{"name": "alice", "uid": 2001}, {"name": "dave", "uid": 2004, "keys": []}]
    variables = inventory_of(case_of(users=people))["all"]["vars"]
    assert (variables["access_users"], variables["access_files"]) == (["dave"], [])


def test_nodes_with_a_way_out_have_packages_from_there(case_of: Callable[..., Case]) -> None:
    """The head serves packages to nodes without egress, and no node gets a missing list."""
    plan, roster = case_of()
    ways: dict[Egress, bool] = {"": True, "nat": False, "none": False}
    for egress, serves in ways.items():
        inventory = inventory_of((replace(plan, network=replace(plan.network, egress=egress)), roster))
        assert ("packages" in groups(inventory)) is serves
        assert bool(inventory["all"]["vars"]["base_packages_source"]) is serves
        assert "slurmd" in inventory["all"]["vars"]["base_packages"]


def test_another_release_or_other_roles_are_another_installation(case_of: Callable[..., Case]) -> None:
    """Nodes that have noted nothing yet differ; with unknown contents of roles the answer is unknown."""

    def content(digest: str, **fields: Any) -> str:
        case = case_of(**fields)
        found: str = configuration.inventory(*case, slurm.files(*case), content=digest)["all"]["vars"]["image_content"]
        return found

    assert len({content("one"), content("other"), content("one", scheduler={"accounting": True})}) == 3
    assert content("one") == content("one")
    assert content("") == ""


def test_a_machine_with_fewer_nics_has_the_first_rails(case_of: Callable[..., Case]) -> None:
    """The i-th NIC meets the i-th rail, on every machine."""
    pools = [
        {"name": "big", "machine": "sim-h100", "count": 1},
        {"name": "small", "machine": "sim-a100-small", "count": 1},
    ]
    hosts = inventory_of(case_of(pools=pools))["all"]["hosts"]
    names = {name: [rail["interface"] for rail in host["node_rails"]] for name, host in hosts.items()}
    assert names == {"head": [], "big-001": ["rail0", "rail1"], "small-001": ["rail0"]}


def test_nics_of_efa_have_no_name_that_a_plan_knows(case_of: Callable[..., Case]) -> None:
    """EC2 names the interfaces, including those with addresses, and their driver reports no rate."""
    pools = [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}]
    plan, roster = case_of(pools=pools, network={"card_addresses": True}, **RENTED)
    found = inventory_of((plan, with_addresses(roster)))["all"]
    assert found["hosts"]["gpu-001"]["node_rails"] == []
    assert found["children"]["fabric"]["hosts"] == {"gpu-001": {}}, "each NIC answers for its own address only"


def with_addresses(roster: Roster) -> Roster:
    """Return a roster with addresses on all cards, as EC2 assigns them."""
    given = tuple(
        replace(each, rail_addresses=tuple(f"10.9.0.{n}" for n, _ in enumerate(each.rail_addresses)))
        for each in roster.members
    )
    return replace(roster, members=given)


@pytest.mark.parametrize(("release", "version"), [("2026.11-ubuntu", "2.15.6"), ("2026.11-amazon", "")])
def test_a_module_of_lustre_that_is_the_kernels_own(release: str, version: str, case_of: Callable[..., Case]) -> None:
    """Amazon Linux has Lustre in its kernel, whose version differs from that of the package with mount.lustre."""
    pools = [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}]
    storage = [{"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}]
    more = {"release": release, "storage": storage, "scheduler": {"accounting": True}}
    assert inventory_of(case_of(pools=pools, **more, **RENTED))["all"]["vars"]["storage_lustre"] == version


def test_parts_of_a_vendors_image_are_compared_and_not_installed(case_of: Callable[..., Case]) -> None:
    """The roles of the driver and of EFA install no packages; nodes of other releases hear nothing of it."""
    pools = [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}]
    fields = {"pools": pools, "scheduler": {"accounting": True}, **RENTED}
    found = inventory_of(case_of(release="2026.12-amazon-dlami", **fields))["all"]
    variables = found["vars"]
    parts = variables["validate_image_parts"]
    assert (parts["driver"], parts["efa"]["libnccl-ofi"]) == ({"nvidia": "595.91.07"}, "1.21.1")
    assert (variables["driver_packages"], variables["efa_packages"]) == ({}, {})
    assert (variables["driver_kernel"], variables["efa_kernel"]) == ("", "")
    assert {*found["children"]["driver"]["hosts"]} == {*found["children"]["efa"]["hosts"]} == {"gpu-001"}
    assert not {"nccl", "dcgm", "containers", "pyxis"} & {*found["children"]}
    assert "validate_image_parts" not in inventory_of(case_of(release="2026.12", **fields))["all"]["vars"]


def test_a_variable_is_set_in_one_place(stack: Case) -> None:
    """No host overrides a global variable, so that a reader finds its value in a single place."""
    inventory = inventory_of(stack)["all"]
    assert all(set(host).isdisjoint(inventory["vars"]) for host in inventory["hosts"].values())
    assert all(set(group) == {"hosts"} for group in inventory["children"].values())


def test_slurmdbd_conf_is_not_among_the_controllers_files(case_of: Callable[..., Case]) -> None:
    """Another role writes it, with the password and another mode."""
    variables = inventory_of(case_of(scheduler={"accounting": True}))["all"]["vars"]
    assert "slurmdbd.conf" not in variables["slurm_controller_files"]
    assert "StorageUser=slurm" in variables["slurm_accounting_configuration"]


def test_the_image_knows_nothing_of_a_cluster(stack: Case) -> None:
    """All clusters of a release can share one image."""
    plan, roster = stack
    builder = configuration.image_inventory(plan.release, roster, "deb file:/packages ./", "a-digest")
    text = json.dumps(builder["all"]["vars"])
    assert plan.name not in text.replace("local", "") or plan.name == "local"
    assert "cluster_name" not in text
    assert builder["all"]["vars"]["base_packages"] == sorted(
        {name for _, names in plan.release.packages for name in names}
    )
