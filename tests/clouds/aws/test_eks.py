"""Tests of EKS in the place of Slurm, in the real engine with recording providers."""

from __future__ import annotations

import asyncio
import base64
import email
import io
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.clouds.aws.session import PERMIT, Api, AwsUnansweredError
from stampworks.declaration import DeclarationError, load_stack, load_value
from stampworks.operations import UnknownError
from stampworks.operations.kubernetes.client import NotRunningError, reach
from stampworks.plan import Member, Plan, Roster
from stampworks.planning import Facts
from stampworks.provider.handler import Call
from stampworks.provider.handlers.kubernetes_nodes import KubernetesNodes
from stampworks.qualification import subject_of
from stampworks.rehearsal import read_stack
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.scenario import InjectedFailure
from stampworks.rehearsal.servers import Servers
from stampworks.schedulers import kubernetes

from tests.project import wait_for
from tests.schedulers.apiserver import ApiServer, api_server, running

from .conftest import EKS, ROOT, Rehearse, Rehearsed
from .simulated import REGION, Simulated

DAY = "2026-11-24"
BOUND_S = 60


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
    """Return the configuration of a node at its first boot."""
    part, *_ = parts(template)
    assert part.get_content_type() == "application/node.eks.aws"
    found: dict[str, Any] = yaml.safe_load(part.get_payload())
    return found


def parts(template: Mapping[str, Any]) -> list[Any]:
    """Return the parts that cloud-init sees."""
    message: Any = email.message_from_string(base64.b64decode(template["userData"]).decode())
    return [*message.get_payload()]


@pytest.mark.engine
@pytest.mark.long
def test_its_server_is_for_the_cluster_s_network_alone(cluster: Mapping[str, Any], rehearsed: Rehearsed) -> None:
    """The server has no public address, spans two zones, and only nodes reach it."""
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
@pytest.mark.long
def test_access_needs_an_entry(cluster: Mapping[str, Any], rehearsed: Rehearsed, plan: Plan) -> None:
    """Access entries exist for the creator, and for each user with the role of a team, which has no other rights."""
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
@pytest.mark.long
def test_nothing_changes_by_itself(cluster: Mapping[str, Any], rehearsed: Rehearsed) -> None:
    """The version is pinned, because EKS would choose another one; logs have the same retention as all others."""
    assert (cluster["version"], cluster["upgradePolicy"]) == ("1.35", {"supportType": "EXTENDED"})
    assert set(cluster["enabledClusterLogTypes"]) == {
        *("api", "audit", "authenticator", "controllerManager", "scheduler"),
    }
    logs = {each.get("name"): each["retentionInDays"] for each in rehearsed.of("LogGroup")}
    assert logs[f"/aws/eks/{EKS}/cluster"] == 30
    groups = [each["scalingConfig"] for each in rehearsed.of("NodeGroup")]
    assert all(len({*each.values()}) == 1 for each in groups)


@pytest.mark.engine
@pytest.mark.long
def test_its_own_pods_run_where_no_gpu_is(rehearsed: Rehearsed) -> None:
    """DNS runs on the system's nodes, which take pods at once."""
    addons = {each["addonName"]: each for each in rehearsed.of("Addon")}
    assert set(addons) == {
        *("aws-fsx-csi-driver", "coredns", "eks-node-monitoring-agent", "eks-pod-identity-agent", "kube-proxy"),
        "vpc-cni",
    }
    [(label, group)] = json.loads(addons["coredns"]["configurationValues"])["nodeSelector"].items()
    flags = told(rehearsed.template(group))["spec"]["kubelet"]["flags"]
    assert flags == [f"--node-labels={label}={group}"]


@pytest.mark.engine
@pytest.mark.long
def test_an_up_is_as_patient_as_its_roll_is_long(rehearsed: Rehearsed, plan: Plan) -> None:
    """The resource's default timeout is an hour; EKS would continue then, and refuse the next update."""
    known = json.loads(rehearsed.state)["deployment"]["resources"]
    hours = {
        each["inputs"]["tags"]["stampworks:group"]: each["customTimeouts"]["update"] / 3600
        for each in known
        if each["type"].endswith(":NodeGroup")
    }
    [gpu] = plan.pools
    at_once = dict(plan.roll.unavailable_max)["gpu"]
    assert (gpu.count, at_once) == (16, 4)
    assert hours == {"gpu": 4, "head": 2}


