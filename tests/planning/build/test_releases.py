"""Choice of a release, and software of releases for some clouds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning.build.launching import elsewhere
from stampworks.planning.changes.review import ReviewedStack, review

UBUNTU, AMAZON = "2026.11-ubuntu", "2026.11-amazon"
OF_VENDORS = [name for name, row in catalog.releases().items() if row.vendor_images]
OURS = [name for name, row in catalog.releases().items() if not row.vendor_images and not row.takes_found]
DEBIAN_2026_12, UBUNTU_2026_12, AMAZON_2026_12 = (f"2026.12{suffix}" for suffix in ("", "-ubuntu", "-amazon"))
DATA = {"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}


def on_aws(**fields: Any) -> Plan:
    pool = {"name": "gpu", "machine": "p5", "count": 2, "zone": "us-east-1a"}
    scheduler = {"accounting": True}
    declared = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": [pool]}
    return planning.plan(load_value({**declared, "scheduler": scheduler, "storage": [DATA], **fields}, "test"))


def verdicts(plan: Plan, rule: str) -> list[tuple[str, str]]:
    return [(each.verdict, each.text) for each in planning.rules(plan, None) if each.id == rule]


def test_fsx_is_mounted_by_the_release_that_has_its_client() -> None:
    """The newest for all clouds has none."""
    assert verdicts(on_aws(release=UBUNTU), "release.client") == [
        ("pass", f"release {UBUNTU} has the Lustre client that mounts data (fsx-lustre)")
    ]
    assert [verdict for verdict, _ in verdicts(on_aws(), "release.client")] == ["unknown"]


@pytest.mark.parametrize("machine", ["p6-b200", "p6-b300"])
@pytest.mark.parametrize("release", OURS)
def test_switches_of_blackwell_have_their_manager(release: str, machine: str) -> None:
    """Without the manager no accelerator of such a node works: a driver alone is not enough."""
    pool = {"name": "gpu", "machine": machine, "count": 2, "zone": "us-east-1a"}
    plan = on_aws(release=release, pools=[pool])
    assert [said for said, _ in verdicts(plan, "release.accelerator")] == ["pass"]
    assert "nvlsm" in str(plan.release.hardware)


@pytest.mark.parametrize("release", OURS)
def test_every_release_looks_after_gpus_and_brings_nccl(release: str) -> None:
    """Software without a package is built: nccl-tests for all of them, and the exporter of DCGM if no package
    exists."""
    brought = {each.name: each for each in on_aws(release=release).release.hardware}
    assert "datacenter-gpu-manager-4-core" in dict(brought["dcgm"].packages)
    packaged = "datacenter-gpu-manager-exporter" in dict(brought["dcgm"].packages)
    assert packaged != bool(brought["dcgm"].source)
    assert brought["nccl"].source


@pytest.mark.parametrize("release", [*OF_VENDORS, *OURS])
def test_every_release_mounts_buckets(release: str) -> None:
    """A package that AWS publishes for no suite has its address, because an image has to include it."""
    bucket = {"name": "archive", "kind": "s3", "mount": "/archive"}
    plan = on_aws(release=release, storage=[bucket])
    assert [said for said, _ in verdicts(plan, "release.client")] == ["pass"]
    where = {software.name: address for software, address in elsewhere(plan.release)}
    assert (catalog.releases()[release].suite == "al2023") == ("fuse" not in where)


def test_every_node_keeps_the_kernel_of_its_client() -> None:
    """The head mounts it, too, and needs a specific kernel for nothing else: pyxis works with any kernel."""
    plan = on_aws(release=UBUNTU)
    assert (plan.release.kernel, plan.controller.hardware) == ("6.17.0-1019-aws", ("kernel", "pyxis"))
    assert plan.pools[0].hardware[:2] == ("kernel", "driver")
    assert on_aws().controller.hardware == ("pyxis",)


def test_nodes_boot_the_image_of_the_suite() -> None:
    """The image has another publisher, disk size and user."""
    launch, other = on_aws(release=UBUNTU).controller.launch, on_aws().controller.launch
    assert launch is not None
    assert other is not None
    assert launch.published_image.startswith("/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/")
    assert (launch.user, launch.root_device, launch.agent) == ("ubuntu", "/dev/sda1", "")
    assert (other.user, other.root_device) == ("admin", "/dev/xvda")
    assert other.agent.startswith("https://s3.us-east-1.amazonaws.com/")


def test_whether_a_machine_stays_is_reviewed() -> None:
    """A machine stays for another image, also of another distribution, unless only one of them contains the login
    agent: instructions of the first boot stay with the machine."""
    ubuntu = on_aws(release=UBUNTU)
    newer = replaced(ubuntu, image="ami-2", published_image="/other", user="other", root_device="/dev/xvda")
    assert rolled(ubuntu, newer).endswith("then a new disk and a proof")
    assert rolled(on_aws(), replaced(on_aws(), agent="https://elsewhere/9.deb")).endswith("a new disk and a proof")
    assert rolled(on_aws(), ubuntu).endswith("then another machine and a proof")
    assert rolled(ubuntu, replaced(ubuntu, disk_gib=900)).endswith("then another machine and a proof")


def replaced(plan: Plan, **launch: Any) -> Plan:
    groups = [
        dataclasses.replace(each, launch=each.launch and dataclasses.replace(each.launch, **launch))
        for each in plan.groups
    ]
    release = dataclasses.replace(plan.release, name="other")
    return dataclasses.replace(plan, groups=tuple(groups), release=release)


def rolled(a: Plan, b: Plan) -> str:
    """Return a review's words about the renewal of the pool's nodes."""
    found = review("one", ReviewedStack("a", a, contents={}), ReviewedStack("b", b, contents={}))
    return next(each.text for each in found.order if each.stage == "roll" and each.text.startswith("gpu-"))


def test_uses_of_the_distribution_image() -> None:
    """The distribution's image suffices for nodes of a release without its own kernel that need no other repository; an
    image made of the release suffices for all."""

    def unprepared(plan: Plan) -> list[tuple[str, str]]:
        launches = [group.launch for group in plan.groups if group.launch]
        groups = tuple(
            dataclasses.replace(group, launch=dataclasses.replace(launch, prepared=True))
            for group, launch in zip(plan.groups, launches, strict=True)
        )
        assert verdicts(dataclasses.replace(plan, groups=groups), "image.prepared") == []
        return verdicts(plan, "image.prepared")

    text = f"release {UBUNTU} has a kernel of its own, and nodes boot the distribution's image"
    assert unprepared(on_aws(release=UBUNTU)) == [("fail", text)]
    missing = "driver, efa, persistence, fabric_manager, dcgm, nccl, containers"
    text = f"nodes boot the distribution's image, which has no repository with the packages of {missing}"
    assert unprepared(on_aws()) == [("fail", text)]
    assert unprepared(on_aws(pools=[{"name": "cpu", "machine": "m7i", "count": 2}])) == []


def test_amazon_linux_mounts_what_aws_has() -> None:
    """FSx, EFS and buckets are mounted with packages of the suite; its kernel is that of the image."""
    home = {"name": "home", "kind": "efs", "tier": "regional", "mount": "/home"}
    bucket = {"name": "store", "kind": "s3", "mount": "/store"}
    plan = on_aws(release=AMAZON, storage=[DATA, home, bucket])
    assert {verdict for verdict, _ in verdicts(plan, "release.client")} == {"pass"}
    brought = {each.name: dict(each.packages) for each in plan.release.clients}
    assert brought == {"lustre": {"lustre-client": "2.15.6"}, "nfs": {"nfs-utils": ""}, "fuse": {"mount-s3": ""}}
    assert plan.release.kernel == "6.12"
    launch = plan.controller.launch
    assert launch is not None
    parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.12-x86_64"
    assert (launch.published_image, launch.user, launch.agent) == (parameter, "ec2-user", "")


def test_a_release_that_builds_its_slurm_builds_it_into_an_image() -> None:
    """Slurm is built first, on every node; a node of the distribution's image would have it too late."""
    plan = on_aws(release=AMAZON)
    assert plan.controller.hardware == ("libjwt", "slurm_build", "pyxis")
    assert plan.pools[0].hardware[:3] == ("libjwt", "slurm_build", "driver")
    built = {each.name: each.source for each in plan.release.hardware if each.source}
    assert [(name, source.tag) for name, source in built.items()] == [
        ("libjwt", "v1.17.2"),
        ("slurm_build", "slurm-24-11-7-1"),
        ("dcgm", "4.5.2-4.8.1"),
        ("nccl", "v2.19.6"),
        ("pyxis", "v0.24.0"),
    ]
    assert verdicts(plan, "image.prepared") == [
        ("fail", f"release {AMAZON} has a Slurm of its own, and nodes boot the distribution's image")
    ]
    assert on_aws(release=AMAZON, scheduler={"kind": "kubernetes"}).release.hardware == ()


