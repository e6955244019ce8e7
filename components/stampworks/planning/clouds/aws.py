"""The choices of AWS."""

import re
from collections.abc import Iterator, Sequence

from stampworks import catalog
from stampworks.plan import Interface, Plan
from stampworks.planning.clouds.aws_rights import partition_of, policy, rights_of, statement
from stampworks.planning.clouds.choices import (
    Accounts,
    Choices,
    Existing,
    GroupSize,
    Launches,
    Managed,
    PodAddressing,
    Subnets,
    Support,
)

# Prefixes: Amazon EKS User Guide, "Assign more IP addresses to Amazon EKS nodes with prefixes". A node stops taking
# prefixes when they hold all pods that it may run, however many it keeps warm: amazon-vpc-cni-k8s, ipamd.go. It never
# needs a second interface for them, which would take an address: b52188387, vpc_ip_resource_limit.go. An interface has
# 15 addresses or prefixes on m7i.2xlarge and 50 on nodes with several accelerators (P6e-GB200 is not listed); the first
# is the node's own. With one accelerator it has 30, according to EC2's DescribeInstanceTypes. Services: Amazon EKS API
# Reference, KubernetesNetworkConfigRequest. Surge: Amazon EKS User Guide, "Understand each phase of node updates": the
# larger of twice the zones of a group, here one, and of maxUnavailable, one by default. Control plane: the same, "View
# Amazon EKS networking requirements for VPC and subnets": two subnets in different zones, each with at least 6
# addresses, 16 recommended. All read 2026-11-22.
PODS = PodAddressing(
    way="Amazon VPC CNI with prefixes",
    why="it is the CNI of EKS, and with prefixes nodes request addresses less often",
    node_addresses=lambda pods: 16 * -(-pods // 16),
    node_why="whole prefixes of 16 addresses, all on the first interface",
    own_range=False,
    lost=16,  # AWS's reserved addresses spoil the first and the last prefix of a subnet
    surge=2,
    control=16,
    services_longest_prefix=24,
)


def _interfaces(machine: catalog.Machine, card_addresses: bool) -> tuple[Interface, ...]:
    """Return one interface with an address, and one with EFA alone on each card of the fabric: a node takes one
    address, whatever hardware it has. Every machine with EFA supports this (AWS, "AWS announces EFA update for
    scalability with AI/ML applications", 2024-10-24, read 2026-11-22). An EFA-only interface is a card's first device.
    On the card with the node's primary interface it is the second one. Some cards of P6e-GB200 support no second device
    (Amazon EC2 User Guide, efa-acc-inst-types; aws-parallelcluster 6930; both read 2026-11-23). With card addresses,
    every card has one EFA interface with IP. The first one is the node's primary interface if its card has EFA. On
    every other card it is the second device (the same guide, an earlier version, read 2026-11-22)."""
    cards = catalog.fabric_cards(machine)
    own = Interface("own", card=0, device=0, fabric=card_addresses and 0 in cards, address=True)
    others = [card for card in cards if not (own.fabric and card == 0)]
    return (
        own,
        *(
            Interface(f"card{card}", card, device=int(card == 0 or card_addresses), fabric=True, address=card_addresses)
            for card in others
        ),
    )


# AWS services that nodes without a way out need. s3: packages and bundles; sts: their identity; ec2: their cluster, and
# the start of other nodes. ssm, ssmmessages, ec2messages: access for administrators; ecr: images; fsx: file systems;
# logs: logs.
_SERVICES = ("ec2", "ec2messages", "ecr.api", "ecr.dkr", "fsx", "logs", "ssm", "ssmmessages", "sts")
_ROUTED = ("s3",)

# Amazon EC2 User Guide, "Placement strategies" and "Work with Capacity Blocks": capacity blocks are placed close
# together, and take no placement group. A reservation was created in a placement group of its own, or in none. Read
# 2026-11-22. Tags: the same guide, "Tag your Amazon EC2 resources" and "View tags for your EC2 instances using instance
# metadata". Nodes of EKS have fewer of our tags, and five of EKS's own. Read 2026-11-25.
LAUNCHES = Launches(
    interfaces=_interfaces,
    together=("on-demand", "spot"),
    together_why="in a cluster placement group",
    apart_why="in no placement group: reserved capacity cannot move",
    disk_gib=200,
    disk_why="for system, containers and logs; data is on file systems and local NVMe",
    state_gib=100,
    endpoints={"nat": _ROUTED, "none": (*_ROUTED, *_SERVICES)},
    routed=_ROUTED,
    programs=("aws", "session-manager-plugin"),
    programs_hint="install the AWS CLI and its Session Manager plugin",
    tags_max=41,
    tags_why="AWS allows 50 on a resource, and Stampworks uses 9 on a node",
    tags_unread="/",
)

# Amazon EKS User Guide, "View Amazon container image registries for Amazon EKS add-ons" (amazon-eks-user-guide
# 1cc6ebb4; ap-southeast-5 is only in its Chinese edition). For ap-east-2 it names a registry in ap-east-1, so that this
# region is left out. Read 2026-11-26.
_REGISTRY = "602401143452"
_REGIONS_OF_REGISTRY = (
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
    *("ca-central-1", "eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)
_OTHER_REGISTRIES = {
    "af-south-1": "877085696533",
    "ap-east-1": "800184023465",
    "ap-south-2": "900889452093",
    "ap-southeast-3": "296578399912",
    "ap-southeast-4": "491585149902",
    "ap-southeast-5": "151610086707",
    "ap-southeast-6": "333609536671",
    "ap-southeast-7": "121268973566",
    "ca-west-1": "761377655185",
    "cn-north-1": "918309763551",
    "cn-northwest-1": "961992271922",
    "eu-central-2": "900612956339",
    "eu-south-1": "590381155156",
    "eu-south-2": "455263428931",
    "eusc-de-east-1": "877088126301",
    "il-central-1": "066635153087",
    "me-central-1": "759879836304",
    "me-south-1": "558608220178",
    "mx-central-1": "730335286997",
    "us-gov-east-1": "151742754352",
    "us-gov-west-1": "013241004608",
}
_DOMAINS = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}


def _registries() -> Iterator[tuple[str, str]]:
    for region, account in {**dict.fromkeys(_REGIONS_OF_REGISTRY, _REGISTRY), **_OTHER_REGISTRIES}.items():
        yield region, f"{account}.dkr.ecr.{region}.{_DOMAINS.get(region.partition('-')[0], 'amazonaws.com')}"


# Amazon EKS User Guide, "Create access entries": roles with their path, and users, of any account, each in one entry;
# no service-linked role. EKS API Reference, CreateAccessEntry: no session. Names of roles for declared users end in
# seven digits (Pulumi's "Autonaming"). All read 2026-11-27.
_ADMIN = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):iam::[0-9]{12}:(role|user)(?P<path>(/[A-Za-z0-9+=,.@_-]+)*)/"
    r"(?P<name>[A-Za-z0-9+=,.@_-]{1,64})"
)
_SESSION = re.compile(r"arn:aws[a-z-]*:sts::[0-9]{12}:assumed-role/(?P<name>[A-Za-z0-9+=,.@_-]{1,64})/.+")
_WHOLE = "write its whole ARN, with its path: `aws iam get-role --role-name {} --query Role.Arn` says it"


