"""Nodes of an AWS cluster: a launch template and a group for each pool, an instance for the head."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions
from pulumi_aws import autoscaling, ebs, ec2, iam

from stampworks.clouds.aws import bucket, bundle, logs, tags
from stampworks.clouds.aws.first_boot import cloud_config
from stampworks.clouds.aws.network import Connections
from stampworks.clouds.aws.place import Place, assumed_by
from stampworks.plan import Group, Interface, Launch, Offer, Rail, Release, template_name
from stampworks.resources import ElasticNodes

_VOLUMES = ("/dev/sdf", "/dev/sdg", "/dev/sdh", "/dev/sdi")
SESSIONS = (
    "ssm:UpdateInstanceInformation",
    *(f"ssmmessages:{what}{channel}Channel" for what in ("Create", "Open") for channel in ("Control", "Data")),
)
"""Actions that the agent of Systems Manager needs for a tunnel, so that no port of a node is open.

AWS's own policy would let every node read every parameter, including the key that logs in to nodes (Systems Manager
User Guide, "Create a custom IAM role for Session Manager"; read 2026-11-22).
"""
_ENDS = pulumi.CustomTimeouts(delete="45m")
"""Time for all members of a group to end. The default is ten minutes (terraform-provider-aws, group.go, read
2026-11-27). An instance with many GPUs may take longer."""
_LEFT_ALONE = ("AZRebalance", "InstanceRefresh", "ReplaceUnhealthy")
"""Processes that would replace members by themselves. An explicit command decides which node goes, and when."""


@dataclass(frozen=True)
class GivenProfile:
    """An instance profile of the account's owners."""

    name: str

    @property
    def named(self) -> ec2.LaunchTemplateIamInstanceProfileArgsDict:
        """The profile as launch templates refer to it."""
        return {"name": self.name}


