"""Who is in a cluster on AWS, and how a machine becomes one of them: asked through the SDK, of a simulated AWS."""

from __future__ import annotations

import importlib
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.eks.models import eks_backends
from stampworks import operations, planning
from stampworks.clouds.aws import members, renewal, tags
from stampworks.clouds.aws.errors import AwsError
from stampworks.clouds.aws.session import Api
from stampworks.declaration import load_value
from stampworks.operations import gathering
from stampworks.operations.drain import REPLACED
from stampworks.operations.ground import Standing
from stampworks.plan import Ending, Launch, Plan, Refusal, Roster
from stampworks.reasons import DrainReason

from tests.clouds.aws import booting
from tests.clouds.aws.booting import boot, key
from tests.clouds.aws.simulated import REGION, Simulated

CLUSTER, CONTENT = "c", "content"
NAMES = {"gpu": ("gpu-001", "gpu-002")}


ALONE: set[str] = set()
"""Machines that a test has started outside of any group, and that are to be left alone."""


@pytest.fixture
def aws(aws: Simulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Simulated]:
    """After each scenario groups have as many machines as they want, and nothing else is left over."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(renewal, "_POLL_S", 0.01)
    booting.nothing_has_booted()
    ALONE.clear()
    aws.client("ssm").put_parameter(Name="/stampworks/c/identity", Value="PRIVATE\n", Type="SecureString")
    yield aws
    aws.mend()
    groups = aws.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    counted = {group["AutoScalingGroupName"]: [one["InstanceId"] for one in group["Instances"]] for group in groups}
    paid = set(ids(aws))
    assert {name: len(paid & {*of}) for name, of in counted.items()} == {
        group["AutoScalingGroupName"]: group["DesiredCapacity"] for group in groups
    }
    assert paid - {id_ for of in counted.values() for id_ in of} == ALONE


@pytest.fixture
def plan() -> Plan:
    return planned()


def planned(**scheduler: int) -> Plan:
    declared = {"version": 1, "name": CLUSTER, "cloud": "aws", "region": REGION, "scheduler": scheduler}
    made = planning.plan(
        load_value({**declared, "pools": [{"name": "gpu", "machine": "g6-8xlarge", "count": 2}]}, "test")
    )
    return with_launch(made, image="ami-1")


def with_launch(plan: Plan, **changes: Any) -> Plan:
    groups = [replace(group, launch=replace(launch(group.launch), **changes)) for group in plan.groups]
    return replace(plan, groups=tuple(groups))


def launch(of: Launch | None) -> Launch:
    assert of
    return of


def start(aws: Simulated, plan: Plan | None = None, count: int = 2, group: str = "gpu") -> None:
    """A group as clouds/aws/nodes.py asks for it: what moto does not know of it is left out."""
    own = [each for each in plan.groups if each.name == group] if plan else []
    made_from = tags.template(own[0], plan.release, CONTENT) if plan else "made-from"
    of = {tags.CLUSTER: CLUSTER, tags.GROUP: group, tags.TEMPLATE: made_from}
    image = aws.publish(f"/test/{group}")
    template = aws.client("ec2").create_launch_template(
        LaunchTemplateName=group, LaunchTemplateData={"ImageId": image, "InstanceType": "g6.8xlarge"}
    )["LaunchTemplate"]
    aws.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=group,
        LaunchTemplate={"LaunchTemplateId": template["LaunchTemplateId"]},
        **dict.fromkeys(("MinSize", "MaxSize", "DesiredCapacity"), count),
        AvailabilityZones=[f"{REGION}a"],
        Tags=[{"Key": name, "Value": value, "PropagateAtLaunch": True} for name, value in of.items()],
    )


def there(aws: Simulated) -> list[Mapping[str, Any]]:
    """All machines that are not gone, however they came."""
    found = aws.client("ec2").describe_instances()["Reservations"]
    running = [one for part in found for one in part["Instances"] if one["State"]["Name"] in ("pending", "running")]
    return sorted(running, key=lambda one: (one["LaunchTime"], one["InstanceId"]))


def ids(aws: Simulated) -> list[str]:
    return [one["InstanceId"] for one in there(aws)]


def join(names: Mapping[str, tuple[str, ...]] | None = None) -> Roster:
    members.join(CLUSTER, REGION, NAMES if names is None else names)
    return members.members(CLUSTER, REGION)


def stamped(aws: Simulated, plan: Plan | None = None) -> Roster:
    start(aws, plan)
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    return join()


def tag(aws: Simulated, instance: str, **of: str) -> None:
    pairs = [{"Key": getattr(tags, name), "Value": value} for name, value in of.items()]
    aws.client("ec2").create_tags(Resources=[instance], Tags=pairs)


def test_a_machine_joins_when_its_console_shows_its_key(aws: Simulated) -> None:
    """By then its first boot is through; before, it has a name, and is no member."""
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
    """Through a tunnel that AWS guards, with a key that AWS keeps: a file that is nobody else's to read."""
    roster = stamped(aws)
    assert (roster.cloud, roster.region, roster.user, roster.reach) == ("aws", REGION, "root", ())
    assert roster.proxy[:7] == ("aws", "ssm", "start-session", "--region", REGION, "--target", "%h")
    assert roster.host(roster.members[0]) == roster.members[0].target
    file = Path(roster.identity_file)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("PRIVATE\n", 0o600)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    aws.client("ssm").put_parameter(Name="/stampworks/c/identity", Value="OTHER", Type="SecureString", Overwrite=True)
    assert Path(members.members(CLUSTER, REGION).identity_file).read_text() == "OTHER\n"


def test_who_has_joined_is_not_asked_again(aws: Simulated) -> None:
    """A look at a cluster of any size is a few calls, and writes nothing."""
    stamped(aws)
    aws.calls.clear()
    join()
    members.members(CLUSTER, REGION)
    assert not {"ec2:CreateTags", "ec2:GetConsoleOutput", "ec2:DescribeInstanceTopology"} & set(aws.calls)