def _admin_refused(arn: str, region: str, of_users: Sequence[str]) -> tuple[str, str]:
    if session := _SESSION.fullmatch(arn):
        return f"{arn} is a session of role {session['name']}, which ends", _WHOLE.format(session["name"])
    if (found := _ADMIN.fullmatch(arn)) is None:
        example = "write it like arn:aws:iam::123456789012:role/ops"
        return f"{arn} is not the ARN of a role or user", example
    partition, name = partition_of(region), found["name"]
    if found["partition"] != partition:
        hint = f"name a role or user there: its ARNs begin with arn:{partition}:"
        return f"{arn} is of another partition of AWS than {region}", hint
    if found["path"].startswith("/aws-service-role"):
        return f"{name} is a service role of AWS, which EKS does not accept", "name another role"
    if name.startswith("AWSReservedSSO_") and not found["path"]:
        return f"{name} is a role of IAM Identity Center, whose ARN needs its path", _WHOLE.format(name)
    if any(re.fullmatch(f"{re.escape(each)}-[0-9a-f]{{7}}", name) for each in of_users):
        hint = "name another role that this person uses"
        return f"{name} is the role of a declared user, who has access already", hint
    return "", ""


# Drivers: Amazon EKS User Guide, "AWS add-ons". They also run on tainted nodes: aws-fsx-csi-driver 5b227125,
# docs/install.md; aws-efs-csi-driver a4fc6760, values.yaml; mountpoint-s3-csi-driver 57c6bedb, CONFIGURATION.md.
# Scratch: amazon-eks-ami 81fec2e8, setup-local-disks, for the path of the array and its contents. Fabric: the kernel of
# EKS's image supports Lustre (bottlerocket-kernel-kit 311, of the same kernel), and the driver brings the mount
# programs (its Dockerfile; 460 there). The package that sets up Lustre's network is excluded from the image
# (amazon-eks-ami 2696). AWS shows it for EKS nodes on Ubuntu (Amazon EKS User Guide, "Optimize Amazon FSx for Lustre
# performance on nodes (EFA)"). All read 2026-11-24. Endpoints: Amazon EKS User Guide, "Deploy private clusters with
# limited internet access"; eks for nodes and people who look up the API server, eks-auth for pod identity. Size: a
# quota that AWS raises on request, as several projects quote it; other projects have 100, like an earlier version of
# AWS's guide. All read 2026-11-24.
MANAGED = Managed(
    what="EKS",
    suite="al2023",
    versions={
        "1.32": Support("2026-03-23", "2027-03-23"),
        "1.33": Support("2026-07-29", "2027-07-29"),
        "1.34": Support("2026-12-02", "2027-12-02"),
        "1.35": Support("2027-03-27", "2028-03-27"),
    },
    versions_source="endoflife.date, Amazon EKS, read 2026-11-24, secondary source",
    system_nodes=2,
    system_why="names, queues and gangs are looked after by pods, which are on no node of a pool: those take none "
    "before they are proven, and cost too much for it. Two, so that one can go",
    endpoints=("eks", "eks-auth"),
    registries="registries of AWS in their own region",
    registry_of=dict(_registries()),
    group_size=GroupSize("managed node group", nodes_max=450),
    parts=("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"),
    brought={"node-monitoring-agent": "eks-node-monitoring-agent"},
    drivers={
        "fsx-lustre": "aws-fsx-csi-driver",
        "efs": "aws-efs-csi-driver",
        "s3": "aws-mountpoint-s3-csi-driver",
    },
    scratch="/mnt/k8s-disks/0",
    scratch_why="images are on it, and what pods write into their own files and into volumes of kind emptyDir, which "
    "goes with them",
    page="docs/how-to/aws-eks.md",
    programs=("aws", "kubectl"),
    programs_hint="install kubectl, and the AWS CLI, from which kubectl gets its token",
    without_fabric="the image of EKS lacks the programs that give EFA interfaces to Lustre, and nothing of ours "
    "installs them there",
    admin_refused=_admin_refused,
)

