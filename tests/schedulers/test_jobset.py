"""A run on Kubernetes: its JobSet, and the script of its pods, run by a shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from stampworks.schedulers.jobset import KEPT_S, LOST_S, POD, PodJob, manifest, script
from stampworks.schedulers.kubeflow import Kind, manifests

from tests.project import wait_for

GOLDEN = Path(__file__).parent / "golden-kubernetes"


@pytest.fixture
def pods(tmp_path: Path) -> PodJob:
    """Return a job in a folder with a blank and a quote: everything must be quoted."""
    folder = tmp_path / "it's a run"
    folder.mkdir()
    return PodJob(
        name="demo",
        workload="training",
        team="research",
        user="alice",
        uid=2001,
        groups=(3001,),
        folder=str(folder),
        queue="main",
        priority="normal",
        nodes=2,
        without=("old",),
        accelerators=8,
        level="topology.stampworks/leaf",
        image="localhost/stampworks/workloads:1",
        claims={"/usr": "programs", "/shared": "shared"},
        read_only=("/usr",),
        path="/usr/local/lib/stampworks/workloads",
        program=("sh", "-c", "echo it has; exit 3"),
        elastic=True,
    )


def test_the_jobset_is_what_was_reviewed(pods: PodJob, golden: Callable[[Path, str], None]) -> None:
    """pytest --regenerate writes it again."""
    golden(GOLDEN / "jobset.json", json.dumps(manifest(replace(pods, folder="/shared/runs/demo")), indent=1) + "\n")


def test_only_training_goes_on_without_some_of_its_pods(pods: PodJob) -> None:
    """Other runs fail with a lost pod; pods without accelerators still ask for a core."""
    job = manifest(replace(pods, elastic=False, accelerators=0))["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job["backoffLimit"] == 0
    assert "successPolicy" not in job
    pod = job["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "1"}}  # a pod without requests counts for no quota
    assert [one["whenUnsatisfiable"] for one in pod["topologySpreadConstraints"]] == ["DoNotSchedule"]


def test_elastic_run_tolerates_a_failed_pod(pods: PodJob) -> None:
    """Kueue would search another node, and without one stop the whole run. An MPIJob needs all of its pods."""
    for elastic, mpi, given_up in ((True, False, False), (False, False, True), (True, True, True)):
        one = replace(pods, elastic=elastic, told="/etc/told")
        kind: Kind = "mpijob" if mpi else "jobset"
        made = manifests(kind, one, "{}")[-1]["spec"]
        pod = made["mpiReplicaSpecs"]["Worker"] if mpi else made["replicatedJobs"][0]["template"]["spec"]
        tolerated = pod["template"]["spec"]["tolerations"]
        assert [each["key"].rpartition("/")[2] for each in tolerated] == ["not-ready", "unreachable"]
        assert [each.get("tolerationSeconds") for each in tolerated] == [LOST_S if given_up else None] * 2


def test_a_run_is_forgotten_some_time_after_its_end(pods: PodJob) -> None:
    """Its pods are deleted, too: a year would leave thousands. JobSets of Trainer stay, because Trainer would create
    them again."""
    assert manifest(pods)["spec"]["ttlSecondsAfterFinished"] == KEPT_S >= 24 * 3600
    runtime = manifests("trainjob", replace(pods, told="/etc/told"), "{}")[1]
    assert "ttlSecondsAfterFinished" not in runtime["spec"]["template"]["spec"]


def started(pods: PodJob, **environment: str) -> subprocess.Popen[str]:
    file = Path(pods.folder, POD)
    if not file.exists():  # a shell may be reading it
        file.write_text(script(pods))
    told: Mapping[str, str] = {"RANK": "0", "JOB_ID": "job", "POD_IP": "10.0.0.1", **environment}
    return subprocess.Popen(
        ["sh", str(file)], env={**os.environ, **told}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_log_and_exit_code_are_in_the_folder(pods: PodJob) -> None:
    pod = started(pods)
    said, _ = pod.communicate(timeout=30)
    assert (pod.returncode, said) == (3, "0: it has\n")
    assert Path(pods.folder, "log").read_text() == said
    assert Path(pods.folder, "exit").read_text() == "3\n"
    assert not list(Path(pods.folder).glob("first-*"))


def test_only_the_first_one_says_how_it_ended(pods: PodJob) -> None:
    pod = started(pods, RANK="1")
    assert pod.communicate(timeout=30)[0] == "1: it has\n"
    assert not Path(pods.folder, "exit").exists()


def test_the_others_are_told_where_the_first_one_is(pods: PodJob) -> None:
    """Only the address of this attempt is passed on."""
    told = replace(pods, elastic=False, program=("sh", "-c", 'echo "$MASTER_ADDR"'))
    Path(pods.folder, "first-before").write_text("10.0.0.9\n")
    other = started(told, RANK="1", POD_IP="10.0.0.2")
    first = started(told)
    assert [pod.communicate(timeout=30)[0] for pod in (other, first)] == ["1: 10.0.0.1\n", "0: 10.0.0.1\n"]
    late = started(told, RANK="2", POD_IP="10.0.0.3")
    assert late.communicate(timeout=30)[0] == "2: 10.0.0.1\n", "the first one may be through before others begin"


def test_program_receives_the_signal(pods: PodJob) -> None:
    """The program gets the signal, and its code is the pod's."""
    slow = "trap 'sleep 0.5; echo saved; exit 75' TERM; echo begun; while :; do sleep 0.1; done"
    pod = started(replace(pods, program=("sh", "-c", slow)))
    log = Path(pods.folder, "log")
    wait_for(lambda: log.exists() and "begun" in log.read_text(), 30)
    pod.send_signal(signal.SIGTERM)
    said, _ = pod.communicate(timeout=30)
    assert (pod.returncode, said) == (75, "0: begun\n0: saved\n")