class NodeGroup(pulumi.ComponentResource):
    """The members of one group."""

    role: iam.Role
    """The rights of its members, unless the account's owners give a profile."""
    generation = ""
    """Empty: an Auto Scaling group does not output its members. The roster lists them."""

    def __init__(
        self,
        name: str,
        network: Connections,
        group: Group,
        made_from: str,
        volumes: Sequence[ebs.Volume],
        opts: ResourceOptions,
    ) -> None:
        self.place = place = network.place
        after = ResourceOptions(depends_on=[network])
        super().__init__("stampworks:aws:NodeGroup", name, None, ResourceOptions.merge(place.within(opts), after))
        if group.launch is None:
            raise ValueError(f"{name}: the plan does not define the start of nodes of {group.name}")
        self._name, self._network, self.group, self._launch = name, network, group, group.launch
        self._opts = place.within(ResourceOptions(parent=self))
        # Tags identify a node to the toolkit, and the node itself reads them.
        self._tags = {**place.tags(group.name), tags.GROUP: group.name}
        self._of_machine = {**self._tags, tags.TEMPLATE: made_from}
        self.templates: list[ec2.LaunchTemplate] = []  # launch templates of elastic nodes
        self.tag_names = (*self._of_machine, tags.ELASTIC)  # tags of elastic nodes, as their templates have them
        of_head = group.role != "worker"
        given = place.account.head_profile if of_head else place.account.nodes_profile
        profile = GivenProfile(given) if given else self._profile()
        if group.role == "controller":
            self._one(profile, volumes)
        else:
            together = self._together()
            self._several(profile, together)
            if group.elastic:
                self._elastic(profile, together)
        self.register_outputs({})

    def _profile(self) -> iam.InstanceProfile:
        """Return the rights of a node: Systems Manager, its logs and the buckets of its cluster, nothing else."""
        name, opts, terms = self._name, self._opts, self.place.role_terms()
        trusted = assumed_by("ec2.amazonaws.com")
        self.role = role = iam.Role(name, assume_role_policy=trusted, **terms, tags=self._tags, opts=opts)
        iam.RolePolicy(
            f"{name}-sessions", role=role.id, policy=allowed([{"Action": [*SESSIONS], "Resource": "*"}]), opts=opts
        )
        if kept := self.place.logs:
            iam.RolePolicy(f"{name}-logs", role=role.id, policy=kept.arn.apply(logs.may_write), opts=opts)
        if buckets := self.place.buckets:
            key = self.place.key
            may = Output.all(*(each.arn for each in buckets)).apply(lambda arns: bucket.may_use(arns, key))
            iam.RolePolicy(f"{name}-buckets", role=role.id, policy=may, opts=opts)
        return iam.InstanceProfile(name, role=role.name, path=terms["path"], tags=self._tags, opts=opts)

    def _one(self, profile: iam.InstanceProfile | GivenProfile, volumes: Sequence[ebs.Volume]) -> None:
        """Create one instance whose volumes outlive it.

        A volume is attached to one instance at a time, so the old instance goes first.
        """
        place, launch = self.place, self._launch
        opts = ResourceOptions.merge(self._opts, ResourceOptions(delete_before_replace=True))
        node = ec2.Instance(
            self._name,
            instance_type=launch.instance_type,
            ami=launch.image,
            subnet_id=place.subnets["nodes"].id,
            vpc_security_group_ids=[each.id for each in (place.nodes, *place.of_head)],
            associate_public_ip_address=False,
            iam_instance_profile=profile.name,
            metadata_options=METADATA,
            root_block_device=self._root_disk(),
            user_data=self._network.ssh_public_key.apply(self._first_boot),
            user_data_replace_on_change=True,
            tags={**self._of_machine, tags.NODE: self.group.nodes[0].name},
            opts=opts,
        )
        for device, volume in zip(_VOLUMES, volumes, strict=False):
            ec2.VolumeAttachment(
                f"{self._name}-{device.rpartition('/')[2]}",
                device_name=device,
                instance_id=node.id,
                volume_id=volume.id,
                stop_instance_before_detaching=True,
                opts=opts,
            )

    def _root_disk(self) -> ec2.InstanceRootBlockDeviceArgsDict:
        disk: ec2.InstanceRootBlockDeviceArgsDict = {
            "volume_type": "gp3",
            "volume_size": self._launch.disk_gib,
            "encrypted": True,
            "tags": self._tags,
        }
        if self.place.key:
            disk["kms_key_id"] = self.place.key
        return disk

    def _several(self, profile: iam.InstanceProfile | GivenProfile, together: ec2.PlacementGroup | None) -> None:
        """Create the group of nodes that always run. Nodes that start with jobs are not part of it."""
        count, own = self.group.count_min, self.group.offers[0]
        template_ = self._template(self._name, profile, own, together, self._of_machine)
        autoscaling.Group(
            self._name,
            min_size=count,
            max_size=count,
            desired_capacity=count,
            vpc_zone_identifiers=[self.place.subnets["nodes"].id],
            launch_template={"id": template_.id, "version": template_.latest_version.apply(str)},
            protect_from_scale_in=True,
            suspended_processes=[*_LEFT_ALONE],
            wait_for_capacity_timeout="0",  # the roster waits for the members and reports failures
            tags=[{"key": key, "value": value, "propagate_at_launch": True} for key, value in self._tags.items()],
            # Members of a group stay in their subnet when the group gets another one, because AZRebalance is suspended
            # (Amazon EC2 Auto Scaling User Guide, "Considerations" on suspended processes, read 2026-11-28). Make
            # another group, after the old members have left the capacity.
            opts=ResourceOptions.merge(
                self._opts,
                ResourceOptions(
                    custom_timeouts=_ENDS, replace_on_changes=["vpcZoneIdentifiers"], delete_before_replace=True
                ),
            ),
        )

    def _elastic(self, profile: iam.InstanceProfile | GivenProfile, together: ec2.PlacementGroup | None) -> None:
        """Create a launch template for each offer of elastic nodes.

        The controller chooses an offer. It can start nothing without a template.
        """
        group, place = self.group, self.place
        cluster = place.cluster
        names = {offer: template_name(cluster, group, offer) for offer in group.offers}
        # On destroy: delete the templates, so that no node can start, then end the nodes, then delete their parts.
        of_nodes = [each for each in (profile, together) if isinstance(each, pulumi.Resource)]
        subnet = place.subnets["nodes"]
        # Elastic nodes are no resources: nothing else ends those in a subnet that goes.
        moved: list[pulumi.Resource] = [subnet] if isinstance(subnet, pulumi.Resource) else []
        within = ResourceOptions(depends_on=of_nodes, replace_with=moved, delete_before_replace=True)
        nodes = ElasticNodes(
            self._name,
            cluster=cluster,
            cloud="aws",
            region=place.provider.region.apply(str),
            group=group.name,
            opts=ResourceOptions.merge(ResourceOptions(parent=self), within),
        )
        self.templates = [
            self._template(
                f"{self._name}.{name.rpartition('.')[2]}",
                profile,
                offer,
                together,
                {**self._of_machine, tags.ELASTIC: offer.purchase},
                name=name,
                subnet_id=place.subnets["nodes"].id,
                after=[nodes],
            )
            for offer, name in names.items()
        ]
        reads = place.bundle.arn.apply(lambda arn: bundle.may_read(cluster, arn, place.key))
        iam.RolePolicy(f"{self._name}-bundle", role=self.role.id, policy=reads, opts=self._opts)

    def _template(
        self,
        resource: str,
        profile: iam.InstanceProfile | GivenProfile,
        offer: Offer,
        together: ec2.PlacementGroup | None,
        of: dict[str, str],
        name: str | None = None,
        subnet_id: Output[str] | None = None,
        after: Sequence[pulumi.Resource] = (),
    ) -> ec2.LaunchTemplate:
        """Create a launch template; a template with a `name` is for elastic nodes.

        For an Auto Scaling group, the group names the subnet, and the toolkit configures its nodes. An elastic template
        must do both, and terminate an instance that shuts down.
        """
        first_boot = self._joining() if name else self._network.ssh_public_key.apply(self._first_boot)
        launch, place = self._launch, self.place
        return ec2.LaunchTemplate(
            resource,
            name=name,
            instance_type=launch.instance_type,
            image_id=launch.image,
            update_default_version=True,
            iam_instance_profile=profile.named if isinstance(profile, GivenProfile) else {"arn": profile.arn},
            metadata_options=_READS_TAGS if name else METADATA,
            block_device_mappings=disks(launch, place.key),
            network_interfaces=nics(launch, place, subnet_id),
            placement={"group_name": together.name} if together and offer.placed_together else None,
            instance_market_options=MARKETS.get(offer.purchase),
            capacity_reservation_specification=reserved(offer.reservation),
            user_data=first_boot.apply(encoded),
            instance_initiated_shutdown_behavior="terminate" if name else None,
            tag_specifications=[
                {"resource_type": kind, "tags": of} for kind in ("instance", "network-interface", "volume")
            ],
            tags=self._tags,
            opts=ResourceOptions.merge(self._opts, ResourceOptions(depends_on=[*after])),
        )

    def _together(self) -> ec2.PlacementGroup | None:
        """Return the placement group of the pool, which also holds elastic nodes close to static ones."""
        if not any(offer.placed_together for offer in self.group.offers):
            return None
        return ec2.PlacementGroup(self._name, strategy="cluster", tags=self._tags, opts=self._opts)

    def _first_boot(self, ssh_public_key: str) -> str:
        return cloud_config(ssh_public_key, self._launch.agent)

    def _joining(self) -> Output[str]:
        place, agent = self.place, self._launch.agent
        known = Output.all(self._network.ssh_public_key, place.provider.region, place.bundle.id)
        joins = (place.cluster, self.group.name)
        return known.apply(lambda all_: cloud_config(all_[0], agent, (*joins, *map(str, all_[1:]))))


