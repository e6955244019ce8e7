"""Input of Packer: the template names only existing things. Packer itself is not run."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import configuration
from stampworks.cli import exits, image
from stampworks.configuration.inventory import installation
from stampworks.configuration.sources import install_digest
from stampworks.plan import Plan, Roster

Case = tuple[Plan, Roster]
GOLDEN = Path(__file__).parent / "golden"
TEMPLATE = configuration.playbooks_dir() / "packer" / "aws.pkr.json"
IMAGE = "ami-0123456789abcdef0"
POOLS = [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}]
BY_HAND = {"packages_source", "subnet", "instance_profile"}
"""Values that no plan has: place of the builder, and source of packages."""


@pytest.fixture
def plan(case_of: Callable[..., Case]) -> Plan:
    """A plan whose nodes boot the user's own image."""
    made = case_of(cloud="aws", region="us-east-1", pools=POOLS)[0]
    head = made.controller
    assert head.launch is not None
    own = dataclasses.replace(head, launch=dataclasses.replace(head.launch, image=IMAGE, prepared=True))
    return dataclasses.replace(made, groups=(own, *made.groups[1:]))


def template() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TEMPLATE.read_text())
    return found


def test_the_template_has_a_value_for_every_variable(plan: Plan) -> None:
    """Values come from the plan, defaults or the user; template and variables agree in both directions."""
    declared = template()["variable"]
    defaults = {name for name, variable in declared.items() if "default" in variable}
    assert {*configuration.packer_variables(plan, "")} | BY_HAND == {*declared} - defaults
    assert {*re.findall(r"\bvar\.(\w+)", TEMPLATE.read_text())} == {*declared}


def test_the_template_names_what_there_is() -> None:
    """The playbook, roles and modules; and no port is opened."""
    ansible = template()["build"]["provisioner"][0]["ansible"]
    paths = re.findall(r"\$\{path\.root\}/([\w./]+)", json.dumps(ansible))
    assert len(paths) == 3
    assert all((TEMPLATE.parent / path).exists() for path in paths)
    node = template()["source"]["amazon-ebs"]["node"]
    assert (node["ssh_interface"], node["associate_public_ip_address"]) == ("session_manager", False)
    assert (node["encrypt_boot"], node["metadata_options"]["http_tokens"]) == (True, "required")


def test_image_has_no_user_of_the_builder() -> None:
    """The builder's user would have all rights on nodes, and the id of their first user."""
    *_, last = template()["build"]["provisioner"]
    assert last["shell"]["inline"][-1] == "userdel --force --remove '${var.user}'"
    assert "truncate --size=0 /etc/machine-id" in last["shell"]["inline"]
    assert last["shell"]["execute_command"].startswith("sudo ")
    assert template()["source"]["amazon-ebs"]["node"]["ssh_username"] == "${var.user}"


def test_the_builder_starts_from_what_is_published(plan: Plan) -> None:
    """The builder never starts from an image that was built."""
    variables = configuration.packer_variables(plan, "")
    assert variables["published_image"] == "/aws/service/debian/release/13/latest/amd64"
    assert IMAGE not in json.dumps(variables)
    [looked_up] = template()["data"]["amazon-parameterstore"].items()
    assert looked_up == ("published", {"region": "${var.region}", "name": "${var.published_image}"})
    source = template()["source"]["amazon-ebs"]["node"]["source_ami"]
    assert source == "${data.amazon-parameterstore.published.value}"


def test_the_builder_gets_the_roles_of_the_release(plan: Plan) -> None:
    """Installing roles are enabled by their groups, and the installed versions are recorded for the nodes."""
    variables = configuration.packer_variables(plan, "")
    tasks = yaml.safe_load((configuration.playbooks_dir() / "roles/image/tasks/main.yml").read_text())
    switches = {task["when"].split("'")[1] for task in tasks if "when" in task}
    [play] = yaml.safe_load((configuration.playbooks_dir() / "image.yml").read_text())
    assert play["hosts"] == "image"
    assert {"image", "driver", "efa", "fabric_manager", "persistence", "containers"} <= {*variables["groups"]}
    assert {"driver", "efa", "fabric_manager", "persistence", "containers"} <= switches
    assert (
        variables["variables"]["image_content"] == installation(plan.release, install_digest())["image_content"] != ""
    )
    assert variables["variables"]["driver_packages"] == dict(plan.release.hardware[0].packages)
    assert not [name for name in variables["variables"] if name.startswith("ansible_ssh")]


