"""Logs of the nodes of an AWS cluster: one log group, in which each node has a stream."""

from __future__ import annotations

import json

from pulumi import ResourceOptions
from pulumi_aws import cloudwatch

from stampworks.clouds.aws.owner import Owner
from stampworks.plan import Plan, log_group


def create(name: str, place: Owner, plan: Plan) -> cloudwatch.LogGroup | None:
    """Create the log group; None if logs are not kept.

    Nodes know its name without asking.
    """
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
    """Return the policy of a node: it creates a stream and appends to it. It reads nothing and creates no group."""
    allowed = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": f"{group}:*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