def disks(launch: Launch, key: str | None) -> list[ec2.LaunchTemplateBlockDeviceMappingArgsDict]:
    """Return the root disk of a node, which is deleted with it."""
    disk: ec2.LaunchTemplateBlockDeviceMappingEbsArgsDict = {
        "volume_type": "gp3",
        "volume_size": launch.disk_gib,
        "encrypted": "true",
        "delete_on_termination": "true",
    }
    if key:
        disk["kms_key_id"] = key
    return [{"device_name": launch.root_device, "ebs": disk}]


def nics(
    launch: Launch, place: Place, subnet_id: Output[str] | None = None
) -> list[ec2.LaunchTemplateNetworkInterfaceArgsDict]:
    """Return the network interfaces of a launch template. Groups choose the subnet themselves."""
    where: ec2.LaunchTemplateNetworkInterfaceArgsDict = {"subnet_id": subnet_id} if subnet_id else {}
    return [
        {
            **where,
            "network_card_index": each.card,
            "device_index": each.device,
            "interface_type": interface_type(each),
            "security_groups": [place.nodes.id],
            "delete_on_termination": "true",
        }
        for each in launch.interfaces
    ]


def interface_type(interface: Interface) -> str:
    """Return EC2's name for the kind of an interface. An EFA interface has an IP address or none."""
    if not interface.fabric:
        return "interface"
    return "efa" if interface.address else "efa-only"


