"""Proofs of nodes through Kubernetes: which nodes may be measured, in which order, and how programs ended. See
tests/cluster for the same on real nodes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.operations import holder, remote
from stampworks.operations.errors import OperationError
from stampworks.operations.ground import NodeStanding, ProofHeldError
from stampworks.operations.kubernetes.client import RefusedError
from stampworks.operations.kubernetes.ground import KubernetesGround, _how, _standing
from stampworks.plan import Member, Roster
from stampworks.qualification import subject_of
from stampworks.text.reasons import STARTED_AGAIN, UNPROVEN, DrainReason

from tests.operations.kubernetes.standin import StandIn, gang, node, pod

ALICE = "alice@laptop since 2026-11-21T23:00:00Z (process 7 begun 9 in another.1)"
ROSTER = Roster("k", "local", (), "root", "", (Member("n1", "gpu", "1", "10.0.0.1", (), ""),))


DECLARED = {
    "version": 1,
    "name": "k",
    "cloud": "local",
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
    "scheduler": {"kind": "kubernetes"},
}
SUBJECT = subject_of(planning.plan(load_value(DECLARED, "test")))
ON_EKS: dict[str, Any] = {
    **DECLARED,
    "cloud": "aws",
    "region": "us-west-2",
    "pools": [{"name": "gpu", "machine": "p5en", "count": 2, "zone": "us-west-2b"}],
    "scheduler": {"kind": "kubernetes", "workloads_image": "registry.example.com/workloads:1"},
}


def of_proof(rank: int, phase: str, **state: Any) -> Any:
    found = pod(f"proof-ab-{rank}", f"n{rank}", "stampworks-proof", phase)
    found["status"]["containerStatuses"] = [{"state": state}] if state else []
    return found


@pytest.fixture
def server() -> StandIn:
    return StandIn(node())


@pytest.fixture
def ground(server: StandIn) -> KubernetesGround:
    made = KubernetesGround(SUBJECT, ROSTER)
    made._server = server
    return made


def lease(who: str, age_s: float = 0) -> dict[str, Any]:
    renewed = (datetime.now(UTC) - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": who, "leaseDurationSeconds": 300, "renewTime": renewed}
    return {"metadata": {"resourceVersion": "1"}, "spec": spec}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (node(), NodeStanding()),
        (node(ready=False), NodeStanding(out="it does not answer Kubernetes", silent=True)),
        (node(taints=["stampworks/unproven"]), NodeStanding(held=UNPROVEN, out="held: not proven yet")),
        (
            node(taints=["stampworks/unproven=again"]),
            NodeStanding(held=STARTED_AGAIN, out="held: started again, and not proven since"),
        ),
        (
            node(out=True, held="proof: /shared is not mounted"),
            NodeStanding(held=DrainReason("proof", "", "/shared is not mounted"), out="held: /shared is not mounted"),
        ),
        (
            node(out=True, held="person alice: new cable"),
            NodeStanding(held=DrainReason("person", "alice", "new cable"), out="held: new cable"),
        ),
        (node(out=True), NodeStanding(held=DrainReason("person", "somebody", "cordoned"), out="held: cordoned")),
        (node(held="proof: of yesterday"), NodeStanding()),  # a user has uncordoned it
        (node(taints=["vendor/broken"]), NodeStanding(out="its taint vendor/broken keeps pods away")),
        (
            node(taints=["stampworks/proof"]),
            NodeStanding(
                held=DrainReason("proof", "", "its proof was interrupted"), out="held: its proof was interrupted"
            ),
        ),
    ],
)
def test_how_a_node_stands(of: Any, expected: NodeStanding) -> None:
    assert _standing(of, (), at_work=False) == expected


def test_node_held_by_the_health_check_is_checked_again(
    ground: KubernetesGround, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only nodes held by the health check are checked again: a repaired one may be healthy."""
    server.there = [node("n1", out=True, held="health: rail0 has no carrier"), node("n2", out=True, held="proof: slow")]

    def look(_: Roster, name: str, command: list[str], __: float) -> None:
        assert command == ["/usr/local/sbin/stampworks-health"]
        server.there = [node(each) if each == name else server.nodes()[each] for each in ("n1", "n2")]

    monkeypatch.setattr(remote, "hear", look)
    found = ground.look(["n1", "n2"])
    assert (found["n1"], found["n2"].out) == (NodeStanding(), "held: slow")


