"""The JobSet of a job: its content, without any secret."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stampworks.declaration import load_file
from stampworks.jobs import JobError, pods, read_job, resolve
from stampworks.jobs.checks import problems
from stampworks.operations import on_head, own_jobs, workdir
from stampworks.operations.kubernetes.jobs import MANIFEST, KubernetesJobs
from stampworks.plan import Plan, Roster, User
from stampworks.planning import plan as plan_of
from stampworks.schedulers.batch import LOST

from tests.project import wait_for
from tests.schedulers.schemas import wrong

ROOT = Path(__file__).parents[2]
FILE = """\
name: train
nodes: 2
time_limit: 1h
retry: 3
secrets: [{name: TOKEN}]
setup: pip install x
run: torchrun train.py
checkpoint: {grace: 2m, signal: USR1}
"""

STACK = """\
version: 1
name: local
cloud: local
pools: [{name: gpu, machine: sim-h100, count: 4}]
storage: [{name: shared, kind: directory, mount: /shared}]
users: [{name: alice, uid: 2001, accounts: [research]}]
scheduler: {kind: kubernetes, accounts: [{name: research}, {name: product}]}
"""


@pytest.fixture
def on_kubernetes() -> Plan:
    plan = plan_of(load_file(ROOT / "stacks" / "Pulumi.local-k8s.yaml"))
    account = plan.scheduler.accounts[0].name
    return dataclasses.replace(plan, users=(User("alice", 2001, (account,)),))


def made(plan: Plan, folder: Path, text: str) -> tuple[dict[str, str], dict[str, Any]]:
    file = folder / "job.yaml"
    file.write_text(text)
    source = read_job(file, {})
    if found := [*source.problems, *problems(source, plan, "alice")]:
        raise JobError(found)
    job = resolve(source, plan, "alice", "/shared/runs")
    roster = Roster(plan.name, plan.cloud, (), "", "", ())
    files = KubernetesJobs(plan, roster).own_files(job, "")
    return files, json.loads(files[MANIFEST])


def manifests(plan: Plan, folder: Path, text: str) -> list[dict[str, Any]]:
    (folder / "job.yaml").write_text(text)
    job = resolve(read_job(folder / "job.yaml", {}), plan, "alice", "/shared/runs")
    return pods.manifests(job, KubernetesJobs(plan, Roster("x", "local", (), "", "", ()))._own(job))


def test_job_file_becomes_a_jobset(on_kubernetes: Plan, tmp_path: Path) -> None:
    files, manifest = made(on_kubernetes, tmp_path, FILE)
    assert sorted(files) == ["accelerators.json", "jobset.json", "node.sh", "pod.sh", "run.sh", "setup.sh"]
    account = on_kubernetes.scheduler.accounts[0].name
    metadata, spec = manifest["metadata"], manifest["spec"]
    assert (metadata["name"], metadata["namespace"]) == ("train-u2001", account)
    assert metadata["annotations"] == {"stampworks/user": "alice", "stampworks/job": "train"}
    assert (spec["failurePolicy"]["maxRestarts"], spec["ttlSecondsAfterFinished"]) == (3, pods.GONE_S)
    job = spec["replicatedJobs"][0]["template"]["spec"]
    assert (job["completions"], job["activeDeadlineSeconds"]) == (2, 3600 - 120)
    pod = job["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 120
    assert pod["securityContext"] == {"runAsUser": 2001, "runAsGroup": 2001}
    [container] = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}
    assert container["command"] == ["sh", "/shared/runs/train.alice/pod.sh"]
    assert container["envFrom"] == [{"secretRef": {"name": "train-u2001-secrets"}}]
    assert 'kill -USR1 -- "-$program"' in files["node.sh"]
    for name, text in files.items():
        if name.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_a_secret_belongs_to_its_jobset(on_kubernetes: Plan, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(FILE)
    job = resolve(read_job(tmp_path / "job.yaml", {}), on_kubernetes, "alice", "/shared/runs")
    of = KubernetesJobs(on_kubernetes, Roster("x", "local", (), "", "", ()))._own(job)
    secret = pods.secret(job, of, {"TOKEN": "hidden"}, {"train-u2001": "an-id"})
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("JobSet", "train-u2001", "an-id")
    assert secret["stringData"] == {"TOKEN": "hidden"}


def test_a_simulated_node_shows_what_was_given(on_kubernetes: Plan, tmp_path: Path) -> None:
    """The nodes' own program shows them, with paths of the pod."""
    files, _ = made(on_kubernetes, tmp_path, "gpus_per_node: 2\nrun: x\n")
    (tmp_path / "accelerators.json").write_text(files["accelerators.json"])
    assert 'export STAMPWORKS_ACCELERATORS="$folder/accelerators.json"\n' in files["node.sh"]
    program = ROOT / "playbooks" / "roles" / "accelerator" / "files" / "nvidia-smi"
    environment = {"STAMPWORKS_ACCELERATORS": str(tmp_path / "accelerators.json")}
    done = subprocess.run([sys.executable, program, "-L"], capture_output=True, text=True, env=environment, check=True)
    assert [line.split(" (")[0] for line in done.stdout.splitlines()] == [
        "GPU 0: Simulated H100",
        "GPU 1: Simulated H100",
    ]


