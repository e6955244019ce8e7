"""Nodes that run pods, and the bundled workloads on them: the same verbs as on Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks import machine_room as room
from stampworks.machine_room.programs import program
from stampworks.schedulers.identity import LOOKS_IN, OF_ANOTHER

from tests.cluster.kubernetes import KubernetesStack, gang
from tests.cluster.pods import NODES, RUNS, TINY, asked, of_run, running, soon, through, told, until
from tests.schedulers.schemas import definitions

MEET = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
found = torch.tensor([float(dist.get_rank())])
dist.all_reduce(found)
print(f"sum {found.item()}, token {len(os.environ['TOKEN'])}", flush=True)
dist.destroy_process_group()
"""
JOB = """\
nodes: 2
workdir: source
secrets: [{name: TOKEN}]
run: |
  python3 meet.py
  if [ "$NODE_RANK" = 1 ]; then exit 7; fi
  sleep 60
"""
pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    with running(tmp_path_factory.mktemp("runs"), "quick") as stack:
        yield stack


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    up.clear()


def test_nodes_are_known_by_what_they_are(stack: KubernetesStack) -> None:
    """Ready, in their leaf, with accelerators; a second `up` changes nothing, and a refresh finds nothing."""
    nodes = {node["metadata"]["name"]: node for node in stack.listed("nodes")}
    assert sorted(nodes) == sorted(NODES)
    for node in nodes.values():
        assert node["metadata"]["labels"]["topology.stampworks/leaf"] == "leaf1-1"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    stack.unchanged("--refresh")
    assert stack.stampworks("status").stdout.splitlines()[2].split() == ["gpu", "2", "of", "2", "0", "of", "16"]


def test_join_token_is_a_secret(stack: KubernetesStack) -> None:
    """No preview, output or state contains the token with which nodes join."""
    config = json.loads((stack.state / "rooms" / stack.cluster / "kubernetes" / "bootstrap.conf").read_text())
    key = config["users"][0]["user"]["client-key-data"]
    assert len(key) > 100
    for said in (stack.run("preview", "--diff").stdout, stack.run("stack", "output").stdout, str(stack.exported())):
        assert key not in said
    assert key in str(stack.exported("--show-secrets"))


def test_programs_that_measure(stack: KubernetesStack) -> None:
    """Both nodes measure at once. Results are in the run's folder and its log."""
    settings = ["--set", "limits={}", "--set", "clocks={}"]
    found = asked(stack, "submit", "validation", "look", *settings, "--wait")
    assert (found["state"], found["job"], found["folder"]) == ("finished", "product/look", f"{RUNS}/look"), found
    files = stack.shell(NODES[0], f"ls {RUNS}/look/results").split()
    assert files == ["clocks.0.json", "limits.0.json", "limits.1.json"]
    assert "memlock gpu-002" in stack.stampworks("logs", "look").stdout


def test_a_real_server_takes_what_is_written_down(stack: KubernetesStack) -> None:
    """The server has the published CRDs and rules of Kueue, JobSet, Trainer and the MPI operator, and refuses unknown
    fields. No operator runs, so that nothing starts."""
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


def test_printed_manifest_runs(stack: KubernetesStack) -> None:
    """The printed manifest runs on both nodes to its end, without the toolkit."""
    printed = stack.stampworks("submit", "training", "printed", *TINY, "--set", "steps=5", "--print", "jobset")
    stack.kubectl("create", "--filename=-", text=printed.stdout)
    through(stack, "printed")
    [begun] = told(stack, "printed", "generation")
    assert sorted(begun["nodes"]) == sorted(NODES)
    stack.kubectl("delete", "--filename=-", text=printed.stdout)


def test_a_training_of_a_user(stack: KubernetesStack) -> None:
    """The training runs in the team's namespace with the user's id, over both nodes, to its end."""
    found = asked(stack, "submit", "training", "demo", *TINY, "--set", "steps=20", "--user", "bob", "--wait")
    assert (found["job"], found["state"]) == ("product/demo", "finished"), found
    [begun] = told(stack, "demo", "generation")
    assert sorted(begun["nodes"]) == sorted(NODES)
    assert stack.shell(NODES[1], f"stat --format=%U {RUNS}/demo/record.json") == "bob"
    assert of_run(stack, "demo")["user"] == "bob"


