"""The simulated AWS answers what tests rely on, through the SDK and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.clouds.aws.simulated import LEAF_NODES, Simulated


def started(aws: Simulated, count: int) -> list[dict[str, Any]]:
    image = aws.publish("/test/image")
    found = aws.client("ec2").run_instances(ImageId=image, MinCount=count, MaxCount=count, InstanceType="p5.48xlarge")
    return list(found["Instances"])


def test_a_placement_group(aws: Simulated) -> None:
    """The group is created once with its tags, found by them, and gone after deletion."""
    ec2 = aws.client("ec2")
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "stampworks:cluster", "Value": "one"}]}]
    ec2.create_placement_group(GroupName="near", Strategy="cluster", TagSpecifications=tags)
    [found] = ec2.describe_placement_groups(Filters=[{"Name": "tag:stampworks:cluster", "Values": ["one"]}])[
        "PlacementGroups"
    ]
    assert (found["GroupName"], found["Strategy"], found["State"]) == ("near", "cluster", "available")
    assert not ec2.describe_placement_groups(Filters=[{"Name": "tag:stampworks:cluster", "Values": ["two"]}])[
        "PlacementGroups"
    ]
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Duplicate"):
        ec2.create_placement_group(GroupName="near")
    ec2.delete_placement_group(GroupName="near")
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        ec2.describe_placement_groups(GroupNames=["near"])


def test_a_reservation(aws: Simulated) -> None:
    """A reservation comes from the API or a test; each region has its own."""
    ec2 = aws.client("ec2")
    made = ec2.create_capacity_reservation(
        InstanceType="p5en.48xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=4
    )["CapacityReservation"]
    assert (made["State"], made["AvailableInstanceCount"]) == ("active", 4)
    ec2.cancel_capacity_reservation(CapacityReservationId=made["CapacityReservationId"])
    assert ec2.describe_capacity_reservations()["CapacityReservations"][0]["State"] == "cancelled"
    aws.reserve("cr-block", "us-west-2", ReservationType="capacity-block", State="expired")
    with pytest.raises(ClientError, match=r"InvalidCapacityReservationId\.NotFound"):
        ec2.describe_capacity_reservations(CapacityReservationIds=["cr-block"])
    west = aws.client("ec2", "us-west-2").describe_capacity_reservations(CapacityReservationIds=["cr-block"])
    assert west["CapacityReservations"][0]["ReservationType"] == "capacity-block"


def test_the_topology(aws: Simulated) -> None:
    """A fixed number of instances shares a switch."""
    ids = [each["InstanceId"] for each in started(aws, LEAF_NODES + 1)]
    found = aws.client("ec2").describe_instance_topology(InstanceIds=ids)["Instances"]
    leaves = [each["NetworkNodes"][-1] for each in found]
    assert leaves == ["nn-leaf-0"] * LEAF_NODES + ["nn-leaf-1"]


def test_an_image_and_its_parameter(aws: Simulated) -> None:
    image = aws.publish("/aws/service/test/latest", architecture="arm64", deprecation_time="2026-01-01T00:00:00.000Z")
    assert aws.client("ssm").get_parameter(Name="/aws/service/test/latest")["Parameter"]["Value"] == image
    [found] = aws.client("ec2").describe_images(ImageIds=[image])["Images"]
    assert (found["Architecture"], found["DeprecationTime"]) == ("arm64", "2026-01-01T00:00:00.000Z")


def test_a_quota(aws: Simulated) -> None:
    aws.quota("ec2", "Running On-Demand P instances", 384)
    [found] = aws.client("service-quotas").list_service_quotas(ServiceCode="ec2")["Quotas"]
    assert (found["QuotaName"], found["Value"]) == ("Running On-Demand P instances", 384)
    assert aws.client("service-quotas", "us-west-2").list_service_quotas(ServiceCode="ec2")["Quotas"] == []


@pytest.mark.parametrize(
    ("service", "call", "action"),
    [
        ("ec2", "describe_vpcs", "ec2:DescribeVpcs"),
        ("sts", "get_caller_identity", "sts:GetCallerIdentity"),
        ("fsx", "describe_file_systems", "fsx:DescribeFileSystems"),
        ("autoscaling", "describe_auto_scaling_groups", "autoscaling:DescribeAutoScalingGroups"),
    ],
)
def test_a_fault_in_the_format_of_its_service(aws: Simulated, service: str, call: str, action: str) -> None:
    """The fault occurs the requested number of times, is counted as a call, and has its code."""
    aws.fail(action, "AccessDenied", "no & never", status=403, times=1)
    client = aws.client(service)
    with pytest.raises(ClientError) as error:
        getattr(client, call)()
    assert (error.value.response["Error"]["Code"], error.value.response["Error"]["Message"]) == (
        "AccessDenied",
        "no & never",
    )
    getattr(client, call)()
    assert aws.calls == [action, action]


def test_a_fault_of_some_requests(aws: Simulated) -> None:
    """Faults may apply to requests with a text in their body: capacity is missing for one type only."""
    aws.fail("ec2:RunInstances", "InsufficientInstanceCapacity", where="InstanceType=p5.48xlarge")
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        started(aws, 1)
    image = aws.publish("/test/image")
    aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1, InstanceType="g6.8xlarge")
    aws.mend()
    assert started(aws, 1)


def test_it_forgets(aws: Simulated) -> None:
    """Resources of one test do not reach another."""
    started(aws, 1)
    aws.reserve("cr-1")
    aws.clear()
    ec2 = aws.client("ec2")
    assert not ec2.describe_instances()["Reservations"]
    assert not ec2.describe_capacity_reservations()["CapacityReservations"]
    assert aws.calls == ["ec2:DescribeInstances", "ec2:DescribeCapacityReservations"]
