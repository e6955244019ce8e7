"""Nodes that run pods: how they are proven, looked after, and taken out of service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from stampworks.machine_room.kubernetes import certificates, control_plane
from stampworks.machine_room.kubernetes.kubectl import Kubectl
from stampworks.plan import PROOF_NAMESPACE, Plan, from_dict
from stampworks.schedulers import kubernetes

from tests.cluster.kubernetes import KubernetesStack
from tests.cluster.pods import NODES, RUNS, TINY, asked, of_run, out_of_service, running, soon, through, told, until
from tests.cluster.stack import ROOT
from tests.project import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NOTICED_S = 60
"""Time limit for a node to notice a change of its health: it checks every 20 seconds."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    with running(tmp_path_factory.mktemp("proven"), "quick") as stack:
        yield stack


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    up.clear()


def test_nodes_are_proven_before_they_take_pods(stack: KubernetesStack) -> None:
    """The certificate equals one of Slurm. The proof leaves nothing on the nodes."""
    outputs = json.loads(stack.run("stack", "output", "--json", "--show-secrets").stdout)
    assert outputs["verdict"] == "pass"
    (stack.folder / "certificate").write_text(outputs["certificate"])
    (stack.folder / "key").write_text(outputs["verification_key"])
    verified = stack.stampworks("verify", "certificate", "--key", "key")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    certificate = json.loads(outputs["certificate"])
    assert "gpu-002" in json.dumps(certificate)
    assert not [node["spec"].get("taints") for node in stack.listed("nodes") if node["spec"].get("taints")]
    left = stack.listed("pods,leases,configmaps", "--namespace=stampworks-proof")
    assert [each["metadata"]["name"] for each in left] == ["kube-root-ca.crt"]
    joined = stack.shell(NODES[0], "cat /etc/kubernetes/kubelet.json")
    assert json.loads(joined)["registerWithTaints"] == [{"key": "stampworks/unproven", "effect": "NoSchedule"}]


def test_a_proof_leaves_alone_who_works(stack: KubernetesStack) -> None:
    """The node is not measured, and the run continues to its end."""
    asked(stack, "submit", "training", "busy", *TINY, "--nodes", "1", "--set", "steps=100", "--set", "pace_s=0.3")
    until(stack, "busy", 5)
    found = stack.stampworks("qualify", "--level", "quick")
    assert found.returncode == 3, found.stdout + found.stderr
    assert " run product/busy is on it" in found.stdout
    through(stack, "busy")


def test_a_proof_finds_what_is_broken(stack: KubernetesStack) -> None:
    """Faults and messages are those of Slurm; faults that cannot be noticed here are not injected.

    The node is cordoned with a visible reason, and the other one passes. After repair and proof it takes pods.
    """
    refused = stack.stampworks("fault", "inject", "slurmd-dead")
    assert f"slurmd-dead has no effect on cluster {stack.cluster}: it is about Slurm" in refused.stderr
    rail = json.loads(stack.stampworks("plan", "--json").stdout)["fabric"]["rails"][0]["interface"]
    asked(stack, "fault", "inject", "mtu-mismatch", "--node", NODES[1], "--rail", rail, "--severity", "1000")
    failed = stack.stampworks("qualify", "--level", "quick")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    rows = [line.split() for line in failed.stdout.splitlines()]
    assert any(row[:4] == [NODES[1], "fail", "no", rail] and "1000" in row for row in rows), failed.stdout
    assert out_of_service(stack) == [NODES[1]]
    status = stack.stampworks("status")
    assert status.returncode == 1
    assert status.stdout.splitlines()[-1].startswith(f"gpu-002: takes no pods: proof: {rail} ")
    assert not stack.stampworks("fault", "clear").returncode
    passed = stack.stampworks("qualify", "--level", "quick", "--nodes", NODES[1])
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert stack.stampworks("status").returncode == 0