def test_a_job_file(stack: KubernetesStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that runs on Slurm: a folder, a secret, two pods that meet, and the exit code of the first failure."""
    source = stack.folder / "source"
    source.mkdir()
    (source / "meet.py").write_text(MEET)
    (stack.folder / "whole.yaml").write_text(JOB)
    monkeypatch.setenv("TOKEN", "s3cr3t-of-bob")
    done = stack.stampworks("submit", "whole.yaml", "--user", "bob", "--wait")
    assert done.returncode == 7, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {"0: sum 1.0, token 13", "1: sum 1.0, token 13"} <= set(lines), lines
    job = of_run(stack, "whole")
    assert (job["id"], job["user"], job["state"]) == ("product/whole-u2002", "bob", "failed")
    assert "s3cr3t" not in stack.kubectl("get", "jobsets,pods", "--namespace=product", "--output=yaml")
    soon(stack, "whole.bob", lambda: not stack.kubectl("get", "secrets", "--namespace=product", "--output=name"))
    followed = stack.stampworks("logs", "whole")  # Kubernetes has forgotten it, but its folder has not
    assert followed.returncode == 0
    assert "0: sum 1.0, token 13" in followed.stdout
    assert stack.shell(NODES[0], f"stat -c '%a %U' {RUNS}/whole.bob") == "700 bob"


def test_a_user_by_herself(stack: KubernetesStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Her connection suffices for a job with its files, its log and its end; her team cannot read its secrets."""
    monkeypatch.setenv("PATH", str(Path(program("kubectl")).parent), prepend=os.pathsep)
    for user in ("alice", "carol"):
        assert not stack.stampworks("login", "--as", user, "--to", str(tmp_path / f"{user}.json")).returncode
    found = stack.environment().items()
    environment = {name: value for name, value in found if name[:6] not in ("PULUMI", "STAMPW")}
    environment |= {"STAMPWORKS_STATE": str(tmp_path / "state"), "TOKEN": "s3cr3t-of-alice"}

    def told(user: str, *verb: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "stampworks.cli.main", verb[0], "-s", str(tmp_path / f"{user}.json"), *verb[1:]]
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "meet.py").write_text(MEET)
    (tmp_path / "whole.yaml").write_text(JOB)
    done = told("alice", "submit", "whole.yaml", "--wait")
    assert done.returncode == 7, done.stdout + done.stderr
    assert {"0: sum 1.0, token 15", "1: sum 1.0, token 15"} <= set(done.stdout.splitlines()), done.stdout
    listed = json.loads(told("alice", "jobs", "--json").stdout)["jobs"]
    assert [(job["name"], job["user"], job["state"], job["exit_code"]) for job in listed if job["name"] == "whole"] == [
        ("whole", "alice", "failed", 7)
    ]
    assert "0: sum 1.0, token 15" in told("alice", "logs", "whole").stdout
    assert stack.shell(NODES[0], f"stat -c '%a %U' {RUNS}/whole.alice") == "700 alice"
    (tmp_path / "mine.yaml").write_text("secrets: [{name: TOKEN}]\nenv: {COLOR: blue-of-alice}\nrun: sleep 600\n")
    assert told("alice", "submit", "mine.yaml").returncode == 0
    soon(stack, "mine.alice", lambda: of_run(stack, "mine")["state"] == "running")
    for command in (f"cat {RUNS}/mine.alice/node.sh", f"ls {RUNS}/mine.alice", "cat /proc/[0-9]*/environ"):
        said = told("carol", "submit", "--name", "look", "--gpus", "0", "--wait", "--", "sh", "-c", command)
        assert "blue-of-alice" not in said.stdout, said.stdout
        assert "s3cr3t" not in said.stdout
        assert "/proc/" in command or "Permission denied" in said.stdout, said.stdout + said.stderr
    seen = told("carol", "kubectl", "get", "jobsets,jobs,pods,configmaps,events", "-n", "research", "-o", "yaml").stdout
    assert "mine-u2001" in seen
    assert "blue-of-alice" not in seen
    assert "s3cr3t" not in seen
    assert "s3cr3t" not in told("carol", "kubectl", "get", "secrets", "-n", "research", "-o", "yaml").stdout
    [pod] = [name for name in pods_of(stack) if name.startswith("files-u2001-")]
    entered = told("carol", "kubectl", "exec", pod, "-n", "research", "--", "cat", f"{RUNS}/mine.alice/node.sh")
    assert LOOKS_IN in entered.stderr
    refused = told("carol", "cancel", "research/mine-u2001")
    assert OF_ANOTHER in refused.stderr
    cancelled = told("alice", "cancel", "mine")
    assert cancelled.returncode == 0, cancelled.stderr
    soon(stack, "mine.alice", lambda: "mine-u2001" not in stack.kubectl("get", "jobsets,secrets", "-A", "-o", "name"))
    run = told("alice", "submit", "training", "hers", *TINY, "--set", "steps=5", "--wait")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_job_that_is_deleted_while_it_is_waited_for(stack: KubernetesStack) -> None:
    """The user sees what happened; the folder contains the log."""
    (stack.folder / "deleted.yaml").write_text("run: echo begun; sleep 600\n")
    words = [sys.executable, "-m", "stampworks.cli.main", "submit", "deleted.yaml", "--user", "bob", "--wait"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=stack.folder, env=stack.environment(), **pipes) as waits:
        soon(stack, "deleted.bob", lambda: "begun" in stack.stampworks("logs", "deleted").stdout)
        stack.kubectl("delete", "jobset", "deleted-u2002", "--namespace=product", "--wait=false")
        said, why = waits.communicate(timeout=120)
    assert waits.returncode not in (0, 2), said + why
    assert "0: begun" in said
    assert why.endswith("as of one that is ended from outside: it was cancelled or deleted\n"), why
    assert "no run is called" not in why