DLAMI_UBUNTU, DLAMI_AMAZON = "2026.12-ubuntu-dlami", "2026.12-amazon-dlami"


@pytest.mark.parametrize("release", OF_VENDORS)
def test_nodes_with_gpus_boot_the_image_of_the_vendor(release: str) -> None:
    """The image has the driver and EFA, and the plan lists their versions. Other nodes boot the image of the
    distribution."""
    plan, row = on_aws(release=release), catalog.releases()[release].vendor_images["aws"]
    head, gpu = (group.launch for group in plan.groups)
    assert head is not None
    assert gpu is not None
    assert gpu.published_image.startswith("/aws/service/deeplearning/ami/x86_64/base-with-single-cuda-")
    assert not head.published_image.startswith("/aws/service/deeplearning/")
    assert (head.user, head.root_device, head.agent) == (gpu.user, gpu.root_device, gpu.agent)
    assert {each.name: dict(each.packages) for each in plan.image_parts} == row.parts
    assert [plan.boots_vendor_image(group) for group in plan.groups] == [False, True]
    installed = {each.name: each.packages for each in plan.release.hardware}
    assert (installed["driver"], installed["efa"], plan.release.kernel) == ((), (), "")
    assert not {"nccl", "dcgm", "containers", "pyxis", "persistence"} & {*installed}
    assert {"driver", "efa", "torch"} <= {*plan.pools[0].hardware}
    assert [said for said, _ in verdicts(plan, "release.accelerator")] == ["pass"]
    said = {each.path: each.why for each in plan.reasons}["groups.gpu.launch.published_image"]
    assert said.startswith(f"{row.image}, which has nvidia 595.")
    without = on_aws(release=release, pools=[{"name": "cpu", "machine": "m7i", "count": 2}])
    assert (without.image_parts, without.pools[0].hardware) == ((), without.controller.hardware)


