"""Nodes that run pods, and the bundled workloads on them: the same verbs as on Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from stampworks.clouds.local import room
from stampworks.clouds.local.room.kubernetes import certificates, control_plane
from stampworks.clouds.local.room.kubernetes.kubectl import Kubectl
from stampworks.plan import Plan, from_dict
from stampworks.schedulers import kubernetes

from tests.cluster.conftest import ROOT
from tests.cluster.kubernetes import KubernetesStack, gang
from tests.project import wait_for
from tests.schedulers.schemas import definitions

pytestmark = pytest.mark.cluster

TINY = [
    *("--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.length=32"),
    *("--set", "batch=4", "--set", "data.source=synthetic"),
]
RUNS = "/shared/runs"
NODES = ("gpu-001", "gpu-002")
LONG_S = 180
"""More than anything that is waited for takes, however busy the machine is."""
NOTICED_S = 60
"""More than a node takes to notice that it is not well, or well again: it looks every 20 seconds."""
STORAGE = "    storage:\n      - {name: shared, kind: directory, mount: /shared, protect: false}\n"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    if os.geteuid():
        pytest.skip("nodes that run pods divide control groups, which takes root")
    stack = KubernetesStack.of(tmp_path_factory.mktemp("pods"), f"p{os.getpid()}", len(NODES), len(NODES))
    stack.edit(", scheduling_only: true", "")
    stack.edit("    fabric:", f"{STORAGE}    proof: {{level: quick}}\n    fabric:")
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    up.clear()


def asked(stack: KubernetesStack, *argv: str) -> Any:
    done = stack.stampworks(*argv, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def of_run(stack: KubernetesStack, name: str) -> dict[str, Any]:
    """What `stampworks jobs` says of it."""
    [found] = [job for job in asked(stack, "jobs")["jobs"] if job["name"] == name]
    return dict(found)


def told(stack: KubernetesStack, name: str, *kinds: str) -> list[dict[str, Any]]:
    lines = stack.shell(NODES[0], f"cat {RUNS}/{name}/events.jsonl || true").splitlines()
    return [event for event in map(json.loads, lines) if event["what"] in kinds]


def soon(stack: KubernetesStack, name: str, true: Callable[[], Any]) -> None:
    try:
        wait_for(true, LONG_S)
    except AssertionError:
        said = stack.kubectl("get", "jobsets,jobs,workloads,pods", "--all-namespaces", "--output=wide")
        raise AssertionError(said + stack.shell(NODES[0], f"cat {RUNS}/{name}/log || true")) from None


def until(stack: KubernetesStack, name: str, step: int) -> None:
    soon(stack, name, lambda: any(event["step"] >= step for event in told(stack, name, "step")))


def through(stack: KubernetesStack, name: str) -> None:
    """Follows a run to its end, which must be a good one."""
    followed = stack.stampworks("logs", name, "--follow")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert followed.stderr.endswith(f"run {name}: finished\n"), followed.stderr


def test_nodes_are_known_by_what_they_are(stack: KubernetesStack) -> None:
    """Ready, in their leaf, with accelerators; a second `up` changes nothing, and a refresh finds nothing."""
    nodes = {node["metadata"]["name"]: node for node in stack.listed("nodes")}
    assert sorted(nodes) == sorted(NODES)
    for node in nodes.values():
        assert node["metadata"]["labels"]["topology.stampworks/leaf"] == "leaf1-1"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    shown = stack.run("preview", "--refresh", "--expect-no-changes")
    assert shown.returncode == 0, shown.stdout
    assert stack.stampworks("status").stdout.splitlines()[2].split() == ["gpu", "2", "of", "2", "0", "of", "16"]


def test_nodes_are_proven_before_they_take_pods(stack: KubernetesStack) -> None:
    """The certificate is as good as one of a Slurm; nothing of the proof is left on them."""
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
    """The node is not measured, and the run goes on to its end."""
    asked(stack, "submit", "training", "busy", *TINY, "--nodes", "1", "--set", "steps=1200")
    until(stack, "busy", 5)
    found = stack.stampworks("qualify", "--level", "quick")
    assert found.returncode == 3, found.stdout + found.stderr
    assert " run research/busy is on it" in found.stdout
    through(stack, "busy")


def test_a_proof_finds_what_is_broken(stack: KubernetesStack) -> None:
    """The same fault as on a Slurm, with the same words; what nobody here would notice is not injected.

    The node is cordoned with its reason, for all to read; the other passes. Repaired and measured again it takes pods.
    """
    refused = stack.stampworks("fault", "inject", "slurmd-dead")
    assert f"slurmd-dead shows nothing on cluster {stack.cluster}: it is about Slurm" in refused.stderr
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


def out_of_service(stack: KubernetesStack) -> list[str]:
    return [node["metadata"]["name"] for node in stack.listed("nodes") if node["spec"].get("unschedulable")]


def test_a_node_that_is_not_well_takes_no_pods(stack: KubernetesStack) -> None:
    """As soon as it has noticed, with its reason; a run that is there goes on, and the next one waits for the node.

    Well again, it takes pods without anybody's doing.
    """
    asked(stack, "submit", "training", "before", *TINY, "--set", "steps=600")
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
links = {each: f"usr/{each}" for each in ("bin", "lib", "lib64", "sbin")}
directories = ["dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var"]
paths = sorted(path.replace("/bin/", "/usr/bin/", 1) if path.startswith("/bin/") else path for path in found)
work(False, {IMAGE: {"copies": paths, "directories": directories, "links": links}})
"""
"""Programs and what they need, as an image of `workloads/Containerfile` has them; without torch."""


