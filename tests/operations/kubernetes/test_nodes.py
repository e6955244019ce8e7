"""Draining and returning nodes of Kubernetes. See tests/cluster for a real server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from stampworks import planning
from stampworks.cli import clusters, exits
from stampworks.cli.main import main
from stampworks.cli.status import text
from stampworks.declaration import load_value
from stampworks.operations import BusyError, HeldError, InputError, OperationError
from stampworks.operations.drain import LEAVES
from stampworks.operations.kubernetes import nodes as kubernetes_nodes
from stampworks.operations.kubernetes import status as kubernetes_status
from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError
from stampworks.operations.kubernetes.service import KubernetesService
from stampworks.operations.service import vacate
from stampworks.plan import Ending, Plan, Refusal
from stampworks.text.reasons import DrainReason

from tests.operations.kubernetes.standin import StandIn, gang, node, pod
from tests.operations.slurm.test_status import the_plan

FANS = DrainReason("person", "alice", "new fans")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn(node("gpu-001"), node("gpu-002"))
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: stand_in)
    return stand_in


@pytest.fixture
def kubernetes_plan() -> Plan:
    plan = the_plan()
    return replace(plan, scheduler=replace(plan.scheduler, kind="kubernetes"))


def of(server: StandIn, name: str) -> tuple[bool, str]:
    found = server.nodes()[name]
    return bool(found["spec"]["unschedulable"]), found["metadata"]["annotations"].get("stampworks/held", "")


def test_out_and_back(server: StandIn, kubernetes_plan: Plan) -> None:
    """All nodes get the same reason, which replaces earlier ones."""
    server.there[1] = node("gpu-002", out=True, held="proof: slow")
    kubernetes_nodes.drain(server, kubernetes_plan, ["gpu-001", "gpu-002"], FANS)
    assert of(server, "gpu-001") == of(server, "gpu-002") == (True, "person alice: new fans")
    kubernetes_nodes.give_back(server, kubernetes_plan, ["gpu-001", "gpu-002"])
    assert of(server, "gpu-001") == of(server, "gpu-002") == (False, "")


def test_return_of_a_node_held_by_a_proof_needs_force(server: StandIn, kubernetes_plan: Plan) -> None:
    """Without force no node is returned."""
    server.there = [node("gpu-001", out=True), node("gpu-002", taints=["stampworks/unproven"])]
    with pytest.raises(HeldError) as caught:
        kubernetes_nodes.give_back(server, kubernetes_plan, ["gpu-001", "gpu-002"])
    assert str(caught.value) == (
        "gpu-002 is held by its proof: not proven yet\nno node was returned\n"
        "  hint: `stampworks qualify --nodes gpu-002` measures and returns what passes, and so does `pulumi up`; "
        "--force returns them now"
    )
    assert server.told == []
    kubernetes_nodes.give_back(server, kubernetes_plan, ["gpu-001", "gpu-002"], force=True)
    assert server.told == ["uncordon gpu-001", "taint node gpu-002 stampworks/unproven-"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("head", "head is the controller and runs no jobs"),
        ("gpu-009", "no node is called 'gpu-009' in cluster"),
        ("gpu-002", "Kubernetes does not know gpu-002 yet\n  hint: `pulumi up` adds it to the cluster"),
    ],
)
def test_unknown_node_is_refused(server: StandIn, kubernetes_plan: Plan, name: str, what: str) -> None:
    server.there.pop()
    with pytest.raises(InputError, match=what):
        kubernetes_nodes.drain(server, kubernetes_plan, ["gpu-001", name], FANS)
    assert server.told == []


def test_leaving_node_finishes_its_work(server: StandIn) -> None:
    """A gang counts once for all its pods. A node cordoned by a person keeps that person's reason."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "long"}
    server.there[1] = node("gpu-002", out=True, held="person bob: cable")
    server.others = [gang("long", "gpu-001"), pod("long-0", "gpu-001", labels=labels), pod("own", "gpu-002")]
    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        server.others = []

    vacate(KubernetesService(server), dict.fromkeys(["gpu-001", "gpu-002", "gpu-007"], LEAVES), 1, progress, poll_s=0)
    assert told == ["waiting for pod research/own, run research/long"]
    assert of(server, "gpu-001") == (True, "stampworks: leaves the cluster")
    assert of(server, "gpu-002") == (True, "person bob: cable")


