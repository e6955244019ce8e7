"""Members of a cluster on AWS, read from a simulated AWS through the SDK; and how a machine becomes a member."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from stampworks import operations
from stampworks.clouds.aws import machines, members, session, tags
from stampworks.clouds.aws.errors import AwsError
from stampworks.clouds.aws.session import Api
from stampworks.plan import Ending, Plan
from stampworks.provider.handler import Call
from stampworks.provider.handlers.roster import Roster

from tests.clouds.aws import booting
from tests.clouds.aws.booting import boot, key
from tests.clouds.aws.machines import (
    ALONE,
    CLUSTER,
    NAMES,
    gathered,
    ids,
    join,
    stamped,
    start,
    start_head,
    tag,
    there,
)
from tests.clouds.aws.simulated import REGION, Simulated

pytestmark = pytest.mark.usefixtures("groups")


def test_a_machine_joins_when_its_console_shows_its_key(aws: Simulated) -> None:
    """The first boot is complete then. Before, the machine has a name but is no member."""
    start(aws)
    one, other = ids(aws)
    assert join().members == ()
    boot(other, 7)
    [found] = join().members
    assert (found.name, found.group, found.target, found.host_key) == ("gpu-002", "gpu", other, key(7))
    assert found.places == ("nn-top", "nn-spine-0", "nn-leaf-0")
    boot(one, 8)
    assert [(each.name, each.target) for each in join().members] == [("gpu-001", one), ("gpu-002", other)]


def test_the_roster_says_how_to_get_there(aws: Simulated) -> None:
    """The route is a tunnel of AWS, with a temporary key in a private file."""
    roster = stamped(aws)
    assert (roster.cloud, roster.region, roster.user, roster.reach) == ("aws", REGION, "root", ())
    assert roster.proxy[:7] == ("aws", "ssm", "start-session", "--region", REGION, "--target", "%h")
    assert roster.host(roster.members[0]) == roster.members[0].target
    file = Path(roster.identity_file)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("PRIVATE\n", 0o600)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    aws.client("ssm").put_parameter(Name="/stampworks/c/identity", Value="OTHER", Type="SecureString", Overwrite=True)
    assert Path(members.members(CLUSTER, REGION).identity_file).read_text() == "OTHER\n"


def test_addresses_of_cards_are_no_rails() -> None:
    """Programs would search a NIC by its name in the plan, and EC2 uses other names."""
    nic = {"InterfaceType": "efa", "PrivateIpAddress": "10.0.0.9"}
    row = {"InstanceId": "i-1", "State": {"Name": "running"}, "LaunchTime": datetime(2026, 11, 1, tzinfo=UTC)}
    nics = [{**nic, "NetworkInterfaceId": "eni-1"}]
    machine = machines._machine({**row, "Tags": [{"Key": tags.GROUP, "Value": "gpu"}], "NetworkInterfaces": nics})
    assert members._member(machine).rail_addresses == ("",)


def test_joined_nodes_are_not_queried_again(aws: Simulated) -> None:
    """A look at a cluster of any size needs few calls and writes nothing."""
    stamped(aws)
    aws.calls.clear()
    join()
    members.members(CLUSTER, REGION)
    assert not {"ec2:CreateTags", "ec2:GetConsoleOutput", "ec2:DescribeInstanceTopology"} & set(aws.calls)


def test_another_cluster_is_nobody_here(aws: Simulated) -> None:
    """Machines of other clusters do not count, nor do machines that merely have the name."""
    stamped(aws)
    assert members.members("d", REGION).members == ()
    assert not Path(members.members("d", REGION).identity_file).name
    image = aws.publish("/test/other")
    [alien] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    ALONE.add(alien["InstanceId"])
    tag(aws, alien["InstanceId"], CLUSTER=CLUSTER)
    assert len(join({"gpu": ("gpu-001", "gpu-002", "gpu-003")}).members) == 2


def test_dead_node_is_replaced_under_its_name(aws: Simulated) -> None:
    """An `up` suspends the group's own replacement once."""
    before = stamped(aws)
    autoscaling = aws.client("autoscaling")
    autoscaling.suspend_processes(AutoScalingGroupName="gpu")
    gone = before.members[0].target
    aws.client("ec2").stop_instances(InstanceIds=[gone])
    members.join(CLUSTER, REGION, NAMES)
    members.join(CLUSTER, REGION, NAMES)
    assert aws.calls.count("autoscaling:TerminateInstanceInAutoScalingGroup") == 1
    new = next(each for each in ids(aws) if each not in {one.target for one in before.members})
    boot(new, 9)
    after = join()
    assert [(each.name, each.target) for each in after.members] == [
        ("gpu-001", new),
        ("gpu-002", before.members[1].target),
    ]
    assert len(ids(aws)) == 2