@pytest.fixture
def measured(stack: KubernetesStack) -> str:
    """The plan of the same cluster, as if its nodes had none of our programs: these come from an image."""
    module = MODULE.read_text().replace("from ansible_collections", "# from").replace("answer = ", "# answer = ")
    for node in NODES:
        stack.shell(node, f"python3 - <<'END'\n{module}\nIMAGE = {IMAGE!r}\n{MADE}\nEND")
    plan = json.loads(stack.stampworks("plan", "--json").stdout)
    del plan["rules"]
    plan["scheduler"]["workloads_image"] = IMAGE
    (stack.folder / "image.json").write_text(json.dumps(plan))
    objects = kubernetes.objects(from_dict(Plan, plan))
    ours = [each for each in objects if "stampworks-proof" in json.dumps([each["metadata"], each.get("spec", {})])]
    for each in ours:
        stack.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=json.dumps(each))
    return "image.json"


def test_nodes_are_measured_from_an_image(stack: KubernetesStack, measured: str) -> None:
    """Pods that enter no node, as on a cloud's own Kubernetes. They find the same fault; the node that has it is held
    with its reason, and one that passes is let in by its taint."""
    asked = ("qualify", "-s", measured, "--level", "quick")
    stack.kubectl("taint", "node", NODES[0], "stampworks/unproven=:NoSchedule")
    rail = json.loads((stack.folder / measured).read_text())["fabric"]["rails"][0]["interface"]
    assert not stack.stampworks(
        *("fault", "inject", "mtu-mismatch", "--node", NODES[1], "--rail", rail, "--severity", "1000")
    ).returncode
    failed = stack.stampworks(*asked)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    rows = [line.split() for line in failed.stdout.splitlines()]
    assert any(row[:4] == [NODES[1], "fail", "no", rail] and "1000" in row for row in rows), failed.stdout
    assert out_of_service(stack) == [NODES[1]]
    status = stack.stampworks("status").stdout.splitlines()
    assert status[-1].startswith(f"gpu-002: takes no pods: proof: {rail} "), status
    assert not [node for node in stack.listed("nodes") if "stampworks" in json.dumps(node["spec"].get("taints"))]
    assert not stack.stampworks("fault", "clear").returncode
    passed = stack.stampworks(*asked)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert stack.stampworks("status").returncode == 0