def test_node_that_cannot_leave_takes_pods_again(server: StandIn) -> None:
    server.there[1] = node("gpu-002", out=True, held="person bob: cable")
    server.others = [gang("long", "gpu-001", "gpu-002")]
    with pytest.raises(BusyError) as caught:
        vacate(KubernetesService(server), dict.fromkeys(["gpu-001", "gpu-002"], LEAVES), 0, print)
    assert str(caught.value) == (
        "gpu-001, gpu-002 did not become free within 0 minutes: nothing was removed, the nodes take jobs again\n"
        "  gpu-001: run research/long\n  gpu-002: run research/long\n"
        "  hint: wait for them, or cancel them; scheduler.drain_timeout_minutes says how long to wait"
    )
    assert of(server, "gpu-001") == (False, "")
    assert of(server, "gpu-002") == (True, "person bob: cable")


def test_node_cordoned_meanwhile_stays_cordoned(server: StandIn) -> None:
    """A failed removal returns only nodes that the toolkit still holds."""
    server.others = [gang("long", "gpu-001", "gpu-002")]

    def progress(_: str) -> None:
        server.there[0] = node("gpu-001", out=True, held="person bob: cable")

    with pytest.raises(BusyError):
        vacate(KubernetesService(server), dict.fromkeys(["gpu-001", "gpu-002"], LEAVES), 0.001, progress, poll_s=0.1)
    assert of(server, "gpu-001") == (True, "person bob: cable")
    assert of(server, "gpu-002") == (False, "")


def test_preempted_run_counts_until_its_pods_end(server: StandIn) -> None:
    """Kueue has given its place away while it still saves; it may already run elsewhere."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "long"}
    evicted = gang("long", "gpu-001")
    evicted["status"]["conditions"][0]["status"] = "False"
    server.others = [evicted, pod("long-0", "gpu-001", labels=labels)]
    assert kubernetes_nodes.runs(server) == {"gpu-001": ("pod research/long-0",)}
    server.others = [gang("long", "gpu-002"), pod("long-0", "gpu-001", labels=labels)]
    assert kubernetes_nodes.runs(server) == {"gpu-001": ("pod research/long-0",), "gpu-002": ("run research/long",)}


def test_a_gang_that_goes_on_without_a_node_does_not_run_there(server: StandIn) -> None:
    """Kueue counts the node as the gang's to the end. After the end of all its pods, others may be about to start."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "long"}
    pods = [pod(f"long-{index}", f"gpu-00{index}", labels=labels) for index in (1, 2)]
    pods[1]["status"]["phase"] = "Failed"
    server.others = [gang("long", "gpu-001", "gpu-002"), *pods]
    assert kubernetes_nodes.runs(server) == {"gpu-001": ("run research/long",)}
    pods[0]["status"]["phase"] = "Failed"
    assert {*kubernetes_nodes.runs(server)} == {"gpu-001", "gpu-002"}
    server.others.append(pod("long-2", "gpu-002", labels=labels))
    assert {*kubernetes_nodes.runs(server)} == {"gpu-002"}


def test_a_gang_that_waits_for_a_node_to_be_proven_does_not_run_there(server: StandIn) -> None:
    """Otherwise node and gang would wait for each other. Pods from before a restart may still exist."""
    server.there[0] = node("gpu-001", taints=["stampworks/unproven=again"])
    server.others = [gang("long", "gpu-001", "gpu-002")]
    assert kubernetes_nodes.runs(server) == {"gpu-002": ("run research/long",)}
    server.others.append(pod("long-0", "gpu-001", labels={"jobset.sigs.k8s.io/jobset-name": "long"}))
    assert kubernetes_nodes.runs(server)["gpu-001"] == ("pod research/long-0",)


def test_pods_of_a_lost_node_do_not_count_on_its_successor(server: StandIn) -> None:
    old, new = pod("old", "gpu-001"), pod("new", "gpu-001")
    server.there[0]["metadata"]["creationTimestamp"] = "2026-11-24T12:00:00Z"
    old["status"]["startTime"], new["status"]["startTime"] = "2026-11-24T11:59:59Z", "2026-11-24T12:00:00Z"
    server.others = [old, new]
    assert kubernetes_nodes.runs(server) == {"gpu-001": ("pod research/new",)}


