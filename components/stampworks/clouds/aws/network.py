"""Network of an AWS cluster: its egress, the endpoints of services, and a log of refused traffic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions
from pulumi_aws import cloudwatch, ec2, iam, ssm, vpc

from stampworks.clouds.aws import bundle, tags
from stampworks.clouds.aws.place import ANYWHERE, Place, assumed_by
from stampworks.plan import Network, Rail
from stampworks.resources import Keyring

_LOG_DAYS = 30
EGRESS = "egress"
"""Name of the resources for egress."""
_ROUTED = ("s3",)
"""Services whose endpoint is a route, which is free. Other endpoints have addresses in a subnet."""


class Connections(pulumi.ComponentResource):
    """Connections that nodes need at boot. All nodes are created after them."""

    place: Place
    ssh_public_key: Output[str]
    """Public key that logs in to nodes."""

    def __init__(
        self, name: str, cluster: str, place: Place, network: Network, keyring: Keyring, opts: ResourceOptions
    ) -> None:
        super().__init__("stampworks:aws:Connections", name, None, place.within(opts))
        self.place, self.ssh_public_key = place, keyring.ssh_public_key
        self._name, self._opts = name, place.within(ResourceOptions(parent=self))
        if network.existing:
            if network.egress == "nat" and not network.existing.nodes_group:
                self._let_out()
        else:
            self._connect(network)
        if network.pods is None:  # users do not log in to nodes of EKS
            self._way_in(cluster, keyring)
        if place.bundle:
            bundle.keep_key(name, place, keyring.slurm_key, self._opts)
        self.register_outputs({})

    def _connect(self, network: Network) -> None:
        """Create the routes, endpoints and log of a new network. An existing network has its owners' own."""
        private = self._table("private")
        for each in network.subnets:
            if not each.public and each.name in self.place.subnets:
                self._join(each.name, private)
        if network.egress == "nat":
            (public,) = (each.name for each in network.subnets if each.public)
            self._way_out(public, private)
        for service in network.endpoints:
            self._endpoint(service, private)
        self._flow_log()

    def _table(self, name: str) -> ec2.RouteTable:
        tags = self.place.tags(name)
        return ec2.RouteTable(f"{self._name}-{name}", vpc_id=self.place.vpc_id, tags=tags, opts=self._opts)

    def _join(self, subnet: str, table: ec2.RouteTable) -> ec2.RouteTableAssociation:
        ids = {"subnet_id": self.place.subnets[subnet].id, "route_table_id": table.id}
        return ec2.RouteTableAssociation(f"{self._name}-{subnet}", **ids, opts=self._opts)

    def _way_out(self, subnet: str, private: ec2.RouteTable) -> None:
        """Create the NAT gateway: private addresses reach the internet, and are not reachable from it."""
        name, place, tags = self._name, self.place, self.place.tags(subnet)
        # In another VPC it would be detached first, which EC2 refuses while the old VPC has mapped public addresses
        # (DetachInternetGateway in botocore 1.44.5, read 2026-11-28): make another one instead.
        anew = ResourceOptions.merge(self._opts, ResourceOptions(replace_on_changes=["vpcId"]))
        gateway = ec2.InternetGateway(name, vpc_id=place.vpc_id, tags=tags, opts=anew)
        public = self._table("public")
        self._route(public, "public", gateway_id=gateway.id)
        joined = self._join(subnet, public)
        after = ResourceOptions.merge(self._opts, ResourceOptions(depends_on=[gateway, joined]))
        address = ec2.Eip(name, domain="vpc", tags=tags, opts=after)
        nat = ec2.NatGateway(
            name,
            subnet_id=place.subnets[subnet].id,
            allocation_id=address.allocation_id,
            tags=tags,
            # the address stays, and serves one gateway at a time
            opts=ResourceOptions.merge(after, ResourceOptions(delete_before_replace=True)),
        )
        self._route(private, "private", nat_gateway_id=nat.id)
        self._let_out()

    def _let_out(self) -> None:
        """Let nodes reach every address."""
        vpc.SecurityGroupEgressRule(
            f"{self._name}-world",
            security_group_id=self.place.nodes.id,
            cidr_ipv4=ANYWHERE,
            ip_protocol="-1",
            tags=self.place.tags(EGRESS),
            opts=self._opts,
        )

    def _route(self, table: ec2.RouteTable, name: str, **through: Output[str]) -> None:
        ec2.Route(
            f"{self._name}-{name}",
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            **through,
            opts=self._opts,
        )

    def _endpoint(self, service: str, private: ec2.RouteTable) -> None:
        place = self.place
        reached: dict[str, Any] = {
            "vpc_endpoint_type": "Interface",
            "private_dns_enabled": True,
            "subnet_ids": [place.subnets["storage"].id],
            "security_group_ids": [place.storage.id],
        }
        if service in _ROUTED:
            reached = {"vpc_endpoint_type": "Gateway", "route_table_ids": [private.id]}
        endpoint = ec2.VpcEndpoint(
            f"{self._name}-{service}",
            vpc_id=place.vpc_id,
            service_name=place.provider.region.apply(lambda region: f"com.amazonaws.{region}.{service}"),
            tags=place.tags(service),
            opts=self._opts,
            **reached,
        )
        if service in _ROUTED:  # its addresses are outside the network, so no other rule lets nodes reach it
            vpc.SecurityGroupEgressRule(
                f"{self._name}-{service}",
                security_group_id=place.nodes.id,
                prefix_list_id=endpoint.prefix_list_id,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                tags=place.tags(service),
                opts=self._opts,
            )

    def _way_in(self, cluster: str, keyring: Keyring) -> None:
        """Store the ssh key of the nodes in Systems Manager, for callers with permission.

        Its use also needs a session of Systems Manager.
        """
        ssm.Parameter(
            f"{self._name}-identity",
            name=tags.identity_parameter(cluster),
            type="SecureString",
            value=keyring.ssh_private_key,
            tags=self.place.tags("identity"),
            opts=self._opts,
        )

    def _flow_log(self) -> None:
        """Log refused traffic: it shows attempts from outside and connections that a node lacks."""
        name, tags, opts = f"{self._name}-traffic", self.place.tags("traffic"), self._opts
        group = cloudwatch.LogGroup(name, retention_in_days=_LOG_DAYS, tags=tags, opts=opts)
        terms = self.place.role_terms()
        writer = iam.Role(
            name, assume_role_policy=assumed_by("vpc-flow-logs.amazonaws.com"), **terms, tags=tags, opts=opts
        )
        iam.RolePolicy(name, role=writer.id, policy=group.arn.apply(_may_write), opts=opts)
        ec2.FlowLog(
            name,
            vpc_id=self.place.vpc_id,
            traffic_type="REJECT",
            log_destination=group.arn,
            iam_role_arn=writer.arn,
            tags=tags,
            opts=opts,
        )


def create(
    name: str,
    *,
    cluster: str,
    place: Place,
    network: Network,
    rails: Sequence[Rail],  # noqa: ARG001  (the fabric is AWS's own)
    keyring: Keyring,
    opts: ResourceOptions,
) -> Connections:
    """Create the network of a cluster. Part of the contract of a cloud."""
    return Connections(name, cluster, place, network, keyring, opts)


def _may_write(group: str) -> str:
    """Return the policy with the least actions that a flow log needs (Amazon VPC User Guide, "IAM role for publishing
    flow logs to CloudWatch Logs", read 2026-11-28).

    Listing groups has no smaller resource. The others are for this group and its streams alone.
    """
    own = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
    statements = [
        {"Effect": "Allow", "Action": own, "Resource": [group, f"{group}:*"]},
        {"Effect": "Allow", "Action": "logs:DescribeLogGroups", "Resource": "*"},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