_OF_KEYS = ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncrypt*")
"""KMS actions with which EC2 encrypts a disk for a role."""
METADATA: Any = {  # shared by two types of the SDK, an instance's and a template's, with equal fields
    "http_endpoint": "enabled",
    "http_tokens": "required",
    "http_put_response_hop_limit": 1,
    "instance_metadata_tags": "disabled",  # the default of an account may differ
}
_READS_TAGS: Any = {**METADATA, "instance_metadata_tags": "enabled"}
"""Metadata options of a node that reads its name from its tags. Only elastic nodes do. AWS refuses to start an instance
with this option if a tag has a slash in its name, as EKS's tags do (terraform-aws-eks 1785, eksctl 7948, read
2026-11-25)."""
MARKETS: dict[str, ec2.LaunchTemplateInstanceMarketOptionsArgsDict] = {
    "spot": {"market_type": "spot"},
    "block": {"market_type": "capacity-block"},
}


def reserved(reservation: str) -> ec2.LaunchTemplateCapacityReservationSpecificationArgsDict | None:
    """Return the target reservation: one by its id, a group of them by its ARN.

    An instance that finds no room there does not start elsewhere.
    """
    if not reservation:
        return None
    target: ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgsDict = (
        {"capacity_reservation_resource_group_arn": reservation}
        if reservation.startswith("arn:")
        else {"capacity_reservation_id": reservation}
    )
    return {
        "capacity_reservation_preference": "capacity-reservations-only",
        "capacity_reservation_target": target,
    }


def let_start(
    name: str, *, controller: NodeGroup, groups: Sequence[NodeGroup], opts: ResourceOptions
) -> pulumi.Resource:
    """Permit the controller to start and end elastic nodes.

    One policy covers all groups: a role takes at most 10,240 characters of inline policies (IAM User Guide, "IAM and
    AWS STS quotas", read 2026-11-27).
    """
    cluster, known = controller.place.cluster, [each.group for each in groups]
    roles = Output.all(*(each.role.arn for each in groups))
    templates = Output.all(*(template.arn for each in groups for template in each.templates))
    own = sorted({name for each in groups for name in each.tag_names})
    may = Output.all(roles, templates).apply(
        lambda arns: may_start(cluster, known, sorted(arns[0]), sorted(arns[1]), own)
    )
    return iam.RolePolicy(f"{name}-elastic", role=controller.role.id, policy=may, opts=controller.place.within(opts))


