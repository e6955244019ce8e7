"""Nodes that leave a cluster on AWS: elastic nodes, and nodes that become elastic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from stampworks import operations
from stampworks.clouds.aws import machines, members, renewal
from stampworks.clouds.aws.session import Api
from stampworks.operations.drain import REPLACED
from stampworks.plan import Plan, Roster
from stampworks.text.reasons import DrainReason

from tests.clouds.aws.booting import boot, key
from tests.clouds.aws.machines import ALONE, CLUSTER, CONTENT, NAMES, ids, join, stamped, tag
from tests.clouds.aws.simulated import REGION, Simulated

pytestmark = pytest.mark.usefixtures("groups")


def test_elastic_nodes_end_when_nobody_can_start_another(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only elastic nodes of the removed group end: its subnet and security groups cannot be deleted before."""
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
    assert str(caught.value) == "cpu-001 of cpu do not end\n  hint: find out why, and run the command again"


def test_a_cluster_that_grew_by_itself_is_no_change(aws: Simulated, plan: Plan) -> None:
    """A started elastic node is neither in the roster of an `up` nor outdated."""
    before = stamped(aws, plan)
    image = aws.publish("/test/elastic")
    [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    ALONE.add(one["InstanceId"])
    tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="gpu", ELASTIC="spot", NODE="gpu-003", HOST_KEY=key(9))
    assert [each.name for each in members.members(CLUSTER, REGION).members] == ["gpu-001", "gpu-002", "gpu-003"]
    elastic = operations.WantedMembers("gpu", (*NAMES["gpu"], "gpu-003"), 2)
    assert operations.gather("aws", CLUSTER, REGION, [elastic], [elastic], 1, lambda _: None) == before
    assert renewal.outdated(plan, CONTENT) == {}


class Slurm:
    """A stand-in for Slurm: nodes that take jobs or not, and a job that ends after some looks. A powered-down node
    forgets its drain."""

    def __init__(self, *jobs: str, forgets: str = "") -> None:
        self.jobs, self.forgets, self.reasons = list(jobs), forgets, dict[str, DrainReason]()
        self.seen: list[list[str]] = []
        """Running machines at each look."""

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
    """Machines that have started since the last `up`, so that their host keys are not known yet."""
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
    """Run an `up` of a pool of 4 nodes: 2 were permanent, and `count` are from now on."""
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
    monkeypatch.setattr("stampworks.operations.slurm.service.SlurmService", lambda _: slurm)
    now, before = [operations.WantedMembers("gpu", names, count)], [operations.WantedMembers("gpu", FOUR, 2)]
    return operations.gather("aws", CLUSTER, REGION, now, before, 1, progress)


def test_an_elastic_node_that_is_to_run_always_finishes_its_jobs(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance of the group takes its name afterwards, and no machine stays unnamed. A powered-down node is drained,
    too: a job would start it as an elastic node."""
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
    assert not [each for each in machines.machines(Api(REGION), CLUSTER) if each.state == "running" and not each.node]
    ALONE.add(stays)


def test_a_node_that_need_not_run_always_ends_when_its_jobs_are_through(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group may not end it, and the head ends only elastic nodes: it would run for ever."""
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
    """The head ends it after Slurm has removed it, with or without a known host key. Ended instances are left alone."""
    before = stamped(aws)
    [stays] = elastic(aws, "gpu-004")
    if known:
        tag(aws, stays, HOST_KEY=key(9))
    [ended] = elastic(aws, "gpu-001")
    aws.client("ec2").terminate_instances(InstanceIds=[ended])
    assert changed(aws, monkeypatch, Slurm(), 2, FOUR[:3]) == before
    assert stays in ids(aws)
    ALONE.add(stays)


def test_group_member_wins_over_an_elastic_node_of_its_name(aws: Simulated) -> None:
    """This holds for any age of the elastic node."""
    stamped(aws)
    [older] = elastic(aws, "gpu-003")
    tag(aws, older, HOST_KEY=key(9))
    aws.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName="gpu", MaxSize=3, DesiredCapacity=3)
    [new] = set(ids(aws)) - {older} - {each.target for each in members.members(CLUSTER, REGION).members}
    boot(new, 7)
    assert join({"gpu": FOUR[:3]}).members[2].target == new
    ALONE.add(older)


def test_an_elastic_node_that_is_not_shown_yet_ends_as_well(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program requested it just before it lost the node, and no later step would end it."""
    stamped(aws)
    monkeypatch.setattr(members, "POLL_S", 0)
    members.end_elastic(CLUSTER, REGION, "gpu")
    image = aws.publish("/test/elastic")
    [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="gpu", ELASTIC="spot")
    aws.lag("ec2:DescribeInstances", times=1)
    operations.end_elastic("aws", CLUSTER, REGION, "gpu", lambda _: None)
    assert one["InstanceId"] not in ids(aws)
