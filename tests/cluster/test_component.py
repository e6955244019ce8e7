"""The assembly of a cluster under mocks: its resources, their names, and their protection."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pulumi
import pytest
from pulumi.runtime import mocks, settings
from stampworks import Cluster
from stampworks.cluster.clouds import refusals
from stampworks.cluster.component import OUTPUTS
from stampworks.cluster.kubernetes import assemble
from stampworks.cluster.plugin import check_programs
from stampworks.declaration import load_file, load_value
from stampworks.plan import Plan, fingerprint
from stampworks.planning import plan

if TYPE_CHECKING:
    from stampworks.clouds.components import ControlPlane, Network, ServerMaker

pytestmark = pytest.mark.usefixtures("pulumi_loops")
STACKS = Path(__file__).parents[2] / "stacks"


@dataclass
class Recorder(mocks.Mocks):
    """Record each resource and answer as the plugin would."""

    members: list[dict[str, Any]]
    seen: dict[tuple[str, str], pulumi.runtime.MockResourceArgs] = field(default_factory=dict)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.seen[(args.typ.split(":")[-1], args.name)] = args
        outputs: dict[str, dict[str, Any]] = {
            "Keyring": {name: name for name in ("sshPublicKey", "sshPrivateKey", "slurmKey", "databasePassword")},
            "SigningKey": {"publicKey": "public", "privateKey": "private"},
            "Roll": {"certificate": "", "generations": {"head": "rolled head", "gpu": "rolled gpu"}},
            "Qualification": {"verdict": "pass", "certificate": "signed"},
            "LocalRoom": {"claim": "ours"},
            "LocalNetwork": {"instance": "1-1"},
            "LocalGroup": {"generation": f"generation of {args.name}"},
            "Cluster": {"endpoint": "https://there", "arn": "arn:aws-us-gov:eks:there:1:cluster/test"}
            | {"certificateAuthority": {"data": "its own"}},
            "LaunchTemplate": {"latestVersion": 1},
            **{kind: {"bucket": args.name} for kind in ("Bucket", "BucketV2")},
            "Instance": {"address": "there"},
            **{kind: {"dnsName": "there"} for kind in ("MountTarget", "OpenZfsFileSystem")},
            "Subnet": {"availabilityZone": args.inputs.get("availabilityZone", f"chosen for {args.name}")},
            "KubernetesNodes": {
                "members": [],
                "drift": [],
                "endings": [{"group": "gpu", "reservation": "cr-1", "at": "2026-12-01T11:30Z", "why": ""}],
            },
            "LocalControlPlane": {
                "kubeconfig": "of the administrator",
                "bootstrap": "of nodes to be",
                "authority": "the first",
                "identity": "this one",
            },
            "Roster": {
                "reach": ["enter"],
                "user": "root",
                "identityFile": "/key",
                "members": self.members,
                "endings": [],
            },
        }
        called = {"arn": f"arn:aws-us-gov:there::1:{args.name}"} if args.typ.startswith("aws:") else {}
        return args.name, {**args.inputs, **called, **outputs.get(args.typ.split(":")[-1], {})}

    def call(self, _: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return {"names": ["us-east-1a", "us-east-1b"], "zoneIds": ["use1-az4", "use1-az6"]}, []

    def inputs(self, kind: str, name: str) -> dict[str, Any]:
        return dict(self.seen[(kind, name)].inputs)


def stamp(made: Plan) -> tuple[Recorder, dict[str, Any]]:
    """Stamp the plan under mocks; return the registered resources and the cluster's outputs."""
    members = [
        {
            "name": node.name,
            "group": group.name,
            "instance": "1-1",
            "address": node.address,
            "rail_addresses": list(node.rail_addresses),
            "host_key": "ssh-ed25519 AAAA",
        }
        for group in made.groups
        for node in group.nodes
        if made.scheduler.kind == "slurm" or group.role == "worker"
    ]
    recorder, outputs = Recorder(members), dict[str, Any]()
    mocks.set_mocks(recorder, preview=False, stack="test", project="test")

    def run() -> pulumi.Output[None]:
        cluster = Cluster(made.name, made)
        whole = pulumi.Output.all(*(getattr(cluster, name) for name in OUTPUTS))
        return whole.apply(lambda values: outputs.update(zip(OUTPUTS, values, strict=True)))

    cast(Callable[[], None], pulumi.runtime.test(run))()  # type: ignore[no-untyped-call]
    return recorder, outputs