# Valid retention days of a log group: service description of CloudWatch Logs in botocore 1.44.5, read 2026-11-24.
_LOG_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096),
    *(1827, 2192, 2557, 2922, 3288, 3653),
)

_PARTITIONS = {"cn": "China", "eusc": "the European Sovereign Cloud", "iso": "closed networks"}
"""Partitions whose services have other names. GovCloud is not among them: only its ARNs differ."""


def _apart(region: str) -> str:
    """Explain why a region is unsupported: its services have other names and addresses (botocore 1.44.5,
    data/partitions.json)."""
    words = region.split("-")[:2]
    where = next((name for begin, name in _PARTITIONS.items() if any(word.startswith(begin) for word in words)), "")
    return where and (
        f"{region} is in a part of AWS whose services have names of their own ({where}), and what is made here calls "
        "them as the others do: AWS refuses it there"
    )


def _name_refused(cluster: str) -> str:
    """Explain why a name is refused: CreateSecurityGroup of the EC2 API, GroupName."""
    if not cluster.startswith("sg-"):
        return ""
    return "AWS has no security group whose name begins with sg-, and names of what is made begin with the cluster's"


ACCOUNT = Accounts(
    limits_hint="see the limit in the console of Service Quotas",
    endpoint_variable="AWS_ENDPOINT_URL",
    reservations_console="EC2",
    groups_console="Resource Groups",
    is_group=lambda reservation: reservation.startswith("arn:"),
    coming=("scheduled", "payment-pending", "assessing", "pending"),
    among_machines=("addresses",),  # EC2's own quotas include public addresses
    of_one_zone=("gateways",),
    rights=rights_of,
    statement=statement,
    policy=policy,
    unlimited=lambda caller: caller.endswith(":root"),
)

