"""Rendered objects match the operators' published schemas, with no unknown field."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_stack
from stampworks.operations.errors import InputError
from stampworks.operations.jobs import RunRequest
from stampworks.operations.kubernetes.manifests import written_down
from stampworks.plan import Plan
from stampworks.schedulers import addons, kubernetes
from stampworks.schedulers.kubeflow import KINDS, Kind
from stampworks.schedulers.workload import lint

from tests.schedulers.conftest import STACKS
from tests.schedulers.schemas import objects_in, wrong
from tests.schedulers.test_workload import on_azure, planned

pytestmark = pytest.mark.prepared

GOLDEN = Path(__file__).parent / "golden-kubernetes"
KEYS = ("id_rsa", "id_rsa.pub", "authorized_keys")


def local() -> Plan:
    """Return a local plan with the operators of all kinds."""
    plan = planning.plan(load_stack("local-k8s", STACKS))
    return replace(plan, scheduler=replace(plan.scheduler, addons=planned().scheduler.addons))


def on_efa() -> Plan:
    pools = [{"name": "gpu", "machine": "p5.48xlarge", "count": 4}]
    storage = [{"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "mount": "/data", "capacity": 9600}]
    return planned(cloud="aws", region="us-east-1", pools=pools, storage=storage)


def on_eks() -> Plan:
    plan = planning.plan(load_stack("aws-p5en-eks", STACKS))
    return replace(plan, scheduler=replace(plan.scheduler, workloads_image=""))


def on_infiniband() -> Plan:
    """The network operator offers its NICs."""
    storage = [
        {"name": "data", "kind": "azure-managed-lustre", "mbps_per_tib": 500, "capacity": 16384, "mount": "/data"}
    ]
    return on_azure(storage=storage)


PLANS: dict[str, Callable[[], Plan]] = {"local": local, "efa": on_efa, "infiniband": on_infiniband}


def rendered(plan: str, kind: Kind, **more: Any) -> list[dict[str, Any]]:
    return written_down(PLANS[plan](), kind, "registry.example/workloads:1", RunRequest("training", "demo", **more))


def by_kind(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in objects}


def container(value: Any) -> dict[str, Any]:
    """Return the container with accelerators."""
    found = [each for each in containers(value) if "nvidia.com/gpu" in each["resources"]["limits"]]
    assert len(found) == 1
    return found[0]


def containers(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield from value.get("containers", ())
        for each in value.values():
            yield from containers(each)
    elif isinstance(value, list):
        for each in value:
            yield from containers(each)


@pytest.mark.parametrize(("file", "kinds"), [("local-k8s.json", 6), ("jobset.json", 1)])
def test_golden_objects_match_the_schemas(file: str, kinds: int) -> None:
    """The queues of a cluster and the JobSet of a run."""
    found = list(objects_in(json.loads((GOLDEN / file).read_text())))
    assert len({each["kind"] for each in found}) == kinds
    assert {each["kind"]: wrong(each) for each in found if wrong(each)} == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS)
def test_a_run_is_what_they_take(plan: str, kind: Kind) -> None:
    """Whichever kind it is written down as."""
    found = list(objects_in(rendered(plan, kind)))
    kinds = {"jobset": ["JobSet"], "trainjob": ["TrainingRuntime", "TrainJob"], "mpijob": ["MPIJob"]}
    assert [each["kind"] for each in found] == kinds[kind]
    assert [problem for each in found for problem in wrong(each)] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS)
def test_a_run_asks_for_what_its_fabric_needs(plan: str, kind: Kind) -> None:
    """Our own lint of workloads has no complaint."""
    assert [each for one in rendered(plan, kind) for each in lint(PLANS[plan](), one)] == []


@pytest.mark.parametrize("plan", PLANS)
def test_kueue_counts_what_a_run_asks_for_or_is_told_to_leave_it(plan: str) -> None:
    """Otherwise the run never starts."""
    made = PLANS[plan]()
    queues = [each for each in kubernetes.objects(made) if each["kind"] == "ClusterQueue"]
    left = tuple(addons.queueing(made)["resources"]["excludeResourcePrefixes"])
    asked = container(rendered(plan, "jobset"))["resources"]["limits"]
    assert asked
    for queue in queues:
        [group] = queue["spec"]["resourceGroups"]
        assert not [name for name in asked if name not in group["coveredResources"] and not name.startswith(left)]


def test_all_kinds_start_the_same_pods() -> None:
    """Image, mounts, resources and placement are the same; each kind passes the rank in its own way."""
    made = {kind: container(rendered("efa", kind)) for kind in KINDS}
    for name in ("image", "volumeMounts", "resources", "workingDir", "imagePullPolicy"):
        assert made["jobset"][name] == made["trainjob"][name] == made["mpijob"][name], name
    assert made["jobset"]["resources"]["limits"] == {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": "32"}
    assert made["jobset"]["resources"]["requests"].keys() == {"cpu", "memory"}
    assert made["jobset"]["command"] == made["trainjob"]["command"] == ["sh", "/etc/stampworks/run/pod.sh"]
    assert made["jobset"]["env"] == made["trainjob"]["env"]
    whole = {kind: json.dumps(rendered("efa", kind)) for kind in KINDS}
    for words in ('"kueue.x-k8s.io/queue-name": "main"', '"kueue.x-k8s.io/podset-preferred-topology"'):
        assert all(each.count(words) == 1 for each in whole.values()), words


def test_a_trainjob_is_its_jobset_by_another_name() -> None:
    """Trainer creates a JobSet with all fields of the toolkit's; it finds its names there."""
    jobset, trainjob = by_kind(rendered("local", "jobset"))["JobSet"], by_kind(rendered("local", "trainjob"))
    runtime, job = trainjob["TrainingRuntime"], trainjob["TrainJob"]
    assert job["metadata"] == jobset["metadata"]
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["spec"]["trainer"]["numNodes"] == runtime["spec"]["mlPolicy"]["numNodes"] == 2
    theirs = json.dumps(runtime["spec"]["template"]["spec"])
    ancestor = ', "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"'
    assert theirs.count(ancestor) == 1
    assert json.loads(
        theirs.replace(ancestor, "").replace('Name": "node"', 'Name": "program"').replace(
            '"containers": [{"name": "node"', '"containers": [{"name": "program"'
        )
    ) == {name: each for name, each in jobset["spec"].items() if name != "ttlSecondsAfterFinished"}  # fmt: skip