def test_another_cluster_is_nobody_here(aws: Simulated) -> None:
    """Nor is a machine that only carries the name."""
    stamped(aws)
    assert members.members("d", REGION).members == ()
    assert not Path(members.members("d", REGION).identity_file).name
    image = aws.publish("/test/other")
    [alien] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    ALONE.add(alien["InstanceId"])
    tag(aws, alien["InstanceId"], CLUSTER=CLUSTER)
    assert len(join({"gpu": ("gpu-001", "gpu-002", "gpu-003")}).members) == 2


def test_who_died_is_started_anew_under_its_name(aws: Simulated) -> None:
    """A group that is told to replace nothing by itself is told so by an `up`, once."""
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


def test_of_two_with_one_name_the_first_keeps_it(aws: Simulated) -> None:
    """Two `up`s at once can give a name twice; the next look finds one node of it, the next `up` two nodes."""
    start(aws)
    one, other = ids(aws)
    for number, each in enumerate((one, other)):
        boot(each, number)
        tag(aws, each, NODE="gpu-001", HOST_KEY=key(number))
    assert [(each.name, each.target) for each in members.members(CLUSTER, REGION).members] == [("gpu-001", one)]
    assert [(each.name, each.target) for each in join().members] == [("gpu-001", one), ("gpu-002", other)]


def test_who_is_not_wanted_is_ended_and_not_replaced(aws: Simulated) -> None:
    """Which one goes is said by its name: the group, which wants one less by now, would take any."""
    roster = stamped(aws)
    autoscaling = aws.client("autoscaling")
    autoscaling.set_instance_protection(AutoScalingGroupName="gpu", InstanceIds=ids(aws), ProtectedFromScaleIn=True)
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="gpu", MinSize=1, MaxSize=1, DesiredCapacity=1)
    assert len(ids(aws)) == 2
    assert members.misplaced(CLUSTER, REGION, {"gpu": ["gpu-002"]}) == ["gpu-001"]
    members.dismiss(CLUSTER, REGION, {"gpu": ["gpu-002"]}, ["gpu-001"])
    assert ids(aws) == [roster.members[1].target]