def test_runs_from_an_image(stack: KubernetesStack, measured: str) -> None:
    """Their folders are looked at from a pod, for no node is logged in to; each belongs to its user."""
    settings = ("--set", "limits={}", "--user", "bob")
    found = stack.stampworks("submit", "-s", measured, "validation", "seen", *settings, "--wait", "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["state"] == "finished"
    assert stack.shell(NODES[0], f"stat --format=%U {RUNS}/seen/results") == "bob"
    assert "memlock gpu-002" in stack.stampworks("logs", "-s", measured, "seen").stdout
    listed = json.loads(stack.stampworks("jobs", "-s", measured, "--json").stdout)["jobs"]
    assert ("seen", "finished") in {(job["name"], job["state"]) for job in listed}


def test_a_proof_has_the_health_check_look_again(stack: KubernetesStack) -> None:
    """What was repaired just now is measured, and passes; what a person holds the health check leaves alone."""
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
    """With its rights it takes pods or none; it can neither hold another one nor take away its own taints."""
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
    """As on a Slurm, by what NICs have counted. Who calls the other decides for both directions, so that of two nodes
    it cannot be told whose fault it is: the whole has failed, and no node is held."""
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
    """A run that wants the node waits until it is back. `tests/operations` has what is said of who works there."""
    asked(stack, "submit", "training", "first", *TINY, "--nodes", "1", "--set", "steps=100000")
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


def test_programs_that_measure(stack: KubernetesStack) -> None:
    """On both nodes at once: their results lie in the folder of the run, and its log says them again."""
    settings = ["--set", "limits={}", "--set", "clocks={}"]
    found = asked(stack, "submit", "validation", "look", *settings, "--wait")
    assert (found["state"], found["job"], found["folder"]) == ("finished", "research/look", f"{RUNS}/look"), found
    files = stack.shell(NODES[0], f"ls {RUNS}/look/results").split()
    assert files == ["clocks.0.json", "limits.0.json", "limits.1.json"]
    assert "memlock gpu-002" in stack.stampworks("logs", "look").stdout


def test_a_real_server_takes_what_is_written_down(stack: KubernetesStack) -> None:
    """With what Kueue, JobSet, Trainer and the MPI operator publish of their objects, and the rules in there; it
    refuses a field that nobody knows. Nothing of these operators runs, so that nothing becomes of them."""
    for file in definitions():
        stack.kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(file))
    strictly = ("create", "--dry-run=server", "--validate=strict", "--filename=-")
    kinds = "trainjobs.trainer.kubeflow.org,trainingruntimes.trainer.kubeflow.org,mpijobs.kubeflow.org"
    soon(stack, "", lambda: not stack.stampworks("kubectl", "--", "get", kinds, "--all-namespaces").returncode)
    for kind, count in (("jobset", 2), ("trainjob", 3), ("mpijob", 2)):
        printed = stack.stampworks("submit", "training", "demo", "--print", kind, "--image", "registry.example/some:1")
        assert printed.returncode == 0, printed.stderr
        said = stack.kubectl(*strictly, text=printed.stdout).splitlines()
        assert len([line for line in said if line.endswith("created (server dry run)")]) == count, said
    wrong = printed.stdout.replace("slotsPerWorker:", "slotPerWorker:")
    refused = stack.stampworks("kubectl", "--", *strictly, text=wrong)
    assert 'unknown field "spec.slotPerWorker"' in refused.stderr


def test_what_is_written_down_runs(stack: KubernetesStack) -> None:
    """As it was printed, without a cluster being asked: on both nodes to its end."""
    printed = stack.stampworks("submit", "training", "printed", *TINY, "--set", "steps=5", "--print", "jobset")
    stack.kubectl("create", "--filename=-", text=printed.stdout)
    through(stack, "printed")
    [begun] = told(stack, "printed", "generation")
    assert sorted(begun["nodes"]) == sorted(NODES)
    stack.kubectl("delete", "--filename=-", text=printed.stdout)


