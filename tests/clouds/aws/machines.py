"""Machines of a cluster on a simulated AWS, started by its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from stampworks import operations, planning
from stampworks.clouds.aws import members, tags
from stampworks.declaration import load_value
from stampworks.plan import Launch, Plan, Roster

from tests.clouds.aws.booting import BROKEN, CONSOLES, boot
from tests.clouds.aws.simulated import REGION, Simulated

CLUSTER, CONTENT = "c", "content"
NAMES = {"gpu": ("gpu-001", "gpu-002")}
ALONE: set[str] = set()
"""Machines that a test has started outside of any group, and that must stay."""


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
    """Start a group as clouds/aws/nodes.py requests it, without the parameters that moto does not support."""
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


def start_head(aws: Simulated, plan: Plan) -> str:
    """Start the head as the engine does: in no group, and with its name."""
    image = aws.publish("/test/head")
    [one] = aws.client("ec2").run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    made_from = tags.template(plan.controller, plan.release, CONTENT)
    tag(aws, one["InstanceId"], CLUSTER=CLUSTER, GROUP="head", NODE="head", TEMPLATE=made_from)
    ALONE.add(one["InstanceId"])
    return str(one["InstanceId"])


def there(aws: Simulated) -> list[Mapping[str, Any]]:
    """Return all machines that exist."""
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


def gathered(monkeypatch: pytest.MonkeyPatch) -> Roster:
    """Wait for members as an `up` does."""
    monkeypatch.setattr(members, "POLL_S", 0)
    all_ = [operations.WantedMembers("gpu", NAMES["gpu"], 2)]
    return operations.gather("aws", CLUSTER, REGION, all_, all_, 1, lambda _: None)


class Boots:
    """Machines boot during a wait: each without a key gets one."""

    def __init__(self, aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aws, self.number, self.said = aws, 100, list[str]()
        self.disks = {one["InstanceId"]: root(one) for one in there(aws)}
        monkeypatch.setattr("stampworks.clouds.aws.renewal.time.sleep", self.boot)

    def boot(self, _: float) -> None:
        for one in there(self.aws):
            if self.disks.get(one["InstanceId"]) != root(one) and one["ImageId"] not in BROKEN:
                self.disks[one["InstanceId"]] = root(one)
                self.number += 1
                boot(one["InstanceId"], self.number, before=CONSOLES.get(one["InstanceId"], ""))


def root(instance: Mapping[str, Any]) -> str:
    return str(instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"])


AT = datetime(2026, 11, 25, 20, 31, 7, tzinfo=UTC)
STOCK_OUT = (
    "We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested (us-east-1a). Our "
    "system will be working on provisioning additional capacity. You can currently get p5.48xlarge capacity by not "
    "specifying an Availability Zone in your request or choosing us-east-1b. Launching EC2 instance failed."
)