def test_elastic_nodes_end_when_nobody_can_start_another(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one group, and none that always runs: what they are in cannot go before they have."""
    stamped(aws)
    always, started = ids(aws), []
    image = aws.publish("/test/elastic")
    for group, node in (("gpu", "gpu-003"), ("gpu", ""), ("cpu", "cpu-001")):
        [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
        of = {"CLUSTER": CLUSTER, "GROUP": group, "ELASTIC": "spot", **({"NODE": node} if node else {})}
        tag(aws, one["InstanceId"], **of)
        started.append(one["InstanceId"])
    said: list[str] = []
    monkeypatch.setattr(members, "POLL_S", 0)
    ALONE.add(started[2])
    operations.end_elastic("aws", CLUSTER, REGION, "gpu", said.append)
    assert sorted(ids(aws)) == sorted([*always, started[2]])
    assert len(said) == 1
    assert "gpu-003" in said[0]
    monkeypatch.setattr(members, "PATIENCE_S", -1)
    monkeypatch.setattr(members, "end_elastic", lambda *_: ["cpu-001"])
    with pytest.raises(operations.OperationError) as caught:
        operations.end_elastic("aws", CLUSTER, REGION, "cpu", said.append)
    assert str(caught.value) == "cpu-001 of cpu do not end\n  hint: see what keeps them, and run it again"


def test_a_cluster_that_grew_by_itself_is_no_change(aws: Simulated, plan: Plan) -> None:
    """What has started with the work is a node, and neither in the roster that an `up` keeps nor outdated."""
    before = stamped(aws, plan)
    image = aws.publish("/test/elastic")
    [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    ALONE.add(one["InstanceId"])
    tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="gpu", ELASTIC="spot", NODE="gpu-003", HOST_KEY=key(9))
    assert [each.name for each in members.members(CLUSTER, REGION).members] == ["gpu-001", "gpu-002", "gpu-003"]
    elastic = operations.Wanted("gpu", (*NAMES["gpu"], "gpu-003"), 2)
    assert operations.gather("aws", CLUSTER, REGION, [elastic], [elastic], 1, lambda _: None) == before
    assert renewal.outdated(plan, CONTENT) == {}


class Slurm:
    """Nodes that take jobs or not, and a job that ends after some looks; a node that is switched off forgets why."""

    def __init__(self, *jobs: str, forgets: str = "") -> None:
        self.jobs, self.forgets, self.reasons = list(jobs), forgets, dict[str, DrainReason]()
        self.seen: list[list[str]] = []
        """The machines that ran at each look."""

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        return {name: self.reasons.get(name) for name in names}

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        self.reasons |= reasons

    def wait_until_free(
        self, names: Sequence[str], _: float, progress: Callable[[str], None], __: float, ___: str
    ) -> None:
        for look in range(3):
            if busy := [name for name in names if name in self.jobs]:
                if look == 1:
                    self.reasons.pop(self.forgets, None)
                progress(f"waiting for {', '.join(busy)}")
        self.jobs = [name for name in self.jobs if name not in names]
        self.reasons.pop(self.forgets, None)
        self.forgets = ""


def elastic(aws: Simulated, *names: str) -> list[str]:
    """Machines that have started with the work since the last `up`, so that nobody has asked for their host keys."""
    image, started = aws.publish("/test/elastic"), list[str]()
    for name in names:
        [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
        tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="gpu", ELASTIC="spot", NODE=name)
        started.append(one["InstanceId"])
    return started


FOUR = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")


def changed(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch, slurm: Slurm, count: int, names: tuple[str, ...] = FOUR
) -> Roster:
    """An `up` of a pool of which 2 of 4 nodes have always run, and `count` are to from now on."""
    group = {"AutoScalingGroupName": "gpu"}
    running = ids(aws)
    counted = aws.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"][0]["Instances"]
    protected = [one["InstanceId"] for one in counted]
    aws.client("autoscaling").set_instance_protection(**group, InstanceIds=protected, ProtectedFromScaleIn=True)
    sizes = dict.fromkeys(("MinSize", "MaxSize", "DesiredCapacity"), count)
    aws.client("autoscaling").update_auto_scaling_group(**group, **sizes)
    for number, new in enumerate(set(ids(aws)) - set(running)):
        boot(new, 100 + number)

    def progress(_: str) -> None:
        slurm.seen.append(ids(aws))

    monkeypatch.setattr(members, "POLL_S", 0)
    monkeypatch.setattr(gathering, "SlurmService", lambda _: slurm)
    now, before = [operations.Wanted("gpu", names, count)], [operations.Wanted("gpu", FOUR, 2)]
    return operations.gather("aws", CLUSTER, REGION, now, before, 1, progress)


def test_an_elastic_node_that_is_to_run_always_finishes_its_jobs(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then a machine of the group has its name, and none is left without one. One that is switched off meanwhile takes
    no jobs either, for they would start it as what it was."""
    stamped(aws)
    busy, stays = elastic(aws, "gpu-003", "gpu-004")
    slurm = Slurm("gpu-003", forgets="gpu-003")
    roster = changed(aws, monkeypatch, slurm, 3)
    assert slurm.seen
    assert all(busy in running for running in slurm.seen)
    assert [each.name for each in roster.members] == ["gpu-001", "gpu-002", "gpu-003"]
    assert busy not in ids(aws)
    assert roster.members[2].target in ids(aws)
    assert slurm.reasons == {"gpu-003": REPLACED}
    assert not [each for each in members.machines(Api(REGION), CLUSTER) if each.state == "running" and not each.node]
    ALONE.add(stays)


def test_a_node_that_need_not_run_always_ends_when_its_jobs_are_through(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs, and nothing else would end it: its group may not, and the head ends elastic ones alone."""
    before = stamped(aws)
    [stays] = elastic(aws, "gpu-003")
    slurm, leaves = Slurm("gpu-002"), before.members[1].target
    roster = changed(aws, monkeypatch, slurm, 1)
    assert slurm.seen
    assert all(leaves in running for running in slurm.seen)
    assert [each.target for each in roster.members] == [before.members[0].target]
    assert sorted(ids(aws)) == sorted([before.members[0].target, stays])
    assert slurm.reasons == {"gpu-002": REPLACED}
    ALONE.add(stays)


@pytest.mark.parametrize("known", [False, True])
def test_an_elastic_node_that_is_not_wanted_is_the_heads_to_end(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """When Slurm has forgotten it, whether its host key is known or not; and what has ended is nobody's."""
    before = stamped(aws)
    [stays] = elastic(aws, "gpu-004")
    if known:
        tag(aws, stays, HOST_KEY=key(9))
    [ended] = elastic(aws, "gpu-001")
    aws.client("ec2").terminate_instances(InstanceIds=[ended])
    assert changed(aws, monkeypatch, Slurm(), 2, FOUR[:3]) == before
    assert stays in ids(aws)
    ALONE.add(stays)


def test_of_two_with_one_name_the_groups_is_the_node(aws: Simulated) -> None:
    """However long the elastic one has been there."""
    stamped(aws)
    [older] = elastic(aws, "gpu-003")
    tag(aws, older, HOST_KEY=key(9))
    aws.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName="gpu", MaxSize=3, DesiredCapacity=3)
    [new] = set(ids(aws)) - {older} - {each.target for each in members.members(CLUSTER, REGION).members}
    boot(new, 7)
    assert join({"gpu": FOUR[:3]}).members[2].target == new
    ALONE.add(older)


def test_an_elastic_node_that_is_not_shown_yet_ends_as_well(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program had asked for it a moment before it could not any more; nobody would end it later."""
    stamped(aws)
    monkeypatch.setattr(members, "POLL_S", 0)
    members.end_elastic(CLUSTER, REGION, "gpu")
    image = aws.publish("/test/elastic")
    [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="gpu", ELASTIC="spot")
    aws.lag("ec2:DescribeInstances", times=1)
    operations.end_elastic("aws", CLUSTER, REGION, "gpu", lambda _: None)
    assert one["InstanceId"] not in ids(aws)


def gathered(monkeypatch: pytest.MonkeyPatch) -> Roster:
    """What an `up` waits for."""
    monkeypatch.setattr(members, "POLL_S", 0)
    all_ = [operations.Wanted("gpu", NAMES["gpu"], 2)]
    return operations.gather("aws", CLUSTER, REGION, all_, all_, 1, lambda _: None)


class EnoughError(Exception):
    """A test has seen what it wanted to see."""


def waited(aws: Simulated, monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> list[str]:
    """What an `up` says while it waits; each of these is done after a look, and the last look is after all of them."""
    said, todo = list[str](), iter(between)

    def progress(line: str) -> None:
        said.append(line)
        if (do := next(todo, None)) is None:
            raise EnoughError
        do()

    monkeypatch.setattr(members, "POLL_S", 0)
    all_ = [operations.Wanted("gpu", NAMES["gpu"], 2)]
    with pytest.raises(EnoughError):
        operations.gather("aws", CLUSTER, REGION, all_, all_, 1, progress)
    return said


AT = datetime(2026, 11, 25, 20, 31, 7, tzinfo=UTC)
SHORT = "gpu: 0 of 2 members"
STOCK_OUT = (
    "We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested (us-east-1a). Our "
    "system will be working on provisioning additional capacity. You can currently get p5.48xlarge capacity by not "
    "specifying an Availability Zone in your request or choosing us-east-1b. Launching EC2 instance failed."
)
LIMIT = (
    "You have requested more vCPU capacity than your current vCPU limit of 384 allows for the instance bucket that the "
    "specified instance type belongs to. Launching EC2 instance failed."
)


def test_why_there_are_too_few_is_said(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an `up` waits and when it has waited long enough: nothing else starts nodes that always run."""
    start(aws)
    aws.tried("gpu", AT, STOCK_OUT)
    line = f"gpu, tried at 2026-11-25T20:31Z: {STOCK_OUT}"
    assert waited(aws, monkeypatch) == [f"{SHORT}; {line}"]
    monkeypatch.setattr(members, "PATIENCE_S", -1)
    with pytest.raises(operations.OperationError) as caught:
        gathered(monkeypatch)
    assert str(caught.value) == (
        f"{SHORT} after -1 s\n  {line}\n"
        "  hint: pulumi up goes on from here, when there are some; sooner may do another zone, capacity that was "
        "bought before (purchase, reservation), or a count_min with fallbacks, whose nodes start when a job wants them"
    )


def test_what_waiting_does_not_mend_ends_the_wait(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the group has tried twice: somebody may have mended what the last `up` has failed of."""
    start(aws)
    aws.tried("gpu", AT, LIMIT)
    assert len(waited(aws, monkeypatch, lambda: None)) == 2
    with pytest.raises(operations.OperationError) as caught:
        waited(aws, monkeypatch, lambda: aws.tried("gpu", AT + timedelta(minutes=2), LIMIT))
    assert str(caught.value) == (
        f"{SHORT}, and waiting does not help\n  gpu, tried at 2026-11-25T20:33Z: {LIMIT}\n"
        "  hint: have the limit raised in the console of Service Quotas, or declare fewer nodes; pulumi up goes on "
        "from here"
    )


@pytest.mark.parametrize(
    ("said", "lasting", "hint"),
    [
        (STOCK_OUT, False, "pulumi up goes on from here, when there are some"),
        (
            "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that "
            "matches your request. Launching EC2 instance failed.",
            False,
            "pulumi up goes on from here, when there are some",
        ),
        (
            "The requested reservation does not have sufficient compatible and available capacity for this request.",
            False,
            "aws ec2 describe-capacity-reservations says what is free in it",
        ),
        ("RequestLimitExceeded - Request limit exceeded.", False, "pulumi up goes on from here"),
        ("Client.InternalError: Client error on launch", False, "pulumi up goes on from here"),
        (LIMIT, True, "have the limit raised in the console"),
        ("VcpuLimitExceeded - You have requested", True, "have the limit raised in the console"),
        ("You have requested more instances (7) than your current instance limit of 6 allows", True, "have the limit"),
        ("Max spot instance count exceeded. Launching EC2 instance failed.", True, "have the limit raised"),
        ("You are not authorized to perform this operation.", True, "Auto Scaling asks in its own name"),
        ("The Capacity Reservation cr-1 does not match the request.", True, "declare a reservation that is active"),
        ("InvalidParameterValue - so it is. Launching EC2 instance failed.", True, "mend what it names"),
        ("Your requested instance type (p5) is not supported in your requested Availability Zone", True, "mend what"),
    ],
)
def test_which_reasons_waiting_may_mend(aws: Simulated, said: str, lasting: bool, hint: str) -> None:
    """Whatever is not known may pass; each says what to do."""
    start(aws, count=1)
    aws.tried("gpu", AT, said)
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert (found.why, found.lasting, found.hint.startswith(hint)) == (said, lasting, True)


def test_what_a_group_has_tried_before_it_went_on_is_not_said(aws: Simulated) -> None:
    """Of one attempt some machines may have started. What ends has no say, nor has another cluster or group."""

    def refused() -> list[str]:
        return [each.why for each in members.refusals(CLUSTER, REGION, ["gpu"])]

    start(aws, count=1)
    assert refused() == []
    aws.tried("gpu", AT, LIMIT)
    aws.tried("gpu", AT + timedelta(seconds=20))
    aws.tried("gpu", AT + timedelta(hours=1), STOCK_OUT, Description="Terminating EC2 instance: i-1")
    assert refused() == [LIMIT]
    assert members.refusals("d", REGION, ["gpu"]) == members.refusals(CLUSTER, REGION, ["login"]) == ()
    aws.tried("gpu", AT + timedelta(hours=2))
    assert refused() == []
    aws.tried("gpu", AT + timedelta(hours=3), STOCK_OUT, StatusCode="Cancelled")
    assert refused() == [STOCK_OUT]


def test_what_auto_scaling_says_is_not_believed(aws: Simulated) -> None:
    """It is one line of bounded length, and moves no cursor. What only AWS can decode is left out."""
    start(aws, count=1)
    aws.tried("gpu", AT, f"so\n\t it \u202eis {'x' * 5000}")
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert found.why == f"so it \\u202eis {'x' * 385}..."
    aws.tried("gpu", AT, "You are not authorized. Encoded authorization failure message: Zm9v")
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert found.why == "You are not authorized."


def test_why_eks_starts_no_nodes_it_says_of_their_group(aws: Simulated) -> None:
    """Of the groups that are meant. What EC2 has said comes with what to do; an issue has no time, so that nobody knows
    whether it has been mended since."""

    def of_health(code: str, message: str) -> Refusal:
        eks_backends[DEFAULT_ACCOUNT_ID][REGION].clusters[CLUSTER].nodegroups["c-gpu-1"].health = {
            "issues": [{"code": code, "message": message, "resourceIds": ["eks-1"]}]
        }
        [found] = members.node_refusals(CLUSTER, REGION, ["gpu"])
        return found

    aws.fail(f"eks:GET /clusters/{CLUSTER}/node-groups", "AccessDeniedException", "not you", status=403, times=1)
    [unknown] = members.node_refusals(CLUSTER, REGION, ["gpu"])
    assert unknown.words == "gpu: eks:ListNodegroups: not permitted (AccessDeniedException: not you)"
    eks, role = aws.client("eks"), "arn:aws:iam::123456789012:role/nodes"
    eks.create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]})
    for group in ("gpu", "head"):
        of = {"clusterName": CLUSTER, "subnets": ["subnet-1"], "nodeRole": role, "tags": {tags.GROUP: group}}
        eks.create_nodegroup(nodegroupName=f"c-{group}-1", **of)
    assert members.node_refusals(CLUSTER, REGION, ["gpu"]) == ()
    found = of_health("AsgInstanceLaunchFailures", f"Could not launch On-Demand Instances. {LIMIT}")
    assert found.words == f"gpu: AsgInstanceLaunchFailures: Could not launch On-Demand Instances. {LIMIT}"
    assert found.hint.startswith("have the limit raised in the console of Service Quotas")
    assert not found.lasting
    assert members.node_refusals(CLUSTER, REGION, ["head"]) == ()
    found = of_health("AccessDenied", f"so\n it \u202eis, AccessDenied {'x' * 5000}")
    assert found.why.startswith("AccessDenied: so it \\u202eis, AccessDenied xxx")
    assert len(found.why) == 403
    assert found.hint == "pulumi up goes on from here", "what a launch was denied is another thing"


def tags_of(aws: Simulated, machine: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Of a machine, its volumes and NICs: what is on each that is none of ours."""
    ids_ = [machine["InstanceId"], *(each["Ebs"]["VolumeId"] for each in machine["BlockDeviceMappings"])]
    ids_ += [each["NetworkInterfaceId"] for each in machine["NetworkInterfaces"]]
    found = aws.client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": ids_}])["Tags"]
    others = [one for one in found if not one["Key"].startswith(("stampworks:", "aws:")) and one["Key"] != "Name"]
    return {id_: {one["Key"]: one["Value"] for one in others if one["ResourceId"] == id_} for id_ in ids_}


def test_what_bills_are_read_by_is_on_machines_that_run(aws: Simulated) -> None:
    """And on their disks and NICs; once it is, nothing is written. What somebody else has put there stays."""
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


def test_a_machine_that_ends_while_others_get_a_tag(aws: Simulated) -> None:
    """Nobody needs it any more; what else is said to it is an error, with the machine."""
    start(aws)
    aws.fail("ec2:CreateTags", "InvalidNetworkInterfaceID.NotFound", "does not exist", times=1)
    members.retag(CLUSTER, REGION, {"owner": "platform"}, ())
    assert sum({"owner": "platform"} in tags_of(aws, each).values() for each in there(aws)) == 1
    aws.fail("ec2:CreateTags", "UnauthorizedOperation", "not you", status=403)
    with pytest.raises(AwsError, match=r"cannot write on i-\w+ of gpu what its bill is read by"):
        members.retag(CLUSTER, REGION, {"owner": "platform"}, ())


def test_why_there_are_too_few_nobody_may_ask(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said, and ends nothing: they may well come. Where all are there, nobody asks."""
    start(aws)
    aws.fail("autoscaling:DescribeScalingActivities", "AccessDenied", "not you", status=403)
    assert waited(aws, monkeypatch) == [
        f"{SHORT}; gpu: autoscaling:DescribeScalingActivities: not permitted (AccessDenied: not you)"
    ]
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    aws.calls.clear()
    assert len(gathered(monkeypatch).members) == 2
    assert "autoscaling:DescribeScalingActivities" not in aws.calls


def test_machines_that_are_not_shown_yet_are_waited_for(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts of AWS hear of them late; each machine has one name."""
    join()
    start(aws)
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    aws.lag("ec2:DescribeInstances", times=5)
    assert sorted(each.target for each in gathered(monkeypatch).members) == sorted(ids(aws))
    assert aws.calls.count("ec2:CreateTags") == 4


@pytest.mark.parametrize("call", ["CreateTags", "GetConsoleOutput", "DescribeInstanceTopology"])
def test_machines_that_are_shown_and_not_known_yet(aws: Simulated, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The next look goes on: nobody is left without a name or a place, and no `up` fails because of it."""
    start(aws)
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    aws.fail(f"ec2:{call}", "InvalidInstanceID.NotFound", "The instance ID does not exist", times=2)
    found = gathered(monkeypatch).members
    assert [each.name for each in found] == ["gpu-001", "gpu-002"]
    assert all(each.places for each in found)


def test_who_died_is_replaced_once_however_long_aws_shows_it(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its group has let it go, and both who list machines say otherwise for a while."""
    gone = stamped(aws).members[0].target
    aws.client("autoscaling").suspend_processes(AutoScalingGroupName="gpu")
    aws.client("ec2").stop_instances(InstanceIds=[gone])
    join()
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    for action in ("ec2:DescribeInstances", "autoscaling:DescribeAutoScalingInstances"):
        aws.lag(action, times=3)
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
def test_what_shows_no_key_is_none(aws: Simulated, shown: str) -> None:
    start(aws, count=1)
    booting.CONSOLES[ids(aws)[0]] = shown
    assert join().members == ()


def test_a_key_in_its_tag_that_is_none_makes_no_member(aws: Simulated) -> None:
    """Whoever may tag machines must not put an option of ssh there."""
    start(aws, count=1)
    tag(aws, ids(aws)[0], NODE="gpu-001", HOST_KEY="ssh-ed25519 AAAA -oProxyCommand=x")
    assert members.members(CLUSTER, REGION).members == ()


def test_what_may_not_be_asked_is_said(aws: Simulated) -> None:
    """With whom to ask; and where machines are in the network is only not known."""
    start(aws, count=1)
    boot(ids(aws)[0], 1)
    aws.fail("ec2:DescribeInstanceTopology", "UnauthorizedOperation")
    [found] = join().members
    assert found.places is None
    aws.fail("ec2:DescribeInstances", "UnauthorizedOperation", "You are not authorized")
    with pytest.raises(AwsError) as caught:
        members.members(CLUSTER, REGION)
    assert str(caught.value) == (
        "AWS us-east-1: cannot say who is in cluster c: ec2:DescribeInstances: not permitted "
        "(UnauthorizedOperation: You are not authorized)\n"
        "  hint: docs/aws.md says what an `up` has to be allowed; `aws sts get-caller-identity` says who asks"
    )


def test_nobody_is_logged_in(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AwsError) as caught:
        members.members(CLUSTER, REGION)
    assert str(caught.value) == (
        "AWS us-east-1: cannot say who is in cluster c: ec2:DescribeInstances: there are no credentials for AWS\n"
        "  hint: `aws configure`, `aws sso login` or AWS_PROFILE says who you are; docs/aws.md says what is needed"
    )


def test_a_little_throttling_is_waited_out(aws: Simulated) -> None:
    stamped(aws)
    aws.fail("ec2:DescribeInstances", "RequestLimitExceeded", status=503, times=2)
    assert len(members.members(CLUSTER, REGION).members) == 2


class Boots:
    """Machines boot while somebody waits for them: each that shows no key of its own yet gets one."""

    def __init__(self, aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aws, self.number, self.said = aws, 100, list[str]()
        self.disks = {one["InstanceId"]: root(one) for one in there(aws)}
        monkeypatch.setattr("stampworks.clouds.aws.renewal.time.sleep", self.boot)

    def boot(self, _: float) -> None:
        for one in there(self.aws):
            if self.disks.get(one["InstanceId"]) != root(one) and one["ImageId"] not in booting.BROKEN:
                self.disks[one["InstanceId"]] = root(one)
                self.number += 1
                boot(one["InstanceId"], self.number, before=booting.CONSOLES.get(one["InstanceId"], ""))


def root(instance: Mapping[str, Any]) -> str:
    return str(instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"])


def test_nothing_is_outdated_when_nothing_has_changed(aws: Simulated, plan: Plan) -> None:
    stamped(aws, plan)
    assert renewal.outdated(plan, CONTENT) == {}


def test_another_image_is_another_disk_and_the_machine_stays(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rare is kept. The key that the console still shows is not taken for that of the new disk."""
    before, new, boots = stamped(aws, plan), with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    late = renewal.outdated(new, CONTENT)
    assert late == dict.fromkeys(("gpu-001", "gpu-002"), "its disk was made from another image")
    renewal.renew(new, CONTENT, ["gpu-002"], boots.said.append)
    after = members.members(CLUSTER, REGION)
    assert [each.target for each in after.members] == [each.target for each in before.members]
    assert after.members[0] == before.members[0]
    assert after.members[1].host_key == key(101)
    assert after.members[1].instance != before.members[1].instance
    assert boots.said[0] == f"gpu-002: a new disk for {after.members[1].target}"
    assert "waiting for gpu-002" in boots.said
    assert list(renewal.outdated(new, CONTENT)) == ["gpu-001"]
    assert sorted(renewal.outdated(plan, "other content")) == ["gpu-001", "gpu-002"]


@pytest.mark.parametrize(
    "of_image",
    [
        {"user": "ubuntu"},
        {"root_device": "/dev/sda1"},
        {"published_image": "/other"},
        {"agent": "https://elsewhere/9.deb"},
    ],
)
def test_what_goes_with_an_image_is_not_of_the_machine(plan: Plan, of_image: dict[str, Any]) -> None:
    """Otherwise another release would end machines that nobody may get again."""
    machine = tags.of_machine(tags.template(plan.pools[0], plan.release, CONTENT))
    other = with_launch(plan, image="ami-2", **of_image).pools[0]
    assert tags.of_machine(tags.template(other, plan.release, CONTENT)) == machine
    for kept in ({"disk_gib": 300}, {"agent": ""}, {"instance_type": "p5.48xlarge"}):
        other = with_launch(plan, **kept).pools[0]
        assert tags.of_machine(tags.template(other, plan.release, CONTENT)) != machine


@pytest.mark.parametrize("changed", [{"image": "ami-2"}, {"disk_gib": 300}])
def test_a_roll_waits_until_aws_shows_what_it_has_done(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """The node as it was is not taken for the one that is to come, nor made anew twice."""
    before, new, boots = stamped(aws, plan), with_launch(plan, **changed), Boots(aws, monkeypatch)
    renewal.outdated(new, CONTENT)
    ask = Api.ask

    def asked(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        answer = ask(self, action, **parameters)
        if action.partition(":")[2] in ("CreateReplaceRootVolumeTask", "TerminateInstanceInAutoScalingGroup"):
            aws.lag("ec2:DescribeInstances", times=4)
        return answer

    monkeypatch.setattr(Api, "ask", asked)
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION)
    assert after.members[0].instance != before.members[0].instance
    assert after.members[1] == before.members[1]
    done = [each for each in aws.calls if each.endswith(("CreateReplaceRootVolumeTask", "InAutoScalingGroup"))]
    assert len(done) == 1


def test_another_template_is_another_machine(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine was started from cannot be changed: its group starts another one, which takes its name."""
    before, new, boots = stamped(aws, plan), with_launch(plan, disk_gib=300), Boots(aws, monkeypatch)
    assert renewal.outdated(new, CONTENT)["gpu-001"] == "its machine was started from another template"
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION)
    assert [each.name for each in after.members] == ["gpu-001", "gpu-002"]
    assert after.members[0].target != before.members[0].target
    assert after.members[1] == before.members[1]
    assert len(ids(aws)) == 2


def test_why_a_node_does_not_come_back_is_said(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody waits for the machine that its group should start, and at the end."""
    stamped(aws, plan)
    new, said = with_launch(plan, disk_gib=300), list[str]()
    monkeypatch.setattr(renewal, "PATIENCE_S", 1)
    monkeypatch.setattr(renewal, "time", SimpleNamespace(monotonic=count().__next__, sleep=lambda _: None))
    aws.tried("gpu", AT, STOCK_OUT)
    with pytest.raises(AwsError) as caught:
        renewal.renew(new, CONTENT, ["gpu-001"], said.append)
    assert f"waiting for gpu-001; gpu, tried at 2026-11-25T20:31Z: {STOCK_OUT}" in said
    why = f"AWS {REGION}: gpu-001 have not come back: gpu, tried at 2026-11-25T20:31Z: {STOCK_OUT}\n"
    assert str(caught.value).startswith(f"{why}  hint: pulumi up goes on from here, when there are some; sooner may")


def test_login_nodes_are_found_and_made_anew_like_the_others(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have names, a group and disks as nodes with jobs have."""
    plan = planned(login_nodes=1)
    start(aws, plan)
    start(aws, plan, count=1, group="login")
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    before = join({**NAMES, "login": ("login-001",)})
    assert [(each.name, each.group) for each in before.members][-1] == ("login-001", "login")
    assert renewal.outdated(plan, CONTENT) == {}
    renewal.condemn(plan, ["login-001"], "alice says: full disk")
    assert renewal.outdated(plan, CONTENT) == {"login-001": "alice says: full disk"}
    new, boots = with_launch(plan, disk_gib=300), Boots(aws, monkeypatch)
    renewal.renew(new, CONTENT, ["login-001"], boots.said.append)
    after = {each.name: each for each in members.members(CLUSTER, REGION).members}
    assert [after[each.name].target == each.target for each in before.members] == [True, True, False]


def test_who_is_condemned_is_outdated_until_it_was_made_anew(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was made from; and a word takes it back."""
    boots = (stamped(aws, plan), Boots(aws, monkeypatch))[1]
    renewal.condemn(plan, ["gpu-001", "gpu-002"], "alice says: fans")
    assert renewal.outdated(plan, CONTENT) == dict.fromkeys(("gpu-001", "gpu-002"), "alice says: fans")
    renewal.condemn(plan, ["gpu-002"], "")
    renewal.renew(plan, CONTENT, ["gpu-001"], boots.said.append)
    assert renewal.outdated(plan, CONTENT) == {}


@pytest.mark.parametrize(
    "call", ["CreateTags", "DescribeReplaceRootVolumeTasks", "CreateReplaceRootVolumeTask", "DeleteTags"]
)
def test_a_roll_that_ends_anywhere_is_gone_on_with(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The next one finds the node outdated, or done; nothing is lost, nobody keeps the key of a disk that is gone."""
    stamped(aws, plan)
    new, boots = with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    aws.fail(f"ec2:{call}", "UnauthorizedOperation", times=1)
    with pytest.raises(AwsError, match=r"cannot .* gpu-001 \(i-[0-9a-f]+\).* new disk.*: ec2:[A-Za-z]+: not permitted"):
        renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    boots.boot(0)
    join()
    if late := [name for name in renewal.outdated(new, CONTENT) if name == "gpu-001"]:
        renewal.renew(new, CONTENT, late, boots.said.append)
    found = {each.name: each for each in join().members}
    assert "gpu-001" not in renewal.outdated(new, CONTENT)
    shown = booting.CONSOLES[found["gpu-001"].target]
    assert shown.rstrip().endswith("login:")
    assert found["gpu-001"].host_key == shown.rsplit("ssh-ed25519", 1)[1].join(["ssh-ed25519", ""]).split(" root@")[0]


def test_who_does_not_come_back_is_named(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped(aws, plan)
    monkeypatch.setattr(renewal, "PATIENCE_S", 0.05)
    with pytest.raises(AwsError) as caught:
        renewal.renew(with_launch(plan, image="ami-2"), CONTENT, ["gpu-001", "gpu-002"], lambda _: None)
    assert str(caught.value) == (
        "AWS us-east-1: gpu-001, gpu-002 have not come back: their console has not shown a host key for 0 min\n"
        "  hint: the console of EC2 says how far it came, and whether the image boots; then run the same command again"
    )


def test_a_disk_that_aws_does_not_make_is_said(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once and for whom; the others come back meanwhile. It is tried again, with that image or another one."""
    before, new, boots = stamped(aws, plan), with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    booting.REFUSED.add("ami-2")
    with pytest.raises(AwsError) as caught:
        renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    task = booting.TASKS[-1]["ReplaceRootVolumeTaskId"]
    assert str(caught.value) == (
        f"AWS us-east-1: gpu-001 got no new disk: gpu-001: AWS says of {task}, which was to replace it: failed\n"
        "  hint: see whether the image is there and of the machine's kind, and run pulumi up, which tries again; for "
        "another machine first: stampworks roll gpu-001 --machine"
    )
    assert renewal.outdated(plan, CONTENT) == {"gpu-001": "its new disk has not come"}
    renewal.renew(plan, CONTENT, ["gpu-001"], boots.said.append)
    assert renewal.outdated(plan, CONTENT) == {}
    assert [each.target for each in join().members] == [each.target for each in before.members]


def test_a_disk_that_is_on_its_way_is_waited_for(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has asked for it was killed: nobody asks for two."""
    stamped(aws, plan)
    new, boots = with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    booting.BROKEN.add("ami-2")
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "PATIENCE_S", 0.05)
        with pytest.raises(AwsError, match="gpu-001 have not come back"):
            renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    booting.BROKEN.clear()
    booting.TASKS[-1]["TaskState"] = "in-progress"
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    assert aws.calls.count("ec2:CreateReplaceRootVolumeTask") == 1
    assert "gpu-001" not in renewal.outdated(new, CONTENT)


def test_a_machine_that_is_broken_itself_goes(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody says so: its disk is what it should be, and a new one would mend nothing."""
    before, boots = stamped(aws, plan), Boots(aws, monkeypatch)
    renewal.condemn(plan, ["gpu-001"], "alice says: a dead GPU", machine=True)
    assert renewal.outdated(plan, CONTENT) == {"gpu-001": "another machine: alice says: a dead GPU"}
    renewal.renew(plan, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION).members
    assert after[0].name == "gpu-001"
    assert after[0].target != before.members[0].target
    assert after[1] == before.members[1]
    assert renewal.outdated(plan, CONTENT) == {}


def start_head(aws: Simulated, plan: Plan) -> str:
    """As the engine has it made: in no group, and with its name."""
    image = aws.publish("/test/head")
    [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    made_from = tags.template(plan.controller, plan.release, CONTENT)
    tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="head", NODE="head", TEMPLATE=made_from)
    ALONE.add(one["InstanceId"])
    return str(one["InstanceId"])


def test_the_head_gets_a_new_disk_where_somebody_says_so(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else it is made from is the engine's, and no other machine comes in its place by itself."""
    head = start_head(aws, plan)
    boot(head, 7)
    stamped(aws, plan)
    assert renewal.outdated(plan, CONTENT) == {}
    assert "head" not in renewal.outdated(with_launch(plan, image="ami-2", disk_gib=300), CONTENT)
    with pytest.raises(AwsError) as caught:
        renewal.condemn(plan, ["gpu-001", "head"], "alice says: fans", machine=True)
    assert str(caught.value) == (
        "AWS us-east-1: cannot write on gpu-001, head that they are to be made anew: no group starts another machine "
        "for head\n  hint: `pulumi stack --show-urns` has the URN of its aws:ec2/instance:Instance: pulumi up "
        "--replace URN"
    )
    renewal.condemn(plan, ["head"], "alice says: full disk")
    assert renewal.outdated(plan, CONTENT) == {"head": "alice says: full disk"}
    boots = Boots(aws, monkeypatch)
    renewal.renew(plan, CONTENT, ["head"], boots.said.append)
    found = {each.name: each for each in members.members(CLUSTER, REGION).members}["head"]
    assert (found.target, found.host_key) == (head, key(101))
    assert renewal.outdated(plan, CONTENT) == {}


# -- a whole roll


class Scheduler:
    """What a roll asks of a scheduler; it says something once a playbook has been on its head."""

    def __init__(self, aws: Simulated, monkeypatch: pytest.MonkeyPatch, head: str) -> None:
        self.aws, self.head, self.happened = aws, head, list[str]()
        self.reasons: dict[str, DrainReason] = {}
        self.roster: Roster | None = None
        module = importlib.import_module("stampworks.operations.roll")  # the function of this name hides it
        monkeypatch.setattr(module, "service_of", self.of)
        monkeypatch.setattr(members, "POLL_S", 0)

    def of(self, _: Plan, roster: Roster) -> Scheduler:
        self.roster = roster
        return self

    def look(self) -> dict[str, Standing]:
        there = {each.name: each for each in self.roster.members} if self.roster else {}
        if "head" not in there or there["head"].target != self.head:
            raise operations.OperationError("nobody answers", "look there")
        held = self.reasons
        return {name: Standing(held=held.get(name), out="held" if name in held else "") for name in NAMES["gpu"]}

    def held(self, names: Collection[str]) -> dict[str, DrainReason | None]:
        return {name: self.reasons.get(name) for name in names}

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        self.reasons |= reasons

    def give_back_own(self, names: Collection[str]) -> None:
        for name in names:
            self.reasons.pop(name, None)

    def requeue(self, *_: object) -> None:
        raise AssertionError("nobody asked for it")

    def wait_until_free(self, *_: object) -> None:
        """Nothing runs."""

    await_answers = take_in = wait_until_free

    def play(self, roster: Roster, hosts: Collection[str]) -> None:
        """All of those have to be there, and all others that Slurm knows in what it is told."""
        assert [each.name for each in roster.members] == ["gpu-001", "gpu-002", "head"]
        for each in roster.members:
            if each.name in hosts:
                assert each.host_key.split()[1] in booting.CONSOLES[each.target].rpartition("-----BEGIN")[2]
        if "head" in hosts:
            self.head = next(each.target for each in roster.members if each.name == "head")
        self.happened.append(f"play {','.join(hosts)}")

    def roll(self, plan: Plan) -> None:
        plan = replace(plan, proof=replace(plan.proof, level="none"))
        order = operations.Order(plan, CONTENT, "programs", "fingerprint")
        operations.roll(order, None, self.happened.append, self.play, lambda _: None)

    def did(self) -> list[str]:
        """Without what is only said while somebody waits."""
        done, self.happened[:] = [each for each in self.happened if not each.startswith(("waiting", "head: "))], []
        return done


def with_head(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> tuple[Scheduler, Roster]:
    head = start_head(aws, plan)
    boot(head, 7)
    return Scheduler(aws, monkeypatch, head), stamped(aws, plan)


def test_a_new_image_is_one_up(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine has replaced the head a moment ago, and the pool is outdated since: the roll waits for the head."""
    slurm, before = with_head(aws, plan, monkeypatch)
    old, new = before.members[2].target, with_launch(plan, image="ami-2")
    Boots(aws, monkeypatch)
    aws.client("ec2").terminate_instances(InstanceIds=[old])
    ALONE.remove(old)
    head = start_head(aws, new)
    slurm.roll(new)
    assert [each for each in slurm.did() if each.startswith("play")] == ["play head", "play gpu-001", "play gpu-002"]
    after = members.members(CLUSTER, REGION)
    assert [each.target for each in after.members] == [*(each.target for each in before.members[:2]), head]
    assert renewal.outdated(new, CONTENT) == {}
    assert slurm.reasons == {}


def test_an_image_that_does_not_boot_stops_it_and_one_up_goes_back(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node is out of service then. With the image of before it is made anew first; the others are as before."""
    slurm, before = with_head(aws, plan, monkeypatch)
    Boots(aws, monkeypatch)
    booting.BROKEN.add("ami-2")
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "PATIENCE_S", 0.05)
        with pytest.raises(operations.RollStoppedError) as caught:
            slurm.roll(with_launch(plan, image="ami-2"))
    assert str(caught.value) == (
        "the roll has stopped: AWS us-east-1: gpu-001 have not come back: their console has not shown a host key for 0 "
        "min\n  as before: gpu-002\n  hint: the console of EC2 says how far it came, and whether the image boots; then "
        "run the same command again; to go back, undo the change and run pulumi up"
    )
    slurm.did()
    slurm.roll(plan)
    target = before.members[0].target
    assert slurm.did() == [
        *("making gpu-001 anew: its new disk has not come", f"gpu-001: a new disk for {target}", "play head"),
        *("gpu-001: begun earlier", "play gpu-001"),
    ]
    after = members.members(CLUSTER, REGION)
    assert [each.target for each in after.members] == [each.target for each in before.members]
    assert after.members[1:] == before.members[1:]
    assert renewal.outdated(plan, CONTENT) == {}
    assert slurm.reasons == {}


def in_reservation(monkeypatch: pytest.MonkeyPatch, reservation: str) -> None:
    """What runs is in capacity that was bought before, which moto knows nothing of."""
    ask = Api.ask

    def answer(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        answer = ask(self, action, **parameters)
        if action == "ec2:DescribeInstances":
            for one in (each for part in answer["Reservations"] for each in part["Instances"]):
                one["CapacityReservationId"] = reservation
        return answer

    monkeypatch.setattr(Api, "ask", answer)


def test_when_capacity_ends_that_nodes_are_in(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block there is an end, of what nobody has bought for a time none; nobody asks where there is nothing."""
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
    """It is not read as none."""
    stamped(aws)
    in_reservation(monkeypatch, "cr-block")
    aws.fail("ec2:DescribeCapacityReservations", "UnauthorizedOperation", "not you")
    [found] = operations.endings("aws", CLUSTER, REGION)
    assert (found.group, found.at) == ("gpu", "")
    assert found.why == "ec2:DescribeCapacityReservations: not permitted (UnauthorizedOperation: not you)"