def test_an_image_and_a_part_of_a_node(on_kubernetes: Plan, tmp_path: Path) -> None:
    _, manifest = made(
        on_kubernetes, tmp_path, "image: docker://nvcr.io#nvidia/pytorch:25.06-py3\ngpus_per_node: 2\nrun: x\n"
    )
    pod = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "nvcr.io/nvidia/pytorch:25.06-py3"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert "/usr" not in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert manifest["spec"]["ttlSecondsAfterFinished"] > pods.GONE_S
    assert "envFrom" not in container


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "array: 4-9%2",
            "job.yaml:2:8: array: Kubernetes starts as many tasks as its queue has room for, not 2 at a time\n"
            "    array: 4-9%2\n           ^\n"
            "  hint: write 4-9, or 4-5 and others in jobs that depend on this one",
        ),
        ("image: /shared/image", "image: Kubernetes starts from no file: '/shared/image'"),
    ],
)
def test_refuses_fields_of_slurm(on_kubernetes: Plan, tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        made(on_kubernetes, tmp_path, f"run: x\n{line}\n")
    assert message in str(caught.value)


def test_an_array_is_a_jobset_for_each_task(on_kubernetes: Plan, tmp_path: Path) -> None:
    """Each task has its index and name; all share a Secret, a folder and the scripts."""
    found = manifests(on_kubernetes, tmp_path, FILE + "array: 0-2%3\n")
    assert [each["metadata"]["name"] for each in found] == ["train-u2001-0", "train-u2001-1", "train-u2001-2"]
    for task, each in enumerate(found):
        assert wrong(each) == []
        assert each["metadata"]["labels"][pods.ARRAY] == "train-u2001"
        assert (
            each["metadata"]["annotations"] | {pods.NAME: "train", pods.TASK: str(task)}
            == (each["metadata"]["annotations"])
        )
        pod = each["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert {"name": "ARRAY_INDEX", "value": str(task)} in container["env"]
        assert container["envFrom"] == [{"secretRef": {"name": "train-u2001-secrets"}}]
        [spread] = pod["topologySpreadConstraints"]
        assert [*spread["labelSelector"]["matchLabels"].values()] == [each["metadata"]["name"]]
    alone = manifests(on_kubernetes, tmp_path, FILE)
    assert pods.ARRAY not in alone[0]["metadata"]["labels"]
    assert "ARRAY_INDEX" not in str(alone)


def test_tasks_keep_apart_in_their_folder(on_kubernetes: Plan, tmp_path: Path) -> None:
    """Two tasks at a time, by the script that their pods start: each line has its task, and each its exit code."""
    files, _ = made(on_kubernetes, tmp_path, "array: 0-1\nrun: echo here $ARRAY_INDEX; exit $ARRAY_INDEX\n")
    folder = tmp_path / "runs" / "job.alice"
    folder.mkdir(parents=True)
    home = tmp_path / "runs" / ".home.alice"
    for name, text in files.items():
        (folder / name).write_text(text.replace("/shared/runs", str(tmp_path / "runs")))
    (folder / "exit-1").write_text("9\n")  # left by an earlier attempt
    variables = {"RANK": "0", "NODE_NAME": "a", "POD_IP": "127.0.0.1", "PATH": os.environ["PATH"]}
    started = [
        subprocess.Popen(["sh", folder / "pod.sh"], env=variables | {"JOB_ID": f"id{task}", "ARRAY_INDEX": str(task)})
        for task in range(2)
    ]
    assert [each.wait(60) for each in started] == [0, 1]
    assert sorted((folder / "log").read_text().splitlines()) == ["0: 0: here 0", "1: 0: here 1"]
    assert [(folder / f"exit-{task}").read_text() for task in range(2)] == ["0\n", "1\n"]
    assert not (folder / "exit").exists()
    looked = on_head.look(folder)
    assert (looked["exit"], looked["tasks"]) == (1, {"0": 0, "1": 1})
    assert home.stat().st_mode & 0o777 == 0o700


def two_pods(plan: Plan, top: Path, run: str) -> tuple[list[subprocess.Popen[bytes]], Path]:
    """Start the scripts of both pods of a job, and return them with its folder."""
    files, _ = made(plan, top, f"nodes: 2\nrun: |\n  {run}\n")
    folder = top / "runs" / "job.alice"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text.replace("/shared/runs", str(top / "runs")))
    told = {"NODE_NAME": "a", "POD_IP": "127.0.0.1", "JOB_ID": "id", "PATH": os.environ["PATH"], "PLACE": str(top)}
    start = ["sh", str(folder / "pod.sh")]
    return [
        subprocess.Popen(start, env=told | {"RANK": str(rank)}, start_new_session=True) for rank in range(2)
    ], folder


@pytest.mark.parametrize("first", [0, 1])
def test_a_program_fails_as_its_other_node_is_lost(
    first: int, on_kubernetes: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pod then ends as that of a lost node does, and the job is started again: whichever node it is."""
    monkeypatch.setattr(pods, "BEAT_S", 1)
    monkeypatch.setattr(pods, "SILENT_S", 3)
    run = 'touch "$PLACE/begun-$NODE_RANK"; until [ -e "$PLACE/lost" ]; do sleep 0.1; done; exit 7'
    started, folder = two_pods(on_kubernetes, tmp_path, run)
    wait_for(lambda: len([*folder.glob("alive-*")]) == len([*tmp_path.glob("begun-*")]) == 2, 30)
    for process in session(started[first].pid):
        os.kill(process, signal.SIGKILL)
    started[first].wait()
    (tmp_path / "lost").touch()
    assert started[1 - first].wait(120) == LOST
    log = (folder / "log").read_text()
    assert f"nodes of the job are lost (NODE_RANK {first}): what ran here ended with 7" in log


def test_a_program_fails_by_itself(on_kubernetes: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other node is at work or has ended: the code of the first failure is that of the job."""
    monkeypatch.setattr(pods, "BEAT_S", 1)
    monkeypatch.setattr(pods, "SILENT_S", 3)
    run = '[ "$NODE_RANK" = 0 ] || exit 7; until [ -e "$PLACE/ended" ]; do sleep 0.1; done; exit 3'
    started, folder = two_pods(on_kubernetes, tmp_path, run)
    assert started[1].wait(120) == 7
    (tmp_path / "ended").touch()
    assert started[0].wait(120) == 7
    assert "lost" not in (folder / "log").read_text()
    assert not [*folder.glob("alive-*")]


def test_a_home_of_somebody_else(on_kubernetes: Plan, tmp_path: Path) -> None:
    """Beside the runs everybody may make a folder, and a link: the job uses neither as its `~`."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".home.alice").symlink_to(tmp_path)
    started, folder = two_pods(on_kubernetes, tmp_path, "touch ~/used")
    assert [pod.wait(120) for pod in started] == [1, 1]
    assert f"stampworks: {tmp_path}/runs/.home.alice belongs to another user" in (folder / "log").read_text()
    assert not (tmp_path / "used").exists()


def session(leader: int) -> list[int]:
    """Return the processes of a session, some of which have groups of their own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                found.append(int(path.parent.name))
    return found


def test_a_long_name_fits(on_kubernetes: Plan, tmp_path: Path) -> None:
    """A pod has it with the number of its node and five characters more: at most 63. Each stays another."""
    name = "a" * 39
    found = [
        each["metadata"]["name"]
        for end in "bc"
        for text in (f"name: {name}{end}\nrun: x\n", f"name: {name}{end}\nrun: x\narray: 999998-999999\n")
        for each in manifests(on_kubernetes, tmp_path, text)
    ]
    assert len(set(found)) == len(found)
    assert max(len(f"{each}-node-0-16383-abcde") for each in found) <= 63


def test_everything_wrong_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each problem has its line, and precedes any request or copy."""
    (tmp_path / "cluster.yaml").write_text(STACK)
    plan = plan_of(load_file(tmp_path / "cluster.yaml"))
    monkeypatch.setattr(workdir, "SIZE_MAX_MIB", 1)
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "data").write_bytes(bytes(2 << 20))
    lines = (
        ("colour: red", "colour: there is no such key"),
        ("nodes: 5", "nodes: queue main has 4 nodes, not 5"),
        ("account: product", "account: alice may not use account product"),
        ("image: UPPER CASE", "image: 'UPPER CASE' is not the name of an image"),
        ("workdir: big", "workdir: "),
        ("secrets: [{name: NOT_SET}]", "secrets[0]: the variable NOT_SET is not set here"),
        ("run: x", ""),
    )
    (tmp_path / "job.yaml").write_text("".join(f"{line}\n" for line, _ in lines))
    with pytest.raises(JobError) as caught:
        own_jobs.checked(plan, read_job(tmp_path / "job.yaml", {}), "alice", {})
    said = str(caught.value)
    for number, (_, message) in enumerate(lines, start=1):
        assert not message or any(f"job.yaml:{number}:" in line and message in line for line in said.splitlines()), said
    assert "6 problems in " in said.splitlines()[-1]
