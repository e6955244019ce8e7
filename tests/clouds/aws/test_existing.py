"""A stack on existing parts, as its page declares it: rehearsed in the real engine, and read of a simulated account."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.cli.main import main
from stampworks.declaration import load_file
from stampworks.plan import Plan, existing_parts
from stampworks.planning.clouds.aws import CHOICES
from stampworks.state.facts import known_facts

from tests.clouds.aws.simulated import Simulated
from tests.upgrade.record import program

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "aws-existing.md"
STACK = "existing"
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BOUNDARY = "arn:aws:iam::123456789012:policy/training-boundary"
OF_NETWORKS = {"Vpc", "Subnet", "RouteTable", "Route", "NatGateway", "InternetGateway", "VpcEndpoint", "FlowLog"}
OF_NETWORKS |= {"SecurityGroup", "SecurityGroupIngressRule", "SecurityGroupEgressRule", "DefaultSecurityGroup"}


def example() -> str:
    """The stack file of the page, with an additional FSx file system."""
    [found] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def with_lustre(text: str) -> str:
    more = (
        "      - {name: data, kind: fsx-lustre, existing: fs-0123456789abcdef5, tier: PERSISTENT_2 SSD,\n"
        "         capacity: 9600, mbps_per_tib: 500, mount: /data}\n"
    )
    return text.replace("    storage:\n", f"    storage:\n{more}")


def rehearsed(folder: Path, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Output of a rehearsal, and every call that its providers got."""
    stacks = program(folder) / "stacks"
    (stacks / f"Pulumi.{STACK}.yaml").write_text(text)
    out, record = io.StringIO(), folder / "record.jsonl"
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        main(["rehearse", "-s", STACK, "--record", str(record), "--json"])
    return json.loads(out.getvalue()), [json.loads(line) for line in record.read_text().splitlines()]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if shutil.which("pulumi") is None:
        pytest.fail("no pulumi on PATH: . tools/env.sh")
    return rehearsed(tmp_path_factory.mktemp("existing") / "project", with_lustre(example()))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("plan") / f"Pulumi.{STACK}.yaml"
    file.write_text(with_lustre(example()))
    return planning.plan(load_file(file))


def of(calls: list[dict[str, Any]], call: str, kind: str = "") -> list[Mapping[str, Any]]:
    return [
        each
        for each in calls
        if each["call"] == call
        and each["type"].startswith("aws:")
        and not each.get("preview")
        and each["type"].endswith(f":{kind}" if kind else "")
    ]