def may_start(
    cluster: str, groups: Sequence[Group], roles: Sequence[str], templates: Sequence[str], names: Sequence[str]
) -> str:
    """Return the policy of the controller for elastic nodes.

    It may start instances from these templates only, with their tags, whose names are `names`. It may name and end
    instances that it started, and list instances. It can end no permanent node, and start no node of another cluster or
    group. Public repositories use the same conditions to limit direct calls to a launch template. Tags of a template
    need ec2:CreateTags: Amazon EC2 User Guide, "IAM permissions required for Amazon EC2 launch templates", read
    2026-11-22. None of it was tried on AWS.
    """
    machines = f"arn:{tags.partition(roles[0])}:ec2:*:*"
    instances = f"{machines}:instance/*"
    own = {tags.CLUSTER: cluster, tags.GROUP: sorted(each.name for each in groups)}
    elastic = {
        "StringEquals": {f"aws:ResourceTag/{key}": value for key, value in own.items()},
        "Null": {f"aws:ResourceTag/{tags.ELASTIC}": "false"},
    }
    # the documentation does not say whether a reservation group counts as a resource of the template (Service
    # Authorization Reference, "Actions, resources, and condition keys for Amazon EC2", read 2026-11-27)
    by_group = {each.reservation for group in groups for each in group.offers if each.reservation.startswith("arn:")}
    kinds = sorted({each.launch.instance_type for each in groups if each.launch})
    by_ec2 = {"StringLike": {"kms:ViaService": "ec2.*"}}
    statements: list[dict[str, Any]] = [
        {
            "Action": "ec2:RunInstances",
            "Resource": "*",
            "Condition": {
                "ArnEquals": {"ec2:LaunchTemplate": templates},
                "Bool": {"ec2:IsLaunchTemplateResource": "true"},
                # only instances have the key; a call may override the type
                "StringEqualsIfExists": {"ec2:InstanceType": kinds},
            },
        },
        *([{"Action": "ec2:RunInstances", "Resource": sorted(by_group)}] if by_group else []),
        {
            "Action": "ec2:CreateTags",
            "Resource": [f"{machines}:{kind}/*" for kind in ("instance", "network-interface", "volume")],
            "Condition": {
                "StringEquals": {
                    "ec2:CreateAction": "RunInstances",
                    **{f"aws:RequestTag/{key}": value for key, value in own.items()},
                },
                "ForAllValues:StringEquals": {"aws:TagKeys": [*names]},
            },
        },
        {
            "Action": "ec2:CreateTags",
            "Resource": instances,
            "Condition": {**elastic, "ForAllValues:StringEquals": {"aws:TagKeys": [tags.NODE, "Name"]}},
        },
        {"Action": "ec2:TerminateInstances", "Resource": instances, "Condition": elastic},
        {"Action": "ec2:DescribeInstances", "Resource": "*"},
        {
            "Action": "iam:PassRole",
            "Resource": roles,
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        },
        # For accounts that encrypt disks with a key of their own (Amazon EBS User Guide, "Requirements for Amazon EBS
        # encryption", read 2026-11-27)
        {"Action": [f"kms:{each}" for each in _OF_KEYS], "Resource": "*", "Condition": by_ec2},
        {
            "Action": "kms:CreateGrant",
            "Resource": "*",
            "Condition": {**by_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        },
    ]
    return allowed(statements)


def allowed(statements: Sequence[Mapping[str, Any]]) -> str:
    """Return a policy that allows these statements, as JSON."""
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **each} for each in statements]})


def encoded(text: str) -> str:
    """Return user data in the encoding of EC2."""
    return b64encode(text.encode()).decode()


def create(
    name: str,
    *,
    cluster: str,  # noqa: ARG001  (its place knows)
    network: Connections,
    group: Group,
    rails: Sequence[Rail],  # noqa: ARG001  (the plan says which NIC is where)
    release: Release,
    content: str,
    volumes: Sequence[ebs.Volume],
    drain_timeout_minutes: int,  # noqa: ARG001  (the steps that remove nodes wait for their jobs)
    opts: ResourceOptions,
) -> NodeGroup:
    """Create the group of a pool, or the instance of the head. Part of the contract of a cloud."""
    return NodeGroup(name, network, group, tags.template(group, release, content), volumes, opts)


def publish(name: str, *, place: Place, file: Output[str], opts: ResourceOptions) -> None:
    """Upload the bundle from which late nodes configure themselves. Part of the contract of a cloud."""
    bundle.publish(name, place, place.bundle, file, opts)


def template(group: Group, leaf_nodes: int | None, release: Release, content: str) -> str:  # noqa: ARG001
    """Return a digest of the settings that members get only at boot; a change outdates them."""
    return tags.template(group, release, content)
