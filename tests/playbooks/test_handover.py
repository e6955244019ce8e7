"""Configuration of AWS instances as a cluster: namespace nodes, registered as instances of a simulated AWS.

The rest is real: the SDK reads the roster, ssh uses a tunnel to the instance's id, and the playbooks run on the
roster's nodes.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from stampworks import configuration, operations, planning
from stampworks.clouds.aws import members, tags
from stampworks.configuration import Recap
from stampworks.declaration import load_value
from stampworks.operations import remote, schedulers
from stampworks.operations.run import RunOptions
from stampworks.plan import Machine, Plan, Roster
from stampworks.schedulers import slurm

from tests.clouds.aws import booting, metadata
from tests.clouds.aws.simulated import REGION, Simulated, served, simulated_aws
from tests.playbooks import tunnel
from tests.playbooks.conftest import DECLARATION, SECRETS, booted, plan_of
from tests.project import wait_for

pytestmark = pytest.mark.long

METADATA = "169.254.169.254"
HandedOver = tuple[Plan, Roster, tuple[str, ...]]
"""The last is the command that enters the network of the nodes."""


def plan_on_aws(name: str, **pool: int) -> Plan:
    """Return a plan with nodes of the available size, and the names and addresses of the room."""
    pools = [{"name": "gpu", "machine": "m7i", "count": 2, **pool}]
    declared = {**DECLARATION, "name": name, "cloud": "aws", "region": REGION, "pools": pools, "storage": []}
    declared["logs"] = {"days": 0}  # these nodes have no journal: see test_logs.py
    made = planning.plan(load_value(declared, "test"))
    return replace(made, groups=tuple(replace(group, machine=small(group.machine)) for group in made.groups))


def small(machine: Machine) -> Machine:
    return replace(machine, simulated=True, cores=1, memory_mib=64)


def started(aws: Simulated, plan: Plan, here: Roster) -> dict[str, str]:
    """An instance for each node, with its address; gives the addresses by their ids."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.98.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.98.0.0/16")["Subnet"]["SubnetId"]
    image, found = aws.publish("/test/image"), {}
    for each in here.members:
        of = {tags.CLUSTER: plan.name, tags.GROUP: each.group, tags.NODE: each.name}
        named = [{"Key": key, "Value": value} for key, value in of.items()]
        [instance] = ec2.run_instances(
            **dict.fromkeys(("MinCount", "MaxCount"), 1),
            ImageId=image,
            SubnetId=subnet,
            PrivateIpAddress=each.address,
            TagSpecifications=[{"ResourceType": "instance", "Tags": named}],
        )["Instances"]
        found[instance["InstanceId"]] = each.address
        booting.CONSOLES[instance["InstanceId"]] = (
            f"-----BEGIN SSH HOST KEY KEYS-----\n{each.host_key} root@x\n-----END SSH HOST KEY KEYS-----\n"
        )
    return found


@pytest.fixture(scope="module")
def handed_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandedOver]:
    folder, name = tmp_path_factory.mktemp("handover"), f"t{uuid.uuid4().hex[:8]}"
    nodes = booted(plan_of(name, count=2), folder)
    with nodes as machines, pytest.MonkeyPatch.context() as patch, simulated_aws() as aws:
        for variable, value in aws.environment.items():
            patch.setenv(variable, value)
        plan, here = plan_on_aws(name), machines.roster
        addresses = started(aws, plan, here)
        parameter = tags.identity_parameter(name)
        aws.client("ssm").put_parameter(Name=parameter, Value=machines.key.read_text(), Type="SecureString")
        for variable, value in tunnel.put_into(folder, here.reach, addresses).items():
            patch.setenv(variable, value)
        members.join(name, REGION, {"gpu": ("gpu-001", "gpu-002")})
        yield plan, members.members(name, REGION), here.reach


def play(plan: Plan, roster: Roster, said: list[str]) -> Recap:
    inventory = configuration.inventory(plan, roster, slurm.files(plan, roster))
    return asyncio.run(configuration.play("site.yml", inventory, roster.reach, SECRETS, said.append, 5))


def test_instances_become_a_cluster(handed_over: HandedOver) -> None:
    """They take jobs, a second run changes nothing, and the health check passes."""
    plan, roster, _ = handed_over
    assert [each.name for each in roster.members] == ["gpu-001", "gpu-002", "head"]
    assert roster.reach == ()
    said: list[str] = []
    assert play(plan, roster, said).hosts == 3
    assert play(plan, roster, said).changed == 0, said
    status = operations.status_of(plan, roster)
    assert (status.verdict, status.why) == ("pass", ())
    command = schedulers.commands_of(plan, roster).prepare(["hostname"], RunOptions()).command
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(answer.stdout.split()) == ["gpu-001", "gpu-002"]


