"""Reasons why AWS has started too few nodes: shown during the wait, which ends if waiting cannot help."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.eks.models import eks_backends
from stampworks import operations
from stampworks.clouds.aws import members, tags
from stampworks.plan import Plan, Refusal

from tests.clouds.aws.booting import boot
from tests.clouds.aws.machines import ALONE, AT, CLUSTER, NAMES, STOCK_OUT, gathered, ids, start, start_head
from tests.clouds.aws.simulated import REGION, Simulated

pytestmark = pytest.mark.usefixtures("groups")


class EnoughError(Exception):
    """A test has seen enough of the wait."""


def waited(aws: Simulated, monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> list[str]:
    """Return the messages of a waiting `up`. An action follows each look; a last look follows all actions."""
    said, todo = list[str](), iter(between)

    def progress(line: str) -> None:
        said.append(line)
        if (do := next(todo, None)) is None:
            raise EnoughError
        do()

    monkeypatch.setattr(members, "POLL_S", 0)
    all_ = [operations.WantedMembers("gpu", NAMES["gpu"], 2)]
    with pytest.raises(EnoughError):
        operations.gather("aws", CLUSTER, REGION, all_, all_, 1, progress)
    return said


SHORT = "gpu: 0 of 2 members"
LIMIT = (
    "You have requested more vCPU capacity than your current vCPU limit of 384 allows for the instance bucket that the "
    "specified instance type belongs to. Launching EC2 instance failed."
)


def test_why_there_are_too_few_is_said(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is shown during and after the wait: no other part starts nodes that always run."""
    start(aws)
    aws.tried("gpu", AT, STOCK_OUT)
    line = f"gpu, tried at 2026-11-25T20:31Z: {STOCK_OUT}"
    assert waited(aws, monkeypatch) == [f"{SHORT}; {line}"]
    monkeypatch.setattr(members, "PATIENCE_S", -1)
    with pytest.raises(operations.OperationError) as caught:
        gathered(monkeypatch)
    assert str(caught.value) == (
        f"{SHORT} after -1 s\n  {line}\n"
        "  hint: run pulumi up again: it continues from here, when there are some; sooner may do another zone, "
        "capacity that was "
        "bought before (purchase, reservation), or a count_min with fallbacks, whose nodes start when a job wants them"
    )


