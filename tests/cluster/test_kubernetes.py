"""A Kubernetes on this machine through the real engine: created, inspected, broken, repaired, changed and removed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks.machine_room import daemons, programs
from stampworks.machine_room.room import of_cluster

from tests.cluster.kubernetes import OWN, STAND_IN, KubernetesStack, gang
from tests.project import wait_for

pytestmark = pytest.mark.cluster

NODES, LEAF_NODES = 16, 4


@pytest.fixture(
    scope="module",
    params=[pytest.param(plugin, marks=pytest.mark.long) for plugin in (STAND_IN, OWN)],
    ids=["stand-in", "pulumi"],
)
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    """A cluster of this file's own, with each plugin in turn."""
    folder = tmp_path_factory.mktemp("kubernetes")
    stack = KubernetesStack.of(folder, f"k{os.getpid()}", NODES, LEAF_NODES, request.param)
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


def test_everything_is_there_after_one_up(kubernetes: KubernetesStack) -> None:
    """All nodes ready and in their leaf, both teams with their queue, and a second `up` changes nothing."""
    nodes = kubernetes.listed("nodes")
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    assert [labels[f"gpu-{index:03}"]["topology.stampworks/leaf"] for index in (1, 8, 9, 64)] == [
        *("leaf1-1", "leaf1-1", "leaf1-2", "leaf1-8")
    ]
    assert {node["status"]["capacity"]["nvidia.com/gpu"] for node in nodes} == {"8"}
    queues = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in kubernetes.listed("localqueues", "-A")}
    assert queues == {(team, name) for team in ("research", "product") for name in ("main", "default")}
    for queue in kubernetes.listed("clusterqueues"):
        active = next(each for each in queue["status"]["conditions"] if each["type"] == "Active")
        assert active["status"] == "True", active["message"]
    kubernetes.unchanged()
    status = kubernetes.stampworks("status")
    assert status.returncode == 0
    assert status.stdout.splitlines() == [
        f"cluster {kubernetes.cluster} on local: pass",
        "  pool  nodes ready  GPUs used",
        "  gpu   64 of 64     0 of 512",
        "",
        "  team      own GPUs  used  borrowed  jobs waiting",
        "  product        128     0         -             -",
        "  research       384     0         -             -",
    ]


def test_kubeconfig_is_a_secret(kubernetes: KubernetesStack) -> None:
    """No preview, output or state contains the kubeconfig."""
    config = (kubernetes.state / "rooms" / kubernetes.cluster / "kubernetes" / "admin.conf").read_text()
    key = config.partition('"client-key-data": "')[2].partition('"')[0]
    assert len(key) > 100
    preview, outputs = kubernetes.run("preview", "--diff"), kubernetes.run("stack", "output")
    for said in (preview.stdout, outputs.stdout, str(kubernetes.exported())):
        assert key not in said
    assert key in kubernetes.run("stack", "output", "kubeconfig", "--show-secrets").stdout


