"""A run for Kubeflow's operators: the pods of its JobSet in another kind of object.

As Trainer 2.2 (trainer.kubeflow.org/v1alpha1) and the MPI operator 0.8 (kubeflow.org/v2beta1) have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from stampworks.schedulers import jobset
from stampworks.schedulers.identity import USER, runtime_name
from stampworks.schedulers.jobset import POD, PodJob
from stampworks.schedulers.kubernetes import OURS

Kind = Literal["jobset", "trainjob", "mpijob"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OPTIONS = "options.json"
TOLD = "/etc/stampworks/run"
"""Mount path of a run's options in its pods, when no shared folder already holds them."""
TRAINER, MPI = "trainer.kubeflow.org/v1alpha1", "kubeflow.org/v2beta1"
_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
_NODE = "node"
"""Trainer's name of the container that trains, and of its job."""
_WORKER, _LAUNCHER = "worker.sh", "launcher.sh"
_GIVEN, _KEYS, _PORT = "/etc/stampworks/ssh", "/tmp/stampworks-ssh", 2222  # noqa: S108  (in a container of its own)
"""Paths of an MPIJob's keys as mounted and as ssh needs them, and the port on which sshd listens without root."""
_SSH = (
    *(f"-p {_PORT}", f"-i {_KEYS}/id_rsa", f"-o UserKnownHostsFile={_KEYS}/known_hosts"),
    *("-o StrictHostKeyChecking=yes", "-o ConnectionAttempts=10"),
)
_WORKERS = ("--hostfile", "/etc/mpi/hostfile", "--mca", "plm_rsh_args", " ".join(_SSH))
"""Options of mpirun that the operator sets by variables unknown to Open MPI 5: without them all ranks would run in
the launcher."""
_OF_START = ("RANK", "WORLD_SIZE", "JOB_ID")
"""Variables that a worker gets from mpirun only."""
_OF_WORKERS = {"training.kubeflow.org/job-role": "worker"}

Manifest = dict[str, Any]


def manifests(kind: Kind, pods: PodJob, options: str) -> list[Manifest]:
    """Return all objects that `kubectl create` needs for the run, in the order of their dependencies."""
    made: Mapping[Kind, Callable[[PodJob], list[Manifest]]] = {
        "jobset": lambda one: [jobset.manifest(one)],
        "trainjob": _trainjob,
        "mpijob": _mpijob,
    }
    files = {POD: jobset.script(pods)} if kind != "mpijob" else _mpi_scripts(pods)
    return [_told(pods, {**files, OPTIONS: options}), *made[kind](pods)]


def _told(pods: PodJob, files: Mapping[str, str]) -> Manifest:
    metadata = {"name": pods.name, "namespace": pods.team, "labels": dict(OURS), "annotations": {USER: pods.user}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(files)}


def _trainjob(pods: PodJob) -> list[Manifest]:
    """Return the runtime with the content of a JobSet; the job names it and sets the number of nodes."""
    whole, name = jobset.metadata(pods), runtime_name(pods.name, pods.uid)
    made = {"labels": {jobset.WORKLOAD: pods.workload, **OURS}, "annotations": whole["annotations"]}
    runtime = {
        "apiVersion": TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {
            "name": name,
            "namespace": pods.team,
            "labels": dict(OURS),
            "annotations": {USER: pods.user},
        },
        "spec": {
            "mlPolicy": {"numNodes": pods.nodes},
            "template": {"metadata": made, "spec": jobset.spec(pods, _NODE, _STEP)},
        },
    }
    group, _, _ = TRAINER.partition("/")
    job = {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": whole,
        "spec": {
            "runtimeRef": {"apiGroup": group, "kind": "TrainingRuntime", "name": name},
            "trainer": {"numNodes": pods.nodes},
        },
    }
    return [runtime, job]


