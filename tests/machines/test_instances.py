"""Instances of AWS as emulated machines with firmware, kernel and cloud-init of Debian; only AWS itself is simulated.

An image is built on one by Packer's template, and others boot it with real user data. They are identified by their
consoles, and join the cluster by the playbooks, or by themselves for a job.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from moto.ec2.models.instances import Instance
from stampworks import configuration
from stampworks.clouds.aws import first_boot, members, tags
from stampworks.configuration import PlaybookFailed, Recap
from stampworks.machine_room import apt
from stampworks.operations import remote
from stampworks.plan import Attached, Disk, Group, Machine, Plan, Roster, Scratch, Software
from stampworks.schedulers import slurm
from stampworks.text.reasons import DrainReason, written

from tests.clouds.aws import booting
from tests.clouds.aws.simulated import REGION, Simulated, simulated_aws
from tests.machines import disk, emulated, packer
from tests.machines.emulated import Emulated
from tests.machines.place import Place, placed
from tests.playbooks.conftest import SECRETS, Edit, plan_of
from tests.playbooks.test_handover import METADATA, plan_on_aws
from tests.playbooks.test_joining import BUCKET, ENDPOINT, endpoint, prepare
from tests.project import wait_for

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="what machines are plugged into is root's to make"),
]

FAILED = "systemctl --failed --no-legend --plain"
ELASTIC = "gpu-002"
STATE, SCRATCH = "/var/lib/stampworks/state", "/scratch"
VOLUME = "vol-0123456789abcdef0"
DISKS, DISK_MIB, MEMORY_MIB = 2, 256, 1500
ACCELERATORS = 2
FILES = {
    "/etc/cloud/cloud.cfg.d/10_user.cfg": "system_info: {default_user: {name: admin}}\n",
    "/etc/tmpfiles.d/accelerators.conf": "".join(
        f"c /dev/nvidia{number} 0666 - - - 4:{number}\n" for number in range(ACCELERATORS)
    ),
}
"""Files on the published disk: the user of AWS's Debian images, and consoles in place of accelerators."""
OPENED = f"for i in $(seq 0 {ACCELERATORS - 1}); do (exec 3</dev/nvidia$i) 2>/dev/null && printf $i; done; echo"
DIRECT = ("-device", "intel-iommu", "-device", "pcie-root-port,id=switch,chassis=1", "-device", "e1000e,bus=switch")
"""Devices of physical machines that hypervisors do not show: an IOMMU, and a switch before a NIC."""
DIRECTLY = "/usr/local/libexec/stampworks/pci-direct --look; cat /sys/kernel/iommu_groups/*/type | sort -u"
TOLD = "/etc/default/grub.d/61-stampworks-pci.cfg"
AGAIN = "Node unexpectedly rebooted"
BUILDER, KEYS = "10.98.7.7", "-----END SSH HOST KEY KEYS-----"
WAIT_S = 600


def plan_of_machines(name: str) -> Plan:
    """Return a plan of machines as large as emulated ones; workers have local disks and no hypervisor."""
    made = plan_on_aws(name, count=2, count_min=1)
    groups = [replace(each, machine=emulated_machine(each.machine)) for each in made.groups]
    scratch = Scratch(SCRATCH, emulated.INSIDE, DISKS)
    groups = [
        replace(each, hardware=("scratch", "pci"), scratch=scratch) if each.role == "worker" else each
        for each in groups
    ]
    brought = (Software("scratch", (("mdadm", ""),)), Software("pci", (("pciutils", ""),)))
    release = replace(made.release, hardware=brought)
    return replace(made, groups=tuple(groups), release=release)


def emulated_machine(of: Machine) -> Machine:
    return replace(of, simulated=False, cores=emulated.CORES, threads=1, memory_mib=MEMORY_MIB)


def with_accelerators(plan: Plan) -> Plan:
    """Return the plan with accelerators, as Slurm knows them."""
    return replace(plan, groups=tuple(replace(each, machine=accelerated(each)) for each in plan.groups))


def accelerated(group: Group) -> Machine:
    return replace(group.machine, accelerator="l4", accelerators=ACCELERATORS if group.role == "worker" else 0)