def test_mount_driver_pods_are_not_work(server: StandIn) -> None:
    """The mount driver's pod exists as long as these pods, which are counted. Its label in another namespace may be
    anyone's."""
    labels = {"s3.csi.aws.com/mountpoint-version": "1.22.2"}
    server.others = [
        pod("mp-1", "gpu-001", "mount-s3", labels=labels),
        pod("reads", "gpu-002"),
        pod("mp-2", "gpu-002", "mount-s3", labels=labels),
        pod("sly", "gpu-003", labels=labels),
        pod("other", "gpu-004", "mount-s3"),
    ]
    assert kubernetes_nodes.runs(server) == {
        "gpu-002": ("pod research/reads",),
        "gpu-003": ("pod research/sly",),
        "gpu-004": ("pod mount-s3/other",),
    }


def test_pods_of_cloud_add_ons_are_not_work(server: StandIn) -> None:
    """Pods of a cloud's add-on may be on any node, and would block its proof for ever. Pods of other namespaces may be
    anyone's."""
    owned = [{"kind": "ReplicaSet", "name": "fsx-csi-controller-7d"}]
    server.others = [
        pod("fsx-csi-controller-7d-a", "gpu-001", "kube-system", ownerReferences=owned),
        pod("grafana-1", "gpu-002", "monitoring", ownerReferences=owned),
    ]
    assert kubernetes_nodes.runs(server) == {"gpu-002": ("pod monitoring/grafana-1",)}