@pytest.mark.engine
@pytest.mark.long
def test_nodes_are_watched_and_not_repaired(rehearsed: Rehearsed) -> None:
    """Unproven nodes are watched as well. A person decides about replacement."""
    [agent] = [each for each in rehearsed.of("Addon") if each["addonName"] == "eks-node-monitoring-agent"]
    tolerated = json.loads(agent["configurationValues"])["dcgmAgent"]["tolerations"]
    assert tolerated == [{"key": f"stampworks/{taint}", "operator": "Exists"} for taint in ("unproven", "proof")]
    assert not [each for each in rehearsed.of("NodeGroup") if each.get("nodeRepairConfig")]


@pytest.mark.engine
@pytest.mark.long
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
@pytest.mark.long
def test_a_node_of_a_pool_takes_no_pods_before_it_is_proven(rehearsed: Rehearsed) -> None:
    """The taint is set from the first moment: EKS itself would add it half a minute later."""
    flags = told(rehearsed.template())["spec"]["kubelet"]["flags"]
    assert flags == ["--node-labels=stampworks/pool=gpu", "--register-with-taints=stampworks/unproven=:NoSchedule"]
    assert not [each for each in rehearsed.of("NodeGroup") if each.get("taints")]


@pytest.mark.engine
@pytest.mark.long
def test_pods_of_a_pool_have_memory_for_the_fabric_and_accelerators_by_asking(rehearsed: Rehearsed) -> None:
    """System nodes have neither huge memory limits nor accelerators."""
    limits = told(rehearsed.template())["spec"]["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert [each["type"] for each in limits] == ["RLIMIT_NOFILE", "RLIMIT_MEMLOCK"]
    _, script = parts(rehearsed.template())
    assert script.get_content_type() == "text/x-shellscript"
    assert "containerd" not in told(rehearsed.template("head"))["spec"]
    assert len(parts(rehearsed.template("head"))) == 1


@pytest.mark.engine
@pytest.mark.long
def test_templates_leave_out_fields_of_the_node_group(rehearsed: Rehearsed) -> None:
    """EKS refuses a node group with either of these fields."""
    for group in ("head", "gpu"):
        template = rehearsed.template(group)
        assert not {"iamInstanceProfile", "instanceInitiatedShutdownBehavior"} & set(template)
        assert not [each for each in template["networkInterfaces"] if "subnetId" in each]
    assert not [each for each in rehearsed.of("NodeGroup") if {"amiType", "instanceTypes", "diskSize"} & set(each)]


@pytest.mark.engine
@pytest.mark.long
def test_the_kubeconfig_and_its_provider_show_no_word(rehearse: Rehearse) -> None:
    found = rehearse(EKS).found
    assert "kubeconfig" not in found["outputs"]
    assert "get-token" not in json.dumps(found)


SECRET = "4dabf18193072939515e22adb298388d"  # marker of secrets in the engine's format


@pytest.mark.engine
@pytest.mark.long
def test_the_state_shows_neither_the_kubeconfig_nor_a_key(tmp_path: Path) -> None:
    """Neither the stack, nor a resource, nor the Kubernetes provider shows them."""
    with Servers() as servers, servers.serving(Recording({}, lambda: None, io.StringIO())) as ports:
        engine = Engine(tmp_path, read_stack(EKS, ROOT, ROOT / "stacks", {}), ports)
        try:
            ran = engine.run("up", "--yes", "--skip-preview")
            assert ran.code == 0, ran.said
            exported = engine.aside("stack", "export")
        finally:
            engine.end()
    assert "get-token" not in exported, "how the kubeconfig gets a token stands nowhere else"
    kept = [
        (each["type"].rpartition(":")[2], name, set(value) == {SECRET, "ciphertext"})
        for each in json.loads(exported)["deployment"]["resources"]
        for name, value in {**each.get("inputs", {}), **each.get("outputs", {})}.items()
        if name in ("kubeconfig", "privateKey", "sshPrivateKey", "slurmKey", "databasePassword", "signingKey")
    ]
    assert set(kept) == {
        *((where, "kubeconfig", True) for where in ("Stack", "Cluster", "ControlPlane", "kubernetes")),
        *(("Keyring", name, True) for name in ("sshPrivateKey", "slurmKey", "databasePassword")),
        *((where, name, True) for where, name in (("SigningKey", "privateKey"), ("Qualification", "signingKey"))),
    }


@pytest.mark.engine
@pytest.mark.long
def test_outputs_of_a_stack(rehearsed: Rehearsed) -> None:
    """The outputs include the server's address, and a proof that a rehearsal only announces."""
    outputs = rehearsed.found["outputs"]
    assert outputs["use"] == f"stampworks kubectl -s {EKS} -- get nodes"
    assert outputs["head"].startswith("https://")
    assert (outputs["ssh"], outputs["verdict"], outputs["verification_key"]) == ("", "unknown", "rehearsed: no key")
    assert (outputs["nodes"], outputs["endings"]) == (16, [])


def test_its_nodes_are_proven_as_kubernetes_names_them(plan: Plan) -> None:
    """The plan knows only the number of nodes; the image is declared."""
    members = tuple(Member(f"ip-{number}", "gpu", "1", f"10.84.0.{number}", (), "") for number in (1, 2))
    subject = subject_of(plan).with_members(Roster(EKS, "aws", (), "", "", members, "us-west-2"))
    assert subject.image == plan.scheduler.workloads_image
    assert {name: pool.name for name, pool in subject.pool_of.items()} == {"ip-1": "gpu", "ip-2": "gpu"}
    assert subject.on_rail(subject.fabric.rails[15], ("ip-1", "ip-2")) == ("ip-1", "ip-2")
    assert not subject_of(plan).nodes


def steps(rehearsed: Rehearsed, change: str) -> set[tuple[str, str, str]]:
    return {
        (step["op"], step["type"].rpartition(":")[2], step["name"].removeprefix(EKS).strip("-"))
        for step in rehearsed.phase(f"change: {change}")["steps"]
    }


@pytest.mark.engine
@pytest.mark.long
def test_effects_of_changes(rehearse: Rehearse) -> None:
    """Growth changes a number, join settings a version of the template, and another purchase the group; settings of the
    server replace it, which is protected."""
    rehearsed = rehearse(EKS)
    assert ("update", "NodeGroup", "gpu") in steps(rehearsed, "more nodes")
    assert not {op for op, kind, _ in steps(rehearsed, "more nodes") if kind == "LaunchTemplate"}
    unproven = steps(rehearsed, "unproven on purpose")
    changed = {("update", "LaunchTemplate", "gpu"), ("update", "NodeGroup", "gpu"), ("update", "KubernetesNodes", "")}
    assert unproven == changed | {("delete", kind, "") for kind in ("Qualification", "SigningKey")}
    assert {("update", "KubernetesNodes", ""), ("update", "Qualification", "")} <= steps(rehearsed, "more nodes")
    assert ("create", "PlacementGroup", "gpu") in steps(rehearsed, "on demand")
    flat = [each for each in steps(rehearsed, "wherever there is room") if each[1] in ("Topology", "ResourceFlavor")]
    assert sorted((op, kind) for op, kind, _ in flat) == [
        *((op, kind) for op in ("create", "delete") for kind in ("ResourceFlavor", "Topology"))
    ], "queues name the old ones until there are others"
    assert {op for op, kind, _ in steps(rehearsed, "another user") if kind in ("Role", "AccessEntry")} == {"create"}
    refused = rehearsed.phase("change: other services")
    assert (refused["verdict"], refused["found"]) == ("fail", "refused by the engine")
    assert any(EKS in note and "protect" in note for note in refused["notes"])


SSO = "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/us-west-2/AWSReservedSSO_Ops_0123456789abcdef"
CI = "arn:aws:iam::123456789012:user/ci"


def changed(rehearsed: Rehearsed, change: str) -> set[tuple[str, str]]:
    """Return the changed resources without components, which only pass values on."""
    return {(op, f"{kind} {name}".strip()) for op, kind, name in steps(rehearsed, change)}


@pytest.mark.engine
@pytest.mark.long
def test_its_server_is_public_for_declared_ranges_alone(rehearse: Rehearse) -> None:
    """The server and all other resources stay the same before, between and after."""
    rehearsed = rehearse(EKS)
    for change in ("from the office", "from the office alone", "from nowhere"):
        assert changed(rehearsed, change) == {("update", "Cluster")}, change
    access = ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs")
    found = [[each["vpcConfig"].get(name) for name in access] for each in rehearsed.updates("Cluster")]
    assert found == [
        [True, True, ["198.51.100.7/32", "203.0.113.0/24"]],
        [True, True, ["203.0.113.0/24"]],
        [False, True, None],
    ]


@pytest.mark.engine
@pytest.mark.long
def test_administrators_come_and_go_alone(rehearse: Rehearse) -> None:
    """The order of the list, and other entries, do not matter. A role keeps its path, by which EKS knows it."""
    rehearsed = rehearse(EKS)
    sso, ci = "admin-AWSReservedSSO_Ops_0123456789abcdef-de7a9c43", "admin-ci-754edac8"
    kinds = ("AccessEntry", "AccessPolicyAssociation")
    assert changed(rehearsed, "administrators") == {
        ("create", f"{kind} {name}") for kind in kinds for name in (sso, ci)
    }
    assert not changed(rehearsed, "in another order")
    assert changed(rehearsed, "one administrator less") == {("delete", f"{kind} {sso}") for kind in kinds}
    later = rehearsed.with_changes()
    entries = {each["principalArn"]: each for each in later.of("AccessEntry") if "userName" not in each}
    assert set(entries) == {SSO, CI}
    assert not [each for each in entries.values() if each.get("kubernetesGroups")]
    assert [
        (each["principalArn"], each["policyArn"], each["accessScope"]) for each in later.of("AccessPolicyAssociation")
    ] == [
        (arn, "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy", {"type": "cluster"})
        for arn in (SSO, CI)
    ]


@pytest.mark.engine
@pytest.mark.long
def test_an_up_that_cannot_ask_its_server_is_finished_by_the_next_one(rehearsed: Rehearsed) -> None:
    """Resources after the objects, nodes among them, were not begun."""
    failed = rehearsed.phase("failure: quota at kubernetes:helm.sh/v3:Release")
    assert (failed["verdict"], failed["found"]) == ("pass", "the next up finishes, with nothing twice")
    finished = {(each["op"], each["type"].rpartition(":")[2]) for each in failed["steps"]}
    assert {("create", "Release"), ("create", "NodeGroup"), ("create", "KubernetesNodes")} <= finished
    assert ("create", "Cluster") not in finished


@pytest.mark.engine
@pytest.mark.long
def test_there_is_a_head_to_go_through_where_nobody_reaches_the_server(tmp_path: Path) -> None:
    """With --continue-on-error, head and pools do not wait for Kubernetes objects."""
    with Servers() as servers, servers.serving(recording := Recording({}, lambda: None, io.StringIO())) as ports:
        engine = Engine(tmp_path, read_stack(EKS, ROOT, ROOT / "stacks", {}), ports)
        try:
            recording.begin(
                InjectedFailure("quota", type="stampworks:cluster:KubernetesQueues")
            )  # the first resource that needs the server
            ran = engine.run("up", "--yes", "--skip-preview", "--continue-on-error")
            made = [each["urn"].split("::")[-2:] for each in engine.state().resources]
        finally:
            engine.end()
    assert ran.code
    kinds = {kind.rpartition(":")[2] for kind, _ in made}
    assert not kinds & {"KubernetesQueues", "Release", "Namespace", "Qualification"}
    groups = {name for kind, name in made if kind.endswith(":NodeGroup")}
    assert groups == {f"{EKS}-head", f"{EKS}-gpu"}


@pytest.mark.engine
@pytest.mark.long
def test_drivers_are_those_of_what_is_declared(rehearse: Rehearse) -> None:
    """The bucket driver has the rights of a mount on the declared bucket; other drivers have none."""
    rehearsed = rehearse(EKS).with_changes()
    drivers = {each["addonName"]: each for each in rehearsed.of("Addon") if each["addonName"].endswith("-csi-driver")}
    assert set(drivers) == {"aws-efs-csi-driver", "aws-fsx-csi-driver", "aws-mountpoint-s3-csi-driver"}
    more = steps(rehearsed, "more storage")
    assert {("create", "Addon", name) for name in set(drivers) - {"aws-fsx-csi-driver"}} < more
    assert ("update", "KubernetesNodes", "") in more, "what keeps a claim is closed before any goes"
    [(name, [identity])] = [
        (name, each["podIdentityAssociations"]) for name, each in drivers.items() if "podIdentityAssociations" in each
    ]
    assert (name, identity["serviceAccount"]) == ("aws-mountpoint-s3-csi-driver", "s3-csi-driver-sa")
    [role] = [each for each in rehearsed.made if each["type"].endswith(":Role") and each["name"] == f"{EKS}-buckets"]
    assert "pods.eks.amazonaws.com" in role["values"]["assumeRolePolicy"]
    [may] = [json.loads(each["policy"]) for each in rehearsed.of("RolePolicy") if "s3:" in each["policy"]]
    [bucket] = [
        each["spec"]["csi"] for each in volumes(rehearsed) if each["spec"]["csi"]["driver"] == "s3.csi.aws.com"
    ][:1]
    arn = f"arn:aws:s3:::{bucket['volumeAttributes']['bucketName']}"
    assert [each["Resource"] for each in may["Statement"]] == [[arn], [f"{arn}/*"]]


def volumes(rehearsed: Rehearsed) -> list[Mapping[str, Any]]:
    return [each for each in rehearsed.objects if each["kind"] == "PersistentVolume"]


@pytest.mark.engine
@pytest.mark.long
def test_each_team_has_a_volume_of_each_file_system(rehearse: Rehearse) -> None:
    """Volumes have the names that runs mount; volumes of the same bucket have different handles."""
    found = volumes(rehearse(EKS))
    claimed = [(each["spec"]["claimRef"]["namespace"], each["spec"]["claimRef"]["name"]) for each in found]
    teams, names = ("product", "research", "stampworks-proof"), ("corpus", "data", "home")
    assert sorted(claimed) == [(team, name) for team in teams for name in names]
    of = {name: each["spec"] for (team, name), each in zip(claimed, found, strict=True) if team == "research"}
    lustre = of["data"]["csi"]
    assert (lustre["driver"], of["data"]["mountOptions"]) == ("fsx.csi.aws.com", ["relatime", "flock"])
    assert lustre["volumeAttributes"] == {
        "dnsname": f"{lustre['volumeHandle']}.fsx.rehearsed-1.amazonaws.com",
        "mountname": "rehearsed",
    }
    assert (of["home"]["csi"]["driver"], of["home"]["csi"]["volumeHandle"][:3]) == ("efs.csi.aws.com", "fs-")
    assert of["corpus"]["mountOptions"] == ["allow-other", "dir-mode 0777", "file-mode 0666", "region us-west-2"]
    buckets = [each["spec"]["csi"]["volumeHandle"] for each in found if "s3" in each["spec"]["csi"]["driver"]]
    assert len({*buckets}) == len(buckets) == 3


@pytest.mark.engine
@pytest.mark.long
def test_volumes_are_bound_by_a_real_kubernetes(rehearse: Rehearse, tmp_path: Path) -> None:
    """The API server accepts all fields and binds each claim to its own volume. No driver mounts them."""
    objects = [each for each in rehearse(EKS).objects if each["kind"] != "Namespace"]
    with api_server(tmp_path) as server:
        for team in ("product", "research", "stampworks-proof"):
            server.run("kubectl", "create", "namespace", team)
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        server.run("kubectl", "apply", "--server-side", "--validate=strict", "-f", "-", text=listed)
        binder = ["kube-controller-manager", "--controllers=persistentvolume-binder-controller", "--leader-elect=false"]
        binder += [f"--kubeconfig={server.kubeconfig}", "--secure-port=0"]
        with running(tmp_path, binder):
            wait_for(lambda: {each[0] for each in claims(server).values()} == {"Bound"}, BOUND_S)
        assert {key: volume for key, (_, volume) in claims(server).items()} == {
            (each["spec"]["claimRef"]["namespace"], each["spec"]["claimRef"]["name"]): each["metadata"]["name"]
            for each in volumes(rehearse(EKS))
        }


def claims(server: ApiServer) -> dict[tuple[str, str], tuple[str, str]]:
    """The phase of each, and its volume."""
    said = json.loads(server.run("kubectl", "get", "persistentvolumeclaims", "--all-namespaces", "--output=json"))
    return {
        (each["metadata"]["namespace"], each["metadata"]["name"]): (
            each["status"]["phase"],
            each["spec"].get("volumeName", ""),
        )
        for each in said["items"]
    }


@pytest.mark.engine
@pytest.mark.long
def test_disks_inside_a_node_are_one_array(rehearsed: Rehearsed, plan: Plan) -> None:
    """The array of a machine with disks also holds files that pods write; the head's has none."""
    assert told(rehearsed.template())["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in told(rehearsed.template("head"))["spec"]
    scratch = {group.name: group.scratch for group in plan.running}
    assert (scratch["head"], scratch["gpu"] and (scratch["gpu"].disks, scratch["gpu"].path)) == (
        None,
        (8, "/mnt/k8s-disks/0"),
    )


@pytest.mark.engine
@pytest.mark.long
def test_objects_are_deleted_with_their_server(rehearsed: Rehearsed) -> None:
    """Objects of a deleted server are not deleted one by one."""
    notes = rehearsed.phase("destroy")["notes"]
    assert any(note.startswith("deleted with their containers: ") for note in notes)
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
        ("2026-11-24", "pass", "in standard support until 2027-03-27"),
        ("2027-03-27", "warn", "until 2028-03-27 in extended support, which costs more"),
        ("2028-03-27", "fail", "supported Kubernetes 1.35 until 2028-03-27"),
        (None, "unknown", "no date of today was given"),
    ],
)
def test_how_long_a_version_is_supported(day: str | None, outcome: str, words: str) -> None:
    [(found, place, text)] = said(declared(), "version", day)
    assert (found, place) == (outcome, "release")
    assert words in text