def test_refresh_reports_dead_nodes(aws: Simulated) -> None:
    """`pulumi refresh` reports nothing while all run, then a sentence that the next `up` uses."""
    before = stamped(aws)
    groups = [{"name": "gpu", "names": [*NAMES["gpu"]], "count": 2}]
    told = json.dumps(groups)
    inputs = {"cluster": CLUSTER, "cloud": "aws", "region": REGION, "groups": told, "drainTimeoutMinutes": 1}

    def drift() -> Mapping[str, Any]:
        read = asyncio.run(Roster().read(Call("urn", f"aws/{CLUSTER}", inputs)))
        assert read is not None
        return Roster().drift({**inputs, **read})

    assert drift() == {}
    aws.client("ec2").terminate_instances(InstanceIds=[before.members[0].target])
    assert drift() == {"members": ["cloud: gpu: 1 of 2 members"]}


def test_first_of_two_instances_keeps_the_name(aws: Simulated) -> None:
    """Two concurrent `up`s may assign a name twice: the next look finds a single node of it, and the next `up` makes
    two nodes."""
    start(aws)
    one, other = ids(aws)
    for number, each in enumerate((one, other)):
        boot(each, number)
        tag(aws, each, NODE="gpu-001", HOST_KEY=key(number))
    assert [(each.name, each.target) for each in members.members(CLUSTER, REGION).members] == [("gpu-001", one)]
    assert [(each.name, each.target) for each in join().members] == [("gpu-001", one), ("gpu-002", other)]


def test_surplus_node_is_ended_and_not_replaced(aws: Simulated) -> None:
    """The node is chosen by name: the group, whose size is smaller by now, would choose any."""
    roster = stamped(aws)
    autoscaling = aws.client("autoscaling")
    autoscaling.set_instance_protection(AutoScalingGroupName="gpu", InstanceIds=ids(aws), ProtectedFromScaleIn=True)
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="gpu", MinSize=1, MaxSize=1, DesiredCapacity=1)
    assert len(ids(aws)) == 2
    assert members.misplaced(CLUSTER, REGION, {"gpu": ["gpu-002"]}) == ["gpu-001"]
    members.dismiss(CLUSTER, REGION, {"gpu": ["gpu-002"]}, ["gpu-001"])
    assert ids(aws) == [roster.members[1].target]