@pytest.mark.engine
def test_it_comes_stays_and_goes(found: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    said, _ = found
    phases = {each["name"]: each for each in said["phases"]}
    for name in ("preview", "up", "up again", "refresh", "destroy"):
        assert phases[name]["verdict"] == "pass", name
    assert phases["up again"]["found"] == "0 changes"


@pytest.mark.engine
def test_nothing_of_the_owners_is_made_changed_or_deleted(
    found: tuple[dict[str, Any], list[dict[str, Any]]], plan: Plan
) -> None:
    """No part of the existing network or storage is changed. Only created resources are deleted."""
    _, calls = found
    created = {(each["type"], each["name"]) for each in of(calls, "Create")}
    deleted = {(each["type"], each["name"]) for each in of(calls, "Delete")}
    assert deleted == created
    kinds = {type_.rpartition(":")[2] for type_, _ in created}
    assert not kinds & {*OF_NETWORKS, "Bucket", "LustreFileSystem", "InstanceProfile"} - {"InstanceProfile"}
    assert {each["name"] for each in of(calls, "Create", "FileSystem")} == {"ours-temporary"}
    assert of(calls, "Update") == []
    theirs = {id_ for _, id_ in existing_parts(plan)}
    assert len(theirs) == 11
    written = json.dumps([each for each in calls if each["call"] == "Delete" and each["type"].startswith("aws:")])
    # a resource that names an existing part, as an instance its subnet, is not that part
    assert not [type_ for type_, name in deleted if name in theirs]
    assert "fs-0123456789abcdef5" not in written


@pytest.mark.engine
def test_resources_are_created_in_the_existing_network(found: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    _, calls = found
    [head] = [each["values"] for each in of(calls, "Create", "Instance")]
    assert (head["subnetId"], head["vpcSecurityGroupIds"]) == ("subnet-0123456789abcdef1", ["sg-0123456789abcdef1"])
    [template] = [each["values"] for each in of(calls, "Create", "LaunchTemplate")]
    assert {group for nic in template["networkInterfaces"] for group in nic["securityGroups"]} == {
        "sg-0123456789abcdef1"
    }
    [group] = [each["values"] for each in of(calls, "Create", "Group")]
    assert group["vpcZoneIdentifiers"] == ["subnet-0123456789abcdef1"]
    [target] = [each["values"] for each in of(calls, "Create", "MountTarget")]
    assert (target["subnetId"], target["securityGroups"]) == ("subnet-0123456789abcdef3", ["sg-0123456789abcdef2"])


@pytest.mark.engine
def test_nodes_mount_existing_storage(found: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    said, calls = found
    mounts = said["outputs"]["mounts"]
    assert mounts["/shared"] == "fs-0123456789abcdef1.efs.us-east-1.amazonaws.com:/"
    assert mounts["/raw"] == "s3://our-data"
    assert re.fullmatch(r"fs-[0-9a-f]+\.fsx\.rehearsed-1\.amazonaws\.com@tcp:/\w+", mounts["/data"])
    assert {each["type"] for each in calls if each["call"] == "Read" and not each["values"]} == {
        "aws:fsx/lustreFileSystem:LustreFileSystem"
    }


@pytest.mark.engine
def test_the_terms_are_kept(found: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    """Every disk and file system has the key, every role the path and the boundary; the given profile has no role."""
    _, calls = found
    disks = [each["values"] for kind in ("Volume", "FileSystem") for each in of(calls, "Create", kind)]
    disks += [each["values"]["rootBlockDevice"] for each in of(calls, "Create", "Instance")]
    templates = [each["values"] for each in of(calls, "Create", "LaunchTemplate")]
    disks += [disk["ebs"] for each in templates for disk in each["blockDeviceMappings"]]
    assert len(disks) == 4
    assert {each["kmsKeyId"] for each in disks} == {KEY}
    roles = [each["values"] for each in of(calls, "Create", "Role")]
    assert {(each["path"], each["permissionsBoundary"]) for each in roles} == {("/teams/training/", BOUNDARY)}
    assert {each["name"] for each in of(calls, "Create", "Role")} == {"ours-head"}
    assert [each["values"]["path"] for each in of(calls, "Create", "InstanceProfile")] == ["/teams/training/"]
    assert {each["iamInstanceProfile"]["name"] for each in templates} == {"training-nodes"}


@pytest.mark.engine
def test_a_boundary_is_asked_for_all_that_roles_have(
    found: tuple[dict[str, Any], list[dict[str, Any]]], plan: Plan
) -> None:
    """The rule's list is that of the policies, so that it does not go stale."""
    _, calls = found
    statements = [
        statement
        for each in of(calls, "Create", "RolePolicy")
        for statement in json.loads(each["values"]["policy"])["Statement"]
    ]
    listed = [each["Action"] if isinstance(each["Action"], list) else [each["Action"]] for each in statements]
    assert CHOICES.existing is not None
    assert {action for actions in listed for action in actions} == {*CHOICES.existing.rights(plan)}


# -- facts


@pytest.fixture
def account(environment: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any]]:
    """A declaration whose parts all exist in the account, and the account's data."""
    monkeypatch.chdir(tmp_path)
    ec2, iam = environment.client("ec2"), environment.client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    subnets = {
        name: ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
        for name, cidr in (("nodes", "10.20.0.0/20"), ("storage", "10.20.32.0/24"))
    }
    nat = ec2.create_nat_gateway(SubnetId=subnets["storage"], ConnectivityType="private")["NatGateway"]["NatGatewayId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnets["nodes"])
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=own)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=own)
    efs = environment.client("efs").create_file_system(CreationToken="one")["FileSystemId"]
    environment.client("efs").create_mount_target(FileSystemId=efs, SubnetId=subnets["storage"])
    environment.client("s3").create_bucket(Bucket="our-data")
    lustre = environment.client("fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=9600,
        SubnetIds=[subnets["storage"]],
        LustreConfiguration={"DeploymentType": "PERSISTENT_2"},
        StorageType="SSD",
    )["FileSystem"]["FileSystemId"]
    key = environment.client("kms").create_key()["KeyMetadata"]["Arn"]
    iam.create_instance_profile(InstanceProfileName="training-nodes")
    allowed = {"Effect": "Allow", "Action": ["ssm:*", "ssmmessages:*", "logs:*", "s3:*", "kms:*"], "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    boundary = iam.create_policy(PolicyName="training-boundary", PolicyDocument=document)["Policy"]["Arn"]
    data = yaml.safe_load(with_lustre(example()))["config"]["stampworks:cluster"]
    existing = data["network"]["existing"]
    existing["vpc"], existing["security_groups"] = vpc, {"nodes": group, "storage": group}
    for each in existing["subnets"]:
        each["id"] = subnets[each["purpose"]] if each["zone"] == "us-east-1a" else each["id"]
    storage = {each["name"]: each for each in data["storage"]}
    storage["shared"]["existing"], storage["data"]["existing"] = efs, lustre
    data["account"] |= {"key": key, "permissions_boundary": boundary}
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(data))
    return file, data


def outcomes(file: Path) -> dict[str, set[str]]:
    """Findings about existing parts, after the account was read."""
    main(["facts", str(file)])
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    facts = replace(known_facts(file))
    found: dict[str, set[str]] = {}
    for each in planning.rules(planning.plan(load_file(file)), facts, today):
        if each.id.startswith(("existing.", "tags.")):
            found.setdefault(each.id, set()).add(each.outcome)
    return found


def test_facts_of_sound_parts(account: tuple[Path, dict[str, Any]]) -> None:
    """All are read, as a real client reads them."""
    file, _ = account
    found = outcomes(file)
    assert {id_: said for id_, said in found.items() if said != {"pass"}} == {}
    assert {id_.partition(".")[2] for id_ in found} == {
        *("network", "subnets", "groups", "efa", "room", "egress"),
        *("storage", "key", "profile", "boundary"),
    }


def test_facts_of_wrong_parts(account: tuple[Path, dict[str, Any]], environment: Simulated) -> None:
    """Parts have another network, region or state; missing parts are no error of the reading."""
    file, data = account
    ec2, key = environment.client("ec2"), data["account"]["key"]
    other = ec2.create_vpc(CidrBlock="10.30.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=other, CidrBlock="10.30.0.0/24", AvailabilityZone="us-east-1b")["Subnet"]
    environment.client("kms").disable_key(KeyId=key.rpartition("/")[2])
    environment.client("s3", "eu-west-1").create_bucket(
        Bucket="of-europe", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    data["network"]["existing"]["subnets"][0]["id"] = subnet["SubnetId"]
    data["account"]["instance_profiles"]["nodes"] = "nobodys"
    data["account"]["permissions_boundary"] += "-of-nobody"
    for each in data["storage"]:
        each |= {"existing": "of-europe"} if each["kind"] == "s3" else {}
    group = data["network"]["existing"]["security_groups"]["nodes"]
    own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=own)
    file.write_text(yaml.safe_dump(data))
    found = outcomes(file)
    for id_ in ("subnets", "groups", "efa", "egress", "storage", "key", "profile", "boundary"):
        assert "fail" in found[f"existing.{id_}"], id_


def test_a_tag_policy(account: tuple[Path, dict[str, Any]], environment: Simulated) -> None:
    """The policy is the organisation's, as it applies to the account."""
    file, _ = account
    environment.tag_policy({"tags": {"owner": {"tag_key": "Owner", "enforced_for": ["ec2:instance"]}}})
    assert outcomes(file)["tags.policy"] == {"fail"}