@dataclass
class Instances:
    """A head, a permanent node, and an elastic node."""

    plan: Plan
    place: Place
    image: Path
    public: str
    addresses: dict[str, str] = field(init=False)
    """Addresses by the names of nodes."""
    machines: dict[str, Emulated] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """Progress of the last run of the playbook."""
    said_first: list[str] = field(default_factory=list)
    """Progress of the run that made them a cluster."""

    def __post_init__(self) -> None:
        local = plan_of(self.plan.name, count=2)
        self.addresses = {node.name: node.address for group in local.groups for node in group.nodes}

    @property
    def roster(self) -> Roster:
        return members.members(self.plan.name, REGION)

    def play(self, edit: Edit = lambda _: None) -> Recap:
        """Runs site.yml; edit may change the inventory before."""
        roster, content = self.roster, configuration.install_digest()
        files, attached = slurm.files(self.plan, roster), Attached(disks=(Disk(VOLUME, STATE),))
        inventory = configuration.inventory(self.plan, roster, files, content=content, attached=attached)
        edit(inventory["all"])
        self.said.clear()
        return asyncio.run(configuration.play("site.yml", inventory, roster.reach, SECRETS, self.said.append, 40))

    def shell(self, node: str, command: str) -> str:
        return remote.ask(self.roster, node, ["sh", "-c", f"cd /tmp; {command}"], timeout_s=WAIT_S).strip()

    def start(self, nodes: Mapping[str, str]) -> None:
        """Instances as their groups' templates start them, which have joined when consoles have shown their keys."""
        aws, told = self.place.aws, first_boot.cloud_config(self.public, "")
        for node, group in nodes.items():
            of = {tags.CLUSTER: self.plan.name, tags.GROUP: group, tags.NODE: node}
            self.switch_on(node, started(aws, self.addresses[node], of, UserData=told))
        for node in nodes:
            self.machines[node].until_shown(KEYS)
            booting.CONSOLES[self.place.instances[self.addresses[node]]] = self.machines[node].shown
        members.join(self.plan.name, REGION, {})

    def switch_on(self, node: str, instance: str) -> Emulated:
        folder = self.place.folder
        disks = [emulated.Disk(copied(self.image, folder / f"{node}.disk"), "root")]
        if node == "head":
            disks.append(emulated.Disk(blank(folder / f"{node}.state"), VOLUME.replace("-", "")))
        else:
            disks += [emulated.Disk(blank(folder / f"{node}.{n}"), f"inside{n}", True) for n in range(DISKS)]
        devices = DIRECT if node == "gpu-001" else ()
        self.machines[node] = self.place.boot(node, instance, self.addresses[node], disks, *devices)
        return self.machines[node]


def started(aws: Simulated, address: str, of: dict[str, str], **told: str) -> str:
    ec2 = aws.client("ec2")
    if not (found := ec2.describe_subnets(Filters=[{"Name": "cidr-block", "Values": ["10.98.0.0/16"]}])["Subnets"]):
        vpc = ec2.create_vpc(CidrBlock="10.98.0.0/16")["Vpc"]["VpcId"]
        found = [ec2.create_subnet(VpcId=vpc, CidrBlock="10.98.0.0/16")["Subnet"]]
    named = [{"Key": key, "Value": value} for key, value in of.items()]
    [instance] = ec2.run_instances(
        **dict.fromkeys(("MinCount", "MaxCount"), 1),
        ImageId=aws.publish("/test/image"),
        SubnetId=found[0]["SubnetId"],
        PrivateIpAddress=address,
        TagSpecifications=[{"ResourceType": "instance", "Tags": named}] if named else [],
        **told,
    )["Instances"]
    return str(instance["InstanceId"])


def copied(disk: Path, to: Path) -> Path:
    subprocess.run(["cp", "--sparse=always", disk, to], check=True, timeout=300)
    return to


def blank(file: Path) -> Path:
    with file.open("wb") as opened:
        opened.truncate(DISK_MIB << 20)
    return file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Plan, Path]]:
    folder, name = tmp_path_factory.mktemp("machines"), f"t{uuid.uuid4().hex[:8]}"
    local, plan, key = plan_of(name, count=2), plan_of_machines(name), folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    with ExitStack() as stack:
        patch, aws = stack.enter_context(pytest.MonkeyPatch.context()), stack.enter_context(simulated_aws())
        patch.setenv("STAMPWORKS_STATE", str(folder / "state"))
        addresses = [node.address for group in local.groups for node in group.nodes]
        made = stack.enter_context(placed(local, folder, aws, key, [*addresses, BUILDER]))
        for variable, value in made.environment.items():
            patch.setenv(variable, value)
        yield made, plan, key


