"""Who is told: when what a cluster may cost is nearly spent, and before capacity ends that was bought for a time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pulumi import ResourceOptions
from pulumi_aws import budgets, cloudwatch, sns

from stampworks.clouds.aws.owner import Owner
from stampworks.clouds.aws.tags import CLUSTER
from stampworks.plan import Budget, Plan

_SHARES = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""At what percent of the budget there is mail, of what was spent and of what the month is going to cost."""
# Amazon EC2 User Guide, "Monitor Capacity Blocks using EventBridge", which has been seen with either name (read
# 2026-11-22). It comes 40 minutes before the end; from 30 minutes before it on, instances are terminated.
_ENDS = ("Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning")


def create(name: str, place: Owner, plan: Plan) -> None:
    opts = place.within(ResourceOptions(parent=place))
    if plan.budget.monthly_usd:
        _budget(name, place, plan.budget, opts)
    if (of := blocks(plan)) and plan.budget.notify:
        _end_of(of, name, place, plan.budget.notify, opts)


def blocks(plan: Plan) -> list[str]:
    """Those that nodes may start in, also where another way to buy them comes first."""
    offers = [offer for pool in plan.pools for offer in pool.offers]
    return sorted({offer.reservation for offer in offers if offer.purchase == "block"})


def _budget(name: str, place: Owner, budget: Budget, opts: ResourceOptions) -> None:
    """Of all that has the cluster's tag, as far as the tag is one that costs are told apart by."""
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
    """Mail to those who have said, in answer to a first one, that they want it."""
    name, tags = f"{name}-blocks", place.tags("blocks")
    rule = cloudwatch.EventRule(name, event_pattern=_pattern(of), tags=tags, opts=opts)
    # Not encrypted: with the key that SNS has by itself, events cannot be published, and nothing in them is secret.
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
    """A group of them is known by its ARN, and events name each block: then those of all blocks of the account."""
    pattern: dict[str, object] = {"source": ["aws.ec2"], "detail-type": [*_ENDS]}
    if not any(block.startswith("arn:") for block in of):
        pattern["detail"] = {"capacity-reservation-id": [*of]}
    return json.dumps(pattern)


def _may_publish(topic: str) -> str:
    """As the EventBridge User Guide has it for topics, where it names no condition: no alarm is to fail by one."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": topic,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
