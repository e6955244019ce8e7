"""Facts about an account for one plan: a table in which each fact names the actions that read it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from ipaddress import IPv4Network
from typing import Any

from stampworks.clouds.aws.facts import images, launches, owned, parts, rights, terms
from stampworks.clouds.aws.session import Api, AwsUnansweredError
from stampworks.clouds.aws.tags import CLUSTER, GROUP, PLACES
from stampworks.plan import Plan
from stampworks.plan.rights import Right

WHO = "sts:GetCallerIdentity"
PARAMETER = "ssm:GetParameter"
PUBLISHED = "arn:*:ssm:*:*:parameter/aws/service/*"
"""ARNs of the parameters that AWS publishes. They are in no account."""
_THERE = ["pending", "running", "stopping", "shutting-down"]
"""States in which an instance counts against a limit."""
_NO_GROUP = ("NotFoundException", "BadRequestException")
"""Error codes that mean "no such group". The request has only a name, so nothing else in it can be wrong."""


@dataclass
class AccountQuestion:
    """The plan to read facts for, and the facts that were read before."""

    plan: Plan
    api: Api
    account: str
    deployer: str
    """ARN of the identity that runs an `up`."""
    rights: Sequence[Right]
    """Rights that an `up` needs."""
    caller: str
    found: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def instances(self) -> list[dict[str, Any]]:
        """All instances of the account that count against a limit."""
        found = self.api.ask("ec2:DescribeInstances", Filters=[{"Name": "instance-state-name", "Values": _THERE}])
        return [each for one in found["Reservations"] for each in one["Instances"]]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The instances of the plan's cluster."""
        return [each for each in self.instances if _tags(each).get(CLUSTER) == self.plan.name]

    @property
    def types(self) -> list[str]:
        """Instance types of the plan."""
        return sorted({group.launch.instance_type for group in self.plan.groups if group.launch})

    def own(self, action: str, key: str) -> list[dict[str, Any]]:
        """Return the resources that carry the tag of the plan's cluster."""
        return list(self.api.ask(action, Filters=[{"Name": f"tag:{CLUSTER}", "Values": [self.plan.name]}])[key])


@dataclass(frozen=True)
class Fact:
    """A row of the table: a fact and the calls that read it."""

    name: str
    actions: tuple[str, ...]
    """All actions that `read` calls. The policy permits these actions and no others."""
    read: Callable[[AccountQuestion], Any]