def test_lasting_refusal_ends_the_wait(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends after the group's second failure: the cause of the last `up` may be repaired."""
    start(aws)
    aws.tried("gpu", AT, LIMIT)
    assert len(waited(aws, monkeypatch, lambda: None)) == 2
    with pytest.raises(operations.OperationError) as caught:
        waited(aws, monkeypatch, lambda: aws.tried("gpu", AT + timedelta(minutes=2), LIMIT))
    assert str(caught.value) == (
        f"{SHORT}, and waiting does not help\n  gpu, tried at 2026-11-25T20:33Z: {LIMIT}\n"
        "  hint: have the limit raised in the console of Service Quotas, or declare fewer nodes; run pulumi up "
        "again: it continues from here"
    )


@pytest.mark.parametrize(
    ("said", "lasting", "hint"),
    [
        (STOCK_OUT, False, "run pulumi up again: it continues from here, when there are some"),
        (
            "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that "
            "matches your request. Launching EC2 instance failed.",
            False,
            "run pulumi up again: it continues from here, when there are some",
        ),
        (
            "The requested reservation does not have sufficient compatible and available capacity for this request.",
            False,
            "aws ec2 describe-capacity-reservations shows its free capacity",
        ),
        ("RequestLimitExceeded - Request limit exceeded.", False, "run pulumi up again: it continues from here"),
        (
            "Instance became unhealthy while waiting for instance to be in InService state. Termination Reason: "
            "Client.InternalError: Client error on launch",
            True,
            "let AWSServiceRoleForAutoScaling use the key that the account encrypts disks with",
        ),
        (LIMIT, True, "have the limit raised in the console"),
        ("VcpuLimitExceeded - You have requested", True, "have the limit raised in the console"),
        ("You have requested more instances (7) than your current instance limit of 6 allows", True, "have the limit"),
        ("Max spot instance count exceeded. Launching EC2 instance failed.", True, "have the limit raised"),
        ("You are not authorized to perform this operation.", True, "Auto Scaling asks in its own name"),
        ("The Capacity Reservation cr-1 does not match the request.", True, "declare a reservation that is active"),
        ("InvalidParameterValue - so it is. Launching EC2 instance failed.", True, "correct the named setting"),
        ("Your requested instance type (p5) is not supported in your requested Availability Zone", True, "correct"),
    ],
)
def test_tells_lasting_refusals_from_temporary_ones(aws: Simulated, said: str, lasting: bool, hint: str) -> None:
    """Unknown reasons may be temporary; each has a hint."""
    start(aws, count=1)
    aws.tried("gpu", AT, said)
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert (found.why, found.lasting, found.hint.startswith(hint)) == (said, lasting, True)


def test_refusals_before_a_success_are_not_reported(aws: Simulated) -> None:
    """Some machines of an attempt may have started. Attempts of ended groups and of other clusters do not count."""

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


def test_messages_of_auto_scaling_are_sanitised(aws: Simulated) -> None:
    """The message is one line of limited length without control characters. Encoded parts are left out."""
    start(aws, count=1)
    aws.tried("gpu", AT, f"so\n\t it \u202eis {'x' * 5000}")
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert found.why == f"so it \\u202eis {'x' * 385}..."
    aws.tried("gpu", AT, "You are not authorized. Encoded authorization failure message: Zm9v")
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert found.why == "You are not authorized."


def test_why_eks_starts_no_nodes_it_says_of_their_group(aws: Simulated) -> None:
    """Only issues of the requested groups count. Messages of EC2 get a remedy. Issues have no time, so that they may be
    resolved."""

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
    assert found.hint == "run pulumi up again: it continues from here", "what a launch was denied is another thing"
    eks_backends[DEFAULT_ACCOUNT_ID][REGION].clusters[CLUSTER].nodegroups["c-gpu-1"].status = "CREATE_FAILED"
    why, never = members.node_refusals(CLUSTER, REGION, ["gpu"])
    assert why == found
    assert never.lasting, "the engine goes on as if it were there"
    assert never.words == "gpu: EKS could not make c-gpu-1, and does not try again"
    assert never.hint == (
        "repair that, then replace it: `pulumi stack --show-urns` shows the URN of its "
        "aws:eks/nodeGroup:NodeGroup, and pulumi up --replace URN makes it"
    )


def test_why_there_are_too_few_nobody_may_ask(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing right is reported without ending the wait: nodes may still start. A complete group is not asked."""
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


def test_suspended_group_is_reported(aws: Simulated) -> None:
    """AWS or a user may have suspended it; the message says how to resume it. Our own suspension is no reason."""
    start(aws, count=1)
    autoscaling = aws.client("autoscaling")
    autoscaling.suspend_processes(AutoScalingGroupName="gpu", ScalingProcesses=["ReplaceUnhealthy", "AZRebalance"])
    assert members.refusals(CLUSTER, REGION, ["gpu"]) == ()
    autoscaling.suspend_processes(AutoScalingGroupName="gpu", ScalingProcesses=["Launch"])
    [found] = members.refusals(CLUSTER, REGION, ["gpu"])
    assert found.words == "gpu: it does not start machines any more"
    assert found.hint == (
        "aws autoscaling resume-processes --region us-east-1 --auto-scaling-group-name gpu --scaling-processes Launch; "
        "run pulumi up again: it continues from here"
    )


def test_stopped_head_is_reported(aws: Simulated, plan: Plan) -> None:
    """No group starts another head, and the engine keeps the old state: an `up` alone would wait for ever."""
    head = start_head(aws, plan)
    assert members.refusals(CLUSTER, REGION, ["head"]) == ()
    aws.client("ec2").stop_instances(InstanceIds=[head])
    [found] = members.refusals(CLUSTER, REGION, ["gpu", "head"])
    assert found.words == f"head: {head} is stopped"
    assert found.hint == (
        f"aws ec2 start-instances --region us-east-1 --instance-ids {head}; run pulumi up again: it continues from here"
    )
    aws.client("ec2").terminate_instances(InstanceIds=[head])
    ALONE.clear()
    [found] = members.refusals(CLUSTER, REGION, ["head"])
    assert found.words == f"head: {head} is terminated"
    assert found.hint.startswith("pulumi up --refresh makes another one")
    assert members.refusals(CLUSTER, REGION, ["gpu"]) == ()
    [found] = members.refusals("d", REGION, ["head"])
    assert found.words == "head: AWS lists no machine of it"
