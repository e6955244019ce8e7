"""Facts about existing parts that a plan uses. Filters find them, so that a missing part is no error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stampworks.clouds.aws.session import Api, AwsUnansweredError
from stampworks.plan import ExistingNetwork, Plan

WORLD = "0.0.0.0/0"
STORAGE_ACTIONS = (
    *("ec2:DescribeSubnets", "fsx:DescribeFileSystems", "s3:GetBucketLocation"),
    *(f"elasticfilesystem:Describe{what}" for what in ("FileSystems", "MountTargets")),
)
"""Actions that read existing file systems and buckets."""


def subnet_ids(plan: Plan) -> dict[str, str]:
    """Return the existing subnets that the plan uses: the plan's name of each by its id."""
    if (existing := plan.network.existing) is None:
        return {}
    return {existing.subnet(each.name).id: each.name for each in plan.network.subnets}


def networks(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return the existing VPC of a plan with its ranges; empty if the plan has none or it is gone."""
    if (existing := plan.network.existing) is None:
        return []
    found = api.ask("ec2:DescribeVpcs", Filters=_filter("vpc-id", existing.vpc))["Vpcs"]
    return [
        {
            "id": one["VpcId"],
            "ranges": [each["CidrBlock"] for each in one.get("CidrBlockAssociationSet", ())] or [one["CidrBlock"]],
            "names": all(_enabled(api, one["VpcId"], name) for name in ("enableDnsSupport", "enableDnsHostnames")),
        }
        for one in found
    ]


def _enabled(api: Api, vpc: str, name: str) -> bool:
    answer = api.ask("ec2:DescribeVpcAttribute", VpcId=vpc, Attribute=name)
    return bool(answer[name[0].upper() + name[1:]]["Value"])


def subnets(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return the existing subnets of a plan with their routes and endpoints."""
    if not (ids := subnet_ids(plan)):
        return []
    found = described_subnets(api, ids)
    networks_ = sorted({one["VpcId"] for one in found})
    tables = api.ask("ec2:DescribeRouteTables", Filters=_filter("vpc-id", *networks_))["RouteTables"]
    ends = api.ask("ec2:DescribeVpcEndpoints", Filters=_filter("vpc-id", *networks_))["VpcEndpoints"]
    made = []
    for one in found:
        table = table_of(tables, one["SubnetId"], one["VpcId"])
        made.append(
            {
                "id": one["SubnetId"],
                "network": one["VpcId"],
                "zone": one["AvailabilityZone"],
                "cidr": one["CidrBlock"],
                "free": one["AvailableIpAddressCount"],
                "public": one["MapPublicIpOnLaunch"],
                "ways_out": sorted(set(ways_out(table))),
                "routed": sorted(_routed(ends, table, plan.region)),
            }
        )
    return made


def described_subnets(api: Api, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return subnets as EC2 describes them, by id; missing ones are left out."""
    found = api.ask("ec2:DescribeSubnets", Filters=_filter("subnet-id", *sorted(ids)))["Subnets"]
    return sorted(found, key=lambda one: str(one["SubnetId"]))


def table_of(tables: Sequence[Mapping[str, Any]], subnet: str, network: str) -> Mapping[str, Any]:
    """Return the route table of a subnet, which is the network's main table unless it is given another one."""
    main: Mapping[str, Any] = {}
    for table in tables:
        for each in table.get("Associations", ()):
            if each.get("SubnetId") == subnet:
                return table
            if each.get("Main") and table["VpcId"] == network:
                main = table
    return main


def ways_out(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds of the live default routes of a table. An internet gateway serves public addresses only."""
    for route in table.get("Routes", ()):
        if route.get("DestinationCidrBlock") == WORLD and route.get("State") != "blackhole":
            gateway = str(route.get("GatewayId", ""))
            yield "nat" if route.get("NatGatewayId") else "gateway" if gateway.startswith("igw-") else "other"


def _routed(ends: Sequence[Mapping[str, Any]], table: Mapping[str, Any], region: str) -> Iterator[str]:
    for one in ends:
        if table.get("RouteTableId") in one.get("RouteTableIds", ()) and one["State"].lower() == "available":
            yield one["ServiceName"].removeprefix(f"com.amazonaws.{region}.")


def groups(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return the existing security groups of a plan with their rules."""
    existing: ExistingNetwork | None = plan.network.existing
    if existing is None or not existing.nodes_group:
        return []
    ids = sorted({existing.nodes_group, existing.storage_group})
    found = api.ask("ec2:DescribeSecurityGroups", Filters=_filter("group-id", *ids))["SecurityGroups"]
    return [
        {
            "id": one["GroupId"],
            "network": one.get("VpcId", ""),
            "openings": [
                {"inward": inward, "peer": peer}
                for key, inward in (("IpPermissions", True), ("IpPermissionsEgress", False))
                for peer in sorted(_peers(one[key]))
            ],
        }
        for one in sorted(found, key=lambda one: str(one["GroupId"]))
    ]


def _peers(permissions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the groups and ranges of rules for all traffic."""
    for one in permissions:
        if one["IpProtocol"] == "-1":
            yield from (each["GroupId"] for each in one.get("UserIdGroupPairs", ()))
            yield from (each["CidrIp"] for each in one.get("IpRanges", ()))


def _filter(name: str, *values: str) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": [*values]}]


def storage(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return existing file systems and buckets."""
    readers = {"fsx-lustre": _lustre, "efs": _efs, "s3": _bucket}
    return [
        {"id": each.existing, "kind": each.kind, **found}
        for each in plan.storage
        if each.existing and (found := readers[each.kind](api, each.existing)) is not None
    ]


def _lustre(api: Api, id_: str) -> dict[str, Any] | None:
    found = api.ask("fsx:DescribeFileSystems")["FileSystems"]
    one = next((each for each in found if each["FileSystemId"] == id_ and each["FileSystemType"] == "LUSTRE"), None)
    if one is None:
        return None
    own = one.get("LustreConfiguration", {})
    tier = str(own.get("DeploymentType", ""))
    if tier.startswith("PERSISTENT"):
        tier += f" {one.get('StorageType', 'SSD')}"
    there = described_subnets(api, dict.fromkeys(one["SubnetIds"], ""))
    networks_ = {one["VpcId"]} if one.get("VpcId") else {each["VpcId"] for each in there}
    return {
        "networks": sorted(networks_),
        "zones": sorted({each["AvailabilityZone"] for each in there}),
        "tier": tier,
        "capacity": one.get("StorageCapacity", 0),
        "efa": bool(own.get("EfaEnabled")),
        "region": api.region,
    }


def _efs(api: Api, id_: str) -> dict[str, Any] | None:
    found = api.ask("elasticfilesystem:DescribeFileSystems")["FileSystems"]
    one = next((each for each in found if each["FileSystemId"] == id_), None)
    if one is None:
        return None
    ends = api.ask("elasticfilesystem:DescribeMountTargets", FileSystemId=id_)["MountTargets"]
    return {
        "networks": sorted({each["VpcId"] for each in ends}),
        "zones": sorted({each["AvailabilityZoneName"] for each in ends}),
        "tier": "one zone" if one.get("AvailabilityZoneName") else "regional",
        "capacity": 0,
        "efa": False,
        "region": api.region,
    }


def _bucket(api: Api, name: str) -> dict[str, Any] | None:
    try:
        found = api.ask("s3:GetBucketLocation", Bucket=name)
    except AwsUnansweredError as error:
        if error.code == "NoSuchBucket":
            return None
        raise
    where = found.get("LocationConstraint") or "us-east-1"  # S3 says nothing of its first region
    return {"networks": [], "zones": [], "tier": "", "capacity": 0, "efa": False, "region": where}