def test_run_that_moves_is_stopped_first(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run may restart, even if an earlier roll was killed before it allowed that."""
    left = gang("left", "gpu-009")
    left["metadata"]["annotations"] = {"stampworks/requeued": "true"}
    server.others = [gang("here", "gpu-001"), gang("other", "gpu-002"), left]
    vacate(KubernetesService(server), {"gpu-001": LEAVES}, 0, print, again=True)
    patches = [words.split() for words in server.told if words.startswith("patch workload")]
    assert [(each[2], '"active": false' in " ".join(each)) for each in patches] == [
        *(("jobset-here", True), ("jobset-left", True)),
        *(("jobset-here", False), ("jobset-left", False)),
    ]


@pytest.mark.parametrize(("why", "raised"), [("NotFound", False), ("Forbidden", True)])
def test_a_gang_that_has_gone_meanwhile_need_not_start_anew(
    server: StandIn, monkeypatch: pytest.MonkeyPatch, why: str, raised: bool
) -> None:
    """Its user may cancel it while a roll stops it. Another refusal ends the roll."""
    server.others = [gang("here", "gpu-001")]

    def refuse(words: Sequence[str], *_: Any, **__: Any) -> str:
        server.others = []
        raise RefusedError(f'Error from server ({why}): workloads "{words[2]}"', "")

    monkeypatch.setattr(server, "said", refuse)
    with pytest.raises(RefusedError, match=why) if raised else nullcontext():
        kubernetes_nodes.requeue(server, ["gpu-001"])


def test_run_without_topology_is_found_by_its_pods(server: StandIn) -> None:
    """Without a topology Kueue reports no nodes; gangs without pods on these nodes continue."""
    alone, here, elsewhere, done = (gang(name) for name in ("alone", "here", "elsewhere", "done"))
    labels = {"jobset.sigs.k8s.io/jobset-name": "here"}
    server.others = [
        *(alone, here, elsewhere, done),
        pod("alone-0", "gpu-001", ownerReferences=[{"kind": "Job", "name": "alone"}]),
        pod("here-0", "gpu-001", labels=labels, ownerReferences=[{"kind": "Job", "name": "here-node-0"}]),
        pod("elsewhere-0", "gpu-002", ownerReferences=[{"kind": "Job", "name": "elsewhere"}]),
        pod("done-0", "gpu-001", phase="Succeeded", ownerReferences=[{"kind": "Job", "name": "done"}]),
        pod("own", "gpu-001", team="product", ownerReferences=[{"kind": "Job", "name": "elsewhere"}]),
    ]
    kubernetes_nodes.requeue(server, ["gpu-001"])
    patches = [words.split() for words in server.told if words.startswith("patch workload")]
    assert [each[2] for each in patches] == ["jobset-alone", "jobset-here"] * 2


def test_node_of_a_killed_up_leaves_now(server: StandIn) -> None:
    server.there[0] = node("gpu-001", out=True, held=f"stampworks: {LEAVES.text}")
    server.others = [gang("long", "gpu-001")]
    with pytest.raises(BusyError):
        vacate(KubernetesService(server), {"gpu-001": LEAVES}, 0, print)
    assert of(server, "gpu-001") == (False, "")


def test_from_the_command_line(
    server: StandIn, kubernetes_plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands print the state of the nodes."""
    monkeypatch.setattr("stampworks.cli.clusters.plan_of", lambda _: kubernetes_plan)
    monkeypatch.setenv("SUDO_USER", "alice")
    server.others = [gang("long", "gpu-001")]
    assert main(["drain", "gpu-001", "--reason", "new fans"]) == exits.FINE
    assert capsys.readouterr().out == (
        "  node     state  runs               held by  reason\n  gpu-001  ready  run research/long  alice    new fans\n"
    )
    with pytest.raises(BusyError):
        kubernetes_nodes.wait_until_free(server, ["gpu-001"], 0, print)
    assert main(["return", "gpu-001", "gpu-002", "--json"]) == exits.FINE
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["nodes"][0] == {"name": "gpu-001", "ready": True, "held": None, "runs": ["run research/long"]}
    server.there[1] = node("gpu-002", ready=False)
    assert main(["return", "gpu-002"]) == exits.NO


def on_eks(**bought: str) -> Plan:
    pool = {"name": "gpu", "machine": "p5", "count": 2, **bought}
    declared = {"version": 1, "name": "k", "cloud": "aws", "region": "us-east-1", "pools": [pool]}
    return planning.plan(load_value({**declared, "scheduler": {"kind": "kubernetes"}}, "test"))


def labelled(name: str, pool: str = "gpu", **more: Any) -> Any:
    made = node(name, **more)
    made["metadata"]["labels"] = {"stampworks/pool": pool}
    return made


def test_nodes_that_a_cloud_names_are_known_by_their_pool(server: StandIn) -> None:
    """Nodes of the system cannot be drained."""
    server.there = [labelled("ip-1"), labelled("ip-2", taints=["stampworks/unproven"]), labelled("ip-3", "head")]
    kubernetes_nodes.drain(server, on_eks(), ["ip-1"], FANS)
    assert of(server, "ip-1") == (True, "person alice: new fans")
    kubernetes_nodes.give_back(server, on_eks(), ["ip-2"], force=True)
    assert server.told[-1] == "taint node ip-2 stampworks/unproven-"
    with pytest.raises(InputError, match="no node is called 'ip-3'"):
        kubernetes_nodes.drain(server, on_eks(), ["ip-3"], FANS)


def watched(name: str, status: str = "False", **more: Any) -> Any:
    """Return a node as EKS's agent reports it: it lists faults, and nothing about healthy parts."""
    made = labelled(name, **more)
    made["status"]["conditions"] += [
        {"type": "KernelReady", "status": "True", "reason": "KernelIsReady", "message": "well"},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure", "message": "none"},
        {
            "type": "AcceleratedHardwareReady",
            "status": status,
            "reason": "NvidiaXID79Error",
            "message": "GPU has fallen off the bus",
        },
    ]
    return made


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ([labelled("ip-1"), labelled("ip-2")], ()),
        ([labelled("ip-1"), labelled("ip-2", "head")], ("pool gpu: 1 of 2 nodes are there",)),
        ([labelled("ip-1"), labelled("ip-2", ready=False)], ("ip-2: not ready",)),
        (
            [labelled("ip-1"), labelled("ip-2", taints=["stampworks/unproven"])],
            ("ip-2: takes no pods: proof: not proven yet",),
        ),
        (
            [labelled("ip-1"), watched("ip-2")],
            (
                "ip-2: AcceleratedHardwareReady is false: NvidiaXID79Error: GPU has fallen off the bus; "
                "stampworks drain keeps jobs from there",
            ),
        ),
        (
            [labelled("ip-1"), watched("ip-2", "Unknown")],
            ("ip-2: AcceleratedHardwareReady is unknown: NvidiaXID79Error: GPU has fallen off the bus",),
        ),
        (
            [labelled("ip-1"), watched("ip-2", taints=["stampworks/unproven"])],
            (
                "ip-2: takes no pods: proof: not proven yet",
                "ip-2: AcceleratedHardwareReady is false: NvidiaXID79Error: GPU has fallen off the bus",
            ),
        ),
    ],
)
def test_nodes_that_a_cloud_names_are_counted(there: list[Any], why: tuple[str, ...], server: StandIn) -> None:
    """A cluster that lacks a node is unhealthy, although the missing node has no name."""
    server.there = there
    server.listed = lambda *_, **__: there  # type: ignore[method-assign]
    found = kubernetes_status.status(on_eks())
    assert (found.verdict, found.why) == ("fail" if why else "pass", why)


