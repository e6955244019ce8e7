"""Rights of AWS that an `up` needs: the types of resources in a plan, and the actions that each type takes.

Actions of a type are the calls with which the provider creates, reads, changes and deletes it. Calls that create and
read were recorded from terraform-provider-aws 5.100.0, of the source that Pulumi's is built from, in front of a
simulated AWS (tests/clouds/aws/provider_calls.json). The others, and the resources of an action, are from the Service
Authorization Reference. None of it was tried in an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from stampworks.plan import Group, Plan
from stampworks.plan.rights import Right

EC2_TAGS = "CreateTags DeleteTags"
_PASSED, _LINKED = "iam:passed {}", "iam:linked {}"
"""Roles that are passed to a service, and the role that a service makes for itself."""
_LAUNCHED = {
    f"ec2:{each}": "RunInstances"
    for each in (
        *("image", "instance", "launch-template", "network-interface", "placement-group", "security-group"),
        *("subnet", "volume"),
    )
}
"""Rights that a service checks of whoever gives it a launch template."""

Actions = Mapping[str, str]
"""Actions by their service and class of resources; `ec2:vpc` are those on networks, `ec2:*` those on nothing."""

TYPES: Final[Mapping[str, Actions]] = {
    "aws:autoscaling/group:Group": {
        "autoscaling:group": "CreateAutoScalingGroup UpdateAutoScalingGroup DeleteAutoScalingGroup SuspendProcesses "
        "ResumeProcesses SetInstanceProtection CreateOrUpdateTags DeleteTags",
        "autoscaling:*": "DescribeAutoScalingGroups DescribeScalingActivities",
        "ec2:*": "DescribeLaunchTemplates DescribeLaunchTemplateVersions DescribeSubnets",
        _PASSED.format("ec2.amazonaws.com"): "PassRole",
        _LINKED.format("autoscaling.amazonaws.com"): "CreateServiceLinkedRole",
        **_LAUNCHED,
    },
    "aws:budgets/budget:Budget": {
        "budgets:budget": "ModifyBudget ViewBudget TagResource UntagResource ListTagsForResource",
    },
    "aws:cloudwatch/eventRule:EventRule": {
        "events:rule": "PutRule DescribeRule DeleteRule TagResource UntagResource ListTagsForResource",
    },
    "aws:cloudwatch/eventTarget:EventTarget": {"events:rule": "PutTargets RemoveTargets ListTargetsByRule"},
    "aws:cloudwatch/logGroup:LogGroup": {
        "logs:group": "CreateLogGroup DeleteLogGroup PutRetentionPolicy DeleteRetentionPolicy TagResource "
        "UntagResource ListTagsForResource",
        "logs:*": "DescribeLogGroups",
    },
    "aws:ebs/volume:Volume": {
        "ec2:volume": f"CreateVolume DeleteVolume ModifyVolume {EC2_TAGS}",
        "ec2:*": "DescribeVolumes DescribeVolumesModifications",
    },
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": {
        "ec2:security-group": f"RevokeSecurityGroupIngress RevokeSecurityGroupEgress {EC2_TAGS}",
        "ec2:*": "DescribeSecurityGroups DescribeSecurityGroupRules",
    },
    "aws:ec2/eip:Eip": {
        "ec2:elastic-ip": f"AllocateAddress ReleaseAddress DisassociateAddress {EC2_TAGS}",
        "ec2:*": "DescribeAddresses DescribeAddressesAttribute DescribeNetworkInterfaces",
    },
    "aws:ec2/flowLog:FlowLog": {
        "ec2:vpc-flow-log": f"CreateFlowLogs DeleteFlowLogs {EC2_TAGS}",
        "ec2:vpc": "CreateFlowLogs",
        "ec2:*": "DescribeFlowLogs",
        _PASSED.format("vpc-flow-logs.amazonaws.com"): "PassRole",
    },
    "aws:ec2/instance:Instance": {
        **{f"ec2:{each}": "RunInstances" for each in ("image", "network-interface", "security-group", "subnet")},
        "ec2:instance": f"RunInstances TerminateInstances StopInstances StartInstances ModifyInstanceAttribute "
        f"ModifyInstanceMetadataOptions {EC2_TAGS}",
        "ec2:volume": f"RunInstances {EC2_TAGS}",
        "ec2:*": "DescribeInstances DescribeInstanceAttribute DescribeInstanceCreditSpecifications "
        "DescribeInstanceTypes DescribeImages DescribeTags DescribeVolumes DescribeVpcs DescribeSubnets "
        "DescribeSecurityGroups DescribeNetworkInterfaces",
        _PASSED.format("ec2.amazonaws.com"): "PassRole",
    },
    "aws:ec2/internetGateway:InternetGateway": {
        "ec2:internet-gateway": f"CreateInternetGateway AttachInternetGateway DetachInternetGateway "
        f"DeleteInternetGateway {EC2_TAGS}",
        "ec2:vpc": "AttachInternetGateway DetachInternetGateway",
        "ec2:*": "DescribeInternetGateways",
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {
        "ec2:launch-template": f"CreateLaunchTemplate CreateLaunchTemplateVersion ModifyLaunchTemplate "
        f"DeleteLaunchTemplate {EC2_TAGS}",
        "ec2:*": "DescribeLaunchTemplates DescribeLaunchTemplateVersions",
    },
    "aws:ec2/natGateway:NatGateway": {
        "ec2:natgateway": f"CreateNatGateway DeleteNatGateway {EC2_TAGS}",
        "ec2:subnet": "CreateNatGateway",
        "ec2:elastic-ip": "CreateNatGateway",
        "ec2:*": "DescribeNatGateways DescribeNetworkInterfaces",
    },
    "aws:ec2/placementGroup:PlacementGroup": {
        "ec2:placement-group": f"CreatePlacementGroup DeletePlacementGroup {EC2_TAGS}",
        "ec2:*": "DescribePlacementGroups",
    },
    "aws:ec2/route:Route": {
        "ec2:route-table": "CreateRoute ReplaceRoute DeleteRoute",
        "ec2:*": "DescribeRouteTables",
    },
    "aws:ec2/routeTable:RouteTable": {
        "ec2:route-table": f"CreateRouteTable DeleteRouteTable {EC2_TAGS}",
        "ec2:vpc": "CreateRouteTable",
        "ec2:*": "DescribeRouteTables",
    },
    "aws:ec2/routeTableAssociation:RouteTableAssociation": {
        "ec2:route-table": "AssociateRouteTable DisassociateRouteTable ReplaceRouteTableAssociation",
        "ec2:subnet": "AssociateRouteTable DisassociateRouteTable ReplaceRouteTableAssociation",
        "ec2:*": "DescribeRouteTables",
    },
    "aws:ec2/securityGroup:SecurityGroup": {
        "ec2:security-group": f"CreateSecurityGroup DeleteSecurityGroup RevokeSecurityGroupIngress "
        f"RevokeSecurityGroupEgress {EC2_TAGS}",
        "ec2:vpc": "CreateSecurityGroup",
        "ec2:*": "DescribeSecurityGroups DescribeNetworkInterfaces",
    },
    "aws:ec2/subnet:Subnet": {
        "ec2:subnet": f"CreateSubnet DeleteSubnet ModifySubnetAttribute {EC2_TAGS}",
        "ec2:vpc": "CreateSubnet",
        "ec2:*": "DescribeSubnets DescribeNetworkInterfaces DescribeAvailabilityZones",
    },
    "aws:ec2/volumeAttachment:VolumeAttachment": {
        "ec2:instance": "AttachVolume DetachVolume StopInstances StartInstances",
        "ec2:volume": "AttachVolume DetachVolume",
        "ec2:*": "DescribeInstances DescribeVolumes",
    },
    "aws:ec2/vpc:Vpc": {
        "ec2:vpc": f"CreateVpc DeleteVpc ModifyVpcAttribute {EC2_TAGS}",
        "ec2:*": "DescribeVpcs DescribeVpcAttribute DescribeNetworkAcls DescribeRouteTables DescribeSecurityGroups",
    },
    "aws:ec2/vpcEndpoint:VpcEndpoint": {
        "ec2:vpc-endpoint": f"CreateVpcEndpoint ModifyVpcEndpoint DeleteVpcEndpoints {EC2_TAGS}",
        "ec2:vpc": "CreateVpcEndpoint",
        **{
            f"ec2:{each}": "CreateVpcEndpoint ModifyVpcEndpoint" for each in ("route-table", "security-group", "subnet")
        },
        "ec2:*": "DescribeVpcEndpoints DescribePrefixLists DescribeNetworkInterfaces",
        "route53:zone": "AssociateVPCWithHostedZone",
    },
    "aws:efs/backupPolicy:BackupPolicy": {"elasticfilesystem:file-system": "PutBackupPolicy DescribeBackupPolicy"},
    "aws:efs/fileSystem:FileSystem": {
        "elasticfilesystem:*": "CreateFileSystem",
        "elasticfilesystem:file-system": "UpdateFileSystem DeleteFileSystem DescribeFileSystems "
        "DescribeLifecycleConfiguration TagResource UntagResource ListTagsForResource",
        _LINKED.format("elasticfilesystem.amazonaws.com"): "CreateServiceLinkedRole",
    },
    "aws:efs/mountTarget:MountTarget": {
        "elasticfilesystem:file-system": "CreateMountTarget DeleteMountTarget DescribeMountTargets "
        "DescribeMountTargetSecurityGroups ModifyMountTargetSecurityGroups",
        "ec2:*": "DescribeSubnets DescribeNetworkInterfaces",
        "ec2:network-interface": "CreateNetworkInterface DeleteNetworkInterface",
        "ec2:subnet": "CreateNetworkInterface",
        "ec2:security-group": "CreateNetworkInterface",
    },
    "aws:eks/accessEntry:AccessEntry": {
        "eks:cluster": "CreateAccessEntry",
        "eks:access-entry": "DescribeAccessEntry UpdateAccessEntry DeleteAccessEntry TagResource UntagResource",
    },
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": {
        "eks:access-entry": "AssociateAccessPolicy DisassociateAccessPolicy ListAssociatedAccessPolicies",
    },
    "aws:eks/addon:Addon": {
        "eks:cluster": "CreateAddon CreatePodIdentityAssociation",
        "eks:addon": "DescribeAddon UpdateAddon DeleteAddon TagResource UntagResource",
        "eks:identity": "DescribePodIdentityAssociation UpdatePodIdentityAssociation DeletePodIdentityAssociation",
        _PASSED.format("pods.eks.amazonaws.com"): "PassRole",
        "iam:role": "GetRole",
    },
    "aws:eks/cluster:Cluster": {
        "eks:cluster": "CreateCluster DescribeCluster UpdateClusterConfig UpdateClusterVersion DescribeUpdate "
        "DeleteCluster TagResource UntagResource",
        _PASSED.format("eks.amazonaws.com"): "PassRole",
        _LINKED.format("eks.amazonaws.com"): "CreateServiceLinkedRole",
        "iam:role": "GetRole ListAttachedRolePolicies",
        "ec2:*": "DescribeSubnets DescribeSecurityGroups DescribeVpcs",
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "eks:cluster": "CreateNodegroup",
        "eks:nodegroup": "DescribeNodegroup UpdateNodegroupConfig UpdateNodegroupVersion DescribeUpdate "
        "DeleteNodegroup TagResource UntagResource",
        _PASSED.format("ec2.amazonaws.com"): "PassRole",
        _LINKED.format("eks-nodegroup.amazonaws.com"): "CreateServiceLinkedRole",
        "iam:role": "GetRole ListAttachedRolePolicies",
        "ec2:*": "DescribeSubnets DescribeLaunchTemplateVersions DescribeInstanceTypes",
        **_LAUNCHED,
    },
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": {
        "fsx:association": "CreateDataRepositoryAssociation UpdateDataRepositoryAssociation "
        "DeleteDataRepositoryAssociation TagResource UntagResource ListTagsForResource",
        "fsx:file-system": "CreateDataRepositoryAssociation",
        "fsx:*": "DescribeDataRepositoryAssociations",
        "s3:repository": "ListBucket GetBucketLocation",
        _LINKED.format("s3.data-source.lustre.fsx.amazonaws.com"): "CreateServiceLinkedRole AttachRolePolicy "
        "PutRolePolicy",
    },
    **{
        f"aws:fsx/{kind[0].lower()}{kind[1:]}FileSystem:{kind}FileSystem": {
            "fsx:file-system": "CreateFileSystem UpdateFileSystem DeleteFileSystem TagResource UntagResource "
            "ListTagsForResource",
            **({"fsx:volume": "CreateVolume UpdateVolume DeleteVolume TagResource"} if kind == "OpenZfs" else {}),
            "fsx:*": f"DescribeFileSystems{' DescribeVolumes' if kind == 'OpenZfs' else ''}",
            "ec2:*": "DescribeSubnets DescribeSecurityGroups DescribeNetworkInterfaces DescribeVpcs",
            _LINKED.format("fsx.amazonaws.com"): "CreateServiceLinkedRole",
        }
        for kind in ("Lustre", "OpenZfs")
    },
    "aws:iam/instanceProfile:InstanceProfile": {
        "iam:profile": "CreateInstanceProfile GetInstanceProfile DeleteInstanceProfile AddRoleToInstanceProfile "
        "RemoveRoleFromInstanceProfile TagInstanceProfile UntagInstanceProfile",
        "iam:role": "GetRole",
        _PASSED.format("ec2.amazonaws.com"): "PassRole",
    },
    "aws:iam/role:Role": {
        "iam:role": "CreateRole GetRole UpdateRole UpdateAssumeRolePolicy DeleteRole TagRole UntagRole "
        "ListRolePolicies GetRolePolicy ListAttachedRolePolicies ListInstanceProfilesForRole "
        "PutRolePermissionsBoundary",
    },
    "aws:iam/rolePolicy:RolePolicy": {"iam:role": "PutRolePolicy GetRolePolicy DeleteRolePolicy"},
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": {
        "iam:role": "AttachRolePolicy DetachRolePolicy ListAttachedRolePolicies",
    },
    "aws:rds/instance:Instance": {
        "rds:db": "CreateDBInstance ModifyDBInstance DeleteDBInstance AddTagsToResource RemoveTagsFromResource "
        "ListTagsForResource",
        "rds:subgrp": "CreateDBInstance",
        "rds:pg": "CreateDBInstance ModifyDBInstance",
        "rds:*": "DescribeDBInstances",
        "ec2:*": "DescribeSecurityGroups DescribeSubnets DescribeVpcs",
        _LINKED.format("rds.amazonaws.com"): "CreateServiceLinkedRole",
    },
    "aws:rds/parameterGroup:ParameterGroup": {
        "rds:pg": "CreateDBParameterGroup ModifyDBParameterGroup ResetDBParameterGroup DeleteDBParameterGroup "
        "DescribeDBParameterGroups DescribeDBParameters AddTagsToResource RemoveTagsFromResource ListTagsForResource",
    },
    "aws:rds/subnetGroup:SubnetGroup": {
        "rds:subgrp": "CreateDBSubnetGroup ModifyDBSubnetGroup DeleteDBSubnetGroup DescribeDBSubnetGroups "
        "AddTagsToResource RemoveTagsFromResource ListTagsForResource",
        "ec2:*": "DescribeSubnets DescribeVpcs",
    },
    "aws:s3/bucket:Bucket": {
        "s3:bucket": "CreateBucket DeleteBucket ListBucket ListBucketVersions GetBucketLocation GetBucketTagging "
        "PutBucketTagging GetBucketAcl GetBucketCORS GetBucketLogging GetBucketObjectLockConfiguration "
        "GetBucketPolicy GetBucketRequestPayment GetBucketVersioning GetBucketWebsite GetAccelerateConfiguration "
        "GetEncryptionConfiguration GetLifecycleConfiguration GetReplicationConfiguration",
        "s3:objects": "DeleteObject DeleteObjectVersion",
    },
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": {
        "s3:bucket": "GetLifecycleConfiguration PutLifecycleConfiguration",
    },
    "aws:s3/bucketObjectv2:BucketObjectv2": {
        "s3:bucket": "ListBucket GetBucketVersioning",
        "s3:objects": "PutObject GetObject GetObjectTagging DeleteObject DeleteObjectVersion",
    },
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": {
        "s3:bucket": "GetBucketPublicAccessBlock PutBucketPublicAccessBlock",
    },
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": {
        "s3:bucket": "GetEncryptionConfiguration PutEncryptionConfiguration",
    },
    "aws:s3/bucketVersioning:BucketVersioning": {"s3:bucket": "GetBucketVersioning PutBucketVersioning"},
    "aws:sns/topic:Topic": {
        "sns:topic": "CreateTopic GetTopicAttributes SetTopicAttributes DeleteTopic TagResource UntagResource "
        "ListTagsForResource",
    },
    "aws:sns/topicPolicy:TopicPolicy": {"sns:topic": "GetTopicAttributes SetTopicAttributes"},
    "aws:sns/topicSubscription:TopicSubscription": {
        "sns:topic": "Subscribe Unsubscribe GetSubscriptionAttributes ListSubscriptionsByTopic",
    },
    "aws:ssm/parameter:Parameter": {
        "ssm:parameter": "PutParameter GetParameter GetParameters DeleteParameter AddTagsToResource "
        "RemoveTagsFromResource ListTagsForResource",
        "ssm:*": "DescribeParameters",
    },
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": {
        "ec2:security-group": "AuthorizeSecurityGroupEgress RevokeSecurityGroupEgress ModifySecurityGroupRules",
        "ec2:security-group-rule": f"AuthorizeSecurityGroupEgress ModifySecurityGroupRules {EC2_TAGS}",
        "ec2:*": "DescribeSecurityGroupRules",
    },
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": {
        "ec2:security-group": "AuthorizeSecurityGroupIngress RevokeSecurityGroupIngress ModifySecurityGroupRules",
        "ec2:security-group-rule": f"AuthorizeSecurityGroupIngress ModifySecurityGroupRules {EC2_TAGS}",
        "ec2:*": "DescribeSecurityGroupRules",
    },
}
"""Actions of each type of resource that a cluster on AWS may have."""

_OF_TOOLKIT: Final[Actions] = {
    "ec2:*": "DescribeInstances DescribeImages DescribeInstanceTopology DescribeReplaceRootVolumeTasks "
    "DescribeCapacityReservations",
    "ec2:instance": f"GetConsoleOutput CreateReplaceRootVolumeTask TerminateInstances {EC2_TAGS}",
    "ec2:volume": "CreateReplaceRootVolumeTask",
    "ec2:replace-root-volume-task": "CreateReplaceRootVolumeTask CreateTags",
    "ec2:image": "CreateReplaceRootVolumeTask",
    "autoscaling:*": "DescribeAutoScalingGroups DescribeScalingActivities",
    "autoscaling:group": "TerminateInstanceInAutoScalingGroup",
    "ssm:parameter": "GetParameter",
    "ssm:session": "StartSession",
}
"""Calls of the toolkit itself, where it looks after machines."""
_OF_TOOLKIT_WITH_EKS: Final[Actions] = {
    "ec2:*": "DescribeCapacityReservations",
    "eks:cluster": "DescribeCluster ListNodegroups",
    "eks:nodegroup": "DescribeNodegroup",
}
_ALWAYS: Final[Actions] = {"sts:*": "GetCallerIdentity"}
_BUCKET = (
    "bucket:Bucket",
    *(f"bucket{each}:Bucket{each}" for each in ("LifecycleConfiguration", "PublicAccessBlock")),
    *(f"bucket{each}:Bucket{each}" for each in ("ServerSideEncryptionConfiguration", "Versioning")),
)

_PATTERNS: Final[Mapping[str, str]] = {
    "autoscaling:group": "autoscaling:{region}:{account}:autoScalingGroup:*:autoScalingGroupName/{cluster}-*",
    "budgets:budget": "budgets::{account}:budget/{cluster}-*",
    "ec2:image": "ec2:{region}::image/*",
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
    "logs:group": "logs:{region}:{account}:log-group:*{cluster}*",
    "rds:db": "rds:{region}:{account}:db:{cluster}-*",
    "rds:pg": "rds:{region}:{account}:pg:{cluster}-*",
    "rds:subgrp": "rds:{region}:{account}:subgrp:{cluster}-*",
    "route53:zone": "route53:::hostedzone/*",
    "s3:bucket": "s3:::{cluster}-*",
    "s3:objects": "s3:::{cluster}-*/*",
    "sns:topic": "sns:{region}:{account}:{cluster}-*",
    "ssm:parameter": "ssm:{region}:{account}:parameter/stampworks/{cluster}/*",
    "ssm:session": "ec2:{region}:{account}:instance/*",
}
"""Resources of each class. Names are those of the cluster, with what Pulumi adds to them ("Autonaming")."""


def types_of(plan: Plan) -> tuple[str, ...]:
    """Return the types of the resources that an `up` of a plan makes in AWS."""
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
    """Return all rights that whoever runs an `up` of a plan needs."""
    listed = [TYPES[type_] for type_ in types_of(plan)]
    listed += [_ALWAYS, _OF_TOOLKIT_WITH_EKS if plan.managed else _OF_TOOLKIT]
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
    elif kind == "*":
        yield Right(action, "*")
    else:
        own = f"ec2:{{region}}:{{account}}:{kind}/*" if service == "ec2" else ""
        yield Right(action, _arn(plan, _PATTERNS.get(where) or own))


def _arn(plan: Plan, pattern: str) -> str:
    partition = "aws-us-gov" if plan.region.startswith("us-gov-") else "aws"
    of = {"region": plan.region, "cluster": plan.name, "path": plan.account.role_path or "/"}
    return f"arn:{partition}:{pattern.format(account='{account}', **of)}"


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

    Rights of a service share a statement. That allows no more: AWS applies an action to resources of its own classes
    alone. A statement for each resource would pass the length that AWS allows.
    """
    grouped: dict[tuple[str, tuple[tuple[str, str], ...]], list[Right]] = {}
    for right in rights:
        service = right.action.partition(":")[0] if right.resource != "*" else ""
        grouped.setdefault((service, right.given), []).append(right)
    return {"Version": "2012-10-17", "Statement": [statement(group, account) for _, group in sorted(grouped.items())]}