def planned(tmp_path: Path, *edits: tuple[str, str]) -> Plan:
    """The plan of the demo's stack, with edits to its text."""
    text = (STACKS / "Pulumi.local.yaml").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(text)
    return plan(load_file(file))


def test_children_are_named_from_the_cluster_and_its_pools(tmp_path: Path) -> None:
    """These names are part of every stack's state: a renamed child would be replaced in every cluster."""
    recorder, _ = stamp(planned(tmp_path))
    assert set(recorder.seen) == {
        ("Cluster", "local"),
        ("Keyring", "local"),
        ("LocalRoom", "local"),
        ("LocalNetwork", "local"),
        ("LocalVolume", "local-head-state"),
        ("LocalGroup", "local-head"),
        ("LocalGroup", "local-gpu"),
        ("SharedDirectory", "local-shared"),
        ("Roll", "local"),
        ("Roster", "local"),
        ("Playbook", "local"),
        ("SigningKey", "local"),
        ("Qualification", "local"),
    }


def test_refuses_clouds_that_can_only_be_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No resource is created for a cloud without components, or without Kubernetes, from any kind of declaration."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", said.append)
    made = planned(tmp_path, ("kind: slurm", "kind: kubernetes"))
    with pytest.raises(SystemExit, match="32"):
        Cluster("local", dataclasses.replace(made, cloud="azure"))
    kubernetes = (
        "scheduler.kind: a Kubernetes cluster on azure can be planned and reviewed, and not stamped yet\n"
        "  hint: write kind: slurm; there are components for Kubernetes on aws, local; "
        "`stampworks plan` shows what it would be"
    )
    azure = (
        "cloud: a cluster on azure can be planned and reviewed, and not stamped yet\n"
        "  hint: there are components for aws, hosts, local; `stampworks plan` shows it"
    )
    assert said == [f"{azure}\n\n{kubernetes}"]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="32"):
        Cluster("local", made)
    assert said[1:] == [
        "pools[0]: nodes of pool gpu would run pods, and on local only root can divide a machine among pods\n"
        "  hint: write scheduling_only: true, or do this as root"
    ]


def test_nodes_that_run_pods_are_configured_before_they_are_known(tmp_path: Path) -> None:
    """The playbook of Slurm runs without variables of Slurm; there is no head."""
    made = planned(tmp_path, ("kind: slurm", "kind: kubernetes"))
    recorder, outputs = stamp(made)
    control_plane = recorder.inputs("LocalControlPlane", "local")
    assert recorder.inputs("kubernetes", "local")["clusterIdentifier"] == "this one"
    assert recorder.inputs("KubernetesQueues", "local")["queues"] == {
        "jobs": dict.fromkeys(("urgent", "main", "default"), "local-jobs-urgent")
    }
    assert made.network.pods
    assert (control_plane["podsCidr"], control_plane["podsOfNode"]) == (made.network.pods.cidr, 256)
    names = [node.name for pool in made.pools for node in pool.nodes]
    assert [group["name"] for group in json.loads(recorder.inputs("Roster", "local")["groups"])] == ["gpu"]
    playbook = recorder.inputs("Playbook", "local")
    assert playbook["secrets"]["value"] == {"kubernetes_bootstrap": "of nodes to be"}
    roles = json.loads(playbook["inventory"])["all"]["children"]
    assert sorted(roles["kubernetes_node"]["hosts"]) == sorted(names)
    assert not [role for role in roles if role.startswith("slurm")]
    assert sorted(roles["health"]["hosts"]) == sorted(names)
    joined = recorder.inputs("JoinedPool", "local-gpu")
    assert sorted(joined["addresses"]) == sorted(names)
    assert joined["accelerators"] == {"nvidia.com/gpu": "8"}
    assert (joined["generation"], joined["authority"]) == ("rolled gpu", "the first")
    assert joined["proven"] is True
    assert outputs["mounts"] == {"/shared": "/exports/shared"}
    unproven = ("    users:\n", "    proof: {level: none}\n    users:\n")
    recorder, _ = stamp(planned(tmp_path, ("kind: slurm", "kind: kubernetes"), unproven))
    assert recorder.inputs("JoinedPool", "local-gpu")["proven"] is False
    simulated = planned(
        tmp_path, ("kind: slurm", "kind: kubernetes"), ("count: 4}", "count: 4, scheduling_only: true}")
    )
    recorder, _ = stamp(simulated)
    assert recorder.inputs("LocalControlPlane", "local")["podsCidr"] == ""
    assert not {kind for kind, _ in recorder.seen} & {"JoinedPool", "Playbook", "Roster", "LocalGroup"}


