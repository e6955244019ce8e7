"""EKS in the place of Slurm, in the real engine with providers that only record: what it is, and what nobody can do."""

from __future__ import annotations

import base64
import email
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.clouds.aws import access
from stampworks.clouds.aws.errors import AwsError
from stampworks.declaration import DeclarationError, load_stack, load_value
from stampworks.plan import Plan
from stampworks.planning import Facts
from stampworks.schedulers import kubernetes

from .conftest import EKS, ROOT, Rehearse, Rehearsed
from .simulated import REGION, Simulated

DAY = "2026-11-24"


@pytest.fixture
def rehearsed(rehearse: Rehearse) -> Rehearsed:
    return rehearse(EKS)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planning.plan(load_stack(EKS, ROOT / "stacks"))


@pytest.fixture
def cluster(rehearsed: Rehearsed) -> Mapping[str, Any]:
    [made] = rehearsed.of("Cluster")
    return made


def told(template: Mapping[str, Any]) -> dict[str, Any]:
    """What a node is told at its first boot."""
    message: Any = email.message_from_string(base64.b64decode(template["userData"]).decode())
    [part] = message.get_payload()
    assert part.get_content_type() == "application/node.eks.aws"
    found: dict[str, Any] = yaml.safe_load(part.get_payload())
    return found


@pytest.mark.engine
def test_its_server_is_for_the_cluster_s_network_alone(cluster: Mapping[str, Any], rehearsed: Rehearsed) -> None:
    """No address that the world knows, two zones, and a group that nodes alone are let into."""
    of = cluster["vpcConfig"]
    assert (of["endpointPublicAccess"], of["endpointPrivateAccess"]) == (False, True)
    assert len({*of["subnetIds"]}) == 2
    assert {each["availabilityZone"] for each in rehearsed.of("Subnet")} == {"us-west-2b", "rehearsed-1a"}
    [nodes] = rehearsed.template()["networkInterfaces"][0]["securityGroups"]
    allowed = [
        each for each in rehearsed.of("SecurityGroupIngressRule") if each["securityGroupId"] in of["securityGroupIds"]
    ]
    assert [each["referencedSecurityGroupId"] for each in allowed] == [nodes]


@pytest.mark.engine
def test_nobody_is_let_in_but_by_entries(cluster: Mapping[str, Any], rehearsed: Rehearsed, plan: Plan) -> None:
    """Whoever made it, and each user as the one whom the role of a team is bound to; that role may do nothing else."""
    assert cluster["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": True,
    }
    entries = rehearsed.of("AccessEntry")
    bound = {
        subject["name"]
        for each in kubernetes.objects(plan)
        if each["kind"] == "RoleBinding"
        for subject in each["subjects"]
    }
    assert {each["userName"] for each in entries} == bound == {"alice", "bob"}
    assert not [each for each in entries if each.get("kubernetesGroups")]
    roles = {each["principalArn"].rpartition("/")[2].rpartition("-")[0] for each in entries}
    assert roles == {f"{EKS}-alice", f"{EKS}-bob"}
    mays = [json.loads(each["policy"]) for each in rehearsed.of("RolePolicy") if "eks:" in each["policy"]]
    assert [each["Statement"][0]["Action"] for each in mays] == ["eks:DescribeCluster"] * 2


@pytest.mark.engine
def test_nothing_changes_by_itself(cluster: Mapping[str, Any], rehearsed: Rehearsed) -> None:
    """Not its version, for which EKS would choose another one; and what it logs is kept for as long as all else."""
    assert (cluster["version"], cluster["upgradePolicy"]) == ("1.34", {"supportType": "EXTENDED"})
    assert set(cluster["enabledClusterLogTypes"]) == {
        *("api", "audit", "authenticator", "controllerManager", "scheduler"),
    }
    logs = {each.get("name"): each["retentionInDays"] for each in rehearsed.of("LogGroup")}
    assert logs[f"/aws/eks/{EKS}/cluster"] == 30
    groups = [each["scalingConfig"] for each in rehearsed.of("NodeGroup")]
    assert all(len({*each.values()}) == 1 for each in groups)


@pytest.mark.engine
def test_its_own_pods_run_where_no_gpu_is(rehearsed: Rehearsed) -> None:
    """Names are looked up by pods on the system's nodes, which take pods at once."""
    addons = {each["addonName"]: each for each in rehearsed.of("Addon")}
    assert set(addons) == {"coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"}
    [(label, group)] = json.loads(addons["coredns"]["configurationValues"])["nodeSelector"].items()
    flags = told(rehearsed.template(group))["spec"]["kubelet"]["flags"]
    assert flags == [f"--node-labels={label}={group}"]