def read_account(
    plan: Plan, rights: Sequence[Right], deployer: str = "", say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Return each fact, or the reason why it is unknown.

    Without a deployer, use the caller. Raise AwsUnansweredError if AWS does not even name the account. Do not ask a
    silent service again: each call would wait as long as the first.
    """
    api = Api(plan.region)
    who = api.ask(WHO)
    asked = AccountQuestion(plan, api, who["Account"], deployer or who["Arn"], rights, who["Arn"])
    readings, silent = [], dict[str, str]()
    for fact in FACTS:
        say(fact.name)
        service = fact.actions[0].partition(":")[0]
        at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
        why = silent.get(service, "")
        if not why:
            try:
                asked.found[fact.name] = fact.read(asked)
            except AwsUnansweredError as error:
                why = str(error)
                silent |= {service: why} if error.silent else {}
            except (KeyError, TypeError, ValueError, IndexError) as error:
                why = f"{', '.join(fact.actions)}: the answer cannot be read: {type(error).__name__} {error}"
        readings.append({"fact": fact.name, "at": at, "why": why})
    of = {"account": asked.account, "region": plan.region, "cluster": plan.name}
    told = {"cloud": "aws", **of, "elsewhere": api.elsewhere, "deployer": asked.deployer}
    return {**told, "readings": readings, **{fact.name: asked.found.get(fact.name) for fact in FACTS}}


def actions() -> list[str]:
    """Return all actions that reading an account or writing a lock calls."""
    return sorted({WHO, parts.VERSIONS, *(action for fact in FACTS for action in fact.actions)})


BEHIND = ("cloudformation:DescribeStacks", "cloudformation:ListStackResources", "tag:GetResources")
"""Actions that AWS calls in the caller's name to list a resource group (AWS Resource Groups API, ListGroupResources,
"Minimum permissions", read 2026-11-27)."""


def policy() -> dict[str, Any]:
    """Return the policy that permits these actions and no others.

    Permit only published parameters: an account's own parameters hold keys. AWS cannot limit the other actions to
    single resources. Leave launches out: whether they are permitted is the fact.
    """
    others = sorted({*(each for each in actions() if each not in (PARAMETER, launches.RUN)), *BEHIND, launches.DECODE})
    statements = [
        {"Sid": "ReadFacts", "Effect": "Allow", "Action": others, "Resource": "*"},
        {"Sid": "ReadPublished", "Effect": "Allow", "Action": PARAMETER, "Resource": PUBLISHED},
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def _offers(asked: AccountQuestion) -> list[dict[str, Any]]:
    filters = [{"Name": "instance-type", "Values": asked.types}]
    found = asked.api.ask("ec2:DescribeInstanceTypeOfferings", LocationType="availability-zone", Filters=filters)
    zones: dict[str, list[str]] = {each: [] for each in asked.types}
    for each in found["InstanceTypeOfferings"]:
        zones[each["InstanceType"]].append(each["Location"])
    return [{"instance_type": name, "zones": sorted(zones[name])} for name in asked.types]


def _reservations(asked: AccountQuestion) -> list[dict[str, Any]]:
    """Return all reservations of the account. Reserved capacity counts against limits as running instances do."""
    nodes, account = asked.nodes, asked.account
    found = asked.api.ask("ec2:DescribeCapacityReservations")["CapacityReservations"]
    return [
        {
            "id": one["CapacityReservationId"],
            "instance_type": one["InstanceType"],
            "zone": one["AvailabilityZone"],
            "state": one["State"],
            "block": one.get("ReservationType") == "capacity-block",
            "total": one["TotalInstanceCount"],
            "available": one["AvailableInstanceCount"],
            "ours": sum(each.get("CapacityReservationId") == one["CapacityReservationId"] for each in nodes),
            "begins": _day(one.get("StartDate")),
            "ends": _day(one.get("EndDate")),
            "placement_group": one.get("PlacementGroupArn", ""),
            "own": one.get("OwnerId", account) == account,
        }
        for one in sorted(found, key=lambda one: str(one["CapacityReservationId"]))
    ]


def _reservation_groups(asked: AccountQuestion) -> list[dict[str, Any]]:
    """Return the reservation groups that the plan names."""
    named = {way.reservation for group in asked.plan.pools for way in group.offers}
    groups = sorted(name for name in named if name.startswith("arn:"))
    return [{"name": each, "reservations": _in_group(asked, each)} for each in groups]


def _in_group(asked: AccountQuestion, name: str) -> list[str] | None:
    """Return the reservations of a group. Return None when AWS does not know the group or the name is not valid."""
    try:
        found = asked.api.ask("resource-groups:ListGroupResources", Group=name)["ResourceIdentifiers"]
    except AwsUnansweredError as error:
        if error.code in _NO_GROUP:
            return None
        raise
    return sorted(one["ResourceArn"].rpartition("/")[2] for one in found)


def _running(asked: AccountQuestion) -> list[dict[str, Any]]:
    """Count running instances of others. Instances in a reservation count with the reservation."""
    counts: dict[tuple[str, bool], int] = {}
    for each in asked.instances:
        if _tags(each).get(CLUSTER) != asked.plan.name and not each.get("CapacityReservationId"):
            key = (each["InstanceType"], each.get("InstanceLifecycle") == "spot")
            counts[key] = counts.get(key, 0) + 1
    return [{"instance_type": name, "spot": spot, "count": counts[name, spot]} for name, spot in sorted(counts)]


def _node_addresses(asked: AccountQuestion) -> int:
    """Count the addresses of all interfaces of the nodes, and the whole prefixes that EKS takes for pods."""
    nics = [nic for node in asked.nodes for nic in node.get("NetworkInterfaces", ())]
    prefixes = [IPv4Network(each["Ipv4Prefix"]) for nic in nics for each in nic.get("Ipv4Prefixes", ())]
    return sum(len(nic.get("PrivateIpAddresses", ())) for nic in nics) + sum(each.num_addresses for each in prefixes)


def _described(asked: AccountQuestion) -> list[dict[str, Any]]:
    """Return the instance types of the plan, and those of others that count against the same limits."""
    others = [*(asked.found.get("running") or ()), *(asked.found.get("reservations") or ())]
    names = sorted({*asked.types, *(one["instance_type"] for one in others)})
    # the filter leaves out a type that the region lacks; naming it would be an error
    filters = [{"Name": "instance-type", "Values": names}]
    found = asked.api.ask("ec2:DescribeInstanceTypes", Filters=filters)["InstanceTypes"]
    return [
        {
            "instance_type": one["InstanceType"],
            "vcpus": one["VCpuInfo"]["DefaultVCpus"],
            "cards": one["NetworkInfo"].get("MaximumNetworkCards", 1),
            "fabric_interfaces": one["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        }
        for one in sorted(found, key=lambda one: str(one["InstanceType"]))
    ]


def _limits(service: str) -> Callable[[AccountQuestion], list[dict[str, Any]]]:
    def read(asked: AccountQuestion) -> list[dict[str, Any]]:
        found = asked.api.ask("servicequotas:ListServiceQuotas", ServiceCode=service)["Quotas"]
        known = {one["QuotaName"]: float(one["Value"]) for one in found}
        return [{"name": name, "value": known[name]} for name in sorted(known)]

    return read


def _networks(asked: AccountQuestion) -> int:
    return _others(asked, asked.api.ask("ec2:DescribeVpcs")["Vpcs"])


def _gateways(asked: AccountQuestion) -> int:
    found = asked.api.ask("ec2:DescribeNatGateways")["NatGateways"]
    return _others(asked, [one for one in found if one["State"] in ("pending", "available")])


def _addresses(asked: AccountQuestion) -> int:
    return _others(asked, asked.api.ask("ec2:DescribeAddresses")["Addresses"])


def _interfaces(asked: AccountQuestion) -> int:
    """Count the network interfaces of others. Interfaces without an instance count against the same limit."""
    found = asked.api.ask("ec2:DescribeNetworkInterfaces")["NetworkInterfaces"]
    return _others(asked, [{"Tags": one.get("TagSet", ())} for one in found])


def _placement_groups(asked: AccountQuestion) -> int:
    found = asked.api.ask("ec2:DescribePlacementGroups")["PlacementGroups"]
    return _others(asked, [one for one in found if one["State"] in ("pending", "available")])


def _spreads(asked: AccountQuestion) -> list[dict[str, Any]]:
    """Count the switches above the nodes of each group, from the tags of joined nodes.

    AWS does not report places of small instances.
    """
    ways: dict[str, list[Sequence[str]]] = {}
    for tags in map(_tags, asked.nodes):
        if tags.get(PLACES):
            ways.setdefault(tags.get(GROUP, ""), []).append(tags[PLACES].split())
    layers = {group: zip(*ways[group], strict=True) for group in sorted(ways)}
    return [
        {"group": group, "nodes": len(ways[group]), "switches": [len({*layer}) for layer in layers[group]]}
        for group in layers
    ]


def _file_systems(asked: AccountQuestion) -> list[dict[str, Any]]:
    found = asked.api.ask("fsx:DescribeFileSystems")["FileSystems"]
    others = [one for one in found if _tags(one).get(CLUSTER) != asked.plan.name]
    kinds = [(one.get("LustreConfiguration", {}).get("DeploymentType", one["FileSystemType"]), one) for one in others]
    return [{"kind": kind, "gib": one.get("StorageCapacity", 0)} for kind, one in kinds]  # some have no fixed size


def _images(asked: AccountQuestion) -> list[dict[str, Any]]:
    ids = {group.launch.image for group in asked.plan.groups if group.launch and group.launch.image}
    return [asdict(one) for one in images.described(asked.api, ids).values()]


def _newest(asked: AccountQuestion) -> list[dict[str, Any]]:
    parameters = {group.launch.published_image for group in asked.plan.groups if group.launch}
    named = [(each, images.published(asked.api, each)) for each in sorted(parameters - {""})]
    return [{"parameter": each, "image": image or ""} for each, image in named]


def _services(asked: AccountQuestion) -> list[dict[str, Any]]:
    """Return the AWS endpoint services of the region, not only those that the plan uses: a plan with another egress
    needs others."""
    prefix = f"com.amazonaws.{asked.plan.region}."
    zones: dict[str, set[str]] = {}
    for one in asked.api.ask("ec2:DescribeVpcEndpointServices")["ServiceDetails"]:
        if one["ServiceName"].startswith(prefix):
            zones.setdefault(one["ServiceName"].removeprefix(prefix), set()).update(one.get("AvailabilityZones", ()))
    return [{"name": name, "zones": sorted(zones[name])} for name in sorted(zones)]


def _subnets(asked: AccountQuestion) -> list[dict[str, Any]]:
    prefix, existing = f"{asked.plan.name}-", owned.subnet_ids(asked.plan)
    found = owned.described_subnets(asked.api, existing) if existing else asked.own("ec2:DescribeSubnets", "Subnets")
    return [
        {
            "name": existing.get(one["SubnetId"]) or _tags(one).get("Name", "").removeprefix(prefix),
            "zone": one["AvailabilityZone"],
            "free": one["AvailableIpAddressCount"],
            "public": one["MapPublicIpOnLaunch"],
        }
        for one in found
    ]


def _endpoints(asked: AccountQuestion) -> list[str]:
    found = _of_network(asked, "ec2:DescribeVpcEndpoints", "VpcEndpoints")
    prefix = f"com.amazonaws.{asked.plan.region}."
    return sorted({one["ServiceName"].removeprefix(prefix) for one in found if one["State"].lower() == "available"})


def _ways_out(asked: AccountQuestion) -> list[str]:
    """Return the kinds of the default routes in all route tables of the cluster, or of its network."""
    tables = _of_network(asked, "ec2:DescribeRouteTables", "RouteTables")
    return sorted({way for table in tables for way in owned.ways_out(table)})


def _of_network(asked: AccountQuestion, action: str, key: str) -> list[dict[str, Any]]:
    """Return the resources of the cluster's own network, or of its existing network."""
    if (existing := asked.plan.network.existing) is None:
        return asked.own(action, key)
    return list(asked.api.ask(action, Filters=[{"Name": "vpc-id", "Values": [existing.vpc]}])[key])


