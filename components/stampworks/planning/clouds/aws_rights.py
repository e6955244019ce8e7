"""Rights of AWS that an `up` needs: the types of resources in a plan, and the actions that each type takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from stampworks.plan import Group, Plan, log_group
from stampworks.plan.rights import Right
from stampworks.planning.clouds.aws_actions import (
    ALWAYS,
    OF_RESERVATION_GROUPS,
    OF_RESERVATIONS,
    OF_TOOLKIT,
    OF_TOOLKIT_WITH_EKS,
    TYPES,
)

_BUCKET = (
    "bucket:Bucket",
    *(f"bucket{each}:Bucket{each}" for each in ("LifecycleConfiguration", "PublicAccessBlock")),
    *(f"bucket{each}:Bucket{each}" for each in ("ServerSideEncryptionConfiguration", "Versioning")),
)

_PATTERNS: Final[Mapping[str, str]] = {
    "autoscaling:group": "autoscaling:{region}:{account}:autoScalingGroup:*:autoScalingGroupName/{cluster}-*",
    "budgets:budget": "budgets::{account}:budget/{cluster}-*",
    "ec2:image": "ec2:{region}::image/*",
    "ec2:reservation-group": "resource-groups:{region}:{account}:group/*",
    "eks:access-entry": "eks:{region}:{account}:access-entry/{cluster}/*",
    "eks:addon": "eks:{region}:{account}:addon/{cluster}/*",
    "eks:cluster": "eks:{region}:{account}:cluster/{cluster}",
    "eks:identity": "eks:{region}:{account}:podidentityassociation/{cluster}/*",
    "eks:nodegroup": "eks:{region}:{account}:nodegroup/{cluster}/*",
    "elasticfilesystem:file-system": "elasticfilesystem:{region}:{account}:file-system/*",
    "events:rule": "events:{region}:{account}:rule/{cluster}-*",
    "fsx:association": "fsx:{region}:{account}:association/*",
    "fsx:file-system": "fsx:{region}:{account}:file-system/*",
    "fsx:volume": "fsx:{region}:{account}:volume/*",
    "iam:profile": "iam::{account}:instance-profile{path}{cluster}-*",
    "iam:role": "iam::{account}:role{path}{cluster}-*",
    "rds:db": "rds:{region}:{account}:db:{cluster}-*",
    "rds:pg": "rds:{region}:{account}:pg:{cluster}-*",
    "rds:subgrp": "rds:{region}:{account}:subgrp:{cluster}-*",
    "route53:zone": "route53:::hostedzone/*",
    "s3:bucket": "s3:::{cluster}-*",
    "s3:objects": "s3:::{cluster}-*/*",
    "sns:topic": "sns:{region}:{account}:{cluster}-*",
    "ssm:parameter": "ssm:{region}:{account}:parameter/stampworks/{cluster}/*",
    "ssm:document": "ssm:{region}::document/AWS-StartSSHSession",
    "ssm:session": "ec2:{region}:{account}:instance/*",
}
"""Resources of each class, named after the cluster with Pulumi's suffixes ("Autonaming")."""


def types_of(plan: Plan) -> tuple[str, ...]:
    """Return the types of AWS resources that an `up` of a plan creates."""
    found = [*_of_network(plan), *_of_nodes(plan), *_of_storage(plan), *_of_alarms(plan)]
    if plan.logs.days:
        found.append("cloudwatch/logGroup:LogGroup")
    return tuple(sorted({f"aws:{each}" for each in found}))