def test_the_image_of_the_vendor_needs_no_packer() -> None:
    """On Amazon Linux this holds for all file systems, because the distribution has their clients. On Ubuntu it
    excludes file systems whose clients come from their publishers, and clusters without egress, because Slurm is
    downloaded."""
    home = {"name": "home", "kind": "efs", "tier": "regional", "mount": "/home"}
    bucket = {"name": "store", "kind": "s3", "mount": "/store"}
    assert verdicts(on_aws(release=DLAMI_AMAZON, storage=[DATA, home, bucket]), "image.prepared") == []
    assert verdicts(on_aws(release=DLAMI_UBUNTU, storage=[home]), "image.prepared") == []
    [finding] = [
        each
        for each in planning.rules(on_aws(release=DLAMI_UBUNTU, storage=[DATA, bucket]), None)
        if each.id == "image.prepared"
    ]
    missing = "nodes boot the distribution's image, which has no repository with the packages of lustre, fuse"
    assert (finding.text, finding.hint) == (missing, f"write release: {DLAMI_AMAZON}, whose distribution has them")
    private = on_aws(release=DLAMI_AMAZON, network={"egress": "none"})
    [hint] = [each.hint for each in planning.rules(private, None) if each.id == "image.prepared"]
    assert hint == "write egress: nat"
    cpus = [{"name": "cpu", "machine": "m7i", "count": 2}]
    assert verdicts(on_aws(release=DLAMI_AMAZON, pools=cpus), "image.prepared") == []


def test_the_gpu_operator_gets_no_driver_of_a_vendors_image() -> None:
    scheduler = {"kind": "kubernetes", "addons": {"gpu_driver": True}}
    with pytest.raises(DeclarationError) as error:
        on_aws(release=DLAMI_AMAZON, scheduler=scheduler, storage=[])
    what = f"release {DLAMI_AMAZON} has no driver for the GPU operator: it is in the image of a vendor"
    hint = "take it out, or take a release without -dlami in its name"
    assert f"test: scheduler.addons.gpu_driver: {what}\n  hint: {hint}" in str(error.value)


def test_the_image_of_the_vendor_is_for_one_architecture() -> None:
    pool = {"name": "gpu", "machine": "p6e-gb200", "count": 18, "zone": "us-east-1a"}
    with pytest.raises(DeclarationError) as error:
        on_aws(release=DLAMI_AMAZON, pools=[pool])
    what = f"nodes of release {DLAMI_AMAZON} boot an image for x86_64, and p6e-gb200 of gpu is arm64"
    assert f"test: release: {what}\n  hint: write release: 2026.11, 2026.11-ubuntu" in str(error.value)