def pods_of(stack: KubernetesStack) -> list[str]:
    return [pod["metadata"]["name"] for pod in stack.listed("pods", "--namespace=research")]


def test_cancelled_and_gone_on_with(stack: KubernetesStack) -> None:
    """A run that is asked to stop saves, and a second submission continues it."""
    wanted = ["training", "stopped", *TINY, "--set", "steps=100", "--set", "pace_s=0.3"]
    asked(stack, "submit", *wanted)
    until(stack, "stopped", 5)
    busy = stack.stampworks("submit", *wanted)
    assert busy.returncode == 1
    assert "run stopped is still running or waiting: job product/stopped of root, running" in busy.stderr
    asked(stack, "cancel", "stopped")
    soon(stack, "stopped", lambda: of_run(stack, "stopped")["state"] == "stopped")
    done = max(event["step"] for event in told(stack, "stopped", "step"))
    found = asked(stack, "submit", *wanted, "--wait")
    assert (found["state"], found["resumes"]) == ("finished", True), found
    begun = told(stack, "stopped", "ready")
    assert [(event["step"], event["source"]) for event in begun] == [(0, "nothing"), (done, "checkpoint")]


def test_pushed_aside_and_back(stack: KubernetesStack) -> None:
    """It saves and waits for a more urgent gang, then continues."""
    asked(stack, "submit", "training", "pushed", *TINY, "--set", "steps=120", "--set", "pace_s=0.3")
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


def test_pods_cannot_write_node_programs(stack: KubernetesStack) -> None:
    """A pod sees the node's programs, and cannot write to them even as root with a writable mount."""
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


def test_nodes_are_lost(stack: KubernetesStack) -> None:
    """The run continues without the node of its second program, long after Kubernetes has missed it.

    The next `up` restores this node with a new disk, and another with its old disk; pods run on both. Kubernetes knows
    only the latter: both take pods after their proof only.
    """
    known = {node["metadata"]["name"]: node["metadata"]["uid"] for node in stack.listed("nodes")}
    slowly = ["--set", "steps=120", "--set", "pace_s=1", "--set", "checkpoints.every_s=1"]
    asked(stack, "submit", "training", "smaller", *TINY, *slowly)
    until(stack, "smaller", 5)
    first, second = told(stack, "smaller", "generation")[0]["nodes"]
    stack.kill(second)
    through(stack, "smaller")
    generations = [event["nodes"] for event in told(stack, "smaller", "generation")]
    assert generations == [[first, second], [first]]
    stack.kill(first)
    with stack.entered():
        room.condemn_nodes(stack.cluster, [second], "its disk is broken")
    with stack.started("up", "--yes", "--skip-preview", "--refresh") as engine:
        assert engine.stdout
        lines, seen = list[str](), list[bool]()
        for line in engine.stdout:
            lines.append(line)
            if " updated " in line and (":LocalGroup " in line or ":Playbook " in line):
                seen.append(first in unproven(stack))
    assert engine.returncode == 0, "".join(lines)
    assert seen == [True, True], "".join(lines)
    assert unproven(stack) == set()
    now = {node["metadata"]["name"]: node["metadata"]["uid"] for node in stack.listed("nodes")}
    assert [name for name in NODES if now[name] != known[name]] == [second]
    found = asked(stack, "submit", "training", "again", *TINY, "--set", "steps=5", "--wait")
    assert (found["nodes"], found["state"]) == (2, "finished"), found