def tags_of(aws: Simulated, machine: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the tags of a machine, its volumes and NICs, without our own."""
    ids_ = [machine["InstanceId"], *(each["Ebs"]["VolumeId"] for each in machine["BlockDeviceMappings"])]
    ids_ += [each["NetworkInterfaceId"] for each in machine["NetworkInterfaces"]]
    found = aws.client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": ids_}])["Tags"]
    others = [one for one in found if not one["Key"].startswith(("stampworks:", "aws:")) and one["Key"] != "Name"]
    return {id_: {one["Key"]: one["Value"] for one in others if one["ResourceId"] == id_} for id_ in ids_}


def test_cost_tags_reach_running_machines(aws: Simulated) -> None:
    """Disks and NICs get the tags, too; a second run writes nothing, and tags of others stay."""
    before = stamped(aws)
    [mine, other] = there(aws)
    aws.client("ec2").create_tags(Resources=[mine["InstanceId"]], Tags=[{"Key": "mine", "Value": "1"}])
    members.retag(CLUSTER, REGION, {"owner": "platform", "cost-centre": "7"}, ())
    members.retag(CLUSTER, REGION, {"owner": "research"}, ("cost-centre",))
    for machine, more in ((mine, {"mine": "1"}), (other, {})):
        found = tags_of(aws, machine)
        assert len(found) == 3
        assert found == {id_: {"owner": "research", **(more if id_ == machine["InstanceId"] else {})} for id_ in found}
    aws.calls.clear()
    members.retag(CLUSTER, REGION, {"owner": "research"}, ("cost-centre",))
    assert aws.calls == ["ec2:DescribeInstances"]
    assert members.members(CLUSTER, REGION) == before


def test_the_nic_of_the_head_has_its_tags(aws: Simulated, plan: Plan) -> None:
    """The engine puts them on the machine and its disk alone."""
    head = start_head(aws, plan)
    aws.client("ec2").create_tags(Resources=[head], Tags=[{"Key": "owner", "Value": "platform"}])
    boot(head, 7)
    join()
    [machine] = there(aws)
    [nic] = machine["NetworkInterfaces"]
    found = aws.client("ec2").describe_network_interfaces(NetworkInterfaceIds=[nic["NetworkInterfaceId"]])
    [tagged] = found["NetworkInterfaces"]
    assert {each["Key"]: each["Value"] for each in tagged["TagSet"]} == {
        "owner": "platform",
        tags.CLUSTER: CLUSTER,
        tags.GROUP: "head",
    }


def test_the_volume_of_the_head_keeps_its_name(aws: Simulated, plan: Plan) -> None:
    """The volume is a separate resource: another tag would be a change for the next `up`."""
    head, ec2 = start_head(aws, plan), aws.client("ec2")
    ec2.create_tags(Resources=[head], Tags=[{"Key": "Name", "Value": "c-head"}, {"Key": "owner", "Value": "platform"}])
    [machine] = there(aws)
    own = [{"Key": "Name", "Value": "c-head-state"}, {"Key": tags.CLUSTER, "Value": CLUSTER}]
    volume = ec2.create_volume(
        AvailabilityZone=machine["Placement"]["AvailabilityZone"],
        Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": own}],
    )["VolumeId"]
    ec2.attach_volume(Device="/dev/sdf", InstanceId=head, VolumeId=volume)
    boot(head, 7)
    join()
    [found] = ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert sorted(found["Tags"], key=lambda one: one["Key"]) == own


def test_a_machine_that_ends_while_others_get_a_tag(aws: Simulated) -> None:
    """An ended machine is ignored; any other error names the machine."""
    start(aws)
    aws.fail("ec2:CreateTags", "InvalidNetworkInterfaceID.NotFound", "does not exist", times=1)
    members.retag(CLUSTER, REGION, {"owner": "platform"}, ())
    assert sum({"owner": "platform"} in tags_of(aws, each).values() for each in there(aws)) == 1
    aws.fail("ec2:CreateTags", "UnauthorizedOperation", "not you", status=403)
    with pytest.raises(AwsError, match=r"cannot write the billing tags of i-\w+ of gpu"):
        members.retag(CLUSTER, REGION, {"owner": "platform"}, ())


@pytest.mark.long
def test_machines_that_are_not_shown_yet_are_waited_for(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """All services of AWS list new machines late. Each machine gets its own name."""
    join()
    start(aws)
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    aws.lag("ec2:DescribeInstances", times=5)
    assert sorted(each.target for each in gathered(monkeypatch).members) == sorted(ids(aws))
    assert aws.calls.count("ec2:CreateTags") == 4


@pytest.mark.parametrize("call", ["CreateTags", "GetConsoleOutput", "DescribeInstanceTopology"])
@pytest.mark.long
def test_machines_that_are_shown_and_not_known_yet(aws: Simulated, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The next look continues: every node gets its name and place, and no `up` fails."""
    start(aws)
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    aws.fail(f"ec2:{call}", "InvalidInstanceID.NotFound", "The instance ID does not exist", times=2)
    found = gathered(monkeypatch).members
    assert [each.name for each in found] == ["gpu-001", "gpu-002"]
    assert all(each.places for each in found)


def test_a_place_is_asked_for_until_aws_has_time(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known keys are not requested again: if AWS has no key for long, the next `up` asks."""
    monkeypatch.setattr("stampworks.clouds.aws.session.PAUSES_S", (0.0, 0.0))
    start(aws, count=1)
    boot(ids(aws)[0], 1)
    topology = "ec2:DescribeInstanceTopology"
    aws.fail(topology, "RequestLimitExceeded", times=99)
    with pytest.raises(AwsError, match=r"cannot read the places of machines in the network: .* AWS throttles requests"):
        join()
    assert members.members(CLUSTER, REGION).members == ()
    aws.mend()
    aws.fail(topology, "RequestLimitExceeded", times=4)
    [found] = join().members
    assert found.places


@pytest.mark.long
def test_dead_node_is_replaced_once_while_aws_still_lists_it(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its group has released it, while both lists still show it for a time."""
    gone = stamped(aws).members[0].target
    aws.client("autoscaling").suspend_processes(AutoScalingGroupName="gpu")
    aws.client("ec2").stop_instances(InstanceIds=[gone])
    join()
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    for action in ("ec2:DescribeInstances", "autoscaling:DescribeAutoScalingGroups"):
        aws.lag(action, times=3)
    unknown = "Instance Id not found - No managed instance found for instance ID: i-1"
    aws.fail("autoscaling:TerminateInstanceInAutoScalingGroup", "ValidationError", unknown, times=3)
    assert gone not in {each.target for each in gathered(monkeypatch).members}
    assert len(ids(aws)) == 2


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA",
        "-----BEGIN SSH HOST KEY KEYS-----\nssh-rsa AAAAB3NzaC1yc2E root@x\n-----END SSH HOST KEY KEYS-----",
        "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 $(id) x\n-----END SSH HOST KEY KEYS-----",
        f"-----END SSH HOST KEY KEYS-----\n{key(1)}\n-----BEGIN SSH HOST KEY KEYS-----",
        "\x00\x1b[2J\udcff".encode(errors="replace").decode() * 1000,
    ],
)
def test_instance_without_host_key_is_no_member(aws: Simulated, shown: str) -> None:
    start(aws, count=1)
    booting.CONSOLES[ids(aws)[0]] = shown
    assert join().members == ()