# Amazon EC2 User Guide, "Resource IDs": 17 digits, and 8 of older resources (read 2026-11-28).
_ID = "[0-9a-f]{8}(?:[0-9a-f]{9})?"

_SESSIONS = (
    "ssm:UpdateInstanceInformation",
    *(f"ssmmessages:{what}{channel}Channel" for what in ("Create", "Open") for channel in ("Control", "Data")),
)


def _rights(plan: Plan) -> tuple[str, ...]:
    """Return the actions of the policies that nodes get: tunnels, logs, buckets, keys, and starts of other nodes."""
    found = [*_SESSIONS]
    if plan.logs.days:
        found += ["logs:CreateLogStream", "logs:PutLogEvents"]
    if any(each.kind == "s3" for each in plan.storage):
        found += ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"]
        found += ["kms:Decrypt", "kms:GenerateDataKey"] if plan.account.key else []
    if any(group.elastic for group in plan.pools):
        found += ["ec2:RunInstances", "ec2:CreateTags", "ec2:TerminateInstances", "ec2:DescribeInstances"]
        found += ["iam:PassRole", "s3:GetObject", "ssm:GetParameter"]
    return tuple(sorted({*found}))


CHOICES = Choices(
    controller_machine="m7i",
    purchases=("on-demand", "spot", "reserved", "block"),
    regions=True,
    zones_begin_with_region=True,
    stamped=True,
    region_apart=_apart,
    name_refused=_name_refused,
    # The ARN identifies a group, the id alone a reservation: CapacityReservationTarget of the EC2 API.
    reservation="cr-[0-9a-f]+|arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/.+",
    reservation_hint="write the id of a reservation or a block, for example cr-0123456789abcdef0, or the ARN "
    "of a group, "
    "like arn:aws:resource-groups:us-east-1:123456789012:group/ours",
    numbers_ports=False,
    storage="file systems",
    subnets=Subnets(
        reserved=5,
        reserved_why="AWS keeps the first four addresses of a subnet and the last one",
        shortest_prefix=16,
        longest_prefix=28,
    ),
    pods=PODS,
    launches=LAUNCHES,
    account=ACCOUNT,
    managed=MANAGED,
    log_days=_LOG_DAYS,
    managed_database=True,
    existing=Existing(
        vpc=f"vpc-{_ID}",
        subnet=f"subnet-{_ID}",
        security_group=f"sg-{_ID}",
        hint="write the id that the console shows, like {}-0123456789abcdef0",
        storage={"fsx-lustre": f"fs-{_ID}", "efs": f"fs-{_ID}", "s3": "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"},
        key=lambda region: f"arn:aws[a-z-]*:kms:{region}:[0-9]{{12}}:key/[a-z0-9-]+",
        without_key=("SCRATCH",),
        boundary="arn:aws[a-z-]*:iam::(?:[0-9]{12}|aws):policy/.+",
        profile="[A-Za-z0-9+=,.@_-]{1,128}",
        rights=_rights,
    ),
    # Amazon EKS User Guide, "Use EKS-optimized accelerated AMIs for GPU instances"; NVIDIA, "NVIDIA GPU Operator with
    # Amazon EKS"; both read 2026-11-24.
    brings={
        **dict.fromkeys(("driver", "toolkit"), "the image that EKS has for nodes with accelerators brings them"),
        "node-monitoring-agent": "EKS has it as an add-on of its own",
    },
    told="AWS Budgets counts what has the tag stampworks:cluster, once who pays has made that a tag for costs; that a "
    "block ends, EC2 says 40 minutes before",
)
