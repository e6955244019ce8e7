"""The place of an AWS cluster: its region, VPC, subnets, and the rules between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions
from pulumi_aws import cloudwatch, ec2, get_availability_zones_output, vpc

from stampworks.clouds.aws import alarms, bundle, logs, tags
from stampworks.clouds.aws.owner import Owner
from stampworks.plan import Network, Plan

ANYWHERE = "0.0.0.0/0"
ELSEWHERE = ("database", "control-plane")
"""Subnets in another zone than the rest, created together with their contents."""


@dataclass(frozen=True)
class ExistingPart:
    """A subnet or security group of the account's owners. It is known by its id, and is no resource of the stack."""

    id: Output[str]
    availability_zone: Output[str]


class Place(Owner):
    """The VPC, subnets and security groups that the other resources of the cluster are in."""

    vpc_id: Output[str]
    subnets: Mapping[str, ec2.Subnet | ExistingPart]
    """Subnets by their names in the plan."""
    nodes: ec2.SecurityGroup | ExistingPart
    storage: ec2.SecurityGroup | ExistingPart
    rules: Sequence[pulumi.Resource]
    """Rules of the two security groups. FSx checks them while it creates a file system, and fails if they come
    later."""
    of_head: Sequence[ec2.SecurityGroup]
    """Security group of the head, which has access that other nodes do not have."""
    buckets: list[Any]
    """Buckets of the declaration, which nodes may read and write."""
    bundle: Any
    """Bucket with the bundle that nodes configure themselves from; None if no node does."""
    logs: cloudwatch.LogGroup | None
    """Log group of the nodes; None if logs are not kept."""

    def __init__(self, name: str, plan: Plan, opts: ResourceOptions) -> None:
        super().__init__("stampworks:aws:Place", name, plan, opts)
        within = self.within(ResourceOptions(parent=self))
        self._existing = plan.network.existing
        self._zone = plan.network.zone
        self.vpc_id, self.subnets = self._network(name, plan.network, within)
        self.nodes, self.storage, self.rules = self._groups(name, within)
        managed = plan.scheduler.database == "managed"
        self.of_head = [self.security_group(name, "head", "the head", within)] if managed else []
        self.buckets = []
        self.bundle = bundle.create(name, self, plan)
        self.logs = logs.create(name, self, plan)
        self.register_outputs({})

    def _network(
        self, name: str, network: Network, opts: ResourceOptions
    ) -> tuple[Output[str], Mapping[str, ec2.Subnet | ExistingPart]]:
        """Return the VPC's id and the subnets, existing or new."""
        if existing := self._existing:
            found = {each.name: self._given(existing.subnet(each.name).id) for each in network.subnets}
            return Output.from_input(existing.vpc), found
        made = ec2.Vpc(
            name,
            cidr_block=network.cidr,
            enable_dns_hostnames=True,  # private names of endpoints and file systems need both
            enable_dns_support=True,
            tags=self.tags("network"),
            opts=ResourceOptions.merge(opts, ResourceOptions(replacement_trigger=_layout(network))),
        )
        ec2.DefaultSecurityGroup(name, vpc_id=made.id, ingress=[], egress=[], tags=self.tags("nothing"), opts=opts)
        subnets: dict[str, ec2.Subnet | ExistingPart] = {}
        for subnet in network.subnets:
            if subnet.name not in ELSEWHERE:
                # without a declared zone, AWS chooses one for nodes, and would choose another one for file systems and
                # endpoints
                near = subnets["nodes"].availability_zone if subnets else None
                subnets[subnet.name] = ec2.Subnet(
                    f"{name}-{subnet.name}",
                    vpc_id=made.id,
                    cidr_block=subnet.cidr,
                    availability_zone=network.zone or near,
                    map_public_ip_on_launch=False,
                    tags=self.tags(subnet.name),
                    opts=opts,
                )
        return made.id, subnets

    def _given(self, id_: str) -> ExistingPart:
        return ExistingPart(Output.from_input(id_), Output.from_input(self._zone))

    def _groups(
        self, name: str, opts: ResourceOptions
    ) -> tuple[ec2.SecurityGroup | ExistingPart, ec2.SecurityGroup | ExistingPart, list[pulumi.Resource]]:
        """Return the security groups of nodes and of storage, with the rules created for them.

        EFA carries traffic only if the security group allows everything to and from itself by its own id. File systems
        reached over EFA need the same rules (EC2 User Guide, "Get started with EFA"; FSx for Lustre User Guide, "File
        system access control"; read 2026-11-22). Existing groups have them, or a finding of the plan says that they are
        missing.
        """
        if (existing := self._existing) and existing.nodes_group:
            return self._given(existing.nodes_group), self._given(existing.storage_group), []
        nodes = self.security_group(name, "nodes", "nodes", opts)
        storage = self.security_group(name, "storage", "file systems, and endpoints of services", opts)
        named = {"nodes": nodes, "storage": storage}
        pairs = (("nodes", "nodes"), ("nodes", "storage"), ("storage", "nodes"), ("storage", "storage"))
        return (
            nodes,
            storage,
            [
                rule
                for one, other in pairs
                for rule in self.allow(f"{name}-{one}-{other}", named[one], named[other], opts)
            ],
        )

    def elsewhere(
        self, name: str, subnet: str, network: Network, opts: ResourceOptions, without: Sequence[str] = ()
    ) -> ec2.Subnet | ExistingPart:
        """Return a subnet in another zone, existing or new.

        Ignore changes of the zone: a zone that opens later is no reason to move.
        """
        if subnet in self.subnets:
            return self.subnets[subnet]
        there = get_availability_zones_output(
            state="available",
            filters=[{"name": "opt-in-status", "values": ["opt-in-not-required"]}],
            opts=pulumi.InvokeOutputOptions(provider=self.provider),
        )
        own = self.subnets["storage"].availability_zone
        return ec2.Subnet(
            name,
            vpc_id=self.vpc_id,
            cidr_block=next(each.cidr for each in network.subnets if each.name == subnet),
            availability_zone=pulumi.Output.all(there.names, there.zone_ids, own).apply(
                lambda of: zone_beside(of[2], dict(zip(of[0], of[1], strict=True)), without, f"{self.cluster}-{subnet}")
            ),
            map_public_ip_on_launch=False,
            tags=self.tags(subnet),
            opts=ResourceOptions.merge(opts, ResourceOptions(ignore_changes=["availability_zone"])),
        )

    def security_group(self, name: str, each: str, whose: str, opts: ResourceOptions) -> ec2.SecurityGroup:
        """Create a security group without rules. `whose` begins its description."""
        return ec2.SecurityGroup(
            f"{name}-{each}",
            vpc_id=self.vpc_id,
            description=f"{whose} of {self.cluster}",
            tags=self.tags(each),
            opts=opts,
        )

    def allow(
        self,
        name: str,
        one: ec2.SecurityGroup | ExistingPart,
        other: ec2.SecurityGroup | ExistingPart,
        opts: ResourceOptions,
    ) -> list[pulumi.Resource]:
        """Allow all traffic between two groups, in both directions."""
        return [
            rule(
                name,
                security_group_id=one.id,
                referenced_security_group_id=other.id,
                ip_protocol="-1",
                tags=self.tags("inside"),
                opts=opts,
            )
            for rule in (vpc.SecurityGroupIngressRule, vpc.SecurityGroupEgressRule)
        ]