def test_status_says_when_capacity_ends(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reservations end with their nodes; the cloud is not asked about others."""
    server.there = [labelled("ip-1"), labelled("ip-2")]
    server.listed = lambda *_, **__: server.there  # type: ignore[method-assign]
    asked, ending = list[tuple[str, ...]](), Ending("gpu", "cr-1", "", "not permitted")

    def endings(*where: str) -> tuple[Ending, ...]:
        asked.append(where)
        return (ending,)

    monkeypatch.setattr(kubernetes_status, "endings", endings)
    assert kubernetes_status.status(on_eks()).endings == ()
    found = kubernetes_status.status(on_eks(purchase="block", reservation="cr-1"))
    assert (found.verdict, asked) == ("pass", [("aws", "k", "us-east-1")])
    assert text(found)[-1].startswith("warning: gpu: its nodes go with cr-1, and when that ends is unknown")


def test_managed_nodes_have_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "plan_of", lambda _: on_eks())
    with pytest.raises(exits.CliError, match="nodes of cluster k are managed by aws: they have no programs"):
        clusters.cluster_of("aws-p5en-eks")


def test_node_text_cannot_control_the_terminal(
    server: StandIn, kubernetes_plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node writes its own reason, and may be malicious."""
    monkeypatch.setattr("stampworks.cli.clusters.plan_of", lambda _: kubernetes_plan)
    server.there = [node("gpu-001", out=True, held="health: \x1b[2J\u202e<b>$(reboot)\nhint: rm"), node("gpu-002")]
    server.others = server.there  # all objects that a status asks for
    assert main(["status"]) == exits.NO
    assert "gpu-001: takes no pods: health: \\x1b[2J\\u202e<b>$(reboot)\\nhint: rm" in capsys.readouterr().out
    assert main(["return", "gpu-001"]) == exits.NO
    assert "\x1b" not in capsys.readouterr().err


def of_pool(name: str, ready: bool = True) -> Any:
    found = node(name, ready)
    found["metadata"] |= {"labels": {"stampworks/pool": "gpu"}, "uid": f"uid-of-{name}"}
    found["status"] |= {
        "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.0.0.7"}]
    }
    found["status"]["nodeInfo"] = {"bootID": "first"}
    return found


def test_members_come_from_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes lists the nodes of the wanted pools. All are waited for, and missing ones are counted, with the
    cloud's reasons."""
    refused: tuple[Refusal, ...] = (Refusal("gpu", "", "sold out", lasting=False, hint="buy some"),)
    asked: list[tuple[Any, ...]] = []

    def refusals(*of: Any) -> tuple[Refusal, ...]:
        asked.append(of)
        return refused

    monkeypatch.setattr("stampworks.clouds.aws.members.node_refusals", refusals)
    server = StandIn(of_pool("b"), of_pool("a", ready=False), node("head"))
    monkeypatch.setattr(kubernetes_nodes, "KubernetesApi", lambda *_: server)
    told: list[str] = []

    def starts(_: float) -> None:
        server.there[1] = of_pool("a")

    monkeypatch.setattr("stampworks.operations.kubernetes.nodes.time.sleep", starts)
    found = kubernetes_nodes.gather("k", "aws", "us-west-2", {"gpu": 2}, told.append, 60)
    assert told == ["gpu: 1 of 2 nodes answer Kubernetes; gpu: sold out"]
    assert asked == [("k", "us-west-2", ["gpu"])]
    assert [(each.name, each.group, each.instance, each.address) for each in found.members] == [
        (name, "gpu", f"uid-of-{name}/first", "10.0.0.7") for name in ("a", "b")
    ]
    with pytest.raises(OperationError) as caught:
        kubernetes_nodes.gather("k", "aws", "us-west-2", {"gpu": 3}, told.append, 0)
    assert str(caught.value) == ("gpu: 2 of 3 nodes answer Kubernetes after 0 s\n  gpu: sold out\n  hint: buy some")
    refused = (Refusal("gpu", "", "never made", lasting=True, hint="make another one"),)
    with pytest.raises(OperationError) as caught:
        kubernetes_nodes.gather("k", "aws", "us-west-2", {"gpu": 3}, told.append, 60)
    assert str(caught.value) == (
        "gpu: 2 of 3 nodes answer Kubernetes, and waiting does not help\n  gpu: never made\n  hint: make another one"
    )
    refused = ()
    with pytest.raises(OperationError, match="hint: see stampworks status, and the cloud's console"):
        kubernetes_nodes.gather("k", "aws", "us-west-2", {"gpu": 3}, told.append, 0)