BOUGHT = {
    "on-demand": ("ON_DEMAND", None, True),
    "spot": ("SPOT", None, True),
    "reserved": ("ON_DEMAND", None, False),
    "block": ("CAPACITY_BLOCK", {"marketType": "capacity-block"}, False),
}


@pytest.mark.parametrize("purchase", BOUGHT)
def test_nodes_of_eks_are_bought_as_declared(purchase: str) -> None:
    """The group requests spot instances, and the template must not; both request a block. Reserved capacity has its own
    place, and no placement group. No playbook runs, and Kubernetes reports proven nodes."""
    reservation = {"reservation": "cr-1"} if purchase in ("reserved", "block") else {}
    recorder, outputs = stamp(on_eks({"purchase": purchase, **reservation}))
    capacity, market, together = BOUGHT[purchase]
    template = recorder.inputs("LaunchTemplate", "test-gpu")
    assert recorder.inputs("NodeGroup", "test-gpu")["capacityType"] == capacity
    assert template.get("instanceMarketOptions") == market
    target = template.get("capacityReservationSpecification", {}).get("capacityReservationTarget")
    assert target == ({"capacityReservationId": "cr-1"} if reservation else None)
    assert (("PlacementGroup", "test-gpu") in recorder.seen) is together
    assert recorder.inputs("NodeGroup", "test-head")["scalingConfig"]["desiredSize"] == 2
    assert not {kind for kind, _ in recorder.seen} & {"Playbook", "Roll", "Roster"}
    addons = [args.inputs for (kind, _), args in recorder.seen.items() if kind == "Addon"]
    versions = {inputs["addonName"]: inputs["addonVersion"] for inputs in addons}
    own = ("coredns", "eks-node-monitoring-agent", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
    assert versions == dict.fromkeys(own, "v1")
    [group] = recorder.inputs("KubernetesNodes", "test")["groups"]
    assert (group["name"], group["count"], group["generation"]) == ("gpu", 4, "test-gpu/1")
    assert (outputs["verdict"], outputs["head"]) == ("pass", "https://there")
    assert outputs["endings"] == [{"group": "gpu", "reservation": "cr-1", "at": "2026-12-01T11:30Z", "why": ""}]
    kubeconfig = json.loads(outputs["kubeconfig"])
    assert kubeconfig["users"][0]["user"]["exec"]["command"] == "aws"
    assert recorder.inputs("kubernetes", "test")["clusterIdentifier"] == "https://there"


def test_names_of_helm_releases_are_stable() -> None:
    """Another name of the resource, which every stack's state has, or of the Helm release would replace it."""
    recorder, _ = stamp(on_eks({}))
    releases = {name: args.inputs for (kind, name), args in recorder.seen.items() if kind == "Release"}
    assert {name: (inputs["name"], inputs["namespace"]) for name, inputs in releases.items()} == {
        "test-node-feature-discovery": ("node-feature-discovery", "node-feature-discovery"),
        "test-gpu-operator": ("gpu-operator", "gpu-operator"),
        "test-efa-device-plugin": ("efa-device-plugin", "kube-system"),
        "test-kueue": ("kueue", "kueue-system"),
        "test-jobset": ("jobset", "jobset-system"),
        "test-metrics-server": ("metrics-server", "kube-system"),
    }


def test_nodes_that_eks_cannot_have_are_refused() -> None:
    more = {"name": "many", "machine": "p5", "count": 100, "scheduling_only": True}
    assert not refusals(on_eks({}), ())
    assert refusals(on_eks({}, more), ()) == [
        (
            "pools[1].scheduling_only",
            "pool many is for scheduling only, and nothing on aws simulates nodes",
            "take the pool out; `local` simulates as many as you like",
            False,
        )
    ]


METADATA = "instanceMetadataTags"


def test_only_nodes_that_start_with_the_work_read_their_tags() -> None:
    """Tags identify elastic nodes. Instances that read their tags may have fewer of them, and none with names of EKS;
    the bundle has none, because S3 limits tags on objects."""
    recorder, _ = stamp(on_aws({"count_min": 1, "fallbacks": [{"purchase": "spot"}]}))
    templates = {name: args.inputs for (kind, name), args in recorder.seen.items() if kind == "LaunchTemplate"}
    assert {name: inputs["metadataOptions"][METADATA] for name, inputs in templates.items()} == {
        "test-gpu": "disabled",
        "test-gpu.0": "enabled",
        "test-gpu.1": "enabled",
    }
    assert recorder.inputs("Instance", "test-head")["metadataOptions"][METADATA] == "disabled"
    assert "tags" not in recorder.inputs("BucketObjectv2", "test-bundle")
    eks, _ = stamp(on_eks({}))
    launched = [args.inputs for (kind, _), args in eks.seen.items() if kind == "LaunchTemplate"]
    assert [inputs["metadataOptions"][METADATA] for inputs in launched] == ["disabled"] * 2


@pytest.mark.parametrize("zone", ["us-east-1a", ""])
def test_subnets_are_where_nodes_are(zone: str) -> None:
    """Without a declared zone AWS chooses one. Parts that need a second zone get another."""
    recorder, _ = stamp(on_aws({"zone": zone}, scheduler={"accounting": True, "database": "managed"}))
    chosen = zone or "chosen for test-nodes"
    subnets = {name: args.inputs for (kind, name), args in recorder.seen.items() if kind == "Subnet"}
    assert {name: inputs.get("availabilityZone", "") for name, inputs in subnets.items()} == {
        "test-nodes": zone,
        "test-storage": chosen,
        "test-egress": chosen,
        "test-accounting": "us-east-1b" if zone else "us-east-1a",
    }


def test_the_end_of_a_block_is_told_that_is_tried_later() -> None:
    """An EventBridge rule names the block and mails the declared addresses."""
    later = [{"purchase": "spot"}, {"purchase": "block", "reservation": "cr-2"}]
    recorder, _ = stamp(on_aws({"count_min": 1, "fallbacks": later}, budget={"notify": ["ops@example.com"]}))
    pattern = json.loads(recorder.inputs("EventRule", "test-blocks")["eventPattern"])
    assert pattern["detail"] == {"capacity-reservation-id": ["cr-2"]}
    assert recorder.inputs("TopicSubscription", "test-blocks-ops@example.com")["protocol"] == "email"


def test_a_bucket_that_may_go_goes_with_what_it_holds() -> None:
    """The bucket is deleted with its content, like a file system: AWS refuses to delete a bucket with old versions."""
    ways = {"kept": True, "goes": False}
    buckets = [{"name": name, "kind": "s3", "mount": f"/{name}", "protect": kept} for name, kept in ways.items()]
    recorder, _ = stamp(on_aws({}, storage=buckets))
    made = {name: args.inputs for (kind, name), args in recorder.seen.items() if kind in ("Bucket", "BucketV2")}
    assert {name: each.get("forceDestroy") for name, each in made.items()} == {"test-kept": None, "test-goes": True}


def test_rights_are_in_the_world_of_aws_that_the_cluster_is_in() -> None:
    """ARNs are bound to their partition of AWS: another partition refuses them, or matches nothing."""
    seen = [stamp(made)[0].seen for made in (on_aws({"count_min": 1}), on_eks({}))]
    rights = [
        json.dumps(args.inputs)
        for each in seen
        for (kind, _), args in each.items()
        if kind in ("Role", "RolePolicy", "RolePolicyAttachment")
    ]
    worlds = {world for text in rights for world in re.findall(r"arn:([\w-]+):", text)}
    assert len(rights) > 20
    assert worlds == {"aws-us-gov"}


def on_eks(pool: dict[str, Any], *more: dict[str, Any]) -> Plan:
    return on_aws(pool, *more, scheduler={"kind": "kubernetes"})


def on_aws(pool: dict[str, Any], *more: dict[str, Any], **fields: Any) -> Plan:
    """Return the plan with looked-up facts and prepared images."""
    gpu = {"name": "gpu", "machine": "p5", "count": 4, "zone": "us-east-1a", **pool}
    gpu = {key: value for key, value in gpu.items() if value != ""}
    declared = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": [gpu, *more]}
    made = plan(load_value({**declared, **fields}, "test"))
    groups = [
        dataclasses.replace(
            group, launch=group.launch and dataclasses.replace(group.launch, image="ami-1", prepared=True)
        )
        for group in made.groups
    ]
    parts = tuple(dataclasses.replace(part, version="v1") for part in made.scheduler.parts)
    return dataclasses.replace(made, groups=tuple(groups), scheduler=dataclasses.replace(made.scheduler, parts=parts))


def test_up_needs_the_programs_that_reach_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An `up` without a program does not begin. Previews, rehearsals and clusters without logins need none."""
    (tmp_path / "session-manager-plugin").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", said.append)
    made = on_aws({})
    monkeypatch.setattr(settings.SETTINGS, "monitor", None)
    with pytest.raises(SystemExit):
        check_programs(made)
    assert said == [
        "this machine has no aws, without which it never gets to the nodes of test.\n"
        "  hint: install the AWS CLI and its Session Manager plugin; nothing was changed"
    ]
    with pytest.raises(SystemExit):
        check_programs(on_eks({}))
    assert said[1:] == [
        "this machine has no aws and no kubectl, without which it never asks the Kubernetes of test.\n"
        "  hint: install kubectl, and the AWS CLI, from which kubectl gets its token; nothing was changed"
    ]
    check_programs(planned(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
        check_programs(made)
    with monkeypatch.context() as patch:
        patch.setenv("PULUMI_DEBUG_PROVIDERS", "aws:1,stampworks:2")
        check_programs(made)
    (tmp_path / "aws").touch(mode=0o755)
    check_programs(made)


def test_a_cluster_that_nobody_wants_proven_has_no_proof(tmp_path: Path) -> None:
    """Nothing is measured, and no output claims a proof."""
    recorder, outputs = stamp(planned(tmp_path, ("    users:\n", "    proof: {level: none}\n    users:\n")))
    assert not {kind for kind, _ in recorder.seen} & {"SigningKey", "Qualification"}
    assert [outputs[name] for name in ("verdict", "certificate", "verification_key")] == ["unknown", "", ""]


def test_users_are_not_part_of_the_proof(tmp_path: Path) -> None:
    """Another user needs no new proof; another rate does."""
    before, _ = stamp(planned(tmp_path))
    another, _ = stamp(planned(tmp_path, ("      - {name: bob, uid: 2002, groups: [team]}\n", "")))
    faster, _ = stamp(planned(tmp_path, ("rail_rate_mbps: 200", "rail_rate_mbps: 100")))
    proven = [each.inputs("Qualification", "local")["subject"] for each in (before, another, faster)]
    assert proven[0] == proven[1] != proven[2]


def test_a_pool_more_leaves_the_names_of_the_others_alone(tmp_path: Path) -> None:
    """Resources are named by pool and never by position."""
    first = ("    pools:\n", "    pools:\n      - {name: early, machine: sim-cpu, count: 1}\n")
    before, _ = stamp(planned(tmp_path))
    after, _ = stamp(planned(tmp_path, first))
    assert set(after.seen) - set(before.seen) == {("LocalGroup", "local-early")}
    assert set(before.seen) < set(after.seen)


def test_outputs_say_what_there_is_and_how_to_use_it(tmp_path: Path) -> None:
    """The outputs contain a few small facts, a first command, and the values to compare with a sibling."""
    made = planned(tmp_path)
    recorder, outputs = stamp(made)
    ssh = shlex.split(outputs.pop("ssh"))
    assert (ssh[:2], ssh[-4:]) == (["enter", "ssh"], ["-l", "root", "--", made.controller.nodes[0].address])
    assert outputs.pop("inventory") == recorder.inputs("Playbook", "local")["inventory"]
    assert outputs == {
        "name": "local",
        "head": made.controller.nodes[0].address,
        "nodes": 4,
        "use": "stampworks run -s test -- hostname",
        "logins": {},
        "mounts": {"/shared": "/exports/shared"},
        "cost_tags": {},
        "endings": [],
        "fingerprint": fingerprint(made),
        "verdict": "pass",
        "certificate": "signed",
        "verification_key": "public",
        "kubeconfig": "",
    }


def test_users_with_keys_are_told_how_to_log_in(tmp_path: Path) -> None:
    """Users log in with their own names and the key file of ssh-keygen, to a login node if there is one."""
    key = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43}"
    with_key = ("uid: 2001, ", f"uid: 2001, keys: ['{key}'], ")
    for changes, node in (
        ([with_key], "head"),
        ([with_key, ("scheduler:\n", "scheduler:\n      login_nodes: 1\n")], "login-001"),
    ):
        made = planned(tmp_path, *changes)
        _, outputs = stamp(made)
        assert [*outputs["logins"]] == ["alice"]
        ssh = shlex.split(outputs["logins"]["alice"])
        address = next(each.address for group in made.groups for each in group.nodes if each.name == node)
        assert ssh[ssh.index("-i") + 1] == "~/.ssh/id_ed25519"
        assert ssh[-4:] == ["-l", "alice", "--", address]


def test_a_new_leaf_is_no_change_of_the_groups(tmp_path: Path) -> None:
    """Trunks belong to the network: growth by a leaf must not touch pools that do not grow."""
    before, _ = stamp(planned(tmp_path))
    after, _ = stamp(planned(tmp_path, ("count: 4", "count: 8")))
    assert before.inputs("LocalNetwork", "local") != after.inputs("LocalNetwork", "local")
    assert before.inputs("LocalGroup", "local-head") == after.inputs("LocalGroup", "local-head")


def test_the_roster_hangs_on_every_group(tmp_path: Path) -> None:
    """Another generation of any group means another roll, whose remains belong to the roster."""
    recorder, _ = stamp(planned(tmp_path))
    groups = recorder.inputs("Roll", "local")["groups"]
    assert [(group["name"], group["generation"]) for group in groups] == [
        ("head", "generation of local-head"),
        ("gpu", "generation of local-gpu"),
    ]
    roster = recorder.inputs("Roster", "local")
    assert roster["generations"] == {"head": "rolled head", "gpu": "rolled gpu"}
    assert json.loads(roster["groups"]) == [
        {"name": "head", "names": ["head"], "count": 1},
        {"name": "gpu", "names": [f"gpu-00{n}" for n in range(1, 5)], "count": 4},
    ]


def test_the_roster_brings_tags_to_machines_that_run(tmp_path: Path) -> None:
    """The roster sets cost tags, if the cloud sends a bill."""
    recorder, _ = stamp(on_aws({}, tags=[{"name": "owner", "value": "platform"}]))
    assert recorder.inputs("Roster", "test")["tags"] == {"owner": "platform", "stampworks:cluster": "test"}
    recorder, _ = stamp(planned(tmp_path))
    assert recorder.inputs("Roster", "local").get("tags") is None


@pytest.mark.parametrize(
    ("edit", "rolls"),
    [
        (("count: 4", "count: 8"), []),
        (("      - {name: bob, uid: 2002, groups: [team]}\n", ""), []),
        (("leaf_nodes: 2", "leaf_nodes: 4"), ["gpu", "head"]),
        (("machine: sim-h100", "machine: sim-a100-small"), ["gpu"]),
        (("      accounting: true\n", ""), ["gpu", "head"]),
    ],
)
def test_boot_settings_are_part_of_the_template(tmp_path: Path, edit: tuple[str, str], rolls: list[str]) -> None:
    """Growth and users do not renew a node; image, machine and place do."""
    before, after = (
        {group["name"]: group["template"] for group in stamp(made)[0].inputs("Roll", "local")["groups"]}
        for made in (planned(tmp_path), planned(tmp_path, edit))
    )
    assert sorted(name for name in before if before[name] != after[name]) == rolls


def test_the_roll_shows_no_secret(tmp_path: Path) -> None:
    """The secrets of the playbook and the signing key are passed separately."""
    secrets = stamp(planned(tmp_path))[0].inputs("Roll", "local")["secrets"]
    assert set(secrets["value"]) == {"slurm_key", "database_password", "signing_key"}
    unproven = stamp(planned(tmp_path, ("    users:\n", "    proof: {level: none}\n    users:\n")))[0]
    assert set(unproven.inputs("Roll", "local")["secrets"]["value"]) == {"slurm_key", "database_password"}


def test_the_playbook_gets_the_inventory_of_the_roster(tmp_path: Path) -> None:
    """The inventory is computed when the members are known, and holds no secret."""
    recorder, _ = stamp(planned(tmp_path))
    inputs = recorder.inputs("Playbook", "local")
    assert inputs["playbook"] == "site.yml"
    hosts = json.loads(inputs["inventory"])["all"]["hosts"]
    assert set(hosts) == {"head", "gpu-001", "gpu-002", "gpu-003", "gpu-004"}
    assert inputs["roster"]["reach"] == ["enter"]
    assert "slurmKey" not in inputs["inventory"]


@pytest.mark.parametrize("protect", [True, False])
def test_declared_protection_reaches_pulumi(tmp_path: Path, protect: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared protection reaches Pulumi's own guard: of storage, of the queue, of the keys."""
    guarded: dict[str, bool | None] = {}
    make = pulumi.CustomResource.__init__

    def record(self: pulumi.CustomResource, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        guarded[type(self).__name__] = args[3].protect

    monkeypatch.setattr(pulumi.CustomResource, "__init__", record)
    stamp(planned(tmp_path, ("protect: false", f"protect: {str(protect).lower()}")))
    assert {name: bool(guarded[name]) for name in guarded} == {
        "Keyring": protect,
        "LocalVolume": protect,
        "SharedDirectory": protect,
        "LocalRoom": False,
        "LocalNetwork": False,
        "LocalGroup": False,
        "Roll": False,
        "Roster": False,
        "Playbook": False,
        "SigningKey": False,
        "Qualification": False,
    }


def test_add_ons_are_releases_of_helm_one_after_the_other() -> None:
    """Names and inputs are part of the state. Queues are created after the server supports their kind."""
    recorder = assembled(of_kubernetes("azure", "ND96isr_H100_v5", "eastus"))
    releases = [name for kind, name in recorder.seen if kind == "Release"]
    assert releases == [
        "base-node-feature-discovery",
        "base-gpu-operator",
        "base-network-operator",
        "base-kueue",
        "base-jobset",
        "base-metrics-server",
    ]
    operator, kueue = (dict(recorder.inputs("Release", f"base-{name}")) for name in ("gpu-operator", "kueue"))
    assert operator.pop("values")["driver"]["enabled"] is True
    assert operator == {
        "name": "gpu-operator",
        "chart": "gpu-operator",
        "version": "v26.3.3",
        "namespace": "gpu-operator",
        "createNamespace": True,
        "repositoryOpts": {"repo": "https://helm.ngc.nvidia.com/nvidia"},
        "skipAwait": True,
        "compat": "true",
    }
    assert (kueue["chart"], kueue["skipAwait"], kueue["timeout"]) == (
        "oci://registry.k8s.io/kueue/charts/kueue",
        False,
        900,
    )
    assert "repositoryOpts" not in kueue
    assert ("NicClusterPolicy", "base-nicclusterpolicy-nic-cluster-policy") in recorder.seen
    made = [kind for kind, _ in recorder.seen]
    assert made.index("NicClusterPolicy") > made.index("Release")
    answering = [[*recorder.seen].index(("Release", f"base-{name}")) for name in ("kueue", "jobset")]
    assert made.index("ResourceFlavor") > max(answering)


def test_one_switch_makes_no_release_and_neither_does_a_cloud_that_brings_all(tmp_path: Path) -> None:
    by_hand = of_kubernetes("azure", "ND96isr_H100_v5", "eastus", {"installer": "none"})
    for made in (by_hand, planned(tmp_path, ("kind: slurm", "kind: kubernetes"))):
        assert not {kind for kind, _ in assembled(made).seen} & {"Release", "NicClusterPolicy"}


def of_kubernetes(cloud: str, machine: str, region: str, addons: dict[str, Any] | None = None) -> Plan:
    declared = {"version": 1, "name": "test", "cloud": cloud, "region": region}
    pools = [{"name": "gpu", "machine": machine, "count": 2}]
    scheduler = {"kind": "kubernetes", **({"addons": addons} if addons else {})}
    return plan(load_value({**declared, "pools": pools, "scheduler": scheduler}, "test"))


def assembled(made: Plan) -> Recorder:
    """Return the objects for a control plane of any creator."""
    recorder = Recorder([])
    mocks.set_mocks(recorder, preview=False, stack="test", project="test")

    def run() -> None:
        there: Any = pulumi.CustomResource("test:index:ControlPlane", "control-plane")
        there.kubeconfig = pulumi.Output.from_input("of the administrator")
        there.identity = pulumi.Output.from_input("this one")
        maker = cast("ServerMaker[Network, ControlPlane]", SimpleNamespace(server=lambda each: each))
        assemble(there, "base", made, maker, there, {})

    cast(Callable[[], None], pulumi.runtime.test(run))()  # type: ignore[no-untyped-call]
    return recorder