def _layout(network: Network) -> str:
    """Return a text that changes with the ranges and the zone of subnets, so that the whole network is recreated.

    In the same network a new subnet would overlap an old one, which EC2 refuses (CreateSubnet in botocore 1.44.5, read
    2026-11-28): new and old subnets share the range of file systems.
    """
    return ", ".join([network.zone, *(f"{each.name} {each.cidr}" for each in network.subnets)])


def zone_beside(own: str, ids: Mapping[str, str], without: Sequence[str], what: str) -> str:
    """Return a zone other than `own`. `without` has the ids of zones in which AWS does not offer the service."""
    if ids.get(own) in without:
        raise pulumi.RunError(
            f"{what}: AWS offers none in zone {own} ({ids[own]}), where the nodes are.\n"
            "  hint: write another network.zone; aws ec2 describe-availability-zones lists the ids of zones"
        )
    return min(name for name, id_ in ids.items() if name != own and id_ not in without)


def create(name: str, *, plan: Plan, opts: ResourceOptions) -> Place:
    """Create the place and its alarms. Part of the contract of a cloud."""
    place = Place(name, plan, opts)
    alarms.create(name, place, plan)
    return place


def cost_tags(plan: Plan) -> dict[str, str]:
    """Return the tags by which AWS attributes costs to the cluster."""
    return tags.cost_tags(plan)


def assumed_by(service: str, *more: str) -> str:
    """Return a policy that lets an AWS service assume a role. `more` are further actions of the service on the role."""
    action = ["sts:AssumeRole", *more] if more else "sts:AssumeRole"
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": action, "Principal": {"Service": service}}],
        }
    )