def test_busy_nodes_are_found(ground: KubernetesGround, server: StandIn) -> None:
    """Pods count, except those of the toolkit and of every node, and so do admitted gangs without pods."""
    owned = [{"kind": "DaemonSet"}]
    server.others = [pod("d", "n1", "kube-system", ownerReferences=owned), pod("proof-ab-1", "n1", "stampworks-proof")]
    assert ground.look(["n1"])["n1"].busy == ""
    server.others.append(pod("one", "n1"))
    assert ground.look(["n1"])["n1"].busy == "pod research/one is on it"
    server.others = [gang("gang", "n1")]
    assert ground.busy() == {"n1": "run research/gang is on it"}


def test_held_nodes_come_from_node_objects(ground: KubernetesGround, server: StandIn) -> None:
    server.there = [node("n1"), node("n2", out=True, held="proof: slow"), node("n3", taints=["stampworks/proof"])]
    slow, broken_off = DrainReason("proof", "", "slow"), DrainReason("proof", "", "its proof was interrupted")
    assert ground.held() == {"n2": slow, "n3": broken_off}
    server.lease = lease(ALICE)
    assert ground.held() == {"n2": slow}


def test_a_proof_waits_for_another_one(ground: KubernetesGround, server: StandIn, monkeypatch: Any) -> None:
    """The message names the other proof, which stays untouched; the wait has a limit."""
    monkeypatch.setattr(sys.modules["stampworks.operations.kubernetes.ground"].time, "sleep", lambda _: None)
    server.lease = lease(ALICE)
    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            server.lease = None

    ground.await_turn(600, progress)
    assert told == ["waiting for another proof of alice@laptop since 2026-11-21T23:00:00Z"] * 2
    clock = itertools.count(step=400)
    monkeypatch.setattr(sys.modules["stampworks.operations.kubernetes.ground"].time, "monotonic", lambda: next(clock))
    server.lease = lease(ALICE)
    with pytest.raises(ProofHeldError) as caught:
        ground.await_turn(600, print)
    assert str(caught.value) == (
        "another proof of alice@laptop since 2026-11-21T23:00:00Z is running on cluster k\n"
        "  hint: wait for it, or end it there; after a proof was killed, the next one can begin 5 minutes later"
    )
    assert not [line for line in server.told if not line.startswith("get ")]


@pytest.mark.parametrize("left", [lease(ALICE, 301), lease(holder.ourselves().replace(" begun ", " begun 1"))])
def test_leases_of_a_killed_proof_are_taken_over(ground: KubernetesGround, server: StandIn, left: Any) -> None:
    """The lease is replaced only if it is unchanged, so that a single proof gets it; its other nodes stay held."""
    server.there = [node("n1"), node("n2", taints=["stampworks/proof"])]
    server.lease = left
    ground.await_turn(600, print)
    assert ground.take(["n1"])
    assert server.told[1:] == [
        "replace --filename=-",
        "delete pods,configmaps --selector=app.kubernetes.io/managed-by=stampworks --namespace=stampworks-proof "
        "--grace-period=1 --wait=false",
        "annotate node n2 stampworks/held=proof: its proof was interrupted --overwrite",
        "cordon n2",
        "taint node n2 stampworks/proof-",
        "taint node n1 stampworks/proof=:NoSchedule --overwrite",
    ]