def test_mpirun_is_told_what_no_worker_knows() -> None:
    """mpirun starts a program on each worker over ssh, with the job's own key; its options come from mpirun, and the
    rest from the pod's sshd."""
    told, job = rendered("efa", "mpijob")
    spec = job["spec"]
    replicas = spec["mpiReplicaSpecs"]
    [launcher] = replicas["Launcher"]["template"]["spec"]["containers"]
    [worker] = replicas["Worker"]["template"]["spec"]["containers"]
    command = launcher["command"]
    assert command[:8] == [
        *("sh", "/etc/stampworks/run/launcher.sh", "mpirun", "--allow-run-as-root", "-np", "4"),
        *("--hostfile", "/etc/mpi/hostfile"),
    ]
    assert "-o StrictHostKeyChecking=yes" in command[command.index("plm_rsh_args") + 1]
    assert command[-2:] == ["sh", "/etc/stampworks/run/pod.sh"]
    exported = [word for before, word in pairwise(command) if before == "-x"]
    assert exported == [each["name"] for each in launcher["env"]] == ["JOB_ID"]
    assert replicas["Worker"]["replicas"] == 4
    assert worker["command"] == ["sh", "/etc/stampworks/run/worker.sh"]
    known = {each["name"] for each in worker["env"]}
    assert {"NODE_NAME", "POD_IP", "PYTHONPATH", "FI_PROVIDER"} <= known
    assert {"RANK", "WORLD_SIZE", "JOB_ID"}.isdisjoint(known)
    [handed_on] = re.findall('SetEnv=(.*)"\n', told["data"]["worker.sh"])
    assert set(re.findall(r"(\w+)=\\\"", handed_on)) == {"PATH", "LD_LIBRARY_PATH", *known}
    for script in ("worker.sh", "launcher.sh"):
        assert f"{spec['sshAuthMountPath']}/$name" in told["data"][script]


def test_the_launcher_takes_a_core_and_no_device() -> None:
    """It may share a node with a worker: only workers are kept apart."""
    spec = by_kind(rendered("efa", "mpijob"))["MPIJob"]["spec"]["mpiReplicaSpecs"]
    launcher, worker = spec["Launcher"]["template"]["spec"], spec["Worker"]["template"]["spec"]
    [container] = launcher["containers"]
    assert container["resources"] == {"limits": {"cpu": "1"}}
    assert [each["name"] for each in launcher["volumes"]] == ["shm", "told"]
    assert "topologySpreadConstraints" not in launcher
    [apart] = worker["topologySpreadConstraints"]
    labels = {"training.kubeflow.org/job-name": "demo", "training.kubeflow.org/job-role": "worker"}
    assert apart["labelSelector"] == {"matchLabels": labels}