def test_users_get_nothing_from_the_metadata_service(handed_over: HandedOver) -> None:
    """The service would give them the machine's rights in the account; system programs still reach it."""
    plan, roster, _ = handed_over
    head = next(each.address for each in roster.members if each.name == "head")
    ask = f"python3 -c 'import socket; socket.create_connection((\"{METADATA}\", 22), timeout=5)'"
    on(roster, "head", f"ip address replace {METADATA}/32 dev lo")  # sshd answers at this address
    on(roster, "gpu-001", f"ip route replace {METADATA}/32 via {head}")
    on(roster, "gpu-001", ask)
    on(roster, "gpu-001", f"setpriv --reuid slurm --clear-groups {ask}")
    with pytest.raises(operations.OperationError, match="PermissionError"):
        on(roster, "gpu-001", f"setpriv --reuid {plan.users[0].name} --clear-groups {ask}")


SAVES = r"""#!/bin/sh
#SBATCH --nodelist=gpu-001
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --chdir=/tmp
#SBATCH --output=/dev/null
trap "touch /tmp/saved; scontrol requeue $SLURM_JOB_ID; exit" USR1
sleep 900 & wait
"""
LIMIT_S = 150


def test_a_spot_interruption_reaches_slurm_and_its_jobs(handed_over: HandedOver) -> None:
    """The node drains with the notice, the job saves and waits; when AWS withdraws the notice it starts there again."""
    from tests.playbooks.test_joining import listening  # it imports this module

    plan, roster, reach = handed_over
    play(plan, roster, [])
    address = next(each.address for each in roster.members if each.name == "gpu-001")
    gateway = plan_of(plan.name, count=2).network.gateway
    subprocess.run([*reach, "ip", "address", "add", f"{METADATA}/32", "dev", "lo"], check=True, timeout=30)
    on(roster, "gpu-001", f"ip route replace {METADATA}/32 via {gateway}")
    on(roster, "head", f"printf %s {shlex.quote(SAVES)} >/tmp/saves; chmod 755 /tmp/saves")
    job = on(roster, "head", f"runuser -u {plan.users[0].name} -- sbatch --parsable /tmp/saves")
    state = f"squeue --noheader --jobs={job} --format=%T"
    held = "sinfo --noheader --nodes=gpu-001 --partition=main --format='%T %E'"
    notices: dict[str, dict[str, object]] = {}
    application = metadata.service(None, {}, notices)  # type: ignore[arg-type]  # no instance, so AWS is not asked
    with served(application, listening(reach, METADATA, 80)):
        wait_for(lambda: on(roster, "head", state) == "RUNNING", LIMIT_S)
        notices[address] = {"spot/instance-action": {"action": "terminate", "time": "2026-12-01T11:30:00Z"}}
        wait_for(lambda: on(roster, "head", held).startswith("drained cloud: "), LIMIT_S)
        assert on(roster, "head", held) == "drained cloud: spot instance: terminate at 2026-12-01T11:30:00Z"
        assert on(roster, "head", state) == "PENDING"
        on(roster, "gpu-001", "test -e /tmp/saved")
        assert "held by its cloud" in operations.status_of(plan, roster).why[0]
        notices.clear()
        wait_for(lambda: not on(roster, "head", held).startswith("drain"), LIMIT_S)
        on(roster, "head", f"scontrol update jobid={job} starttime=now")
        wait_for(lambda: on(roster, "head", state) == "RUNNING", LIMIT_S)
    said = on(roster, "gpu-001", "cat /var/log/stampworks/interruptions/current")
    assert f"job {job} has got USR1" in said
    on(roster, "head", f"scancel {job}")


def on(roster: Roster, node: str, command: str) -> str:
    return remote.ask(roster, node, ["sh", "-c", command], timeout_s=90).strip()


def test_a_machine_that_answers_with_another_key_is_not_talked_to(handed_over: HandedOver) -> None:
    """The tunnel may lead anywhere: ssh verifies that the machine has the host key of its console."""
    plan, roster, _ = handed_over
    wrong = replace(roster, members=tuple(replace(each, host_key=booting.key(1)) for each in roster.members))
    with pytest.raises(operations.UnknownError, match="head cannot be reached: Host key verification failed"):
        on(wrong, "head", "true")
    assert Path(roster.identity_file).is_file()
    assert plan.cloud == "aws"