def test_a_node_that_is_not_well_takes_no_pods(stack: KubernetesStack) -> None:
    """The node gives a reason; a running job continues, and the next one waits for the node.

    Once healthy, it takes pods without help.
    """
    asked(stack, "submit", "training", "before", *TINY, "--set", "steps=100", "--set", "pace_s=0.3")
    until(stack, "before", 5)
    asked(stack, "fault", "inject", "gpus-missing", "--node", NODES[1], "--severity", "1")
    why = "gpu-002: takes no pods: health: 7 of 8 accelerators"
    wait_for(lambda: stack.stampworks("status").stdout.splitlines()[-1] == why, NOTICED_S)
    assert out_of_service(stack) == [NODES[1]]
    refused = stack.stampworks("return", NODES[1])
    assert refused.returncode == 1
    assert refused.stderr.startswith("gpu-002 is held by the health check: 7 of 8 accelerators"), refused.stderr
    through(stack, "before")
    assert [event["nodes"] for event in told(stack, "before", "generation")] == [list(NODES)]
    asked(stack, "submit", "training", "behind", *TINY, "--set", "steps=5")
    soon(stack, "behind", lambda: "1 out of 2" in of_run(stack, "behind")["why"])
    assert not stack.stampworks("fault", "clear").returncode
    wait_for(lambda: stack.stampworks("status").returncode == 0, NOTICED_S)
    through(stack, "behind")


IMAGE = "localhost/stampworks/measuring:1"
MODULE = ROOT / "playbooks/collections/ansible_collections/stampworks/node/plugins/modules/container_images.py"
MADE = """
import glob, os, shutil, subprocess, sysconfig
Refused = Exception
def run(argv, check=True):
    return subprocess.run(argv, check=check, capture_output=True, text=True)
programs = "cat dash dmesg env mkdir mkfifo mktemp mv nvidia-smi python3 rm sed seq setpriv sh sleep tee true"
found = {path for name in programs.split() for path in (shutil.which(name), os.path.realpath(shutil.which(name)))}
places = [f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}", "/usr/lib64"]
found |= {path for each in places for path in glob.glob(each + "/*.so*") if os.path.getsize(path) < 8 << 20}
found |= {os.path.dirname(os.__file__), "/usr/local/lib/stampworks/workloads", "/var/lib/stampworks/accelerators.json"}
found |= {"/usr/local/libexec/stampworks/nvidia-smi"}
links = {each: f"usr/{each}" for each in ("bin", "lib", "lib64", "sbin")}
directories = ["dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var"]
paths = sorted(path.replace("/bin/", "/usr/bin/", 1) if path.startswith("/bin/") else path for path in found)
work(False, {IMAGE: {"copies": paths, "directories": directories, "links": links}})
"""
"""Programs and their dependencies, like those in an image of `workloads/Containerfile`, without torch."""
VOLUME, TEAM = "PersistentVolume", "research"


@pytest.fixture
def measured(stack: KubernetesStack) -> str:
    """Return the plan of the same cluster whose nodes lack the toolkit's programs: these come from an image."""
    module = MODULE.read_text().replace("from ansible_collections", "# from").replace("answer = ", "# answer = ")
    for node in NODES:
        stack.shell(node, f"python3 - <<'END'\n{module}\nIMAGE = {IMAGE!r}\n{MADE}\nEND")
    plan = json.loads(stack.stampworks("plan", "--json").stdout)
    del plan["rules"]
    plan["scheduler"]["workloads_image"] = IMAGE
    (stack.folder / "image.json").write_text(json.dumps(plan))
    # On clouds whose nodes have no programs, a driver also mounts file systems for proofs.
    of_team = [each for each in kubernetes.objects(from_dict(Plan, plan)) if each["kind"].startswith(VOLUME)]
    for each in of_team:
        text = json.dumps(each)
        if TEAM in text:
            own = text.replace(TEAM, PROOF_NAMESPACE)
            stack.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=own)
    return "image.json"