def test_a_training_of_a_user(stack: KubernetesStack) -> None:
    """In the namespace of the user's team and with the user's number, over both nodes, to its end."""
    found = asked(stack, "submit", "training", "demo", *TINY, "--set", "steps=20", "--user", "bob", "--wait")
    assert (found["job"], found["state"]) == ("product/demo", "finished"), found
    [begun] = told(stack, "demo", "generation")
    assert sorted(begun["nodes"]) == sorted(NODES)
    assert stack.shell(NODES[1], f"stat --format=%U {RUNS}/demo/record.json") == "bob"
    assert of_run(stack, "demo")["user"] == "bob"


def test_cancelled_and_gone_on_with(stack: KubernetesStack) -> None:
    """A run that is told to stop saves what it has, and the same again goes on behind it."""
    wanted = ["training", "stopped", *TINY, "--set", "steps=1200"]
    asked(stack, "submit", *wanted)
    until(stack, "stopped", 5)
    busy = stack.stampworks("submit", *wanted)
    assert busy.returncode == 1
    assert "run stopped is at work: job research/stopped of root, running" in busy.stderr
    asked(stack, "cancel", "stopped")
    soon(stack, "stopped", lambda: of_run(stack, "stopped")["state"] == "stopped")
    done = max(event["step"] for event in told(stack, "stopped", "step"))
    found = asked(stack, "submit", *wanted, "--wait")
    assert (found["state"], found["resumes"]) == ("finished", True), found
    begun = told(stack, "stopped", "ready")
    assert [(event["step"], event["source"]) for event in begun] == [(0, "nothing"), (done, "checkpoint")]


def test_pushed_aside_and_back(stack: KubernetesStack) -> None:
    """For a more urgent gang it saves what it has and waits; afterwards it goes on."""
    asked(stack, "submit", "training", "pushed", *TINY, "--set", "steps=400")
    until(stack, "pushed", 5)
    urgent = gang("urgent", "research", len(NODES), priority="high")
    stack.submit(urgent)
    soon(stack, "pushed", lambda: of_run(stack, "pushed")["state"] == "waiting")
    assert "Preempted to accommodate research/urgent" in of_run(stack, "pushed")["why"]
    stack.kubectl("delete", "jobset", "urgent", "--namespace=research")
    through(stack, "pushed")
    sources = [event["source"] for event in told(stack, "pushed", "ready")]
    assert sources == ["nothing", "checkpoint"]


def test_a_program_that_breaks_is_not_started_again(stack: KubernetesStack) -> None:
    found = stack.stampworks("submit", "training", "bad", *TINY, "--set", "data.source=/nowhere", "--wait")
    assert found.returncode == 1
    assert "run bad: failed: rank " in found.stdout
    assert "/nowhere/index.json: is missing" in found.stdout
    assert len(told(stack, "bad", "start")) == 1