def test_an_image_is_called_by_what_is_in_it(plan: Plan) -> None:
    """Another version is another image; another cluster uses the same image."""
    digest = configuration.packer_variables(plan, "")["digest"]
    assert configuration.packer_variables(dataclasses.replace(plan, name="other"), "")["digest"] == digest
    newer = dataclasses.replace(plan, release=dataclasses.replace(plan.release, kernel="7.1"))
    assert configuration.packer_variables(newer, "")["digest"] != digest


def test_the_builder_of_a_release_with_a_kernel_of_its_own(case_of: Callable[..., Case]) -> None:
    """The builder logs in as the image's user, boots that kernel first, and installs the clients of file systems."""
    storage = [{"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}]
    fields = {"release": "2026.11-ubuntu", "scheduler": {"accounting": True}, "storage": storage}
    made = case_of(cloud="aws", region="us-east-1", pools=POOLS, **fields)[0]
    told = configuration.packer_variables(made, "")
    assert (told["user"], told["root_device"]) == ("ubuntu", "/dev/sda1")
    assert {"kernel", "storage"} <= {*told["groups"]}
    assert told["variables"]["kernel_version"] == made.release.kernel
    client = (f"lustre-client-modules-{made.release.kernel}", "lustre-client-utils")
    assert told["variables"]["storage_packages"] == dict.fromkeys(client, "2.15.6")
    tasks = yaml.safe_load((configuration.playbooks_dir() / "roles/image/tasks/main.yml").read_text())
    assert tasks[0]["when"] == "'kernel' in group_names"


def test_the_builder_gets_what_nodes_configure_themselves_with(case_of: Callable[..., Case]) -> None:
    """Software comes from the suite, or from wheels where the suite's is too old. Any pool may be elastic."""
    tasks = yaml.safe_load((configuration.playbooks_dir() / "roles/image/tasks/main.yml").read_text())
    [when] = [task["when"] for task in tasks if task["name"] == "Install boot"]
    assert when == "'boot' in group_names"
    wheels_of = {"ansible-core": "2.19.14"}
    for release, wheels in (("2026.11", None), ("2026.11-ubuntu", wheels_of), ("2026.11-amazon", wheels_of)):
        fields = {"release": release, "scheduler": {"accounting": True}}
        made = case_of(cloud="aws", region="us-east-1", pools=POOLS, **fields)[0]
        told = configuration.packer_variables(made, "")
        assert (told["variables"].get("boot_packages"), "boot" in told["groups"]) == (wheels, wheels is not None)
        assert ("ansible-core" in told["variables"]["base_packages"]) == (wheels is None)
        assert not [each for each in told["variables"]["base_packages"] if "=" in each]


def test_the_builder_of_amazon_linux(case_of: Callable[..., Case], golden: Callable[[Path, str], None]) -> None:
    """The golden file has all variables: installed and built software, and its versions."""
    storage = [{"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}]
    fields = {"release": "2026.11-amazon", "scheduler": {"accounting": True}, "storage": storage}
    told = configuration.packer_variables(case_of(cloud="aws", region="us-east-1", pools=POOLS, **fields)[0], "")
    told["variables"].pop("image_content")  # this value depends on the playbooks, which change
    told.pop("digest")
    golden(GOLDEN / "amazon-image.yaml", yaml.safe_dump(told, sort_keys=False, width=100))


def test_an_image_of_the_same_on_a_newer_one_has_another_name() -> None:
    """Packer refuses an existing name, and nodes with the older image keep it. AWS allows 128 characters."""
    name = template()["source"]["amazon-ebs"]["node"]["ami_name"]
    assert name == "stampworks-${var.release}-${var.digest}-{{timestamp}}"


def test_writing_the_variables(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output has the command, and the packages that the builder cannot download."""
    file = tmp_path / "image.json"
    assert image.for_packer(plan, file) == exits.FINE
    written = json.loads(file.read_text())
    assert written == configuration.packer_variables(plan, written["user_data"])
    nvidia = "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/"
    said = capsys.readouterr().out.splitlines()
    more = "-var packages_source=... -var subnet=... -var instance_profile=..."
    assert said[:6] == [
        f"{file} is written. Give the values that it cannot know:",
        f"  packer init {TEMPLATE}",
        f"  packer build -var-file={file} {more} {TEMPLATE}",
        "packages_source has to hold the packages that the source image cannot install:",
        "  driver: nvidia-kernel-open-dkms 580.159.04, nvidia-driver-cuda 580.159.04",
        f"    from {nvidia}",
    ]
    brought = [line.split(":")[0].strip() for line in said[4::2]]
    assert brought == ["driver", "efa", "persistence", "fabric_manager", "dcgm", "nccl", "containers"]


@pytest.mark.parametrize(("release", "installs"), [("2026.11", True), ("2026.11-ubuntu", False)])
def test_the_builder_can_be_reached(case_of: Callable[..., Case], tmp_path: Path, release: str, installs: bool) -> None:
    """Only Systems Manager reaches it: the first boot installs the agent if the published image lacks it. Packer's
    login user stays as the image creates it."""
    fields = {"release": release, "scheduler": {"accounting": True}}
    made, file = case_of(cloud="aws", region="us-east-1", pools=POOLS, **fields)[0], tmp_path / "image.json"
    image.for_packer(made, file)
    said = json.loads(file.read_text())["user_data"]
    assert template()["source"]["amazon-ebs"]["node"]["user_data"] == "${var.user_data}"
    assert (said != "") == installs
    if installs:
        told = yaml.safe_load(said)
        assert said.startswith("#cloud-config\n")
        assert {*told} == {"write_files", "runcmd"}
        assert made.controller.launch is not None
        assert told["runcmd"] == [[told["write_files"][0]["path"], made.controller.launch.agent]]


def test_no_image_to_start_from(case_of: Callable[..., Case], tmp_path: Path) -> None:
    """The cloud starts no nodes, or not from an image."""
    with pytest.raises(exits.CliError) as error:
        image.for_packer(case_of()[0], tmp_path / "image.json")
    assert str(error.value) == (
        "local: no published image is known from which this one could be made\n"
        "  hint: --packer is for a cloud that starts nodes from an image"
    )
    assert not list(tmp_path.glob("*.json"))


def test_an_image_that_no_node_would_boot(
    plan: Plan, case_of: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nodes of a cloud cannot boot images of this machine, and EKS nodes cannot boot the toolkit's images."""
    managed = case_of(cloud="aws", region="us-east-1", pools=POOLS, scheduler={"kind": "kubernetes"})[0]
    for made, file, words in (
        (plan, None, "images built here are for nodes on this machine, and those of cluster "),
        (managed, None, " boot the image that aws has for them: no image is built"),
        (managed, str(tmp_path / "image.json"), " boot the image that aws has for them: no image is built"),
    ):
        monkeypatch.setattr("stampworks.cli.stacks.plan_of", lambda _, made=made: made)
        with pytest.raises(exits.CliError, match=words):
            image.build_image(argparse.Namespace(stack="it", packer=file))
    assert not [*tmp_path.iterdir()]


def test_no_image_is_made_of_a_vendors(case_of: Callable[..., Case], tmp_path: Path) -> None:
    """An image of the toolkit would lack the vendor's parts."""
    fields = {"release": "2026.12-ubuntu-dlami", "scheduler": {"accounting": True}}
    plan, _ = case_of(cloud="aws", region="us-east-1", pools=POOLS, **fields)
    with pytest.raises(exits.CliError) as error:
        image.for_packer(plan, tmp_path / "image.json")
    assert str(error.value) == (
        "nodes of release 2026.12-ubuntu-dlami boot the image of a vendor: none is made with Packer\n"
        "  hint: `stampworks lock` looks it up; Packer makes images of 2026.11, 2026.11-ubuntu, 2026.11-amazon, "
        "2026.12, 2026.12-ubuntu, 2026.12-amazon"
    )
    assert not [*tmp_path.iterdir()]
