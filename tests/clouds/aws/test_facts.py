"""`stampworks facts -s STACK`: read facts, unknown facts, and allowed requests."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
from stampworks import catalog, planning
from stampworks.catalog import known_nics
from stampworks.cli.main import main
from stampworks.clouds.aws import session
from stampworks.clouds.aws.facts import account as reading
from stampworks.clouds.aws.session import Api
from stampworks.clouds.aws.tags import identity_parameter, key_parameter
from stampworks.cluster import plan_of_stack
from stampworks.declaration import Lock, LockedImage, load_file, lock_file, lock_text
from stampworks.plan import Plan
from stampworks.planning import Facts
from stampworks.planning.clouds.aws import PODS
from stampworks.planning.clouds.aws_rights import rights_of
from stampworks.planning.rules.account import FACTS, Account
from stampworks.state.facts import known_facts

from tests.clouds.aws.simulated import Simulated

ROOT = Path(__file__).parents[3]
DECLARED = """\
version: 1
name: test
cloud: aws
region: us-east-1
network: {egress: none}
pools: [{name: gpu, machine: p5, count: 2, zone: us-east-1a, purchase: reserved, reservation: cr-1}]
"""
PARAMETER = "/aws/service/debian/release/13/latest/amd64"
QUOTAS = ("ec2", "Running On-Demand P instances", 384), ("vpc", "VPCs per Region", 5), ("fsx", "Lustre backups", 500)

pytestmark = pytest.mark.usefixtures("environment")
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.yaml").write_text(DECLARED)
    return tmp_path / "test.yaml"


@pytest.fixture
def facts(declared: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the verb: exit code, stdout, stderr."""

    def call(*options: str) -> tuple[int, str, str]:
        return main(["facts", "test.yaml", *options]), *capsys.readouterr()

    return call


@pytest.fixture
def full(aws: Simulated, declared: Path) -> Simulated:
    """An account with something of everything, and a lock."""
    for service, name, value in QUOTAS:
        aws.quota(service, name, value)
    aws.reserve("cr-1", TotalInstanceCount=2, EndDate=datetime.datetime(2030, 1, 2, 11, 30, tzinfo=datetime.UTC))
    image = aws.publish(PARAMETER, creation_date=datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC))
    lock = Lock("us-east-1", {PARAMETER: LockedImage(image, "debian", "2026-11-02")})
    lock_file(declared).write_text(lock_text(lock))
    return aws


def account(declared: Path) -> Account:
    found = known_facts(declared).account
    assert found is not None
    return found


def started(aws: Simulated, type_: str, count: int = 1, region: str = "us-east-1", **fields: Any) -> list[str]:
    image = aws.publish(f"/test/{type_}", region=region)
    found = aws.client("ec2", region).run_instances(
        ImageId=image, InstanceType=type_, MinCount=count, MaxCount=count, **fields
    )
    return [each["InstanceId"] for each in found["Instances"]]


def tagged(kind: str, name: str = "", cluster: str = "test") -> dict[str, Any]:
    tags = [{"Key": "stampworks:cluster", "Value": cluster}, {"Key": "Name", "Value": name}]
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]}