def test_nobody_changes_a_nodes_programs(stack: KubernetesStack) -> None:
    """A pod has them from its node, and cannot write to them even as root where it mounts them to write."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sly", "namespace": "research"},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "programs", "persistentVolumeClaim": {"claimName": "programs"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "localhost/stampworks/workloads:1",
                    "command": ["sh", "-c", "touch /usr/bin/theirs || mount -o remount,rw /usr; touch /usr/bin/theirs"],
                    "volumeMounts": [{"name": "programs", "mountPath": "/usr"}],
                }
            ],
        },
    }
    stack.kubectl("create", "-f", "-", text=json.dumps(pod))
    soon(
        stack,
        "",
        lambda: stack.kubectl("get", "pod", "sly", "-n", "research", "-o", "jsonpath={.status.phase}") == "Failed",
    )
    assert "Read-only file system" in stack.kubectl("logs", "sly", "--namespace=research")
    assert not [name for name in NODES if stack.shell(name, "ls /usr/bin/theirs 2>/dev/null || true")]


def test_a_node_is_lost(stack: KubernetesStack) -> None:
    """The run goes on without it to its end; the next `up` brings it back with a new disk, and pods run on it.

    To Kubernetes it is another node, for one with a new disk takes pods only when it has passed.
    """
    known = {node["metadata"]["name"]: node["metadata"]["uid"] for node in stack.listed("nodes")}
    asked(stack, "submit", "training", "smaller", *TINY, "--set", "steps=600", "--set", "checkpoints.every_s=1")
    until(stack, "smaller", 5)
    first, second = told(stack, "smaller", "generation")[0]["nodes"]
    stack.kill(second)
    through(stack, "smaller")
    generations = [event["nodes"] for event in told(stack, "smaller", "generation")]
    assert generations == [[first, second], [first]]
    with stack.entered():
        room.condemn_nodes(stack.cluster, [second], "its disk is broken")
    mended = stack.run("up", "--yes", "--skip-preview", "--refresh")
    assert mended.returncode == 0, mended.stdout
    now = {node["metadata"]["name"]: node["metadata"]["uid"] for node in stack.listed("nodes")}
    assert [name for name in NODES if now[name] != known[name]] == [second]
    found = asked(stack, "submit", "training", "again", *TINY, "--set", "steps=5", "--wait")
    assert (found["nodes"], found["state"]) == (2, "finished"), found


def test_a_named_node_is_made_anew_and_no_other(stack: KubernetesStack) -> None:
    """Once what runs there has gone on elsewhere or is through; it is another node that has passed, and takes pods."""
    stack.edit("proof: {level: quick}", "proof: {level: quick}\n    roll: {jobs: requeue}")
    asked(stack, "submit", "training", "moving", *TINY, "--nodes", "1", "--set", "steps=2000")
    until(stack, "moving", 5)
    [node] = told(stack, "moving", "generation")[0]["nodes"]
    [other] = [name for name in NODES if name != node]
    known = {each["metadata"]["name"]: each["metadata"]["uid"] for each in stack.listed("nodes")}
    marked = stack.stampworks("roll", node, "--reason", "new disk")
    assert marked.returncode == 0, marked.stderr
    assert f"{node}: root says: new disk" in marked.stdout
    rolled = stack.run("up", "--yes", "--skip-preview")
    assert rolled.returncode == 0, rolled.stdout
    now = {each["metadata"]["name"]: each["metadata"]["uid"] for each in stack.listed("nodes")}
    assert [name for name in NODES if now[name] != known[name]] == [node]
    assert [each["nodes"] for each in told(stack, "moving", "generation")] == [[node], [other]]
    assert stack.stampworks("status").returncode == 0
    through(stack, "moving")
    said = told(stack, "moving", "step", "ready")
    again = max(index for index, event in enumerate(said) if event["what"] == "ready")
    done = max(event["step"] for event in said[:again])
    assert (said[again]["source"], said[again]["step"]) == ("checkpoint", done)
    found = asked(stack, "submit", "training", "afterwards", *TINY, "--set", "steps=5", "--wait")
    assert (found["nodes"], found["state"]) == (2, "finished"), found
    assert stack.run("preview", "--expect-no-changes").returncode == 0


def test_a_pool_that_goes_lets_its_work_end_first(stack: KubernetesStack) -> None:
    """However it came to an end: as a run that was finished, and not one whose nodes were taken away."""
    asked(stack, "submit", "training", "last", *TINY, "--nodes", "1", "--set", "steps=600")
    until(stack, "last", 5)
    pools = (
        "{name: gpu, machine: sim-h100, count: 2}",
        "{name: later, machine: sim-h100, count: 1, scheduling_only: true}",
    )
    stack.edit(*pools)
    stack.up()
    [ended] = stack.listed("jobsets", "--namespace=research")
    assert (ended["metadata"]["name"], ended["status"]["terminalState"]) == ("last", "Completed")
    assert [node["metadata"]["name"] for node in stack.listed("nodes")] == ["later-001"]
    stack.edit(*reversed(pools))
    stack.up()
    assert stack.stampworks("status").returncode == 0


def test_a_pool_becomes_one_for_scheduling_only_and_back(stack: KubernetesStack) -> None:
    """Machines leave as those of a pool that goes do, and then others have their names; the same on the way back. What
    is not through in time is as before, and so are the nodes."""
    asked(stack, "submit", "training", "last", *TINY, "--nodes", "1", "--set", "steps=600")
    until(stack, "last", 5)
    pools = ("count: 2}", "count: 2, scheduling_only: true}")
    stack.edit(*pools)
    stack.up()
    [ended] = stack.listed("jobsets", "--namespace=research")
    assert (ended["metadata"]["name"], ended["status"]["terminalState"]) == ("last", "Completed")
    assert [simulated(node) for node in stack.listed("nodes")] == [True, True]
    with stack.entered():
        assert not room.read_nodes(stack.cluster)
    shown = stack.run("preview", "--refresh", "--expect-no-changes")
    assert shown.returncode == 0, shown.stdout
    stack.submit(gang("seeming", "research", len(NODES)))
    stack.seen("seeming", "running")
    stack.edit(*reversed(pools))
    late = stack.run("up", "--yes", "--skip-preview")
    assert late.returncode != 0
    assert "gpu-001, gpu-002 did not become free within 1 minutes: nothing was removed" in late.stdout
    assert stack.stampworks("status").returncode == 0
    stack.clear()
    stack.up()
    assert [simulated(node) for node in stack.listed("nodes")] == [False, False]
    assert stack.stampworks("status").returncode == 0
    assert stack.run("preview", "--refresh", "--expect-no-changes").returncode == 0


def simulated(node: dict[str, Any]) -> bool:
    return "kwok.x-k8s.io/node" in node["metadata"].get("annotations", {})


def test_certificates_that_have_ended_are_made_anew(stack: KubernetesStack) -> None:
    """As after a year without an `up`: `status` says it in words, and the next `up` has everybody believed again.

    What ran goes on; its node has joined again as itself, is asked for what its pods say, and proven.
    """
    asked(stack, "submit", "training", "yearlong", *TINY, "--nodes", "1", "--set", "steps=100000")
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
    assert stack.run("preview", "--expect-no-changes").returncode == 0


def let_certificates_end(stack: KubernetesStack) -> None:
    """All of them were made 366 days ago, for a year, and the programs have been started with them."""
    inputs = stack.resources()[f"LocalControlPlane {stack.cluster}"]["inputs"]
    addresses = control_plane.Addresses(
        inputs["address"], inputs["servicesCidr"], inputs["podsCidr"], int(inputs["podsOfNode"])
    )
    then = datetime.now(UTC) - timedelta(days=366)
    with stack.entered(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_now", lambda: then)
        patch.setattr(Kubectl, "until", _not_waited_for)  # nobody believes that its server is ready
        (stack.state / "rooms" / stack.cluster / "kubernetes/pki/ca.crt").unlink()
        with pytest.raises(StopIteration):
            control_plane.ensure(stack.cluster, inputs["claim"], addresses, print, inputs["kueue"])


def _not_waited_for(*_: Any) -> None:
    raise StopIteration


def test_nothing_is_left(up: KubernetesStack) -> None:
    """No process, no mount, no control group: pods and what divided their memory went with their nodes."""
    marks = [path for path in Path("/sys/fs/cgroup").rglob(f"{up.cluster}-gpu-00*") if path.is_dir()]
    assert marks
    gone = up.run("destroy", "--yes", "--skip-preview")
    assert gone.returncode == 0, gone.stdout
    assert up.traces() == []
    assert not [path for path in marks if path.exists()]