def test_nodes_are_measured_from_an_image(stack: KubernetesStack, measured: str) -> None:
    """Pods that do not enter the node, as on a managed Kubernetes, find the same fault, and its node is held with the
    reason. Work for unproven nodes waits until all have passed."""
    proof = ("qualify", "-s", measured, "--level", "quick")
    stack.kubectl("taint", "node", NODES[0], "stampworks/unproven=:NoSchedule")
    asked(stack, "submit", "training", "patient", *TINY, "--set", "steps=5")
    soon(stack, "patient", lambda: "1 out of 2" in of_run(stack, "patient")["why"])
    rail = json.loads((stack.folder / measured).read_text())["fabric"]["rails"][0]["interface"]
    assert not stack.stampworks(
        *("fault", "inject", "mtu-mismatch", "--node", NODES[1], "--rail", rail, "--severity", "1000")
    ).returncode
    failed = stack.stampworks(*proof)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    rows = [line.split() for line in failed.stdout.splitlines()]
    assert any(row[:4] == [NODES[1], "fail", "no", rail] and "1000" in row for row in rows), failed.stdout
    assert out_of_service(stack) == [NODES[1]]
    status = stack.stampworks("status").stdout.splitlines()
    assert status[-1].startswith(f"gpu-002: takes no pods: proof: {rail} "), status
    assert not [node for node in stack.listed("nodes") if "stampworks" in json.dumps(node["spec"].get("taints"))]
    assert not stack.stampworks("fault", "clear").returncode
    passed = stack.stampworks(*proof)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    through(stack, "patient")
    assert stack.stampworks("status").returncode == 0