def test_a_key_in_its_tag_that_is_none_makes_no_member(aws: Simulated) -> None:
    """Users with the right to tag machines must not be able to inject an option of ssh."""
    start(aws, count=1)
    tag(aws, ids(aws)[0], NODE="gpu-001", HOST_KEY="ssh-ed25519 AAAA -oProxyCommand=x")
    assert members.members(CLUSTER, REGION).members == ()


@pytest.mark.parametrize("why", ["UnauthorizedOperation", "InvalidAction"])
def test_denied_calls_are_reported(aws: Simulated, why: str) -> None:
    """The error names the missing right. Without places in the network, only places are unknown."""
    start(aws, count=1)
    boot(ids(aws)[0], 1)
    aws.fail("ec2:DescribeInstanceTopology", why)
    [found] = join().members
    assert found.places is None
    aws.fail("ec2:DescribeInstances", "UnauthorizedOperation", "You are not authorized")
    with pytest.raises(AwsError) as caught:
        members.members(CLUSTER, REGION)
    assert str(caught.value) == (
        "AWS us-east-1: cannot list the members of cluster c: ec2:DescribeInstances: not permitted "
        "(UnauthorizedOperation: You are not authorized)\n"
        "  hint: docs/reference/aws-rights.md lists the permissions; `aws sts get-caller-identity` shows your identity"
    )


def test_missing_credentials_are_reported(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AwsError) as caught:
        members.members(CLUSTER, REGION)
    assert str(caught.value) == (
        "AWS us-east-1: cannot list the members of cluster c: ec2:DescribeInstances: there are no credentials for AWS\n"
        "  hint: sign in by `aws configure`, `aws sso login` or AWS_PROFILE; "
        "docs/reference/aws-rights.md lists the rights"
    )


def test_a_little_throttling_is_waited_out(aws: Simulated) -> None:
    stamped(aws)
    aws.fail("ec2:DescribeInstances", "RequestLimitExceeded", status=503, times=2)
    assert len(members.members(CLUSTER, REGION).members) == 2


