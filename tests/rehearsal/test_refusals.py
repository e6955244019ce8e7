"""States that a cloud refuses, asked of the provider that answers by AWS's rules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stampworks.rehearsal.engine import Ran
from stampworks.rehearsal.refusals import Living, RefusedState
from stampworks.rehearsal.ruled import Ruled
from stampworks.rehearsal.rules import rules_of
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import encode

from tests.rehearsal.test_ruled import Context

ZONES = ({"availabilityZone": "r-1a"}, {"availabilityZone": "r-1b"})


class Aws:
    """An account without resources."""

    def __init__(self) -> None:
        self.provider = Ruled(rules_of, "7.51.1")

    def create(self, kind: str, name: str, **inputs: Any) -> str:
        request = pb.CreateRequest(urn=f"urn:pulumi:dev::trial::aws:{kind}::{name}", properties=encode(inputs))
        return str(asyncio.run(self.provider.Create(request, Context())).id)  # type: ignore[arg-type]

    def update(self, kind: str, id_: str, **inputs: Any) -> None:
        request = pb.UpdateRequest(urn=f"urn:pulumi:dev::trial::aws:{kind}::{id_}", id=id_, news=encode(inputs))
        asyncio.run(self.provider.Update(request, Context()))  # type: ignore[arg-type]

    def delete(self, kind: str, id_: str) -> None:
        request = pb.DeleteRequest(urn=f"urn:pulumi:dev::trial::aws:{kind}::{id_}", id=id_)
        asyncio.run(self.provider.Delete(request, Context()))  # type: ignore[arg-type]

    def subnet(self, name: str, vpc: str, cidr: str, **more: str) -> str:
        return self.create("ec2/subnet:Subnet", name, vpcId=vpc, cidrBlock=cidr, **more)


@pytest.fixture
def aws() -> Aws:
    return Aws()


def test_two_ranges_of_a_network_do_not_overlap(aws: Aws) -> None:
    """Equal, larger and smaller ranges are refused, unless they are in another network or the first one was deleted."""
    first = aws.subnet("nodes", "vpc-1", "10.0.0.0/17")
    for cidr in ("10.0.0.0/17", "10.0.0.0/16", "10.0.127.0/24"):
        with pytest.raises(RuntimeError, match=r"FAILED_PRECONDITION: rehearsed: InvalidSubnet\.Conflict: the range"):
            aws.subnet("nodes", "vpc-1", cidr)
    aws.subnet("storage", "vpc-1", "10.0.128.0/17")
    aws.subnet("nodes", "vpc-2", "10.0.0.0/17")
    aws.delete("ec2/subnet:Subnet", first)
    aws.subnet("nodes", "vpc-1", "10.0.0.0/17")


def test_an_address_serves_one_gateway(aws: Aws) -> None:
    gateway = aws.create("ec2/natGateway:NatGateway", "a", allocationId="eipalloc-1", subnetId="subnet-1")
    with pytest.raises(RuntimeError, match=r"Resource\.AlreadyAssociated: the address is in use"):
        aws.create("ec2/natGateway:NatGateway", "a", allocationId="eipalloc-1", subnetId="subnet-2")
    for name in ("b", "c"):  # private ones have no address
        aws.create("ec2/natGateway:NatGateway", name, subnetId="subnet-2")
    aws.delete("ec2/natGateway:NatGateway", gateway)
    aws.create("ec2/natGateway:NatGateway", "a", allocationId="eipalloc-1", subnetId="subnet-2")


@pytest.mark.parametrize(
    ("vpc", "zone", "error"),
    [
        ("vpc-1", 1, ""),
        ("vpc-2", 1, "MountTargetConflict: the file system has mount targets in another VPC"),
        ("vpc-1", 0, "MountTargetConflict: the file system has a mount target in this zone"),
    ],
)
def test_mount_targets_are_in_one_network_and_one_in_a_zone(aws: Aws, vpc: str, zone: int, error: str) -> None:
    first = aws.subnet("a", "vpc-1", "10.0.0.0/24", **ZONES[0])
    other = aws.subnet("b", vpc, "10.0.1.0/24", **ZONES[zone])
    made = aws.create("efs/mountTarget:MountTarget", "a", fileSystemId="fs-1", subnetId=first)
    aws.create("efs/mountTarget:MountTarget", "other", fileSystemId="fs-2", subnetId=other)
    if not error:
        aws.create("efs/mountTarget:MountTarget", "b", fileSystemId="fs-1", subnetId=other)
        return
    with pytest.raises(RuntimeError, match=error):
        aws.create("efs/mountTarget:MountTarget", "b", fileSystemId="fs-1", subnetId=other)
    aws.delete("efs/mountTarget:MountTarget", made)
    aws.create("efs/mountTarget:MountTarget", "b", fileSystemId="fs-1", subnetId=other)


@pytest.mark.parametrize("copies", [True, False])
def test_a_data_repository_comes_without_tags_on_backups(aws: Aws, copies: bool) -> None:
    """AWS describes the tags as not available for such a file system."""
    kind, more = (
        "fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        {"copyTagsToBackups": True} if copies else {},
    )
    made = aws.create("fsx/lustreFileSystem:LustreFileSystem", "data", **more)
    if not copies:
        aws.create(kind, "data", fileSystemId=made)
        return
    with pytest.raises(RuntimeError, match="CopyTagsToBackups is not available for a file system with a data"):
        aws.create(kind, "data", fileSystemId=made)


def test_a_subnet_that_the_stack_only_uses_refuses_nothing(aws: Aws) -> None:
    """Its network is unknown."""
    for name in ("subnet-1", "subnet-2"):
        aws.create("efs/mountTarget:MountTarget", name, fileSystemId="fs-1", subnetId=name)


@pytest.mark.parametrize(
    ("kind", "inputs", "moved", "error"),
    [
        (
            "ec2/internetGateway:InternetGateway",
            {"vpcId": "vpc-1"},
            {"vpcId": "vpc-2"},
            "DependencyViolation: the network has mapped public addresses",
        ),
        (
            "autoscaling/group:Group",
            {"vpcZoneIdentifiers": ["subnet-1"]},
            {"vpcZoneIdentifiers": ["subnet-2"]},
            "members of the group stay in its old subnet",
        ),
        (
            "eks/cluster:Cluster",
            {"vpcConfig": {"subnetIds": ["subnet-1", "subnet-2"], "endpointPublicAccess": False}},
            {"vpcConfig": {"subnetIds": ["subnet-3", "subnet-4"], "endpointPublicAccess": False}},
            "the subnets must be in the cluster's own VPC and zones",
        ),
        (
            "rds/subnetGroup:SubnetGroup",
            {"subnetIds": ["subnet-1", "subnet-2"]},
            {"subnetIds": ["subnet-3", "subnet-4"]},
            "SubnetAlreadyInUse: a database uses the subnet",
        ),
    ],
)
def test_immovable_resources_refuse_an_update(
    aws: Aws, kind: str, inputs: dict[str, Any], moved: dict[str, Any], error: str
) -> None:
    """Updates of other properties pass."""
    made = aws.create(kind, "a", **inputs)
    aws.update(kind, made, **inputs, tags={"a": "b"})
    with pytest.raises(RuntimeError, match=error):
        aws.update(kind, made, **moved)


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ({"deploymentType": "SCRATCH_2"}, True),
        ({"deploymentType": "PERSISTENT_2"}, False),
        ({"deploymentType": "PERSISTENT_2", "metadataConfiguration": {"mode": "AUTOMATIC"}}, False),
    ],
)
def test_the_provider_keeps_settings_of_metadata(aws: Aws, after: dict[str, Any], refused: bool) -> None:
    """It refuses to plan a file system that may have no metadata configuration, although the program removes it."""
    before = {"deploymentType": "PERSISTENT_2", "metadataConfiguration": {"mode": "USER_PROVISIONED", "iops": 6000}}
    urn = "urn:pulumi:dev::trial::aws:fsx/lustreFileSystem:LustreFileSystem::data"
    request = pb.DiffRequest(urn=urn, old_inputs=encode(before), news=encode(after))
    asked = aws.provider.Diff(request, Context())  # type: ignore[arg-type]
    if not refused:
        asyncio.run(asked)
        return
    with pytest.raises(RuntimeError, match="plans no such change: metadata_configuration can only be set when"):
        asyncio.run(asked)


def test_a_preview_refuses_nothing(aws: Aws) -> None:
    """It creates nothing, and ids of new networks are unknown."""
    urn = "urn:pulumi:dev::trial::aws:ec2/subnet:Subnet::a"
    aws.subnet("a", "vpc-1", "10.0.0.0/24")
    properties = encode({"vpcId": "vpc-1", "cidrBlock": "10.0.0.0/24"})
    request = pb.CreateRequest(urn=urn, properties=properties, preview=True)
    asyncio.run(aws.provider.Create(request, Context()))  # type: ignore[arg-type]


def test_a_cloud_refuses_half_way() -> None:
    """A provider that plans no change refuses before anything is made, as the engine does."""

    def refused(message: str, urn: str = "urn") -> str:
        return Ran(1, [{"diagnosticEvent": {"severity": "error", "message": message, "urn": urn}}], "").refused_by

    assert refused("rehearsed: InvalidSubnet.Conflict: the range conflicts") == "the cloud, half-way"
    assert refused("the provider plans no such change: no") == "the engine"
    assert refused("no budget", urn="") == "the stack's own program"


def test_every_kind_of_refused_state_is_one_that_is_known() -> None:
    """An unknown state in the data would refuse nothing."""
    states = [state for rule in rules_of("aws").types.values() for state in rule.refuses]
    assert {state.kind for state in states} == {"apart", "alone", "together", "stays", "without", "kept"}
    assert all(state.paths and state.error for state in states)
    known = Living({("a", "1"): {"at": 1}})
    assert known.refused((RefusedState("alone", ("at",), "taken"),), "a", "2", {"at": 1}) == "taken"
    assert known.refused((RefusedState("alone", ("at",), "taken"),), "b", "2", {"at": 1}) == ""