@pytest.mark.long
@pytest.mark.parametrize("forgotten", [False, True], ids=["silent", "forgotten"])
def test_one_node_is_lost_and_then_the_other(stack: KubernetesStack, forgotten: bool) -> None:
    """The run continues with its first node, although the second is back; without the first it restarts with both. If
    Kubernetes forgets the node, Kueue stops and resumes the run, and failed parts are not restarted."""
    slowly = ["--set", "steps=2000", "--set", "pace_s=0.3", "--set", "checkpoints.every_s=1"]
    slowly += ["--set", "patience.start=40"]
    asked(stack, "submit", "training", "twice", *TINY, *slowly)
    until(stack, "twice", 5)
    first, second = told(stack, "twice", "generation")[0]["nodes"]
    stack.kill(second)
    stack.passes("up", "--yes", "--skip-preview", "--refresh")
    stack.kill(first)
    if forgotten:
        stack.kubectl("delete", "node", first)
        soon(stack, "twice", lambda: of_run(stack, "twice")["state"] == "waiting")
    stack.passes("up", "--yes", "--skip-preview", "--refresh")
    wanted = [[first, second], [first], [first, second]]
    soon(stack, "twice", lambda: [event["nodes"] for event in told(stack, "twice", "generation")] == wanted)
    soon(stack, "twice", lambda: len(told(stack, "twice", "ready")) == len(wanted))
    again = told(stack, "twice", "ready")[-1]
    assert again["source"] == "checkpoint"
    assert again["step"] > 0
    asked(stack, "cancel", "twice")
    soon(stack, "twice", lambda: of_run(stack, "twice")["state"] == "stopped")


def unproven(stack: KubernetesStack) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in stack.listed("nodes")
        if any(taint["key"] == "stampworks/unproven" for taint in node["spec"].get("taints", ()))
    }


def test_a_named_node_is_made_anew_and_no_other(stack: KubernetesStack) -> None:
    """The node is replaced after its work has moved or ended. The new node takes pods after its proof."""
    stack.edit("proof: {level: quick}", "proof: {level: quick}\n    roll: {jobs: requeue}")
    asked(stack, "submit", "training", "moving", *TINY, "--nodes", "1", "--set", "steps=230", "--set", "pace_s=0.3")
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
    stack.unchanged()


def test_a_pool_that_goes_lets_its_work_end_first(stack: KubernetesStack) -> None:
    """Its run ends as finished, and not as a run whose nodes were removed."""
    asked(stack, "submit", "training", "last", *TINY, "--nodes", "1", "--set", "steps=80", "--set", "pace_s=0.3")
    until(stack, "last", 5)
    pools = (
        "{name: gpu, machine: sim-h100, count: 2}",
        "{name: later, machine: sim-h100, count: 1, scheduling_only: true}",
    )
    stack.edit(*pools)
    stack.up()
    [ended] = stack.listed("jobsets", "--namespace=product")
    assert (ended["metadata"]["name"], ended["status"]["terminalState"]) == ("last", "Completed")
    assert [node["metadata"]["name"] for node in stack.listed("nodes")] == ["later-001"]
    stack.edit(*reversed(pools))
    stack.up()
    assert stack.stampworks("status").returncode == 0


def test_a_pool_becomes_one_for_scheduling_only_and_back(stack: KubernetesStack) -> None:
    """Machines leave like those of a removed pool, and simulated nodes take their names; and back. If work does not end
    in time, the nodes stay as they were."""
    asked(stack, "submit", "training", "last", *TINY, "--nodes", "1", "--set", "steps=80", "--set", "pace_s=0.3")
    until(stack, "last", 5)
    pools = ("count: 2}", "count: 2, scheduling_only: true}")
    stack.edit(*pools)
    stack.up()
    [ended] = stack.listed("jobsets", "--namespace=product")
    assert (ended["metadata"]["name"], ended["status"]["terminalState"]) == ("last", "Completed")
    assert [simulated(node) for node in stack.listed("nodes")] == [True, True]
    with stack.entered():
        assert not room.read_nodes(stack.cluster)
    stack.unchanged("--refresh")
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
    stack.unchanged("--refresh")


def simulated(node: dict[str, Any]) -> bool:
    return "kwok.x-k8s.io/node" in node["metadata"].get("annotations", {})


def test_nothing_is_left(up: KubernetesStack) -> None:
    """No process, mount or control group is left: pods and their cgroups ended with the nodes."""
    marks = [path for path in Path("/sys/fs/cgroup").rglob(f"{up.cluster}-gpu-00*") if path.is_dir()]
    assert marks
    gone = up.run("destroy", "--yes", "--skip-preview")
    assert gone.returncode == 0, gone.stdout
    assert up.traces() == []
    assert not [path for path in marks if path.exists()]