def in_reservation(monkeypatch: pytest.MonkeyPatch, reservation: str) -> None:
    """Move running machines into a reservation, which moto does not know."""
    ask = Api.ask

    def answer(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        answer = ask(self, action, **parameters)
        if action == "ec2:DescribeInstances":
            for one in (each for part in answer["Reservations"] for each in part["Instances"]):
                one["CapacityReservationId"] = reservation
        return answer

    monkeypatch.setattr(Api, "ask", answer)


def test_when_capacity_ends_that_nodes_are_in(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block has an end, a reservation without a term none; without either, nothing is asked."""
    stamped(aws)
    assert operations.endings("aws", CLUSTER, REGION) == ()
    assert "ec2:DescribeCapacityReservations" not in aws.calls
    aws.reserve("cr-open")
    aws.reserve("cr-block", EndDate=datetime(2026, 12, 1, 11, 30, tzinfo=UTC))
    in_reservation(monkeypatch, "cr-open")
    assert operations.endings("aws", CLUSTER, REGION) == ()
    in_reservation(monkeypatch, "cr-block")
    assert operations.endings("aws", CLUSTER, REGION) == (Ending("gpu", "cr-block", "2026-12-01T11:30Z", ""),)


def test_an_end_that_nobody_may_ask_for_is_unknown(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused request does not count as "no end"."""
    stamped(aws)
    in_reservation(monkeypatch, "cr-block")
    aws.fail("ec2:DescribeCapacityReservations", "UnauthorizedOperation", "not you")
    [found] = operations.endings("aws", CLUSTER, REGION)
    assert (found.group, found.at) == ("gpu", "")
    assert found.why == "ec2:DescribeCapacityReservations: not permitted (UnauthorizedOperation: not you)"


def without(monkeypatch: pytest.MonkeyPatch, instance: str, **of_group: str) -> None:
    """Hide an instance from EC2, as an hour after its end, while its group shows it with these values."""
    ask = Api.ask

    def answer(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        answer = ask(self, action, **parameters)
        for part in answer["Reservations"] if action == "ec2:DescribeInstances" else ():
            part["Instances"] = [one for one in part["Instances"] if one["InstanceId"] != instance]
        for group in answer["AutoScalingGroups"] if action == "autoscaling:DescribeAutoScalingGroups" else ():
            for one in (one for one in group["Instances"] if one["InstanceId"] == instance):
                one |= of_group
        return answer

    monkeypatch.setattr(Api, "ask", answer)


def test_long_dead_nodes_are_replaced(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens to all nodes of an expired block: EC2 no longer lists them, and their group does. Running nodes
    stay."""
    before = stamped(aws)
    gone, stays = (each.target for each in before.members)
    autoscaling = aws.client("autoscaling")
    autoscaling.suspend_processes(AutoScalingGroupName="gpu")
    aws.client("ec2").stop_instances(InstanceIds=[gone])
    autoscaling.set_instance_health(InstanceId=stays, HealthStatus="Unhealthy")
    without(monkeypatch, gone, HealthStatus="Unhealthy")
    members.join(CLUSTER, REGION, NAMES)
    members.join(CLUSTER, REGION, NAMES)
    assert aws.calls.count("autoscaling:TerminateInstanceInAutoScalingGroup") == 1
    [new] = {*ids(aws)} - {stays}
    boot(new, 9)
    assert [(each.name, each.target) for each in join().members] == [("gpu-001", new), ("gpu-002", stays)]


@pytest.mark.parametrize(
    "said",
    [
        {"HealthStatus": "Unhealthy", "LifecycleState": "Terminating"},
        {"HealthStatus": "Unhealthy", "LifecycleState": "Terminating:Wait"},
        {"HealthStatus": "Healthy", "LifecycleState": "Pending"},
    ],
)
def test_ending_and_new_instances_are_left_alone(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch, said: Mapping[str, str]
) -> None:
    """A second request to end a machine is refused; EC2 may not list a new one yet."""
    start(aws)
    without(monkeypatch, ids(aws)[0], **said)
    members.join(CLUSTER, REGION, NAMES)
    assert "autoscaling:TerminateInstanceInAutoScalingGroup" not in aws.calls


def test_an_account_that_is_busy_is_asked_again(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttled calls are retried with pauses, because the `up` has begun long before; the last failure is reported."""
    stamped(aws)
    monkeypatch.setattr(session, "PAUSES_S", (0, 0))
    aws.fail("ec2:DescribeInstances", "RequestLimitExceeded", status=503, times=4)
    assert len(members.members(CLUSTER, REGION).members) == 2
    aws.fail("ec2:DescribeInstances", "RequestLimitExceeded", status=503)
    with pytest.raises(AwsError) as caught:
        members.members(CLUSTER, REGION)
    assert str(caught.value) == (
        "AWS us-east-1: cannot list the members of cluster c: ec2:DescribeInstances: AWS throttles requests "
        "(RequestLimitExceeded)\n  hint: try again later"
    )