def test_runs_from_an_image(stack: KubernetesStack, measured: str) -> None:
    """A pod reads their folders, because no node is logged in to; each folder belongs to its user."""
    settings = ("--set", "limits={}", "--user", "bob")
    found = stack.stampworks("submit", "-s", measured, "validation", "seen", *settings, "--wait", "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["state"] == "finished"
    assert stack.shell(NODES[0], f"stat --format=%U {RUNS}/seen/results") == "bob"
    assert "memlock gpu-002" in stack.stampworks("logs", "-s", measured, "seen").stdout
    listed = json.loads(stack.stampworks("jobs", "-s", measured, "--json").stdout)["jobs"]
    assert ("seen", "finished") in {(job["name"], job["state"]) for job in listed}


def test_a_proof_has_the_health_check_look_again(stack: KubernetesStack) -> None:
    """A node that was just repaired is measured, and passes; the health check ignores nodes that a person holds."""
    stack.shell(NODES[1], "umount /shared; ! stampworks-health")
    assert (
        stack.stampworks("status").stdout.splitlines()[-1] == "gpu-002: takes no pods: health: /shared is not mounted"
    )
    failed = stack.stampworks("qualify", "--level", "quick")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    rows = [line.split() for line in failed.stdout.splitlines()]
    assert ["gpu-002", "fail", "no", "held:", "/shared", "is", "not", "mounted"] in rows, failed.stdout
    asked(stack, "drain", NODES[1], "--reason", "new cable")
    stack.shell(NODES[1], "! stampworks-health; mount /shared; stampworks-health")
    assert stack.stampworks("status").stdout.splitlines()[-1].endswith(": new cable")
    asked(stack, "return", NODES[1])
    stack.shell(NODES[1], "umount /shared; ! stampworks-health; mount /shared")
    passed = stack.stampworks("qualify", "--level", "quick")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert stack.stampworks("status").returncode == 0


def test_a_node_has_a_say_in_itself_alone(stack: KubernetesStack) -> None:
    """With its rights, a node can cordon itself, but neither cordon another node nor remove its own taints."""
    say = (
        "import runpy; found = runpy.run_path('/usr/local/sbin/stampworks-health'); say = found['Kubernetes'](); "
        "found['Kubernetes'].ask.__globals__['node'] = lambda: '{node}'; say.ask('PATCH', '{patch}')"
    )
    for node, patch, said in (
        (NODES[0], '{"spec": {"unschedulable": true}}', "is not allowed to modify node"),
        (NODES[1], '{"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}', "is not allowed to modify taints"),
    ):
        program = say.format(node=node, patch=patch.replace('"', '\\"'))
        assert said in stack.shell(NODES[1], f'! python3 -c "{program}" 2>&1')


def test_a_collective_past_the_fabric_is_found(stack: KubernetesStack) -> None:
    """NIC counters show it, as on Slurm. The calling side determines both directions, so that two nodes cannot be told
    apart: the cluster fails, and no node is held."""
    asked(stack, "fault", "inject", "rail-bypassed", "--node", NODES[1])
    failed = stack.stampworks("qualify", "--level", "standard", "--json")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    found = [each for each in json.loads(failed.stdout)["findings"] if each["verdict"] == "fail"]
    assert [(each["check"], each["nodes"]) for each in found] == [("fabric", [])]
    assert 2 * found[0]["measured"] < found[0]["expected"]
    assert not [node for node in stack.listed("nodes") if node["spec"].get("unschedulable")]
    assert not stack.stampworks("fault", "clear").returncode
    passed = stack.stampworks("qualify", "--level", "standard", "--json")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert ("fabric", "pass") in {(each["check"], each["verdict"]) for each in json.loads(passed.stdout)["findings"]}


def test_out_of_service_and_back(stack: KubernetesStack) -> None:
    """A run for the node waits until it returns. `tests/operations` covers the messages about running work."""
    asked(stack, "submit", "training", "first", *TINY, "--nodes", "1", "--set", "steps=100000", "--set", "pace_s=0.3")
    until(stack, "first", 5)
    [node] = told(stack, "first", "generation")[0]["nodes"]
    asked(stack, "cancel", "first")
    asked(stack, "drain", node, "--reason", "new fans", "--wait")
    found = asked(stack, "submit", "training", "second", *TINY, "--set", "steps=5")
    [warning] = found["warnings"]
    assert f"1 of 2 nodes take jobs, and it wants 2 ({node}: held: new fans)" in warning
    soon(stack, "second", lambda: "1 out of 2" in of_run(stack, "second")["why"])
    [back] = asked(stack, "return", node)["nodes"]
    assert (back["name"], back["held"]) == (node, None)
    through(stack, "second")


def test_certificates_that_have_ended_are_made_anew(stack: KubernetesStack) -> None:
    """After a year without an `up`, `status` says so, and the next `up` renews all certificates.

    Running work continues. The node joins again as itself and is proven.
    """
    asked(
        stack, "submit", "training", "yearlong", *TINY, "--nodes", "1", "--set", "steps=100000", "--set", "pace_s=0.3"
    )
    until(stack, "yearlong", 5)
    known = {each["metadata"]["name"]: each["metadata"]["uid"] for each in stack.listed("nodes")}
    let_certificates_end(stack)
    for verb in ("status", "jobs"):
        said = stack.stampworks(verb)
        assert said.returncode == 3, said.stdout + said.stderr
        assert "certificate has expired or is not yet valid" in said.stderr
        assert said.stderr.endswith("  hint: pulumi up repairs it\n")
    assert "cloud: control plane: some of its certificates have ended, or will within a month" in stack.preview()
    stack.up()
    assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in stack.listed("nodes")} == known
    assert of_run(stack, "yearlong")["state"] == "running"
    assert [each["nodes"] for each in told(stack, "yearlong", "generation")] == [
        told(stack, "yearlong", "generation")[0]["nodes"]
    ]
    asked(stack, "cancel", "yearlong")
    soon(stack, "yearlong", lambda: of_run(stack, "yearlong")["state"] == "stopped")
    passed = stack.stampworks("qualify", "--level", "quick")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    stack.unchanged()


def let_certificates_end(stack: KubernetesStack) -> None:
    """All of them were created 366 days ago, for a year, and the programs run with them."""
    inputs = stack.resources()[f"LocalControlPlane {stack.cluster}"]["inputs"]
    addresses = control_plane.Addresses(
        inputs["address"], inputs["servicesCidr"], inputs["podsCidr"], int(inputs["podsOfNode"])
    )
    then = datetime.now(UTC) - timedelta(days=366)
    with stack.entered(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_now", lambda: then)
        patch.setattr(Kubectl, "until", _not_waited_for)  # the server never gets ready for this client
        (stack.state / "rooms" / stack.cluster / "kubernetes/pki/ca.crt").unlink()
        with pytest.raises(StopIteration):
            control_plane.ensure(stack.cluster, inputs["claim"], addresses, print, inputs["kueue"])


def _not_waited_for(*_: Any) -> None:
    raise StopIteration