def _of_network(plan: Plan) -> Iterator[str]:
    network = plan.network
    if network.existing is None:
        yield from ("ec2/vpc:Vpc", "ec2/defaultSecurityGroup:DefaultSecurityGroup", "ec2/subnet:Subnet")
        yield from ("ec2/routeTable:RouteTable", "ec2/routeTableAssociation:RouteTableAssociation")
        yield from ("cloudwatch/logGroup:LogGroup", "iam/role:Role", "iam/rolePolicy:RolePolicy", "ec2/flowLog:FlowLog")
        if network.egress == "nat":
            yield from ("ec2/internetGateway:InternetGateway", "ec2/eip:Eip", "ec2/natGateway:NatGateway")
            yield "ec2/route:Route"
        if network.endpoints:
            yield "ec2/vpcEndpoint:VpcEndpoint"
    given = network.existing is not None and bool(network.existing.nodes_group)
    if not given or plan.managed or plan.scheduler.database == "managed":
        yield from ("ec2/securityGroup:SecurityGroup", "vpc/securityGroupIngressRule:SecurityGroupIngressRule")
        yield "vpc/securityGroupEgressRule:SecurityGroupEgressRule"


def _of_nodes(plan: Plan) -> Iterator[str]:
    yield "ec2/launchTemplate:LaunchTemplate"
    if plan.managed:
        yield from ("cloudwatch/logGroup:LogGroup", "eks/cluster:Cluster", "eks/addon:Addon", "eks/nodeGroup:NodeGroup")
        yield from ("iam/role:Role", "iam/rolePolicy:RolePolicy", "iam/rolePolicyAttachment:RolePolicyAttachment")
        if plan.users or plan.scheduler.admins:
            yield "eks/accessEntry:AccessEntry"
        if plan.scheduler.admins:
            yield "eks/accessPolicyAssociation:AccessPolicyAssociation"
    else:
        yield from ("autoscaling/group:Group", "ec2/instance:Instance", "ssm/parameter:Parameter")
        if plan.controller.volumes:
            yield from ("ebs/volume:Volume", "ec2/volumeAttachment:VolumeAttachment")
        if not (plan.account.head_profile and plan.account.nodes_profile):
            yield from ("iam/role:Role", "iam/rolePolicy:RolePolicy", "iam/instanceProfile:InstanceProfile")
    if any(_together(group, plan.managed) for group in plan.groups):
        yield "ec2/placementGroup:PlacementGroup"
    if any(pool.elastic_nodes for pool in plan.pools):
        yield from (f"s3/{each}" for each in (*_BUCKET, "bucketObjectv2:BucketObjectv2"))
    if plan.scheduler.database == "managed":
        yield from ("rds/instance:Instance", "rds/parameterGroup:ParameterGroup", "rds/subnetGroup:SubnetGroup")


def _together(group: Group, managed: bool) -> bool:
    if group.launch is None or (group.role == "controller" and not managed):
        return False
    return group.launch.placed_together if managed else any(offer.placed_together for offer in group.offers)


def _of_storage(plan: Plan) -> Iterator[str]:
    kinds = {"fsx-lustre": "fsx/lustreFileSystem:LustreFileSystem"}
    kinds["fsx-openzfs"] = "fsx/openZfsFileSystem:OpenZfsFileSystem"
    for each in plan.storage:
        if each.existing:
            continue
        if each.kind == "efs":
            yield from ("efs/fileSystem:FileSystem", "efs/mountTarget:MountTarget", "efs/backupPolicy:BackupPolicy")
        elif each.kind == "s3":
            yield from (f"s3/{part}" for part in _BUCKET)
        else:
            yield kinds[each.kind]
        if each.repository:
            yield "fsx/dataRepositoryAssociation:DataRepositoryAssociation"


def _of_alarms(plan: Plan) -> Iterator[str]:
    if plan.budget.monthly_usd:
        yield "budgets/budget:Budget"
    blocks = [offer for pool in plan.pools for offer in pool.offers if offer.purchase == "block"]
    if blocks and plan.budget.notify:
        yield from ("cloudwatch/eventRule:EventRule", "cloudwatch/eventTarget:EventTarget")
        yield from ("sns/topic:Topic", "sns/topicPolicy:TopicPolicy", "sns/topicSubscription:TopicSubscription")