@pytest.mark.parametrize(("cloud", "machine"), [("local", "sim-h100"), ("hosts", "dgx-h100")])
def test_a_release_of_another_cloud_is_refused(cloud: str, machine: str) -> None:
    """The release is refused once, with alternatives; its consequences are not reported."""
    pools = [{"name": "gpu", "machine": machine, "count": 2}]
    declared = {"version": 1, "name": "test", "cloud": cloud, "release": UBUNTU, "pools": pools}
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value(declared, "test"))
    assert str(error.value) == (
        f"test: release: release {UBUNTU} is for aws, and no node of {cloud} can run it\n"
        '  hint: write release: "2026.12", which is for all clouds\n\n'
        "1 problem in test: nothing was changed."
    )


def test_a_slurm_that_needs_accounting_is_refused_without() -> None:
    """Its jobs would wait for ever. Kubernetes does not use Slurm."""
    with pytest.raises(DeclarationError) as error:
        on_aws(release=UBUNTU, scheduler={"accounting": False})
    assert str(error.value) == (
        f"test: release: Slurm 23.11 of release {UBUNTU} runs no jobs without accounting\n"
        '  hint: write scheduler: {accounting: true}, or release: "2026.12"\n\n'
        "1 problem in test: nothing was changed."
    )
    assert on_aws(release=UBUNTU, scheduler={"kind": "kubernetes"}).release.name == UBUNTU


def test_missing_torch_makes_the_proof_unknown() -> None:
    """The checks need torch, which the suite lacks and the image of accelerators has. Without a proof there is no
    finding."""
    plain = {"name": "plain", "machine": "m7i", "count": 1, "zone": "us-east-1a"}
    assert verdicts(on_aws(release=UBUNTU, pools=[plain]), "release.torch") == [
        (
            "unknown",
            f"whether nodes of pool plain can be proven at level standard: release {UBUNTU} has no torch for them",
        )
    ]
    assert "torch" in on_aws(release=UBUNTU).pools[0].hardware
    assert verdicts(on_aws(release=UBUNTU), "release.torch") == []
    assert verdicts(on_aws(pools=[plain]), "release.torch") == []
    assert verdicts(on_aws(release=UBUNTU, pools=[plain], proof={"level": "none"}), "release.torch") == []


@pytest.mark.parametrize("mount", ["/scratch", "/scratch/data"])
def test_a_file_system_is_not_mounted_over_the_disks_of_the_machine(mount: str) -> None:
    """One mount would hide the other, depending on the order of two lines."""
    assert on_aws(storage=[{**DATA, "mount": "/scratches"}]).storage[0].mount == "/scratches"
    with pytest.raises(DeclarationError) as error:
        on_aws(storage=[{**DATA, "mount": mount}])
    assert "test: storage[0].mount: /scratch is what nodes of gpu make of the disks inside them" in str(error.value)
    assert "hint: mount it elsewhere, at /data for example" in str(error.value)


@pytest.mark.parametrize("release", [DEBIAN_2026_12, UBUNTU_2026_12, AMAZON_2026_12])
def test_2026_12_differs_in_the_tools_of_users_alone(release: str) -> None:
    """Suite, Slurm, driver and torch are the same: a roll to it adds packages and changes no version."""
    row = catalog.releases()[release]
    earlier = catalog.releases()[release.replace("2026.12", "2026.11")]
    base = row.packages["base"]
    assert dataclasses.replace(row, name=earlier.name, packages={**row.packages, "base": ()}) == dataclasses.replace(
        earlier, packages={**earlier.packages, "base": ()}
    )
    assert set(base) > set(earlier.packages["base"])
    assert {"git", "python3-pip", "python3-setuptools", "rsync"} <= set(base)
    assert ("python3-venv" in base) == (release != AMAZON_2026_12)  # some distributions package it separately


@pytest.mark.parametrize(
    ("release", "digest"),
    [("2026.11", "06e9543cad69660c"), (UBUNTU, "db48d4a17d8fa121"), (AMAZON, "e30817f8ed85f11f")],
)
def test_a_release_that_is_out_installs_what_it_did(release: str, digest: str) -> None:
    """Another list would roll every node of stacks with that release."""
    row = catalog.releases()[release]
    packages = {role: names for role, names in row.packages.items() if role != "directory"}  # where one is declared
    lists = [row.suite, row.base_packages, packages, row.boot]
    assert hashlib.sha256(json.dumps(lists).encode()).hexdigest()[:16] == digest


def test_nodes_that_run_pods_have_the_tools_of_users_as_well() -> None:
    """A pod of the local cloud sees the programs of its node."""
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}]
    declared = {"version": 1, "name": "test", "cloud": "local", "pools": pools, "scheduler": {"kind": "kubernetes"}}
    plan = planning.plan(load_value(declared, "test"))
    assert (plan.release.name, "slurm" in dict(plan.release.packages)) == (DEBIAN_2026_12, False)
    assert "python3-venv" in dict(plan.release.packages)["base"]