def test_an_account(full: Simulated, declared: Path, facts: Call) -> None:
    """Every fact is known, is stored next to the declaration, and has the time of its reading."""
    code, said, _ = facts()
    assert code == 0
    assert said.splitlines()[0] == "test.facts.json: account 123456789012 in us-east-1, 32 of 32 facts"
    found = account(declared)
    assert (found.cluster, {each.fact for each in found.readings}) == ("test", {*FACTS})
    assert found.elsewhere == full.url
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert {each.at[:10] for each in found.readings} == {today}
    offers = {one.instance_type: one.zones for one in found.offers or ()}
    assert set(offers) == {"m7i.2xlarge", "p5.48xlarge"}
    assert "us-east-1a" in offers["p5.48xlarge"]
    [one] = found.reservations or ()
    assert (one.id, one.instance_type, one.total, one.ends, one.own) == ("cr-1", "p5.48xlarge", 2, "2030-01-02", True)
    [image] = found.images or ()
    [newest] = found.newest or ()
    assert (image.architecture, newest.image) == ("x86_64", image.id)
    p5 = next(one for one in found.described or () if one.instance_type == "p5.48xlarge")
    assert (p5.vcpus, p5.cards, p5.fabric_interfaces) == (192, 32, 32)
    assert {one.name for one in found.services or ()} >= {"s3", "ec2", "sts"}


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://key:secret@aws.test:4566/path?token=secret", "https://aws.test:4566"),
        ("https://vpce-1.ec2.us-east-1.vpce.amazonaws.com", ""),
        ("https://ec2.us-east-1.amazonaws.com.test", "https://ec2.us-east-1.amazonaws.com.test"),
    ],
)
def test_names_another_endpoint_without_secrets(url: str, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is shown without possible secrets."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    api = Api("us-east-1")
    api._client("ec2")
    assert api.elsewhere == kept


def test_the_plan_is_held_against_it(full: Simulated, declared: Path, facts: Call) -> None:
    """Rules use the facts that were read."""
    facts()
    plan = planning.plan(load_file(declared))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    findings = {(each.id, each.subject): each.outcome for each in planning.rules(plan, known_facts(declared), today)}
    assert findings["account", ""] == "warn"  # the answer did not come from AWS
    assert findings["placement.offers", "gpu"] == "pass"
    assert findings["purchase.reservation", "gpu"] == "pass"
    assert findings["machine.interfaces", "gpu"] == "pass"
    assert findings["quota", "Running On-Demand P instances"] == "pass"
    assert [outcome for (id_, _), outcome in findings.items() if id_ == "image.there"] == ["pass"]


def test_plan_and_facts_as_one_types_them(
    full: Simulated, declared: Path, facts: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """A zone that lacks the machine is a no, with the zones that have it."""
    declared.write_text(DECLARED.replace("us-east-1a", "us-east-1b").replace("p5,", "p5en,").replace("cr-1", "cr-2"))
    facts()
    assert main(["plan", "test.yaml"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "us-east-1b has no p5en.48xlarge for gpu; in us-east-1 it is in us-east-1a, us-east-1c" in said
    assert "us-east-1 has no reservation cr-2 for this account" in said


def test_an_up_is_refused_at_the_lines_that_are_wrong(
    full: Simulated, declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are reported at once, as any other mistake, before anything is created."""
    text = DECLARED.replace("us-east-1a", "us-east-1b").replace("p5,", "p5en,").replace("cr-1", "cr-2")
    stack = declared.with_name("Pulumi.test.yaml")
    stack.write_text(f"config:\n  stampworks:cluster:\n{textwrap.indent(text, '    ')}")
    assert main(["facts", "Pulumi.test.yaml"]) == 0
    monkeypatch.setattr(pulumi, "get_stack", lambda: "test")
    monkeypatch.setattr(pulumi.runtime, "get_root_directory", lambda: str(declared.parent))
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", said.append)
    with pytest.raises(SystemExit):
        plan_of_stack(declared.parent)
    lines = [line for line in said[0].splitlines() if line and not line.startswith("    ")]
    quota = (
        "Running On-Demand P instances in us-east-1: 2 x 192 (gpu) = 384 needed; the limit is 384, and 384 are taken"
    )
    zone = "us-east-1b has no p5en.48xlarge for gpu; in us-east-1 it is in us-east-1a, us-east-1c"
    assert lines == [
        f"Pulumi.test.yaml:8:5: pools: {quota} (quota)",
        "  hint: ask the cloud for 384 more, or take nodes out",
        f"Pulumi.test.yaml:8:56: pools[0].zone: {zone} (placement.offers)",
        "  hint: write one of the zones us-east-1a, us-east-1c",
        "Pulumi.test.yaml:8:101: pools[0].reservation: us-east-1 has no reservation cr-2 for this account "
        "(purchase.reservation)",
        "  hint: write one that exists; the console of EC2 lists them",
        "Pulumi.test.yaml:7:23: network.egress: nodes have no way to the internet and boot the distribution's "
        "image, so that they can install nothing (image.prepared)",
        "  hint: write egress: nat, or make an image that has the release, and lock that, as "
        "docs/how-to/aws-images.md says",
        "4 problems in Pulumi.test.yaml: nothing was changed.",
    ]


def test_counts_running_instances_of_others(aws: Simulated, declared: Path, facts: Call) -> None:
    """Instances are counted by kind and purchase, without the cluster's own and ended ones."""
    started(aws, "p5.48xlarge", 3)
    started(aws, "p5.48xlarge", 2, **tagged("instance"))
    aws.client("ec2").terminate_instances(InstanceIds=started(aws, "g6.8xlarge"))
    facts()
    found = account(declared)
    assert [(one.instance_type, one.spot, one.count) for one in found.running or ()] == [("p5.48xlarge", False, 3)]
    assert found.node_addresses == 2


def test_interfaces_of_others(aws: Simulated, declared: Path, facts: Call) -> None:
    """All interfaces count towards the account's limit."""
    ec2 = aws.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    for more in (tagged("network-interface"), tagged("network-interface", cluster="other"), {}):
        ec2.create_network_interface(SubnetId=subnet, **more)
    facts()
    assert account(declared).interfaces == 2


def test_counts_node_addresses_in_the_subnet(
    aws: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses count on each interface, except EFA-only ones, and with EKS's prefixes for pods."""
    own = {"PrivateIpAddresses": [{"PrivateIpAddress": "10.77.0.4"}]}
    pods = {**own, "Ipv4Prefixes": [{"Ipv4Prefix": "10.77.0.16/28"}, {"Ipv4Prefix": "10.77.0.32/28"}]}
    cluster = [{"Key": "stampworks:cluster", "Value": "test"}]
    node = {"InstanceId": "i-1", "InstanceType": "p5.48xlarge", "Tags": cluster}
    there = [{**node, "NetworkInterfaces": nics} for nics in ([pods, own], [own, {"PrivateIpAddresses": []}])]

    def ask(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        if action == "ec2:DescribeInstances":
            return {"Reservations": [{"Instances": [*there, {**node, "Tags": []}]}]}
        return asked(self, action, **parameters)

    asked = Api.ask
    monkeypatch.setattr(Api, "ask", ask)
    facts()
    assert account(declared).node_addresses == 2 + 2 * 16 + 1


def test_the_network_that_is_there(aws: Simulated, declared: Path, facts: Call) -> None:
    """The facts list subnets, their use and routes; networks of others are counted."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16", **tagged("vpc", "test-network"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(
        VpcId=vpc, CidrBlock="10.77.0.0/28", AvailabilityZone="us-east-1a", **tagged("subnet", "test-nodes")
    )["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=vpc, **tagged("route-table"))["RouteTable"]["RouteTableId"]
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        ServiceName="com.amazonaws.us-east-1.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[table],
        **tagged("vpc-endpoint"),
    )
    gateway = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"]["NatGatewayId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
    facts()
    found = account(declared)
    [nodes] = found.subnets or ()
    assert (nodes.name, nodes.zone, nodes.public) == ("nodes", "us-east-1a", False)
    assert nodes.free <= 11
    assert (found.endpoints, found.ways_out) == (("s3",), ("nat",))
    assert (found.networks, found.gateways) == (1, 1)  # the default one; the gateway carries no tag


def test_nodes_and_their_places(aws: Simulated, declared: Path, facts: Call) -> None:
    """Nodes are listed by the tags of their joining; placement groups of others are counted."""
    ec2 = aws.client("ec2")
    for group, place in (("gpu", "top spine-1 leaf-1"), ("gpu", "top spine-2 leaf-2"), ("gpu", ""), ("head", "")):
        tags = {"cluster": "test", "group": group, **({"places": place} if place else {})}
        told = [{"Key": f"stampworks:{key}", "Value": value} for key, value in tags.items()]
        started(aws, "p5.48xlarge", TagSpecifications=[{"ResourceType": "instance", "Tags": told}])
    ec2.create_placement_group(GroupName="theirs", Strategy="cluster")
    ec2.create_placement_group(GroupName="ours", Strategy="cluster", **tagged("placement-group"))
    facts()
    found = account(declared)
    assert [(one.group, one.nodes, one.switches) for one in found.spreads or ()] == [("gpu", 2, (1, 2, 2))]
    assert found.placement_groups == 1


def test_file_systems_of_others(aws: Simulated, declared: Path, facts: Call) -> None:
    subnets = [aws.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]]
    for tags in ([{"Key": "owner", "Value": "others"}], [{"Key": "stampworks:cluster", "Value": "test"}]):
        aws.client("fsx").create_file_system(
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=subnets,
            LustreConfiguration={"DeploymentType": "SCRATCH_2"},
            Tags=tags,
        )
    facts()
    assert [(one.kind, one.gib) for one in account(declared).file_systems or ()] == [("SCRATCH_2", 1200)]


ARN = "arn:aws:resource-groups:us-east-1:123456789012:group/ours"
GROUPS = "resource-groups:POST /list-group-resources"
"""Path of ListGroupResources, as the simulation sees it."""
PATHS = {
    GROUPS: "resource-groups:ListGroupResources",
    "elasticfilesystem:GET /2015-02-01/file-systems": "elasticfilesystem:DescribeFileSystems",
    "elasticfilesystem:GET /2015-02-01/mount-targets": "elasticfilesystem:DescribeMountTargets",
    "s3:GET /our-data": "s3:GetBucketLocation",
}
"""All such paths, by the name of their action in a policy."""


def with_existing(aws: Simulated) -> str:
    """A declaration with existing parts of every kind, which are in the account as far as more is read of them."""
    vpc = aws.client("ec2").create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    zone, cidrs = {"VpcId": vpc, "AvailabilityZone": "us-east-1a"}, ("10.77.0.0/24", "10.77.1.0/24")
    subnets = [aws.client("ec2").create_subnet(CidrBlock=cidr, **zone)["Subnet"]["SubnetId"] for cidr in cidrs]
    efs = aws.client("efs").create_file_system(CreationToken="shared")["FileSystemId"]
    lustre = aws.client("fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=subnets[:1],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]
    document = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
    limits = aws.client("iam").create_policy(PolicyName="limits", PolicyDocument=document)["Policy"]["Arn"]
    one = zip(("nodes", "storage"), subnets, cidrs, strict=True)
    listed = "".join(
        f"      - {{purpose: {purpose}, zone: us-east-1a, id: {id_}, cidr: {cidr}}}\n" for purpose, id_, cidr in one
    )
    return DECLARED.replace("cr-1", ARN).replace(
        "network: {egress: none}\n",
        f"""\
network:
  egress: none
  existing:
    vpc: {vpc}
    subnets:
{listed}\
    security_groups: {{nodes: sg-0123456789abcdef1, storage: sg-0123456789abcdef1}}
account:
  key: arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab
  permissions_boundary: {limits}
  instance_profiles: {{head: ours}}
tags: [{{name: owner, value: research}}]
storage:
  - {{name: data, kind: fsx-lustre, tier: SCRATCH_2, capacity: 1200, existing: {lustre}, mount: /data}}
  - {{name: shared, kind: efs, tier: regional, existing: {efs}, mount: /shared}}
  - {{name: raw, kind: s3, existing: our-data, mount: /raw}}
""",
    )


def test_denied_actions_make_facts_unknown(full: Simulated, declared: Path, facts: Call) -> None:
    """Each unknown fact names the denied action. Facts of other actions and the caller's identity stay known."""
    declared.write_text(with_existing(full))
    for action in {*reading.actions(), *PATHS} - {reading.WHO}:
        full.fail(action, "UnauthorizedOperation", "You are not authorized.", status=403)
    code, said, _ = facts()
    found = account(declared)
    assert (code, said.splitlines()[0]) == (3, "test.facts.json: account 123456789012 in us-east-1, 1 of 32 facts")
    for fact in reading.FACTS:
        if fact.name == "launches":  # a denied launch is the fact
            assert {one.outcome for one in found.launches or ()} <= {"refused", "not tried"}
            continue
        assert getattr(found, fact.name) is None
        why = found.why(fact.name)
        assert re.match(rf"({'|'.join(fact.actions)}): not permitted \(", why), fact.name
        assert re.search(rf"^  {fact.name} +unknown: {re.escape(why)}$", said, re.MULTILINE)


@pytest.mark.parametrize(("code", "status"), [("NotFoundException", 404), ("BadRequestException", 400)])
def test_a_group_that_is_not_there(full: Simulated, declared: Path, facts: Call, code: str, status: int) -> None:
    """A missing group is an error at its pool, and does not affect the next pool."""
    other = f"{{name: more, machine: p5, count: 2, zone: us-east-1a, purchase: reserved, reservation: '{ARN}'}}"
    declared.write_text(DECLARED.replace("cr-1}]", f"cr-1}}, {other}]"))
    full.fail(GROUPS, code, "One or more of the specified resources don't exist.", status=status)
    assert facts()[0] == 0
    assert [(one.name, one.reservations) for one in account(declared).reservation_groups or ()] == [(ARN, None)]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    findings = planning.rules(planning.plan(load_file(declared)), known_facts(declared), today)
    assert [(each.subject, each.outcome, each.place) for each in findings if each.id == "purchase.reservation"] == [
        ("gpu", "pass", "pools[0].reservation"),
        ("more", "fail", "pools[1].reservation"),
    ]


def test_refused_facts_leave_other_facts_known(full: Simulated, declared: Path, facts: Call) -> None:
    """Refused actions, limits, hiccups and pages of other servers have their reasons, and other facts are known."""
    full.fail("ec2:DescribeInstanceTypeOfferings", "RequestLimitExceeded", status=503)
    full.fail("ec2:DescribeNatGateways", "500", "<!doctype html>", status=500)
    full.fail("ec2:DescribeAddresses", "InvalidParameterValue", "no such value")
    full.fail("ec2:DescribeSubnets", "UnauthorizedOperation", "not you", status=403)
    assert facts()[0] == 3
    assert {each.fact: each.why for each in account(declared).readings if each.why} == {
        "offers": "ec2:DescribeInstanceTypeOfferings: AWS throttles requests (RequestLimitExceeded)",
        "gateways": "ec2:DescribeNatGateways: not available: HTTP 500",
        "addresses": "ec2:DescribeAddresses: InvalidParameterValue: no such value",
        "subnets": "ec2:DescribeSubnets: not permitted (UnauthorizedOperation: not you)",
        "launches": "ec2:DescribeSubnets: not permitted (UnauthorizedOperation: not you)",
    }


def test_a_page_that_is_no_answer(full: Simulated, declared: Path, facts: Call) -> None:
    """moto answers an unsupported action with HTML, as a proxy might."""
    full.fail("servicequotas:ListServiceQuotas", "<html>", status=200)
    facts()
    assert account(declared).why("machine_limits").startswith("servicequotas:ListServiceQuotas: ")
    assert account(declared).machine_limits is None


def test_a_service_that_is_silent_is_asked_once(
    full: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute of silence is enough: its other facts have the same reason, and other services are asked."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SERVICE_QUOTAS", "http://127.0.0.1:1")
    asked: list[str] = []
    ask = Api.ask

    def counted(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        asked.append(action)
        return ask(self, action, **parameters)

    monkeypatch.setattr(Api, "ask", counted)
    assert facts()[0] == 3
    assert asked.count("servicequotas:ListServiceQuotas") == 1
    found = account(declared)
    whys = {found.why(fact) for fact in ("machine_limits", "network_limits", "storage_limits")}
    assert whys == {
        'servicequotas:ListServiceQuotas: no answer: Could not connect to the endpoint URL: "http://127.0.0.1:1/"'
    }
    assert [each.fact for each in found.readings if each.why] == ["machine_limits", "network_limits", "storage_limits"]


def test_an_answer_of_another_shape(
    full: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing field makes the fact unknown, without a traceback."""

    def ask(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        return {"NatGateways": [{}]} if action == "ec2:DescribeNatGateways" else asked(self, action, **parameters)

    asked = Api.ask
    monkeypatch.setattr(Api, "ask", ask)
    assert facts()[0] == 3
    assert account(declared).why("gateways") == ("ec2:DescribeNatGateways: the answer cannot be read: KeyError 'State'")


def test_unreachable_account_keeps_earlier_facts(
    full: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts that were read before are left as they were."""
    facts()
    before = (declared.parent / "test.facts.json").read_text()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    code, out, said = facts()
    assert (code, out) == (3, "")
    assert "test.yaml:4:9: region: the account in us-east-1 was not read: sts:GetCallerIdentity: " in said
    assert f"hint: {session.SIGN_IN}" in said
    assert (declared.parent / "test.facts.json").read_text() == before


def test_a_file_that_holds_no_facts(declared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file and the remedy; no plan uses a part of it."""
    (declared.parent / "test.facts.json").write_text("{}")
    assert main(["plan", "test.yaml"]) == 2
    assert capsys.readouterr().err.splitlines()[:2] == [
        "test.facts.json: holds no facts: Account: lacks version, cloud, account, region, cluster, elsewhere, "
        "deployer, readings",
        "  hint: `stampworks facts -s STACK` reads them again",
    ]


def test_a_cloud_whose_accounts_nobody_reads(declared: Path, facts: Call) -> None:
    declared.write_text("version: 1\nname: test\ncloud: local\npools: [{name: gpu, machine: sim-h100, count: 2}]\n")
    code, _, said = facts()
    assert (code, said.splitlines()) == (
        2,
        ["test.yaml: accounts of local cannot be read yet", "  hint: `stampworks facts` alone measures this machine"],
    )


def test_the_policy_is_what_is_asked(full: Simulated, declared: Path, facts: Call) -> None:
    """The shipped policy, the table and the recorded requests name the same actions, apart from those of an EKS lock
    and AWS's own calls."""
    shipped = json.loads((ROOT / "docs" / "reference" / "aws-facts-policy.json").read_text())
    assert shipped == reading.policy()
    declared.write_text(with_existing(full))
    started(full, "p5.48xlarge", **tagged("instance"))
    full.calls.clear()
    facts()
    called = {PATHS.get(each, each) for each in full.calls}
    read, published = shipped["Statement"]
    called |= {"eks:DescribeAddonVersions", "iam:GetRole"}  # for a lock, and for a role
    assert called == {*reading.actions()}
    permitted = {*read["Action"], published["Action"]}
    assert called - permitted == {"ec2:RunInstances"}  # a dry run: its answer is the fact
    assert permitted - called == {*reading.BEHIND, "sts:DecodeAuthorizationMessage"}
    assert all(re.fullmatch(r"[a-z0-9-]+:(Decode|Describe|Get|List|Simulate)[A-Za-z]+", each) for each in permitted)


def test_facts_policy_reads_no_keys(full: Simulated, declared: Path, facts: Call) -> None:
    """Host keys of nodes are parameters, too, but facts never need parameters of the account."""
    [permitted] = {each["Resource"] for each in reading.policy()["Statement"] if "ssm:GetParameter" in each["Action"]}
    beginning = permitted.removeprefix("arn:*:ssm:*:*:parameter").removesuffix("*")
    assert beginning.startswith("/aws/")
    plan = planning.plan(load_file(declared))
    assert all(group.launch.published_image.startswith(beginning) for group in plan.groups if group.launch)
    for name in (identity_parameter("c"), key_parameter("c")):
        assert not name.startswith(beginning)


def test_each_fact_asks_what_the_table_says(full: Simulated, declared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's actions are complete, so that a refusal can be attributed to its fact."""
    declared.write_text(with_existing(full))
    started(full, "p5.48xlarge", **tagged("instance"))
    plan = planning.plan(load_file(declared))
    api = Api(plan.region)
    for fact in reading.FACTS:
        full.calls.clear()
        with contextlib.suppress(session.AwsUnansweredError):  # moto has no such group
            fact.read(asking(plan, api))
        called = {PATHS.get(each, each) for each in full.calls}
        assert called == {*fact.actions} - OTHERWISE.get(fact.name, set()), fact.name


OTHERWISE = {"rights": {"iam:GetRole"}, "launches": {"ec2:DescribeSubnets"}}
"""Actions that a fact calls otherwise: for a role, and for a stack without an existing network."""


def asking(plan: Plan, api: Api) -> reading.AccountQuestion:
    user = "arn:aws:iam::123456789012:user/deployer"
    return reading.AccountQuestion(plan, api, "123456789012", user, rights_of(plan), user)


def test_the_table_has_every_fact_of_the_planner() -> None:
    assert sorted(fact.name for fact in reading.FACTS) == sorted(FACTS)


MACHINES = [each for each in catalog.machines().values() if each.cloud == "aws"]


def test_the_catalog_agrees_with_what_aws_says(aws: Simulated) -> None:
    """Numbers used by plans agree for each machine of which the simulation has real data."""
    types = {machine.aliases[0]: machine for machine in MACHINES}
    filters = [{"Name": "instance-type", "Values": sorted(types)}]
    found = {
        one["InstanceType"]: one
        for one in Api("us-east-1").ask("ec2:DescribeInstanceTypes", Filters=filters)["InstanceTypes"]
    }
    assert {machine.name for type_, machine in types.items() if type_ not in found} == {"p6e-gb200"}
    for type_, one in found.items():
        machine, network = types[type_], one["NetworkInfo"]
        assert known_nics(machine) == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0), type_
        assert max(catalog.fabric_cards(machine), default=0) < network["MaximumNetworkCards"], type_
        assert machine.quota_units == one["VCpuInfo"]["DefaultVCpus"], type_
        assert (machine.cores, machine.threads) == (
            one["VCpuInfo"]["DefaultCores"],
            one["VCpuInfo"]["DefaultThreadsPerCore"],
        ), type_
        assert machine.memory_mib == one["MemoryInfo"]["SizeInMiB"], type_
        disks = [(each["Count"], each["SizeInGB"]) for each in one.get("InstanceStorageInfo", {}).get("Disks", ())]
        assert [(machine.local_nvme.count, machine.local_nvme.gb)] == (disks or [(0, 0)]), type_
        if "GpuInfo" in one:
            assert [machine.accelerators] == [each["Count"] for each in one["GpuInfo"]["Gpus"]], type_
        # enough for the largest declared number of pods, all on the first interface
        prefixes = PODS.node_addresses(110) // 16
        assert network["Ipv4AddressesPerInterface"] > prefixes, type_
        assert catalog.architecture(machine) in one["ProcessorInfo"]["SupportedArchitectures"], type_
        assert machine.quota_family == catalog.machine_limit("aws", type_, spot=False), type_


def test_facts_of_a_plan_alone(tmp_path: Path) -> None:
    """A plan's file has no facts beside it."""
    assert known_facts() == Facts(loopback_mbps=known_facts().loopback_mbps)