@pytest.mark.engine
def test_the_network_of_pods_is_as_planned(rehearsed: Rehearsed, plan: Plan, cluster: Mapping[str, Any]) -> None:
    """Prefixes, teams kept apart, a role that is for it alone, and as many pods on a node as were counted."""
    [cni] = [each for each in rehearsed.of("Addon") if each["addonName"] == "vpc-cni"]
    settings = json.loads(cni["configurationValues"])
    assert settings == {"enableNetworkPolicy": "true", "env": {"ENABLE_PREFIX_DELEGATION": "true"}}
    [identity] = cni["podIdentityAssociations"]
    assert identity["serviceAccount"] == "aws-node"
    trusts = {each["assumeRolePolicy"] for each in rehearsed.of("Role")}
    assert any("pods.eks.amazonaws.com" in each and "sts:TagSession" in each for each in trusts)
    attached = [each["policyArn"].rpartition("/")[2] for each in rehearsed.of("RolePolicyAttachment")]
    assert attached.count("AmazonEKS_CNI_Policy") == 1, "no node may do what the network of pods does"
    assert plan.network.pods
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == plan.network.pods.services_cidr
    for group in ("head", "gpu"):
        spec = told(rehearsed.template(group))["spec"]
        assert spec["kubelet"]["config"]["maxPods"] == plan.network.pods.per_node
        assert spec["cluster"]["name"] == EKS
        assert spec["cluster"]["cidr"] == plan.network.pods.services_cidr


@pytest.mark.engine
def test_a_node_of_a_pool_takes_no_pods_before_it_is_proven(rehearsed: Rehearsed) -> None:
    """From its first moment on: EKS itself would tell it half a minute later."""
    flags = told(rehearsed.template())["spec"]["kubelet"]["flags"]
    assert flags == ["--node-labels=stampworks/pool=gpu", "--register-with-taints=stampworks/unproven=:NoSchedule"]
    assert not [each for each in rehearsed.of("NodeGroup") if each.get("taints")]


@pytest.mark.engine
def test_what_eks_wants_to_say_itself_no_template_says(rehearsed: Rehearsed) -> None:
    """With either of these it takes no node group."""
    for group in ("head", "gpu"):
        template = rehearsed.template(group)
        assert not {"iamInstanceProfile", "instanceInitiatedShutdownBehavior"} & set(template)
        assert not [each for each in template["networkInterfaces"] if "subnetId" in each]
    assert not [each for each in rehearsed.of("NodeGroup") if {"amiType", "instanceTypes", "diskSize"} & set(each)]


@pytest.mark.engine
def test_the_kubeconfig_and_its_provider_show_no_word(rehearse: Rehearse) -> None:
    found = rehearse(EKS).found
    assert "kubeconfig" not in found["outputs"]
    assert "get-token" not in json.dumps(found)


@pytest.mark.engine
def test_what_a_stack_outputs(rehearsed: Rehearsed) -> None:
    """Where its server is, and no proof."""
    outputs = rehearsed.found["outputs"]
    assert outputs["use"] == f"stampworks kubectl -s {EKS} -- get nodes"
    assert outputs["head"].startswith("https://")
    assert (outputs["ssh"], outputs["verdict"], outputs["verification_key"]) == ("", "unknown", "")
    assert (outputs["nodes"], outputs["endings"]) == (16, [])


CHANGES = """\
changes:
  - {name: more nodes, path: pools.gpu.count, value: 20}
  - {name: unproven on purpose, path: proof.level, value: none}
  - {name: on demand, path: pools.gpu, value: {name: gpu, machine: p5en, count: 20, zone: us-west-2b}}
  - {name: another user, path: users, value: [
     {name: alice, uid: 2001, accounts: [research]},
     {name: bob, uid: 2002, accounts: [product]},
     {name: carol, uid: 2003, accounts: [product]}]}
  - {name: other services, path: network.services_cidr, value: 172.21.0.0/16}
"""


def steps(rehearsed: Rehearsed, change: str) -> set[tuple[str, str, str]]:
    return {
        (step["op"], step["type"].rpartition(":")[2], step["name"].removeprefix(EKS).strip("-"))
        for step in rehearsed.phase(f"change: {change}")["steps"]
    }


@pytest.mark.engine
def test_what_a_change_does(rehearse: Rehearse) -> None:
    """Growth is a number; what nodes join with is a version of their template; how they are bought is another group;
    and whatever its server was given goes with it, which is protected."""
    rehearsed = rehearse(EKS, CHANGES)
    assert ("update", "NodeGroup", "gpu") in steps(rehearsed, "more nodes")
    assert not {op for op, kind, _ in steps(rehearsed, "more nodes") if kind == "LaunchTemplate"}
    unproven = steps(rehearsed, "unproven on purpose")
    assert {("update", "LaunchTemplate", "gpu"), ("update", "NodeGroup", "gpu")} == unproven
    assert ("create", "PlacementGroup", "gpu") in steps(rehearsed, "on demand")
    assert {op for op, kind, _ in steps(rehearsed, "another user") if kind in ("Role", "AccessEntry")} == {"create"}
    refused = rehearsed.phase("change: other services")
    assert (refused["verdict"], refused["found"]) == ("fail", "refused by the engine")
    assert any(EKS in note and "protect" in note for note in refused["notes"])