@pytest.fixture(scope="module")
def image(place: tuple[Place, Plan, Path]) -> Path:
    """Build the release's image from the distribution's, by Packer's template."""
    here, plan, key = place
    packages = dict(plan.release.packages)
    published = disk.publish(
        here.folder, plan.release.suite, packages["workloads"], FILES | {ENDPOINT: endpoint(here.gateway)}
    )
    wanted = {name for names in packages.values() for name in names} | {*plan.release.boot}
    wanted |= {name for each in plan.release.hardware for name, _ in each.packages}
    sources, tree = apt.sources_of(plan.release.suite), here.folder / "tree"
    apt.download(here.folder / "packages", tree, sources, sorted(wanted), print)
    shutil.rmtree(tree)
    here.aws.client("ec2").import_key_pair(KeyName="packer", PublicKeyMaterial=key.with_suffix(".pub").read_bytes())
    told = configuration.packer_variables(plan, first_boot.builder_config(""))
    instance = started(here.aws, BUILDER, {}, KeyName="packer", UserData=told["user_data"])
    builder = here.boot("builder", instance, BUILDER, [emulated.Disk(published, "root")])
    builder.until_shown(KEYS)
    packer.provision({**told, "packages_source": here.packages}, here.reach, BUILDER, key, here.folder)
    builder.press_power()
    return published


@pytest.fixture(scope="module")
def instances(place: tuple[Place, Plan, Path], image: Path) -> Instances:
    """Return a head and a node as a cluster, so that each test runs alone, too."""
    here, plan, key = place
    made = Instances(plan, here, image, key.with_suffix(".pub").read_text().strip())
    identity = tags.identity_parameter(plan.name)
    here.aws.client("ssm").put_parameter(Name=identity, Value=key.read_text(), Type="SecureString")
    made.start({"head": "head", "gpu-001": "gpu"})
    assert made.play().hosts == len(made.machines)
    made.said_first = [*made.said]
    return made


def as_alice(instances: Instances, command: str) -> str:
    return instances.shell("head", f"runuser -u alice -- {command}")


def failed(instances: Instances) -> list[str]:
    """Return unexpected services on any node."""
    return [each for node in instances.machines for each in instances.shell(node, FAILED).splitlines()]


def is_idle(instances: Instances, node: str) -> bool:
    return as_alice(instances, f"sinfo --noheader --partition=main --nodes={node} --format=%T") == "idle"


def test_they_become_a_cluster(instances: Instances) -> None:
    """Nodes keep their image except for their own parts and run a job; a second run of the playbook changes nothing."""
    installing = [each.partition(" (")[0] for each in instances.said_first if each.startswith("image : ")]
    assert installing == ["image : Find the nodes on which nothing is installed"], "the rest is in the image"
    assert as_alice(instances, "srun --nodes=1 hostname") == "gpu-001"
    assert instances.play().changed == 0, instances.said
    assert failed(instances) == []
    for node in instances.machines:
        assert instances.shell(node, "hostname; getent passwd admin || echo nobody").split() == [node, "nobody"]
    ids = [instances.shell(node, "cat /etc/machine-id") for node in instances.machines]
    assert len({*ids, ""}) == len(instances.machines) + 1


def test_disks_are_found_by_what_they_call_themselves(instances: Instances) -> None:
    """Local disks form an array, and the head's own disk contains the scheduler's state."""
    array = "cd /sys/block/md*/md; cat level raid_disks"
    assert instances.shell("gpu-001", f"findmnt --noheadings --output=FSTYPE {SCRATCH}; {array}").split() == [
        *("ext4", "raid0", f"{DISKS}")
    ]
    as_alice(instances, f"srun --nodes=1 touch {SCRATCH}/mine")
    assert instances.shell("head", f"findmnt --noheadings --output=SOURCE {STATE}") == "/dev/vdb"
    assert instances.shell("head", f"ls {STATE}/slurmctld/job_state")


def test_users_get_nothing_from_the_metadata_service(instances: Instances) -> None:
    """Their jobs get nothing either; programs of the system do."""
    asks = f"python3 -c 'import socket; socket.create_connection((\"{METADATA}\", 80), timeout=20)' 2>&1 | tail -n 1"
    assert instances.shell("gpu-001", asks) == ""
    assert "PermissionError" in instances.shell("gpu-001", f"runuser -u alice -- {asks}")
    assert "PermissionError" in as_alice(instances, f"srun --nodes=1 sh -c {shlex.quote(asks)}")


def test_a_notice_of_aws_drains_a_node(instances: Instances) -> None:
    """systemd runs the watch as root, whom the metadata service still answers."""
    notice = {"action": "terminate", "time": "2026-12-01T11:30:00Z"}
    instances.place.notices[instances.addresses["gpu-001"]] = {"spot/instance-action": notice}
    held = "sinfo --noheader --nodes=gpu-001 --partition=main --format='%T %E'"
    wait_for(lambda: as_alice(instances, held).startswith("drained"), WAIT_S)
    assert as_alice(instances, held) == "drained cloud: spot instance: terminate at 2026-12-01T11:30:00Z"
    instances.place.notices.clear()
    wait_for(lambda: is_idle(instances, "gpu-001"), WAIT_S)