def test_a_user_asks_with_a_certificate_of_her_own(
    kubernetes: KubernetesStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Her connection is private, has only her teams' rights, and says so when a verb needs more."""
    monkeypatch.setenv("PATH", str(Path(programs.program("kubectl")).parent), prepend=os.pathsep)
    file = tmp_path / "alice.json"
    made = kubernetes.stampworks("login", "--as", "alice", "--to", str(file))
    assert made.stdout.startswith(
        f"{file} connects alice to cluster {kubernetes.cluster}; it holds a private key of hers"
    )
    assert file.stat().st_mode & 0o777 == 0o600

    def asks(*words: str) -> tuple[int, str]:
        done = kubernetes.stampworks("kubectl", "-s", str(file), *words)
        return done.returncode, done.stdout + done.stderr

    assert asks("auth", "whoami", "--output=jsonpath={.status.userInfo.username}") == (0, "alice")
    assert asks("get", "jobsets", "--namespace=research")[0] == 0
    for words in (
        ["get", "jobsets", "--namespace=product"],
        ["get", "secrets", "--namespace=research"],
        ["delete", "node", "gpu-001"],
    ):
        code, said = asks(*words)
        assert (code, "(Forbidden)" in said) == (1, True)
    for verb, hint in (
        (["run", "hostname"], "as a job: stampworks submit --wait --nodes 2 -- COMMAND"),
        (["ssh", "gpu-001"], "declare a pool without scheduling_only: true"),
        (["drain", "gpu-001", "--reason", "fans"], "name a stack: -s STACK"),
    ):
        refused = kubernetes.stampworks(*verb, "-s", str(file))
        assert (refused.returncode, refused.stderr.splitlines()[-1]) == (2, f"  hint: {hint}"), refused.stderr
    file.chmod(0o644)
    assert asks("get", "nodes") == (2, f"{file} holds a key, and other users can read it\n  hint: chmod 600 {file}\n")


def test_a_user_sees_the_cluster_and_what_her_teams_do(
    kubernetes: KubernetesStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verbs are those of Slurm, without a stack: all nodes, gangs of her team, and cancellation of her own."""
    monkeypatch.setenv("PATH", str(Path(programs.program("kubectl")).parent), prepend=os.pathsep)
    file = tmp_path / "alice.json"
    kubernetes.stampworks("login", "--as", "alice", "--to", str(file))

    def told(*verb: str) -> Any:
        found = kubernetes.environment().items()
        environment = {name: value for name, value in found if name[:6] not in ("PULUMI", "STAMPW")}
        environment["STAMPWORKS_STATE"] = str(tmp_path / "state")
        words = [sys.executable, "-m", "stampworks.cli.main", *verb, "-s", str(file)]
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    hers = gang("hers", "research", 2)
    hers["metadata"]["labels"]["stampworks/workload"] = "job"
    hers["metadata"]["annotations"] = {"stampworks/user": "alice"}
    kubernetes.submit(hers, gang("theirs", "product", 2))
    kubernetes.seen("hers", "running")
    kubernetes.seen("theirs", "running")
    status = told("status")
    assert status.returncode == 0, status.stderr
    lines = [line.split() for line in status.stdout.splitlines()]
    assert ["gpu", "64", "of", "64", "32", "of", "512"] in lines
    assert ["research", "384", "16", "-", "-"] in lines
    assert "product" not in status.stdout
    found = json.loads(told("jobs", "--json").stdout)["jobs"]
    assert [(job["name"], job["user"], job["state"]) for job in found] == [("hers", "alice", "running")]
    cancelled = told("cancel", "research/hers")
    assert cancelled.returncode == 0, cancelled.stderr
    wait_for(lambda: not kubernetes.listed("jobsets", "--namespace=research"), 60)
    assert kubernetes.listed("jobsets", "--namespace=product")


def test_the_stamped_plan_counts(kubernetes: KubernetesStack) -> None:
    """Nodes for scheduling only have no roll: the cluster itself has its plan among its outputs."""
    before = kubernetes.file.read_text()
    try:
        kubernetes.edit("kind: kubernetes", "kind: slurm, cluster: x")
        status = kubernetes.stampworks("status")
    finally:
        kubernetes.file.write_text(before)
    assert status.returncode == 0, status.stderr
    assert "note: the cluster is taken as it was stamped" in status.stderr


def test_a_team_does_what_is_its_own_and_nothing_else(kubernetes: KubernetesStack) -> None:
    """Users act under their own names: alice belongs to research and not to product; no user reads secrets or queues of
    the cluster."""

    def may(user: str, team: str, verb: str, what: str) -> bool:
        words = ("auth", "can-i", verb, what, f"--as={user}", f"--namespace={team}")
        return kubernetes.stampworks("kubectl", "--", *words).stdout.strip() == "yes"

    assert may("alice", "research", "create", "jobsets.jobset.x-k8s.io")
    assert may("bob", "product", "get", "pods/log")
    assert not may("alice", "product", "create", "jobsets.jobset.x-k8s.io")
    assert not may("alice", "research", "get", "secrets")
    assert not may("alice", "research", "update", "clusterqueues.kueue.x-k8s.io")
    privileged = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root", "namespace": "research"},
        "spec": {"hostNetwork": True, "containers": [{"name": "root", "image": "none"}]},
    }
    refused = kubernetes.stampworks("kubectl", "--", "create", "-f", "-", text=json.dumps(privileged))
    assert 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in refused.stderr


@pytest.mark.parametrize(("kind", "counted"), [("LoadBalancer", "loadbalancers"), ("NodePort", "nodeports")])
def test_no_team_opens_a_door_to_the_world(kubernetes: KubernetesStack, kind: str, counted: str) -> None:
    """Services may only lead to its own pods: a type with access from outside could get a public address."""
    for type_, may in ((kind, False), ("ClusterIP", True)):
        service: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "door", "namespace": "research"},
            "spec": {"type": type_, "selector": {"app": "door"}, "ports": [{"port": 80}]},
        }
        done = kubernetes.stampworks("kubectl", "--", "create", "-f", "-", "--as=alice", text=json.dumps(service))
        assert (done.returncode == 0) == may, done.stderr
        assert may or f"exceeded quota: team, requested: services.{counted}=1" in done.stderr
    service["spec"]["externalIPs"] = ["10.0.0.9"]
    done = kubernetes.stampworks("kubectl", "--", "apply", "-f", "-", "--as=alice", text=json.dumps(service))
    assert (
        "services of teams must not have externalIPs: they would receive traffic that nodes send there" in done.stderr
    )
    kubernetes.kubectl("delete", "service", "door", "--namespace=research")


def test_manual_changes_are_found_and_reverted(kubernetes: KubernetesStack) -> None:
    """The changes are a deleted node, another label, and a deleted queue."""
    kubernetes.kubectl("delete", "node", "gpu-007")
    kubernetes.kubectl("label", "node", "gpu-009", "stampworks/pool=mine", "--overwrite")
    kubernetes.kubectl("delete", "localqueue", "main", "--namespace=product")
    status = kubernetes.stampworks("status")
    assert status.returncode == 1
    assert "gpu-007: missing" in status.stdout.splitlines()
    shown = kubernetes.preview()
    assert "cloud: gpu-007: missing" in shown
    assert "cloud: gpu-009: label stampworks/pool is mine, not gpu" in shown
    kubernetes.passes("refresh", "--yes", "--skip-preview")
    kubernetes.up()
    assert kubernetes.stampworks("status").returncode == 0
    assert len(kubernetes.listed("localqueues", "-A")) == 4
    kubernetes.unchanged()


def test_queues_survive_an_upgrade_of_kueue(stack: KubernetesStack) -> None:
    """Queues of an earlier stack stay the same, and Pulumi replaces none. Requests in the form of Kueue 0.14 are
    answered."""

    def made() -> set[str]:
        return {each["metadata"]["uid"] for each in stack.listed("localqueues,clusterqueues,cohorts,topologies", "-A")}

    now, before, there = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1", made()
    file = stack.folder / "before.json"
    stack.passes("stack", "export", "--show-secrets", f"--file={file}")
    file.write_text(file.read_text().replace(now, before))
    stack.passes("stack", "import", f"--file={file}")
    file.unlink()
    said = stack.up()
    assert "created" not in said, said
    assert "deleted" not in said, said
    assert made() == there
    # Look at current inputs only: Pulumi's own plugin keeps the first value in the outputs.
    assert before not in str([(each["type"], each.get("inputs")) for each in stack.exported()])
    stack.unchanged()
    of_teams = {each["spec"]["cohort"] for each in stack.listed("clusterqueues.v1beta1.kueue.x-k8s.io")}
    assert of_teams == {f"{stack.cluster}-{team}" for team in ("research", "product")}


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd", "kueue"])
def test_a_part_that_was_killed_is_named_and_started_again(stack: KubernetesStack, program: str) -> None:
    """The state of the part is kept."""
    stack.submit(gang("kept", "research", 2))
    stack.seen("kept", "running")
    os.kill(process_of(stack, program), signal.SIGKILL)
    if program == "kube-apiserver":
        wait_for(lambda: stack.stampworks("status").returncode == 3, 20)
        assert "does not answer" in stack.stampworks("status").stderr
    assert f"cloud: control plane: {program} does not run" in stack.preview()
    stack.up()
    assert stack.seen("kept", "running")["nodes"]
    stack.clear()


@pytest.mark.parametrize("how", ["closed", "frozen"])
def test_unreachable_server_is_reported(stack: KubernetesStack, how: str) -> None:
    """Each verb exits with 3 and a hint, also for a server that accepts connections and stays silent."""
    if how == "closed":
        with stack.entered():
            daemons.end(of_cluster(stack.cluster), ["kubernetes-api"])
    else:
        os.kill(process_of(stack, "kube-apiserver"), signal.SIGSTOP)
    said = stack.stampworks("status")
    verbs = [["drain", "gpu-001", "--reason", "fans"], ["return", "gpu-001"]] if how == "closed" else []
    for done in (said, *(stack.stampworks(*verb) for verb in verbs)):
        assert done.returncode == 3, done.stdout + done.stderr
        assert done.stderr.startswith(f"the Kubernetes of cluster {stack.cluster} does not answer"), done.stderr
        assert done.stderr.endswith("\n  hint: pulumi up repairs it\n")
    if how == "closed":
        assert "cloud: control plane: nothing leads to its server from outside the room" in stack.preview()
    else:
        assert "cloud: control plane: kube-apiserver does not run" in stack.preview()
    stack.up()
    assert stack.stampworks("status").returncode == 0


def test_an_up_whose_server_dies_goes_on_the_next_time(stack: KubernetesStack) -> None:
    """The server dies in the middle of a change; nothing is lost."""
    stack.edit("{name: high, weight: 200, preempts: [normal]}", "{name: high, weight: 300, preempts: [normal]}")
    stack.edit("count: 16", "count: 20")
    with stack.started("up", "--yes", "--skip-preview") as engine:
        assert engine.stdout
        for line in engine.stdout:
            if "local:SimulatedPool" in line and "updating" in line:
                os.kill(process_of(stack, "kube-apiserver"), signal.SIGKILL)
                break
        engine.communicate()
        assert engine.returncode != 0
    stack.up()
    assert len(stack.listed("nodes")) == 20
    classes = {one["metadata"]["name"]: one["value"] for one in stack.listed("workloadpriorityclasses")}
    assert classes == {"normal": 100, "high": 300}
    stack.unchanged()


def test_another_authority_and_another_port_make_nothing_anew(stack: KubernetesStack) -> None:
    """Certificates expire yearly, and a port may be taken while the machine is off: jobs, objects and nodes stay."""

    def made() -> dict[str, str]:
        objects = (one for one in stack.exported() if one["type"].startswith("kubernetes:"))
        return {one["urn"]: one["outputs"]["metadata"]["uid"] for one in objects}

    def asked() -> dict[str, str]:
        found: dict[str, str] = json.loads((folder / "admin.conf").read_text())["clusters"][0]["cluster"]
        return found

    def renewing() -> set[str]:
        leases = stack.listed("leases", "--namespace=kube-node-lease")
        return {each["spec"]["holderIdentity"] for each in leases}

    folder = stack.state / "rooms" / stack.cluster / "kubernetes"
    before, objects, kwok = asked(), made(), renewing()
    (folder / "pki" / "ca.crt").write_text("it has ended")
    with stack.entered():
        daemons.end(of_cluster(stack.cluster), ["kubernetes-api"])
    with socket.create_server(("127.0.0.1", int(before["server"].rpartition(":")[2]))):
        stack.up()
    assert not {*before.values()} & {*asked().values()}
    assert objects
    assert made() == objects
    assert kwok
    assert not renewing() & kwok, "no node would be renewed before Kubernetes gives it up"
    stack.unchanged()


def test_queue_with_gangs_is_not_removed(stack: KubernetesStack) -> None:
    """The `up` names the gangs in a queue or team that would be removed. They continue, no object was changed, and the
    edit can be undone."""
    stack.submit(gang("kept", "product", 2))
    stack.seen("kept", "running")
    train = "      queues:\n        - {name: train, pools: [gpu], default: true}\n"
    bob, product = "accounts: [product]", "        - {name: product, share: 1}\n"
    for edits, goes in (
        ([("      priorities:", f"{train}      priorities:")], "its queue main goes"),
        ([(bob, "accounts: [research]"), (product, "")], "its team product goes with its namespace"),
    ):
        before = stack.file.read_text()
        for edit in edits:
            stack.edit(*edit)
        done = stack.run("up", "--yes", "--skip-preview")
        assert done.returncode != 0
        assert "gangs are in a team or a queue that is to be removed: nothing was removed" in done.stdout
        assert f"run product/kept: is at work, and {goes}" in done.stdout
        assert stack.seen("kept", "running")["nodes"]
        stack.file.write_text(before)
    stack.up()
    stack.clear()
    stack.unchanged()


def test_a_change_reaches_what_it_is_about(stack: KubernetesStack) -> None:
    """Fewer nodes, another share and another queue change in place, and other objects are not replaced."""
    before = {one["urn"]: one["id"] for one in stack.exported() if "id" in one}
    stack.edit("count: 20", "count: 12")
    stack.edit("{name: product, share: 1}", "{name: product, share: 3}")
    stack.edit(
        "      priorities:", "      queues:\n        - {name: train, pools: [gpu], default: true}\n      priorities:"
    )
    stack.up()
    assert [node["metadata"]["name"] for node in stack.listed("nodes")] == [f"gpu-{index:03}" for index in range(1, 13)]
    quotas = {one["metadata"]["name"]: one["spec"]["resourceGroups"] for one in stack.listed("cohorts")}
    own = {
        name.removeprefix(f"{stack.cluster}-"): next(
            each["nominalQuota"] for each in groups[0]["flavors"][0]["resources"] if each["name"] == "nvidia.com/gpu"
        )
        for name, groups in quotas.items()
    }
    assert own == {"research": "48", "product": "48"}
    assert {one["metadata"]["name"] for one in stack.listed("localqueues", "-A")} == {"train", "default"}
    after = {one["urn"]: one["id"] for one in stack.exported() if "id" in one}
    gone = {urn.rpartition("::")[2] for urn in before.keys() - after.keys()}
    assert gone == {
        *(f"{stack.cluster}-localqueue-{team}-main" for team in ("research", "product")),
        *(f"{stack.cluster}-clusterqueue-{stack.cluster}-{team}-main" for team in ("research", "product")),
    }
    assert all(before[urn] == after[urn] for urn in before.keys() & after.keys())


def test_control_plane_is_protected_as_declared(stack: KubernetesStack) -> None:
    """All jobs and queues are in the control plane: it is deleted only if the declaration allows it."""
    stack.edit("protect: false", "protect: true")
    stack.up()
    done = stack.run("destroy", "--yes", "--skip-preview")
    assert done.returncode != 0
    assert {one["type"].rpartition(":")[2] for one in stack.exported() if one.get("protect")} == {
        *("Keyring", "LocalControlPlane")
    }
    stack.edit("protect: true", "protect: false")
    stack.up()
    assert stack.stampworks("status").returncode == 0


def test_a_room_that_ended_comes_back_with_all_that_was_known(stack: KubernetesStack) -> None:
    """This happens after a restart of the machine."""
    stack.submit(gang("asleep", "research", 2, queue="train"))
    stack.seen("asleep", "running")
    stack.end_room()
    said = stack.stampworks("status")
    assert said.returncode == 1
    assert said.stderr.splitlines() == [
        f"no Kubernetes of cluster {stack.cluster} is running",
        "  hint: start it: pulumi stack select --create STACK && pulumi up",
    ]
    stack.up()
    assert stack.seen("asleep", "running")["nodes"]
    stack.clear()


def test_nothing_is_left_when_it_is_destroyed(stack: KubernetesStack) -> None:
    """No process, mount or folder is left, even when runs were active."""
    stack.submit(gang("running", "research", 2, queue="train"))
    stack.seen("running", "running")
    stack.destroy()
    assert not stack.exported()
    assert not stack.traces()


def process_of(stack: KubernetesStack, program: str) -> int:
    """Return the process of a part of the control plane, not the process that started it."""
    mark = f"{stack.state}/rooms".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        words = (folder / "cmdline").read_bytes().split(b"\0") if (folder / "cmdline").exists() else [b""]
        if words[0].endswith(f"/bin/{program}".encode()) and any(mark in word for word in words[1:]):
            return int(folder.name)
    raise AssertionError(f"{program} does not run")