def test_without_its_namespace_there_is_no_proof(
    ground: KubernetesGround, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error does not claim that another proof was faster."""

    def refused(*_: Any, **__: Any) -> str:
        raise RefusedError('Error from server (NotFound): namespaces "stampworks-proof" not found', "")

    monkeypatch.setattr(server, "said", refused)
    with pytest.raises(OperationError) as caught:
        ground.take(["n1"])
    assert str(caught.value) == (
        "Kubernetes has no namespace stampworks-proof, where proofs run\n  hint: `pulumi up --refresh` creates it again"
    )


def test_one_that_has_slept_ends(ground: KubernetesGround, server: StandIn) -> None:
    """Another proof has taken over its nodes, and keeps their lease."""
    ground.await_turn(600, print)
    assert ground.take(["n1"])
    ground.extend(3600)
    assert server.lease
    assert server.lease["spec"]["leaseDurationSeconds"] == 3900
    server.lease["spec"]["holderIdentity"] = ALICE
    with pytest.raises(OperationError, match="another has taken its nodes of k\n  hint: run it again"):
        ground.extend(7200)
    assert server.lease["spec"]["leaseDurationSeconds"] == 3900


def test_one_that_was_quicker_is_let_go_first(ground: KubernetesGround, server: StandIn) -> None:
    ground.await_turn(600, print)
    server.lease = lease(ALICE)
    assert not ground.take(["n1"])
    ground.give_back()
    assert server.lease
    assert not [line for line in server.told if line.startswith("taint")]


def test_held_node_is_released_and_held_again(ground: KubernetesGround, server: StandIn) -> None:
    """A new node gets its taint back, others their reason; a node that was cordoned meanwhile keeps that."""
    held = node("n2", out=True, held="proof: slow")
    server.there = [node("n1", taints=["stampworks/unproven"]), held, node("n3", out=True)]
    ground.let_in(["n1", "n2"])
    assert server.told == ["uncordon n2", "annotate node n2 stampworks/held-", "taint node n1 stampworks/unproven-"]
    server.told.clear()
    ground.hold({"n1": UNPROVEN, "n2": DrainReason("proof", "", "slow"), "n3": DrainReason("proof", "", "slow")})
    assert server.told == [
        "taint node n1 stampworks/unproven=:NoSchedule --overwrite",
        "annotate node n2 stampworks/held=proof: slow --overwrite",
        "cordon n2",
    ]


def test_how_programs_ended() -> None:
    """A program succeeds, fails with an exit code and its last lines, takes too long, or never begins."""
    well = of_proof(0, "Succeeded", terminated={"exitCode": 0})
    bad = of_proof(1, "Failed", terminated={"exitCode": 2})
    late = of_proof(1, "Failed", terminated={"exitCode": 137})
    late["status"] |= {"reason": "DeadlineExceeded", "message": "Pod was active longer"}
    never = of_proof(1, "Failed", terminated={"exitCode": 128, "reason": "StartError", "message": "no such file"})
    pending = of_proof(1, "Pending", waiting={"reason": "ErrImagePull"})
    assert _how(["n0"], [well], "0: x") == (0, "0: x", "")
    assert _how(["n0", "n1"], [well, bad], "0: x\n1: a\n1: b") == (2, "0: x\n1: a\n1: b", "n1: 1: b")
    assert _how(["n0", "n1"], [well, late], "") == (124, "", "n1: Pod was active longer")
    assert _how(["n0", "n1"], [well, of_proof(1, "Running", running={})], "") == (124, "", "n1: no reason is given")
    assert _how(["n0", "n1"], [well, never], "") == (-1, "", "n1: no such file")
    assert _how(["n0", "n1"], [well, pending], "") == (-1, "", "n1: ErrImagePull")
    assert _how(["n0", "n1"], [well], "0: x") == (-1, "0: x", "n1: its pod is gone")
    assert _how(["n0"], [], "") == (-1, "", "n0: its pod is gone")


@pytest.fixture
def of_image() -> KubernetesGround:
    """Return the ground of two nodes of EKS, which have no programs of ours."""
    members = tuple(Member(name, "gpu", "1", f"10.0.0.{number}", (), "") for number, name in enumerate(("a", "b"), 1))
    roster = Roster("k", "aws", (), "", "", members, "us-west-2")
    claims = {"/data": "data"}
    made = KubernetesGround(subject_of(planning.plan(load_value(ON_EKS, "test")), claims).with_members(roster), roster)
    made._server = StandIn(node("a"), node("b"))
    return made


def test_measurement_pods_have_the_devices_of_jobs(of_image: KubernetesGround) -> None:
    """The pod has all accelerators, NICs and claims of runs; it does not enter the node, and is not privileged."""
    spec = of_image._pod("ask", 1, ["a", "b"], 1, 8, 10)["spec"]
    [container] = spec["containers"]
    assert container["image"] == "registry.example.com/workloads:1"
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "16"}}
    assert container["securityContext"] == {"capabilities": {"add": ["SYSLOG"]}}
    assert {each["mountPath"] for each in container["volumeMounts"]} == {"/data", "/dev/shm"}
    assert not {"hostPID", "hostIPC"} & {*spec}
    assert not [each for each in spec["volumes"] if "hostPath" in each]
    assert "nsenter" not in " ".join(container["command"])
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert (env["NCCL_NET"], env["FI_PROVIDER"]) == ("AWS Libfabric", "efa")
    assert (env["MASTER_ADDR"], env["NODE_NAME"]) == ("10.0.0.1", "b")
    [container] = of_image._pod("ask", 0, ["a"], 1, None, 10)["spec"]["containers"]
    assert container["resources"] == {"limits": {}}
    assert {"NCCL_NET", "FI_PROVIDER"}.isdisjoint({each["name"] for each in container["env"]})


def test_a_node_that_offers_no_devices_is_waited_for_and_named(
    of_image: KubernetesGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device plugin starts after the node has joined; without it, no pod gets a device."""
    clock = itertools.count(step=200)
    ticks = sys.modules["stampworks.operations.kubernetes.ground"].time
    monkeypatch.setattr(ticks, "monotonic", lambda: next(clock))
    monkeypatch.setattr(ticks, "sleep", lambda _: None)
    there = {"nvidia.com/gpu": "7", "vpc.amazonaws.com/efa": "16"}
    ready = node("a")
    ready["status"]["allocatable"] = there
    of_image._server = StandIn(ready, node("b"))
    told, extended = list[str](), list[float]()
    monkeypatch.setattr(of_image, "extend", extended.append)
    found = of_image.lost(["a", "b"], 60, told.append)
    why = "it offers none of its nvidia.com/gpu and vpc.amazonaws.com/efa to pods"
    assert (found, told) == ({"b": why}, [f"waiting for b: {why}"])
    assert extended == [300.0], "nobody else takes the nodes over meanwhile"


IMAGE = "registry.example.com/workloads:1"
NOT_FOUND = f'Back-off pulling image "{IMAGE}": ErrImagePull: rpc error: code = NotFound desc = {IMAGE}: not found'


def pulling(node: str, reason: str, message: str) -> Any:
    found = of_proof(0, "Pending", waiting={"reason": reason, "message": message})
    found["spec"]["nodeName"] = node
    return found


def fetched(node: str) -> Any:
    found = of_proof(0, "Succeeded", terminated={"exitCode": 0})
    found["spec"]["nodeName"] = node
    return found


class Kubelets(StandIn):
    """States of a proof's pods, one for each look; looks are ten seconds apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: Iterable[Sequence[Any]]) -> None:
        super().__init__(node("a"), node("b"))
        self.looks, self.now = iter(looks), 0.0
        ticks = sys.modules["stampworks.operations.kubernetes.ground"].time
        monkeypatch.setattr(ticks, "monotonic", lambda: self.now)
        monkeypatch.setattr(ticks, "sleep", self._sleep)

    def _sleep(self, _: float) -> None:
        self.now += 10

    def listed(self, kinds: str, *more: str, limit_s: float = 0) -> list[Any]:
        return list(next(self.looks)) if kinds == "pods" else super().listed(kinds, *more, limit_s=limit_s)


def prepared(ground: KubernetesGround, monkeypatch: pytest.MonkeyPatch, looks: Iterable[Sequence[Any]]) -> list[str]:
    """Return the messages of the preparation, while nodes pulled the image."""
    ground._server, told = Kubelets(monkeypatch, looks), list[str]()
    ground.prepare(["a", "b"], told.append)
    return told


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ImagePullBackOff", NOT_FOUND),
        ("ErrImagePull", "failed to authorize: 401 Unauthorized"),
        ("ErrImagePull", "pull access denied, repository does not exist or may require authorization"),
        ("InvalidImageName", "invalid reference format"),
        ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
    ],
)
def test_an_image_that_nobody_can_start_ends_a_proof_early(
    of_image: KubernetesGround, monkeypatch: pytest.MonkeyPatch, reason: str, message: str
) -> None:
    """The error quotes the kubelet after a minute of complaints, instead of waiting a quarter of an hour."""
    of_image._until = 10_000
    with pytest.raises(OperationError) as caught:
        prepared(of_image, monkeypatch, itertools.repeat([pulling(each, reason, message) for each in ("a", "b")]))
    assert str(caught.value) == (
        f"no node of cluster k starts a pod from {IMAGE}: a: {message}\n"
        "  hint: set scheduler.workloads_image to an image that these nodes may pull and can start, or permit "
        "the pull; for details: stampworks kubectl -- get events --namespace stampworks-proof"
    )
    server = of_image._server
    assert isinstance(server, Kubelets)
    assert server.now == 60
    assert [line.split()[0] for line in server.told[-2:]] == ["create", "delete"], "nothing is left of it"


def test_a_registry_that_does_not_answer_is_waited_for(
    of_image: KubernetesGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure and the result are reported; an image that is missing at first may be there a moment later."""
    of_image._until = 10_000
    slow = "dial tcp: lookup registry.example.com: i/o timeout"
    done = [fetched("a"), fetched("b")]
    late = [[pulling("a", "ErrImagePull", slow), done[1]]] * 20
    there_later = [[pulling("a", "ImagePullBackOff", NOT_FOUND), done[1]]] * 3
    told = prepared(of_image, monkeypatch, [[], *late, *there_later, done])
    what = f"a, b fetch {IMAGE}, where they lack it"
    assert list(dict.fromkeys(told)) == [what, f"{what}: a: {slow}", f"{what}: a: {NOT_FOUND}"]
    assert of_image._stuck == {}


def test_one_node_that_cannot_fetch_an_image_is_out_of_order(
    of_image: KubernetesGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are measured without waiting a quarter of an hour for it."""
    of_image._until = 10_000
    looks = itertools.repeat([pulling("a", "ImagePullBackOff", NOT_FOUND), fetched("b")])
    prepared(of_image, monkeypatch, looks)
    assert of_image._stuck == {"a": f"no pod starts on it: {NOT_FOUND}"}
    server = of_image._server
    assert isinstance(server, Kubelets)
    assert server.now == 60


def test_interrupt_ends_the_wait_for_an_image(of_image: KubernetesGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next line of progress stops it, and its pods are deleted."""
    of_image._until = 10_000
    of_image._server = server = Kubelets(monkeypatch, itertools.repeat([]))
    told: list[str] = []

    def stop(line: str) -> None:
        told.append(line)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of_image.prepare(["a", "b"], stop)
    assert server.told[-1].startswith("delete pods,configmaps --selector=stampworks/ask=proof-")