def _mpijob(pods: PodJob) -> list[Manifest]:
    """Return an MPIJob. Workers wait for ssh from mpirun, which starts a program on each and needs all of them."""
    worker = jobset.template(replace(pods, elastic=False), "worker")
    [container] = worker["spec"]["containers"]
    container["command"] = ["sh", f"{pods.told}/{_WORKER}"]
    container["env"] = _of_worker(container["env"])
    for constraint in worker["spec"]["topologySpreadConstraints"]:
        constraint["labelSelector"] = {"matchLabels": {"training.kubeflow.org/job-name": pods.name, **_OF_WORKERS}}
    replicas: Manifest = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _launcher(pods)},
        "Worker": {"replicas": pods.nodes, "restartPolicy": "Never", "template": worker},
    }
    for each in (worker, replicas["Launcher"]["template"]):
        # the operator reads it from outside the template, and warns about a second one
        each["spec"].pop("restartPolicy")
    return [
        {
            "apiVersion": MPI,
            "kind": "MPIJob",
            "metadata": jobset.metadata(pods),
            "spec": {
                "slotsPerWorker": 1,
                "mpiImplementation": "OpenMPI",
                "sshAuthMountPath": _GIVEN,
                "launcherCreationPolicy": "WaitForWorkersReady",
                "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
                "mpiReplicaSpecs": replicas,
            },
        }
    ]


def _launcher(pods: PodJob) -> Manifest:
    """Return the launcher, with the volume of programs and a core: without a request, Kueue would report only a missing
    flavor, whatever the job waits for."""
    programs = {path: claim for path, claim in pods.claims.items() if path in pods.read_only}
    alone = replace(pods, level="", claims=programs, accelerators=0, devices={}, room={}, elastic=False)
    made = jobset.template(alone, "launcher")
    made["spec"].pop("topologySpreadConstraints")
    [container] = made["spec"]["containers"]
    start = ["mpirun", "--allow-run-as-root", "-np", str(pods.nodes), *_WORKERS]
    start += ["--map-by", "ppr:1:node", "--bind-to", "none", "-x", "JOB_ID"]
    container["command"] = ["sh", f"{pods.told}/{_LAUNCHER}", *start, "sh", f"{pods.told}/{POD}"]
    container["env"] = [{"name": "JOB_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]
    return made


def _of_worker(env: list[Manifest]) -> list[Manifest]:
    return [each for each in env if each["name"] not in _OF_START]


def _mpi_scripts(pods: PodJob) -> dict[str, str]:
    """Return the scripts by which a rank learns its number from Open MPI, and a login gets its pod's variables."""
    first, _, rest = jobset.script(pods).partition("\n")
    asked = 'export RANK="$OMPI_COMM_WORLD_RANK" WORLD_SIZE="$OMPI_COMM_WORLD_SIZE"\n'
    [container] = jobset.template(pods, "worker")["spec"]["containers"]
    names = ["PATH", "LD_LIBRARY_PATH", *(each["name"] for each in _of_worker(container["env"]))]
    told = " ".join(f'{name}=\\"${{{name}:-}}\\"' for name in names)
    return {
        POD: f"{first}\n{asked}{rest}",
        _WORKER: f'{_OF_BOTH}{_SSHD}    -o "SetEnv={told}"\n',
        _LAUNCHER: f"{_OF_BOTH}{_MPIRUN}",
    }


# The key of the job is in all of its pods and nowhere else: they trust each other in both directions by it. Only the
# key is private: output of ranks may be read by the team.
_OF_BOTH = f"""\
#!/bin/sh
set -eu
(
    umask 077
    mkdir {_KEYS}
    for name in id_rsa id_rsa.pub authorized_keys; do
        cat "{_GIVEN}/$name" >"{_KEYS}/$name"
    done
)
echo "* $(cat {_KEYS}/id_rsa.pub)" >{_KEYS}/known_hosts
"""
# Settings of sshd in the image are ignored. sshd passes on only the variables that are listed here.
_SSHD = f"""\
if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd; fi
exec /usr/sbin/sshd -De -f /dev/null -p {_PORT} -h {_KEYS}/id_rsa -o PidFile=none -o StrictModes=no \\
    -o AuthorizedKeysFile={_KEYS}/authorized_keys -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \\
"""
# A job that has waited for its quota may have its launcher before its workers, which may still fetch their image. A
# worker that cannot start never has a name.
_MPIRUN = """\
while read -r host slots; do
    for second in $(seq 300); do
        if getent hosts "$host" >/dev/null; then continue 2; fi
        sleep 1
    done
    echo "$host is not known" >&2
    exit 1
done </etc/mpi/hostfile
exec "$@"
"""