def test_a_node_starts_with_its_job(instances: Instances, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head starts a machine, which configures itself from its template, is checked, and runs the job."""
    plan, aws = instances.plan, instances.place.aws
    address = instances.addresses[ELASTIC]
    monkeypatch.setattr(
        Instance,
        "private_ip_address",
        property(lambda self: address if joins(self) else self.nics[0].private_ip_address),
    )
    told = first_boot.cloud_config(instances.public, "", (plan.name, "gpu", REGION, BUCKET))
    prepare(aws, plan, instances.roster, told)
    with ThreadPoolExecutor(1) as one:
        job = one.submit(as_alice, instances, "srun --partition=main --nodes=2 hostname")
        machine = instances.switch_on(ELASTIC, named(aws))
        machine.until_shown("stampworks: this is")
        assert sorted(job.result().splitlines()) == ["gpu-001", ELASTIC], machine.shown[-3000:]
    instances.shell("head", f"scontrol update nodename={ELASTIC} state=power_down_force reason=enough")
    wait_for(lambda: state(aws) == "terminated", WAIT_S)
    instances.machines.pop(ELASTIC).lose_power()


def joins(instance: Instance) -> bool:
    return any(each["key"] == tags.ELASTIC for each in instance.get_tags())


def of_elastic(aws: Simulated) -> list[dict[str, Any]]:
    filters = [{"Name": f"tag:{tags.NODE}", "Values": [ELASTIC]}]
    rows = aws.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [each for row in rows for each in row["Instances"]]


def named(aws: Simulated) -> str:
    """Return the instance that the head has started, as soon as its node is known."""
    wait_for(lambda: of_elastic(aws), WAIT_S)
    return str(of_elastic(aws)[0]["InstanceId"])


def state(aws: Simulated) -> str:
    return str(of_elastic(aws)[0]["State"]["Name"])


def test_a_job_opens_the_accelerators_that_it_got(instances: Instances) -> None:
    """The kernel itself keeps it from the others: it has the second version of control groups alone."""
    instances.play(telling_slurm(instances))
    wait_for(lambda: is_idle(instances, "gpu-001"), WAIT_S)
    assert instances.shell("gpu-001", "findmnt --noheadings --output=FSTYPE /sys/fs/cgroup") == "cgroup2"
    asked = ("--gres=gpu:1", "--gres=gpu:2", "")
    found = [as_alice(instances, f"srun {each} sh -c {shlex.quote(OPENED)}") for each in asked]
    assert [len(each) for each in found] == [1, 2, 0]


def telling_slurm(instances: Instances) -> Edit:
    """Make an edit by which Slurm alone learns of the accelerators: programs that watch them are NVIDIA's."""

    def edit(inventory: dict[str, Any]) -> None:
        files = slurm.files(with_accelerators(instances.plan), instances.roster)
        inventory["vars"]["slurm_controller_files"] = files

    return edit


def to_node(instances: Instances, command: str) -> list[str]:
    """Return the output of a user's login from the head, and how it ended."""
    ssh = f"runuser -u alice -- ssh -o BatchMode=yes gpu-001 {shlex.quote(command)}"
    return instances.shell("head", f"{ssh} 2>&1; echo rc $?").splitlines()


def test_login_joins_the_job(instances: Instances) -> None:
    """The login opens the job's devices, is one of its processes, and ends with it; without a job it is refused."""
    denied = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
    assert denied in (said := to_node(instances, "true"))
    assert said[-1] == "rc 255"
    job = as_alice(instances, "sbatch --parsable --gres=gpu:1 --output=/dev/null --wrap='sleep 3000'")
    wait_for(lambda: to_node(instances, "true") == ["rc 0"], WAIT_S)
    opened, group, ended = to_node(instances, f"{OPENED}; cat /proc/self/cgroup")
    assert (len(opened), ended) == (1, "rc 0")
    assert f"/job_{job}/step_extern" in group
    instances.shell("head", "(setsid runuser -u alice -- ssh -o BatchMode=yes gpu-001 sleep 2999 >/dev/null 2>&1 &)")
    wait_for(lambda: instances.shell("gpu-001", "pgrep -fx 'sleep 2999' || true"), WAIT_S)
    as_alice(instances, f"scancel {job}")
    wait_for(lambda: instances.shell("gpu-001", "pgrep -fx 'sleep 2999' || echo none") == "none", WAIT_S)
    assert to_node(instances, "true")[-1] == "rc 255"


def boot_again(instances: Instances, node: str) -> None:
    machine = instances.machines[node]
    before = len(machine.shown)
    machine.lose_power()
    machine.switch_on()
    machine.until_shown("login:", before)


def test_a_head_that_lost_power_comes_back_by_itself(instances: Instances) -> None:
    """Disk and queue are kept: submitted jobs run."""
    job = as_alice(instances, "sbatch --parsable --hold --job-name=kept --output=/dev/null --wrap=hostname")
    wait_for(lambda: instances.shell("head", f"grep --text kept {STATE}/slurmctld/job_state || true"), WAIT_S)
    boot_again(instances, "head")
    wait_for(lambda: "is UP" in instances.shell("head", "scontrol ping || true"), WAIT_S)
    as_alice(instances, f"scontrol release {job}")
    wait_for(lambda: "COMPLETED" in as_alice(instances, f"scontrol show job {job}"), WAIT_S)
    assert failed(instances) == []


def test_a_node_that_lost_power_waits_for_an_up(instances: Instances) -> None:
    """The node keeps its data, but the cause is unknown: Slurm drains it, and a run of the playbook resumes it."""
    boot_again(instances, "gpu-001")
    wait_for(lambda: as_alice(instances, "sinfo --noheader --nodes=gpu-001 --format=%E -p main") == AGAIN, WAIT_S)
    assert failed(instances) == []
    instances.play(telling_slurm(instances))
    assert instances.said[-1].startswith("slurm_controller : Wait until every node answers")
    assert as_alice(instances, f"srun --nodes=1 ls {SCRATCH}/mine") == f"{SCRATCH}/mine"
    assert instances.play(telling_slurm(instances)).changed == 0, instances.said


def test_stop_empties_local_disks(instances: Instances) -> None:
    """The node boots without the array, and its own disk stays empty; the next run creates the file system again. A
    node that an `up` holds takes jobs again, too."""
    held = written(DrainReason("stampworks", "", "a new disk"))
    instances.shell("head", f"scontrol update nodename=gpu-001 state=drain reason='{held}'")
    machine = instances.machines["gpu-001"]
    machine.lose_power()
    for each in machine.disks:
        if each.inside:
            blank(each.file)
    boot_again(instances, "gpu-001")
    assert instances.shell("gpu-001", f"runuser -u alice -- touch {SCRATCH}/x 2>&1 || true").endswith("denied")
    instances.play(telling_slurm(instances))
    wait_for(lambda: is_idle(instances, "gpu-001"), WAIT_S)
    assert as_alice(instances, f"srun --nodes=1 sh -c 'touch {SCRATCH}/x; ls {SCRATCH}'").split() == ["lost+found", "x"]


def test_devices_reach_each_other(instances: Instances) -> None:
    """The boot loader passes the kernel its option, and services that are enabled at each boot are off."""
    assert "iommu=pt" in instances.shell("gpu-001", "cat /proc/cmdline").split()
    assert instances.shell("gpu-001", DIRECTLY) == "identity"


def test_a_node_is_started_anew_for_what_only_that_can_do(instances: Instances) -> None:
    """The restart happens once, and not during a job: the kernel's option was removed."""
    instances.shell("gpu-001", f"rm {TOLD}; update-grub; sync")
    boot_again(instances, "gpu-001")
    assert "DMA" in instances.shell("gpu-001", DIRECTLY)
    instances.shell("head", "scontrol update nodename=gpu-001 state=resume")
    job = as_alice(instances, "sbatch --parsable --output=/dev/null --wrap='sleep 3000'")
    wait_for(lambda: "slurmstepd: [" in instances.shell("gpu-001", "pgrep -x -a slurmstepd"), WAIT_S)
    with pytest.raises(PlaybookFailed, match=r"must be started anew .*, and runs 2 steps of jobs"):
        instances.play(telling_slurm(instances))
    as_alice(instances, f"scancel {job}")
    wait_for(lambda: "slurmstepd: [" not in instances.shell("gpu-001", "pgrep -x -a slurmstepd"), WAIT_S)
    instances.play(telling_slurm(instances))
    assert instances.shell("gpu-001", DIRECTLY) == "identity"
    assert as_alice(instances, "srun --nodes=1 hostname") == "gpu-001"
    assert instances.play(telling_slurm(instances)).changed == 0, instances.said