def test_unsupported_fields_are_reported_where_declared() -> None:
    """Stacks without such fields get no message."""
    plain = declared(proof={"level": "none"})
    assert not [*said(plain, "storage"), *said(plain, "images")]
    assert [each[:2] for each in said(declared(network={"egress": "none"}), "images")] == [
        ("unknown", "network.egress")
    ]


def test_over_what_pods_reach_storage_is_said_where_it_is_declared() -> None:
    """Storage declared with EFA is reached over TCP, and expectations follow that."""
    shared = {"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}
    data = {"name": "data", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "mbps_per_tib": 500, "mount": "/data"}
    plan = declared(storage=[shared, {**data, "capacity": 38400, "efa": True}])
    assert [each[:2] for each in said(plan, "storage")] == [("pass", "storage[0]"), ("warn", "storage[1].efa")]
    assert [each.driver for each in plan.storage] == ["aws-efs-csi-driver", "aws-fsx-csi-driver"]
    [client] = [each for each in plan.expectations if each.name == "data.gpu.client_gbs"]
    assert client.why == "throughput of a client of Amazon FSx for Lustre over TCP"
    without = {"name": "fast", "kind": "fsx-openzfs", "tier": "SINGLE_AZ_2", "mount": "/fast"}
    plan = declared(storage=[{**without, "capacity": 1024, "throughput_mbps": 640}])
    assert [each[:2] for each in said(plan, "storage")] == [("warn", "storage[0]")]


@pytest.mark.parametrize(
    ("image", "level", "outcome", "words"),
    [
        ("", "standard", "fail", "no node would be measured"),
        ("", "none", "warn", "no run can start"),
        ("registry.example.com/workloads:1", "standard", "warn", "is a tag that can move"),
        (f"registry.example.com/workloads@sha256:{'0' * 64}", "quick", "pass", "by its digest"),
    ],
)
def test_judges_the_workloads_image(image: str, level: str, outcome: str, words: str) -> None:
    scheduler = {"kind": "kubernetes", **({"workloads_image": image} if image else {})}
    [(found, place, text)] = said(declared(proof={"level": level}, scheduler=scheduler), "proof")
    assert (found, place) == (outcome, "scheduler.workloads_image")
    assert words in text


@pytest.mark.parametrize("image", ["-rm", "a b", "a\n", "a@sha256:12", "$(x)", "{{ x }}", "a" * 600])
def test_refuses_malformed_workloads_images(image: str) -> None:
    with pytest.raises(DeclarationError) as error:
        declared(scheduler={"kind": "kubernetes", "workloads_image": image})
    assert [each.path for each in error.value.problems] == ["scheduler.workloads_image"]


def test_where_nodes_have_the_programs_an_image_is_refused() -> None:
    with pytest.raises(DeclarationError) as error:
        declared(scheduler={"kind": "slurm", "workloads_image": "registry.example.com/workloads:1"})
    [problem] = error.value.problems
    assert problem.path == "scheduler.workloads_image"


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
        "nodes cannot be started and stopped for jobs on EKS yet",
    )


