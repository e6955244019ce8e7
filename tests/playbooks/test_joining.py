"""An elastic node: Slurm wants it for a job, the head's program starts it, it configures itself from the bundle, is
checked, and takes the job.

AWS and its metadata service are simulated; a machine of AWS is an existing namespace node.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import functools
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import pytest
from moto.ec2.models.instances import Instance
from stampworks import configuration
from stampworks import machine_room as room
from stampworks.clouds.aws import first_boot, tags
from stampworks.plan import Attached, Member, Plan, Roster, template_name
from stampworks.schedulers import slurm

from tests.clouds.aws import metadata
from tests.clouds.aws.simulated import REGION, Simulated, served, simulated_aws
from tests.playbooks.conftest import SECRETS, Cluster, booted, plan_of
from tests.playbooks.test_handover import METADATA, plan_on_aws

CLONE_NEWNET = 0x40000000
BUCKET = "the-bundle"
AWS_PORT = 5000
JOIN = Path(first_boot.__file__).parent / "tree/join"
ENDPOINT = "/etc/python3.13/sitecustomize.py"
"""File that every Python on a node reads first: it sends the SDK to the simulated AWS."""


BOOTED = r"""
mkdir /usr/lib/own
mv /usr/sbin/slurmd /usr/lib/own/slurmd
printf '#!/bin/sh\nexec /usr/lib/own/slurmd -b "$@"\n' >/usr/sbin/slurmd
chmod 755 /usr/sbin/slurmd
"""
"""A namespace has booted when its host has, and Slurm believes no machine that it has started if it is older."""


@dataclass
class Scene:
    """A head, a permanent node, and a machine that is not a node yet; new ones for each test."""

    plan: Plan
    machines: Cluster
    aws: Simulated
    elastic: Member
    instances: dict[str, str] = field(default_factory=dict)
    """Instances by the address under which the metadata service knows them."""

    def started(self, limit_s: float = 90) -> str:
        """The instance that the head has started and named."""
        ec2, end = self.aws.client("ec2"), time.monotonic() + limit_s
        filters = [{"Name": f"tag:{tags.NODE}", "Values": [self.elastic.name]}]
        while time.monotonic() < end:
            for each in ec2.describe_instances(Filters=filters)["Reservations"]:
                return str(each["Instances"][0]["InstanceId"])
            time.sleep(0.5)
        said = self.machines.shell("head", "tail -n 30 /var/log/stampworks/*/current; scancel -u alice")
        raise AssertionError(said)

    def boot(self, instance: str) -> subprocess.CompletedProcess[str]:
        """Run the machine's first boot."""
        self.instances[self.elastic.address] = instance
        words = ["python3", "-sE", "/root/join", self.plan.name, "gpu", REGION, BUCKET]
        return room.run_in_node(self.plan.name, self.elastic.name, ["env", "LIMIT_S=500", *words], 600)


@pytest.fixture
def scene(whole: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("STAMPWORKS_STATE", str(whole[1]))
    return whole[0]


@pytest.fixture
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Path]]:
    folder, name = tmp_path_factory.mktemp("joining"), f"t{uuid.uuid4().hex[:8]}"
    local, plan = plan_of(name, count=2), plan_on_aws(name, count_min=1)
    with ExitStack() as stack:
        machines = stack.enter_context(booted(local, folder, plan.release.boot))
        patch, aws = stack.enter_context(pytest.MonkeyPatch.context()), stack.enter_context(simulated_aws())
        here = machines.roster
        elastic = next(each for each in here.members if each.name == "gpu-002")
        patch.setattr(Instance, "private_ip_address", property(lambda _: elastic.address))
        roster = replace(here, members=tuple(each for each in here.members if each != elastic))
        made = Scene(plan, machines, aws, elastic)
        gateway = local.network.gateway
        stack.enter_context(surrounded(here.reach, gateway, aws, made.instances))
        for member in here.members:
            machines.shell(member.name, f"ip route replace {METADATA}/32 via {gateway}")
            told = endpoint(gateway)
            machines.shell(member.name, f'echo "{told}" >>{ENDPOINT}')
        prepare(aws, plan, roster)
        program = JOIN.read_text().replace("'", "'\\''")
        machines.shell("gpu-002", f"printf %s '{program}' >/root/join")
        machines.shell("gpu-002", BOOTED)
        inventory = configuration.inventory(plan, roster, slurm.files(plan, roster))
        asyncio.run(configuration.play("site.yml", inventory, roster.reach, SECRETS, machines.said.append, 5))
        yield made, folder / "state"


@contextlib.contextmanager
def surrounded(
    reach: tuple[str, ...],
    gateway: str,
    aws: Simulated,
    instances: Mapping[str, str],
    notices: metadata.Notices = MappingProxyType({}),
) -> Iterator[None]:
    """Yield a room with the services around machines of AWS: metadata, and a simulated API."""
    also_here = [*reach, "ip", "address", "add", f"{METADATA}/32", "dev", "lo"]
    subprocess.run(also_here, check=True, timeout=30)
    with ExitStack() as stack:
        for address, port, application in (
            (METADATA, 80, metadata.service(aws, instances, notices)),
            (gateway, AWS_PORT, aws.application),
        ):
            stack.enter_context(served(application, stack.enter_context(listening(reach, address, port))))
        yield