def _rights(asked: AccountQuestion) -> list[dict[str, Any]]:
    return rights.judged(asked.api, asked.plan, asked.deployer, asked.rights)


def _launches(asked: AccountQuestion) -> list[dict[str, Any]]:
    if asked.deployer != asked.caller:
        why = f"the caller is not {asked.deployer}"
        return [{"group": each.name, "outcome": "not tried", "why": why} for each in asked.plan.groups if each.launch]
    return launches.tried(asked.api, asked.plan)


def _owned(read: Callable[[Api, Plan], Any]) -> Callable[[AccountQuestion], Any]:
    return lambda asked: read(asked.api, asked.plan)


def _others(asked: AccountQuestion, found: Iterable[Mapping[str, Any]]) -> int:
    return sum(_tags(one).get(CLUSTER) != asked.plan.name for one in found)


def _tags(one: Mapping[str, Any]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in one.get("Tags", ())}


def _day(at: datetime.datetime | None) -> str:
    return at.astimezone(datetime.UTC).date().isoformat() if at else ""


FACTS: tuple[Fact, ...] = (
    Fact("offers", ("ec2:DescribeInstanceTypeOfferings",), _offers),
    Fact("reservations", ("ec2:DescribeCapacityReservations", "ec2:DescribeInstances"), _reservations),
    Fact("reservation_groups", ("resource-groups:ListGroupResources",), _reservation_groups),
    Fact("running", ("ec2:DescribeInstances",), _running),
    Fact("node_addresses", ("ec2:DescribeInstances",), _node_addresses),
    Fact("described", ("ec2:DescribeInstanceTypes",), _described),
    Fact("machine_limits", ("servicequotas:ListServiceQuotas",), _limits("ec2")),
    Fact("network_limits", ("servicequotas:ListServiceQuotas",), _limits("vpc")),
    Fact("storage_limits", ("servicequotas:ListServiceQuotas",), _limits("fsx")),
    Fact("networks", ("ec2:DescribeVpcs",), _networks),
    Fact("gateways", ("ec2:DescribeNatGateways",), _gateways),
    Fact("addresses", ("ec2:DescribeAddresses",), _addresses),
    Fact("interfaces", ("ec2:DescribeNetworkInterfaces",), _interfaces),
    Fact("placement_groups", ("ec2:DescribePlacementGroups",), _placement_groups),
    Fact("file_systems", ("fsx:DescribeFileSystems",), _file_systems),
    Fact("images", ("ec2:DescribeImages",), _images),
    Fact("newest", (PARAMETER,), _newest),
    Fact("services", ("ec2:DescribeVpcEndpointServices",), _services),
    Fact("subnets", ("ec2:DescribeSubnets",), _subnets),
    Fact("endpoints", ("ec2:DescribeVpcEndpoints",), _endpoints),
    Fact("ways_out", ("ec2:DescribeRouteTables",), _ways_out),
    Fact("spreads", ("ec2:DescribeInstances",), _spreads),
    Fact("owned_networks", ("ec2:DescribeVpcs", "ec2:DescribeVpcAttribute"), _owned(owned.networks)),
    Fact(
        "owned_subnets",
        ("ec2:DescribeSubnets", "ec2:DescribeRouteTables", "ec2:DescribeVpcEndpoints"),
        _owned(owned.subnets),
    ),
    Fact("owned_groups", ("ec2:DescribeSecurityGroups",), _owned(owned.groups)),
    Fact("owned_storage", owned.STORAGE_ACTIONS, _owned(owned.storage)),
    Fact("owned_keys", ("kms:DescribeKey",), _owned(terms.keys)),
    Fact("owned_profiles", ("iam:GetInstanceProfile",), _owned(terms.profiles)),
    Fact("boundaries", ("iam:GetPolicy", "iam:GetPolicyVersion"), _owned(terms.boundaries)),
    Fact("rights", (rights.SIMULATE, rights.ROLE), _rights),
    Fact("launches", (launches.SUBNETS, launches.RUN), _launches),
    Fact("tag_rules", ("organizations:DescribeEffectivePolicy",), _owned(terms.tag_rules)),
)