@pytest.mark.engine
def test_what_is_in_a_server_goes_with_it(rehearsed: Rehearsed) -> None:
    """Nobody waits for a server that is gone to delete its objects one by one."""
    notes = rehearsed.phase("destroy")["notes"]
    assert any(note.startswith("gone with what they were in: ") for note in notes)
    assert not [note for note in notes if note.startswith("kept by the cloud") and "kubernetes:" in note]


def declared(**fields: Any) -> Plan:
    pool = {"name": "gpu", "machine": "p5", "count": 2, "zone": "us-east-1a", **fields.pop("pool", {})}
    base = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": [pool]}
    return planning.plan(load_value({**base, "scheduler": {"kind": "kubernetes"}, **fields}, "test"))


def said(plan: Plan, rule: str, day: str | None = DAY) -> list[tuple[str, str, str]]:
    return [
        (each.outcome, each.place, each.text)
        for each in planning.rules(plan, Facts(), day)
        if each.id == f"kubernetes.{rule}"
    ]


@pytest.mark.parametrize(
    ("day", "outcome", "words"),
    [
        ("2026-11-24", "pass", "in standard support until 2026-12-02"),
        ("2026-12-02", "warn", "until 2027-12-02 in extended support, which costs more"),
        ("2027-12-02", "fail", "supported Kubernetes 1.34 until 2027-12-02"),
        (None, "unknown", "nobody said what day it is"),
    ],
)
def test_how_long_a_version_is_supported(day: str | None, outcome: str, words: str) -> None:
    [(found, place, text)] = said(declared(), "version", day)
    assert (found, place) == (outcome, "release")
    assert words in text


def test_what_is_not_there_yet_is_said_where_it_is_declared() -> None:
    """No proof, nothing that mounts; and nothing of it where nobody has declared it."""
    storage = [{"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}]
    plan = declared(storage=storage)
    assert [each[:2] for each in said(plan, "proof")] == [("warn", "proof.level")]
    assert [each[:2] for each in said(plan, "storage")] == [("warn", "storage[0]")]
    plain = declared(proof={"level": "none"})
    assert not [*said(plain, "proof"), *said(plain, "storage"), *said(plain, "images")]
    assert [each[:2] for each in said(declared(network={"egress": "none"}), "images")] == [
        ("unknown", "network.egress")
    ]


def test_without_a_way_out_nodes_reach_eks_as_well() -> None:
    assert {"eks", "eks-auth", "ecr.api", "ecr.dkr", "ec2", "s3", "sts"} <= {
        *declared(network={"egress": "none"}).network.endpoints
    }
    assert declared().network.endpoints == ("s3",)


def test_nodes_that_come_with_the_work_are_refused() -> None:
    with pytest.raises(DeclarationError) as error:
        declared(pool={"count_min": 1})
    [problem] = error.value.problems
    assert (problem.path, problem.message) == (
        "pools[0].count_min",
        "nothing on EKS starts or stops nodes by itself yet",
    )


@pytest.mark.parametrize(
    ("machine", "image"),
    [("p5", "x86_64/nvidia"), ("p6e-gb200", "arm64/nvidia"), ("m7i", "x86_64/standard")],
)
def test_which_image_a_node_boots(machine: str, image: str) -> None:
    """That of EKS for its processors, its accelerators and its Kubernetes; nothing is installed on it."""
    plan = declared(pool={"machine": machine})
    launch = plan.pools[0].launch
    assert launch
    where = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023"
    assert launch.published_image == f"{where}/{image}/recommended/image_id"
    assert (launch.prepared, launch.agent) == (True, "")
    assert (plan.release.packages, plan.release.base_packages, plan.release.boot) == ((), (), ())


def test_its_server_is_asked_through_a_file_without_a_secret(
    environment: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing where there is none; a program that is not here is named."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert access.kubectl("test", REGION) == ()
    made = environment.client("eks").create_cluster(
        name="test", roleArn="arn:aws:iam::123456789012:role/one", resourcesVpcConfig={}
    )["cluster"]
    with pytest.raises(AwsError, match="there is no kubectl here"):
        access.kubectl("test", REGION)
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    command = access.kubectl("test", REGION)
    assert command[:2] == (str(program), "--kubeconfig")
    content = json.loads(Path(command[2]).read_text())
    assert content["clusters"][0]["cluster"]["server"] == made["endpoint"]
    assert content["users"] == [{"name": "test", "user": {"exec": content["users"][0]["user"]["exec"]}}]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in Path(command[2]).read_text()