def endpoint(gateway: str) -> str:
    """Return a line of Python that points the AWS SDK of a machine to this server."""
    return f"import os; os.environ.setdefault('AWS_ENDPOINT_URL', 'http://{gateway}:{AWS_PORT}')"


def listening(reach: tuple[str, ...], address: str, port: int) -> socket.socket:
    """A socket of this process in the network of the room."""
    made: list[socket.socket] = []

    def inside(pid: int) -> None:
        with open(f"/proc/{pid}/ns/net") as network:  # noqa: PTH123
            assert ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) == 0
        made.append(socket.create_server((address, port)))

    with subprocess.Popen([*reach, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as there:
        assert there.stdin
        assert there.stdout
        there.stdin.write(b"in\n")
        there.stdin.flush()
        there.stdout.readline()  # the process has entered the network namespace
        thread = threading.Thread(target=inside, args=(there.pid,))  # ends with the network that it has entered
        thread.start()
        thread.join()
        there.stdin.close()
    return made[0]


def prepare(aws: Simulated, plan: Plan, roster: Roster, user_data: str = "") -> None:
    """Make the resources in AWS for nodes that start later, and the input of their first boot."""
    s3, ec2 = aws.client("s3"), aws.client("ec2")
    content = configuration.bundle_file(
        plan, roster, slurm.files(plan, roster), {}, configuration.install_digest(), Attached(), Path.cwd()
    )
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=tags.BUNDLE, Body=content.read_bytes())
    key = tags.key_parameter(plan.name)
    aws.client("ssm").put_parameter(Name=key, Value=SECRETS["slurm_key"], Type="SecureString")
    [pool] = plan.pools
    of = {tags.CLUSTER: plan.name, tags.GROUP: pool.name, tags.ELASTIC: "on-demand"}
    ec2.create_launch_template(
        LaunchTemplateName=template_name(plan.name, pool, pool.offers[0]),
        LaunchTemplateData={
            "ImageId": aws.publish("/test/image"),
            "InstanceType": "m7i.xlarge",
            "UserData": base64.b64encode(user_data.encode()).decode(),
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": [{"Key": name, "Value": value} for name, value in of.items()]}
            ],
        },
    )


def bring(scene: Scene, folder: Path) -> None:
    """Install the boot software of an Ubuntu image on a machine, from the real wheels and without an index."""
    [lock] = (configuration.playbooks_dir() / "roles/boot/files").iterdir()
    share = scene.machines.share
    shutil.copy(lock, share / "boot.txt")
    subprocess.run([sys.executable, "-m", "venv", folder / "pip"], check=True, timeout=120)
    download = [str(folder / "pip/bin/pip"), "download", "--quiet", "--no-deps", "--require-hashes"]
    download += ["--only-binary=:all:", "--python-version=3.13", f"--requirement={lock}", f"--dest={share / 'wheels'}"]
    download += [f"--platform=manylinux{each}_x86_64" for each in ("_2_28", "_2_17", "2014")]
    subprocess.run(download, check=True, timeout=300)
    shell = functools.partial(scene.machines.shell, scene.elastic.name)
    shell("printf '[global]\nno-index = true\nfind-links = /exports/shared/wheels\n' >/etc/pip.conf")
    call = {"directory": "/usr/local/lib/stampworks/boot", "lock": "/exports/shared/boot.txt"}
    assert scene.machines.module(scene.elastic.name, "wheels", call | {"python": "/usr/bin/python3"})["changed"]
    shell("rm /usr/bin/ansible-playbook")


@pytest.mark.long
@pytest.mark.parametrize("wheels", [False, True], ids=["suite", "wheels"])
def test_a_node_starts_with_its_job(scene: Scene, wheels: bool, tmp_path: Path) -> None:
    """The job waits until the node has joined, and runs on both, for any of the two releases."""
    if wheels:
        bring(scene, tmp_path)
    ask = "runuser -u alice -- srun --chdir=/tmp -p main -N2 sh -c 'hostname; getent hosts gpu-002'"
    with ThreadPoolExecutor(1) as one:
        job = one.submit(scene.machines.shell, "head", ask, 150)
        try:
            done = scene.boot(scene.started())
            assert done.returncode == 0, done.stdout + done.stderr
        except BaseException:
            scene.machines.shell("head", "scancel -u alice")
            raise
        found = f"{scene.elastic.address:<15} gpu-002"
        assert sorted(job.result().splitlines()) == [*(found, found), "gpu-001", "gpu-002"], "both know where it is"
    scene.machines.shell("gpu-002", "! test -e /run/stampworks-join")  # the folder holds the node's secrets
    scene.machines.shell("head", "scontrol update nodename=gpu-002 state=power_down_force reason=enough")
    until = time.monotonic() + 120
    states = {"running"}
    while states & {"running", "pending"} and time.monotonic() < until:
        time.sleep(1)
        rows = scene.aws.client("ec2").describe_instances()["Reservations"]
        states = {each["State"]["Name"] for row in rows for each in row["Instances"]}
    assert states == {"terminated"}, json.dumps(list(states))
