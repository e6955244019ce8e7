"""Launches that AWS tries without starting anything: an instance of each group, as far as its parts exist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stampworks.clouds.aws.session import NOT_PERMITTED, Api, AwsUnansweredError
from stampworks.clouds.aws.tags import CLUSTER, cost_tags
from stampworks.plan import Group, Plan

RUN, DECODE, SUBNETS = "ec2:RunInstances", "sts:DecodeAuthorizationMessage", "ec2:DescribeSubnets"
_WOULD = "DryRunOperation"
"""Error code of a call that would have succeeded."""
_MARKETS = {"spot": "spot", "block": "capacity-block"}


def tried(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return for each group whether AWS would accept its launch, and why it would not.

    AWS checks rights and parameters, and no capacity.
    """
    return [{"group": group.name, **_tried(api, plan, group)} for group in plan.groups if group.launch]


def _tried(api: Api, plan: Plan, group: Group) -> dict[str, str]:
    if not (group.launch and group.launch.image.startswith("ami-")):  # the lock of an example has none
        return {"outcome": "not tried", "why": "its image is not locked"}
    zone = group.zone or plan.network.zone
    if not (subnet := _subnet(api, plan, zone)):
        where = f"a default subnet in {zone}" if zone else "a default subnet"
        return {"outcome": "not tried", "why": f"neither its own subnet nor {where} exists"}
    try:
        api.ask(RUN, **_request(plan, group, subnet))
    except AwsUnansweredError as error:
        if error.code == _WOULD:
            return {"outcome": "accepted", "why": ""}
        if error.code in NOT_PERMITTED:
            return {"outcome": "refused", "why": _denied(api, error.encoded) or str(error)}
        if error.code.startswith(("Invalid", "Missing", "Unsupported", "VPC")):
            return {"outcome": "refused", "why": str(error)}
        raise
    raise ValueError(f"{RUN} of {group.name} succeeded although it was only a dry run")


def _subnet(api: Api, plan: Plan, zone: str) -> str:
    """Return the subnet of nodes, or the zone's default subnet, for a trial launch; empty for none."""
    if existing := plan.network.existing:
        return existing.subnet("nodes").id
    own = [{"Name": f"tag:{CLUSTER}", "Values": [plan.name]}, {"Name": "tag:Name", "Values": [f"{plan.name}-nodes"]}]
    default = [{"Name": "default-for-az", "Values": ["true"]}]
    default += [{"Name": "availability-zone", "Values": [zone]}] if zone else []
    for filters in (own, default):
        if found := api.ask(SUBNETS, Filters=filters)["Subnets"]:
            return str(min(one["SubnetId"] for one in found))
    return ""


def _request(plan: Plan, group: Group, subnet: str) -> dict[str, Any]:
    launch, existing, account = group.launch, plan.network.existing, plan.account
    assert launch is not None  # noqa: S101  # the caller has looked
    groups = {"Groups": [existing.nodes_group]} if existing and existing.nodes_group else {}
    profile = account.nodes_profile if group.role == "worker" else account.head_profile
    tags = [{"Key": name, "Value": value} for name, value in cost_tags(plan).items()]
    nics = [
        {
            "DeviceIndex": each.device,
            "NetworkCardIndex": each.card,
            "InterfaceType": "interface" if not each.fabric else "efa" if each.address else "efa-only",
            "SubnetId": subnet,
            **groups,
        }
        for each in launch.interfaces
    ]
    return {
        "DryRun": True,
        "ImageId": launch.image,
        "InstanceType": launch.instance_type,
        "MinCount": 1,
        "MaxCount": 1,
        "NetworkInterfaces": nics,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
        **({"IamInstanceProfile": {"Name": profile}} if profile else {}),
        **dict(_bought(group)),
    }


def _bought(group: Group) -> Iterator[tuple[str, Any]]:
    if market := _MARKETS.get(group.purchase):
        yield "InstanceMarketOptions", {"MarketType": market}
    if group.reservation:
        of_group = group.reservation.startswith("arn:")
        key = "CapacityReservationResourceGroupArn" if of_group else "CapacityReservationId"
        yield "CapacityReservationSpecification", {"CapacityReservationTarget": {key: group.reservation}}


def _denied(api: Api, encoded: str) -> str:
    """Return the rights that a denied call lacks; empty if AWS does not name them."""
    if not encoded:
        return ""
    try:
        told = json.loads(api.ask(DECODE, EncodedMessage=encoded)["DecodedMessage"])
        action, resource = told["context"]["action"], told["context"]["resource"]
    except (AwsUnansweredError, KeyError, TypeError, ValueError):
        return ""
    return (
        f"{action} on {resource}: {'a statement denies it' if told.get('explicitDeny') else 'no statement allows it'}"
    )
