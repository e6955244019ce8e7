"""Where nodes of an AWS cluster hand over what they say: one group of logs, in which each node has a stream."""

from __future__ import annotations

import json

from pulumi import ResourceOptions
from pulumi_aws import cloudwatch

from stampworks.clouds.aws.owner import Owner
from stampworks.plan import Plan, log_group


def create(name: str, place: Owner, plan: Plan) -> cloudwatch.LogGroup | None:
    """Its name is one that nodes know without asking."""
    if not plan.logs.days:
        return None
    return cloudwatch.LogGroup(
        f"{name}-nodes",
        name=log_group(plan.name),
        retention_in_days=plan.logs.days,
        tags=place.tags("logs"),
        opts=place.within(ResourceOptions(parent=place)),
    )


def may_write(group: str) -> str:
    """A node begins a stream and adds to it. It reads nothing there, and makes no other group."""
    allowed = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": f"{group}:*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
