"""Actions of AWS that each type of resource takes, and those of the toolkit itself.

Actions of a type are the calls with which the provider creates, reads, changes and deletes it. Calls that create and
read were recorded from terraform-provider-aws 5.100.0, of the source that Pulumi's is built from, in front of a
simulated AWS (tests/clouds/aws/provider_calls.json). Calls that change and delete, and the resources of each action,
were written down without such a recording. None of it was tried in an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EC2_TAGS = "CreateTags DeleteTags"
_PASSED, _LINKED = "iam:passed {}", "iam:linked {}"
"""Roles passed to a service, and the role that a service creates for itself."""
_LAUNCHED = {
    **{
        f"ec2:{each}": "RunInstances"
        for each in ("image", "launch-template", "placement-group", "security-group", "subnet")
    },
    **{f"ec2:{each}": "RunInstances CreateTags" for each in ("instance", "network-interface", "volume")},
}
"""Rights that a service requires of the caller who passes it a launch template."""

Actions = Mapping[str, str]
"""Actions by their service and class of resources; `ec2:vpc` are those on networks, `ec2:*` those without a
resource."""

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

OF_TOOLKIT: Final[Actions] = {
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
    "ssm:document": "StartSession",
}
"""Calls of the toolkit itself to manage machines."""
OF_TOOLKIT_WITH_EKS: Final[Actions] = {
    "ec2:*": "DescribeCapacityReservations",
    "eks:cluster": "DescribeCluster ListNodegroups",
    "eks:nodegroup": "DescribeNodegroup",
}
OF_RESERVATIONS: Final[Actions] = {"ec2:capacity-reservation": "RunInstances"}
"""Rights of launches in reserved capacity."""
OF_RESERVATION_GROUPS: Final[Actions] = {"ec2:reservation-group": "RunInstances"}
ALWAYS: Final[Actions] = {"sts:*": "GetCallerIdentity"}