def test_a_rank_of_mpi_is_one_of_ours(tmp_path: Path) -> None:
    """Open MPI passes the rank to the program."""
    [told, _] = rendered("local", "mpijob")
    script = told["data"]["pod.sh"].replace("/shared/runs/demo", str(tmp_path / "run"))
    began = script.replace("python3 -m training", "env; true")
    assert began != script
    rank = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "JOB_ID": "x", "PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", began], env=rank, capture_output=True, text=True, check=False, timeout=30)
    said = {line.removeprefix("3: ") for line in done.stdout.splitlines()}
    assert {"RANK=3", "WORLD_SIZE=4", "JOB_ID=x"} <= said
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["worker.sh", "launcher.sh"])
def test_keys_are_private_and_umask_is_unchanged(tmp_path: Path, name: str) -> None:
    """Otherwise children of sshd and mpirun would write files that the team cannot read."""
    done = started(tmp_path, name, 'umask >"$0.umask"', ["gpu-001"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bin" / "begun.umask").read_text() == "0022\n"
    keys = tmp_path / "keys"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert {each.name: each.stat().st_mode & 0o777 for each in keys.glob("[ai]*")} == dict.fromkeys(KEYS, 0o600)


def test_a_launcher_waits_for_the_names_of_its_workers_and_not_forever(tmp_path: Path) -> None:
    """A worker that cannot start has no name: the launcher names it, and the job fails."""
    done = started(tmp_path, "launcher.sh", "echo began", ["gpu-001", "gpu-009", "gpu-002"])
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "gpu-009 is not known\n")
    assert (tmp_path / "asked").read_text().split() == ["gpu-001", *["gpu-009"] * 300]


def test_a_launcher_starts_when_all_names_are_known(tmp_path: Path) -> None:
    done = started(tmp_path, "launcher.sh", "echo began", ["gpu-001", "gpu-later", "gpu-002"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "began\n", "")
    assert (tmp_path / "asked").read_text().split() == ["gpu-001", "gpu-later", "gpu-later", "gpu-002"]


def started(tmp_path: Path, name: str, begun: str, hosts: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the script of an MPIJob's pod up to its exec; sleeps are skipped, gpu-009 has no name, and gpu-later gets one
    on the second request."""
    programs, given = tmp_path / "bin", tmp_path / "given"
    for folder in (programs, given):
        folder.mkdir()
    for key in KEYS:
        (given / key).write_text(f"{key}\n")
    (tmp_path / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts))
    asked = f"""\
case "$2" in
    gpu-009) code=1 ;;
    gpu-later) grep -q gpu-later {tmp_path}/asked; code=$? ;;
    *) code=0 ;;
esac
echo "$2" >>{tmp_path}/asked
exit $code"""
    for program, text in {"begun": begun, "getent": asked, "sleep": "true", "id": "echo 1000"}.items():
        (programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (programs / program).chmod(0o755)
    [told, _] = rendered("local", "mpijob")
    script = str(told["data"][name])
    for path, here in (
        ("/etc/stampworks/ssh", given),
        ("/tmp/stampworks-ssh", tmp_path / "keys"),
        ("/etc/mpi/hostfile", tmp_path / "hostfile"),
        ("/usr/sbin/sshd", programs / "begun"),
    ):
        script = script.replace(path, str(here))
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    argv = ["sh", "-c", f"umask 022; {script}", "sh", "begun"]
    return subprocess.run(
        argv, env={"PATH": path}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_first_run_makes_room_for_those_of_others(tmp_path: Path) -> None:
    """The folder of all runs does not exist yet: a printed run creates it."""
    [told, _] = rendered("local", "jobset")
    script = told["data"]["pod.sh"].replace("/shared/runs", str(tmp_path / "runs"))
    began = script.replace("python3 -m training", "true")
    environment = {"RANK": "0", "JOB_ID": "x", "POD_IP": "10.0.0.7", "PATH": os.environ["PATH"]}
    subprocess.run(["sh", "-c", began], env=environment, check=True, capture_output=True, timeout=30)
    assert (tmp_path / "runs").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "runs" / "demo" / "exit").read_text() == "0\n"


def test_the_judge_refuses_what_nobody_knows() -> None:
    """A misspelt field, a word for a number, or an unlisted value is refused anywhere."""
    [_, job] = rendered("local", "jobset")
    assert wrong(job) == []
    for change, words in (
        (lambda spec: spec.update(replicas=1), "'replicas' was unexpected"),
        (lambda spec: spec["replicatedJobs"][0].update(replicas="one"), "'one' is not of type 'integer'"),
        (lambda spec: spec["failurePolicy"]["rules"][0].update(action="Sulk"), "'Sulk' is not one of"),
        (lambda spec: container(spec).update(imagePullPollicy="Always"), "'imagePullPollicy' was unexpected"),
    ):
        made = copy.deepcopy(job)
        change(made["spec"])
        [problem] = wrong(made)
        assert words in problem


def test_unprintable_manifest_has_a_reason() -> None:
    """Slurm has no manifest; an MPIJob needs an image that has the programs and the user."""
    slurm = planning.plan(load_stack("local", STACKS))
    for plan, kind, image, user, words in (
        (slurm, "jobset", "", "root", "the scheduler of cluster local is Slurm, which does not use these objects"),
        (on_eks(), "mpijob", "", "root", "an MPIJob needs an image with mpirun and sshd"),
        (local(), "mpijob", "some", "alice", "it is not known whether some has a user alice"),
    ):
        with pytest.raises(InputError, match=words):
            written_down(plan, kind, image, RunRequest("training", "demo", user=user))  # type: ignore[arg-type]