@pytest.mark.parametrize(
    ("machine", "image"),
    [("p5", "x86_64/nvidia"), ("p6e-gb200", "arm64/nvidia"), ("m7i", "x86_64/standard")],
)
def test_nodes_boot_the_image_of_eks(machine: str, image: str) -> None:
    """EKS's image for its processors, its accelerators and its Kubernetes; nothing is installed on it."""
    plan = declared(pool={"machine": machine})
    launch = plan.pools[0].launch
    assert launch
    where = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023"
    assert launch.published_image == f"{where}/{image}/recommended/image_id"
    assert (launch.prepared, launch.agent) == (True, "")
    assert (plan.release.packages, plan.release.base_packages, plan.release.boot) == ((), (), ())


def test_its_server_is_asked_through_a_file_without_a_secret(
    environment: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a server no file is written. A missing program is named."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotRunningError):
        reach("test", "aws", REGION)
    made = environment.client("eks").create_cluster(
        name="test", roleArn="arn:aws:iam::123456789012:role/one", resourcesVpcConfig={}
    )["cluster"]
    for name, missing in (("kubectl", "kubectl and no aws"), ("aws", "aws")):
        with pytest.raises(UnknownError) as caught:
            reach("test", "aws", REGION)
        assert str(caught.value) == (
            f"AWS {REGION}: the Kubernetes of cluster test: there is no {missing} here\n"
            "  hint: install kubectl, and the AWS CLI, from which kubectl gets its token"
        )
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(stat.S_IRWXU)
    command = reach("test", "aws", REGION)
    assert command[:2] == (str(tmp_path / "kubectl"), "--kubeconfig")
    content = json.loads(Path(command[2]).read_text())
    assert content["clusters"][0]["cluster"]["server"] == made["endpoint"]
    assert content["users"] == [{"name": "test", "user": {"exec": content["users"][0]["user"]["exec"]}}]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in Path(command[2]).read_text()


def test_a_server_that_nobody_may_ask_for_is_what_operations_hear_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error includes AWS's message; a status uses the known members, and says so."""

    def refuse(_: Api, action: str, **__: Any) -> dict[str, Any]:
        raise AwsUnansweredError(
            action, "not permitted (AccessDeniedException: not you)", PERMIT, "AccessDeniedException"
        )

    monkeypatch.setattr(Api, "ask", refuse)
    why = f"AWS {REGION}: the Kubernetes of cluster test: eks:DescribeCluster: not permitted (AccessDeniedException: "
    with pytest.raises(UnknownError) as caught:
        reach("test", "aws", REGION)
    assert str(caught.value) == (
        f"{why}not you)\n"
        "  hint: docs/reference/aws-rights.md lists the permissions; `aws sts get-caller-identity` shows your identity"
    )
    told: list[str] = []
    known = {"members": [{"name": "ip-1"}], "drift": [], "endings": []}
    inputs = {"cluster": "test", "cloud": "aws", "region": REGION, "groups": [{"name": "gpu", "count": 1}]}
    look = Call("urn", "aws/test", inputs, old_outputs=known, say=told.append)
    assert asyncio.run(KubernetesNodes().read(look)) == known
    assert told == [f"its nodes cannot be listed: {why}not you)"]
