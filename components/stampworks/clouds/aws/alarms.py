"""Alarms by mail: when a cluster's budget is nearly spent, and before a capacity block ends."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pulumi import ResourceOptions
from pulumi_aws import budgets, cloudwatch, sns

from stampworks.clouds.aws.owner import Owner
from stampworks.clouds.aws.tags import CLUSTER
from stampworks.plan import Budget, Plan

_SHARES = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""Percentages of the budget that send mail, of actual costs and of the month's forecast."""
# Amazon EC2 User Guide, "Monitor Capacity Blocks using EventBridge"; the event has been seen with both names (read
# 2026-11-22). It comes 40 minutes before the end; AWS terminates instances from 30 minutes before the end on.
_ENDS = ("Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning")


def create(name: str, place: Owner, plan: Plan) -> None:
    """Create the alarms. A plan without an amount or recipients gets none."""
    opts = place.within(ResourceOptions(parent=place))
    if plan.budget.monthly_usd:
        _budget(name, place, plan.budget, opts)
    if (of := blocks(plan)) and plan.budget.notify:
        _end_of(of, name, place, plan.budget.notify, opts)


def blocks(plan: Plan) -> list[str]:
    """Return all capacity blocks that nodes may start in, including blocks that are not the first offer."""
    offers = [offer for pool in plan.pools for offer in pool.offers]
    return sorted({offer.reservation for offer in offers if offer.purchase == "block"})


def _budget(name: str, place: Owner, budget: Budget, opts: ResourceOptions) -> None:
    """Create the budget for resources with the cluster's tag.

    It counts only if the account uses that tag as a cost allocation tag.
    """
    tags = place.tags("budget")
    budgets.Budget(
        name,
        budget_type="COST",
        time_unit="MONTHLY",
        limit_amount=str(budget.monthly_usd),
        limit_unit="USD",
        cost_filters=[{"name": "TagKeyValue", "values": [f"user:{CLUSTER}${tags[CLUSTER]}"]}],
        notifications=[
            {
                "comparison_operator": "GREATER_THAN",
                "notification_type": of_what,
                "threshold": share,
                "threshold_type": "PERCENTAGE",
                "subscriber_email_addresses": [*budget.notify],
            }
            for of_what, share in _SHARES
            if budget.notify
        ],
        tags=tags,
        opts=opts,
    )


def _end_of(of: Sequence[str], name: str, place: Owner, notify: Sequence[str], opts: ResourceOptions) -> None:
    """Send mail before a block ends, to addresses that have confirmed their subscription."""
    name, tags = f"{name}-blocks", place.tags("blocks")
    rule = cloudwatch.EventRule(name, event_pattern=_pattern(of), tags=tags, opts=opts)
    # Not encrypted: EventBridge cannot publish with the default key of SNS, and the events hold no secret.
    topic = sns.Topic(name, tags=tags, opts=opts)
    sns.TopicPolicy(name, arn=topic.arn, policy=topic.arn.apply(_may_publish), opts=opts)
    said = "Capacity block <block> of cluster {} ends at <end>: its nodes go from 30 minutes before on."
    cloudwatch.EventTarget(
        name,
        rule=rule.name,
        arn=topic.arn,
        input_transformer={
            "input_paths": {"block": "$.detail.capacity-reservation-id", "end": "$.detail.end-date"},
            "input_template": json.dumps(said.format(tags[CLUSTER])),
        },
        opts=opts,
    )
    for address in notify:
        sns.TopicSubscription(f"{name}-{address}", topic=topic.arn, protocol="email", endpoint=address, opts=opts)


def _pattern(of: Sequence[str]) -> str:
    """Return the pattern of events to match.

    Events name each block. A group of blocks has only its ARN, so match the events of all blocks of the account then.
    """
    pattern: dict[str, object] = {"source": ["aws.ec2"], "detail-type": [*_ENDS]}
    if not any(block.startswith("arn:") for block in of):
        pattern["detail"] = {"capacity-reservation-id": [*of]}
    return json.dumps(pattern)


def _may_publish(topic: str) -> str:
    """Return the policy for events.

    It names no source: EventBridge fills in none for topics, so that a condition on it would stop the alarm without an
    error (Amazon EventBridge User Guide, "Using resource-based policies": topic policies take no condition blocks;
    quoted by public repositories, read 2026-11-28).
    """
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": topic,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