def rights_of(plan: Plan) -> tuple[Right, ...]:
    """Return all rights that an `up` of a plan needs."""
    listed = [TYPES[type_] for type_ in types_of(plan)]
    listed += [ALWAYS, OF_TOOLKIT_WITH_EKS if plan.managed else OF_TOOLKIT]
    reservations = {offer.reservation for pool in plan.pools for offer in pool.offers} - {""}
    listed += [OF_RESERVATIONS] if reservations else []
    listed += [OF_RESERVATION_GROUPS] if any(each.startswith("arn:") for each in reservations) else []
    found = {
        right: None
        for actions in listed
        for where, names in actions.items()
        for name in names.split()
        for right in _rights(plan, where, name)
    }
    return tuple(sorted(found, key=lambda right: (right.resource, right.given, right.action)))


def _rights(plan: Plan, where: str, name: str) -> Iterator[Right]:
    service, _, kind = where.partition(":")
    action, (word, _, by) = f"{service}:{name}", kind.partition(" ")
    if word == "linked":
        role = _arn(plan, f"iam::{{account}}:role/aws-service-role/{by}/*")
        given = (("iam:AWSServiceName", by),) if name == "CreateServiceLinkedRole" else ()
        yield Right(action, role, given, once=True)
    elif word == "passed":
        profiles = plan.account.head_profile or plan.account.nodes_profile
        roles = "iam::{account}:role/*" if profiles else _PATTERNS["iam:role"]
        yield Right(action, _arn(plan, roles), (("iam:PassedToService", by),))
    elif kind == "repository":
        named = [each.repository.removeprefix("s3://").partition("/")[0] for each in plan.storage if each.repository]
        yield from (Right(action, _arn(plan, f"s3:::{each}")) for each in dict.fromkeys(named))
    elif where == "logs:group":
        yield from (Right(action, _arn(plan, f"logs:{{region}}:{{account}}:log-group:{each}*")) for each in _logs(plan))
    elif kind == "*":
        yield Right(action, "*")
    else:
        own = f"ec2:{{region}}:{{account}}:{kind}/*" if service == "ec2" else ""
        yield Right(action, _arn(plan, _PATTERNS.get(where) or own))


def _logs(plan: Plan) -> Iterator[str]:
    """Yield the beginnings of the names of log groups."""
    if plan.logs.days:
        yield log_group(plan.name)
    if plan.network.existing is None:
        yield f"{plan.name}-traffic-"
    if plan.managed:
        yield f"/aws/eks/{plan.name}/cluster"


def _arn(plan: Plan, pattern: str) -> str:
    of = {"region": plan.region, "cluster": plan.name, "path": plan.account.role_path or "/"}
    return f"arn:{partition_of(plan.region)}:{pattern.format(account='{account}', **of)}"


def partition_of(region: str) -> str:
    """Return the part of AWS that a region is in, as ARNs name it. Clusters are in these two."""
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def statement(rights: Sequence[Right], account: str = "*") -> dict[str, Any]:
    """Return the statement of a policy that allows rights of one condition."""
    given = dict(rights[0].given)
    resources = sorted({right.resource.replace("{account}", account) for right in rights})
    return {
        "Effect": "Allow",
        "Action": sorted({right.action for right in rights}),
        "Resource": resources if len(resources) > 1 else resources[0],
        **({"Condition": {"StringEquals": given}} if given else {}),
    }


def policy(rights: Sequence[Right], account: str = "*") -> dict[str, Any]:
    """Return the smallest policy with these rights.

    Rights of a service share a statement, which allows no more: AWS applies an action only to resources of its own
    classes. A statement for each resource would exceed AWS's limit of length.
    """
    grouped: dict[tuple[str, tuple[tuple[str, str], ...]], list[Right]] = {}
    for right in rights:
        service = right.action.partition(":")[0] if right.resource != "*" else ""
        grouped.setdefault((service, right.given), []).append(right)
    return {"Version": "2012-10-17", "Statement": [statement(group, account) for _, group in sorted(grouped.items())]}
