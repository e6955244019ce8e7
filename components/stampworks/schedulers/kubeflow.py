"""A run as Kubeflow's operators take it: the pods are those of its JobSet, and what is around them is another kind.

As Trainer 2.1 (trainer.kubeflow.org/v1alpha1) and the MPI operator 0.7 (kubeflow.org/v2beta1) have it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from stampworks.schedulers import jobset
from stampworks.schedulers.jobset import POD, Pods
from stampworks.schedulers.kubernetes import OURS

Kind = Literal["jobset", "trainjob", "mpijob"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OPTIONS = "options.json"
TOLD = "/etc/stampworks/run"
"""Where pods see what a run was told, when no folder has it beforehand."""
TRAINER, MPI = "trainer.kubeflow.org/v1alpha1", "kubeflow.org/v2beta1"
_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
_NODE = "node"
"""What Trainer calls the container that trains, and the job that it is in."""
_PLACE = "/tmp/stampworks-place"  # noqa: S108  (in a container of its own)
_WORKERS = ("--hostfile", "/etc/mpi/hostfile", "--mca", "plm_rsh_args", "-o ConnectionAttempts=10")
"""What the operator tells mpirun by settings that Open MPI 5 does not know: without it all ranks would be started in
the launcher."""
_EXPORTED = ("JOB_ID", "PYTHONPATH", "HOME", "GLOO_SOCKET_IFNAME", "FI_PROVIDER")
_OF_POD, _OF_START = ("NODE_NAME", "POD_IP"), ("RANK", "WORLD_SIZE", "JOB_ID")

Manifest = dict[str, Any]


def manifests(kind: Kind, pods: Pods, options: str) -> list[Manifest]:
    """All that `kubectl create` needs for the run, each after what it refers to."""
    made: Mapping[Kind, Callable[[Pods], list[Manifest]]] = {
        "jobset": lambda one: [jobset.manifest(one)],
        "trainjob": _trainjob,
        "mpijob": _mpijob,
    }
    script = _mpi_script(pods) if kind == "mpijob" else jobset.script(pods)
    return [_told(pods, {POD: script, OPTIONS: options}), *made[kind](pods)]


def _told(pods: Pods, files: Mapping[str, str]) -> Manifest:
    metadata = {"name": pods.name, "namespace": pods.team, "labels": dict(OURS)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(files)}


def _trainjob(pods: Pods) -> list[Manifest]:
    """A runtime has all that a JobSet says; the job names it, and says on how many nodes."""
    whole = jobset.metadata(pods)
    made = {"labels": {jobset.WORKLOAD: pods.workload, **OURS}, "annotations": whole["annotations"]}
    runtime = {
        "apiVersion": TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {"name": pods.name, "namespace": pods.team, "labels": dict(OURS)},
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
            "runtimeRef": {"apiGroup": group, "kind": "TrainingRuntime", "name": pods.name},
            "trainer": {"numNodes": pods.nodes},
        },
    }
    return [runtime, job]


def _mpijob(pods: Pods) -> list[Manifest]:
    """Workers wait for mpirun's ssh, which starts one program on each; what they know of themselves lies in a file,
    for an ssh does not hand it on."""
    worker = jobset.template(pods, "worker")
    container = worker["spec"]["containers"][0]
    settings = [each for each in container["env"] if each["name"] in _EXPORTED]
    place = " ".join(f'{name}="${name}"' for name in _OF_POD)
    container["command"] = ["sh", "-c", f"echo {place} >{_PLACE} && exec /usr/sbin/sshd -De"]
    container["env"] = [each for each in container["env"] if each["name"] not in _OF_START]
    exported = [word for each in settings for word in ("-x", each["name"])]
    start = ["mpirun", "--allow-run-as-root", "-np", str(pods.nodes), *_WORKERS]
    start += ["--map-by", "ppr:1:node", "--bind-to", "none"]
    launcher = copy.deepcopy(worker)
    launcher["metadata"] = {}
    own = launcher["spec"]
    own.pop("topologySpreadConstraints")
    own["volumes"] = []
    [of_launcher] = own["containers"]
    for name in ("resources", "workingDir"):
        of_launcher.pop(name, None)
    started = {"name": "JOB_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    of_launcher |= {
        "name": "launcher",
        "command": [*start, *exported, "sh", f"{pods.told}/{POD}"],
        "env": [started if each["name"] == "JOB_ID" else each for each in settings],
        "volumeMounts": [],
    }
    _of_mpi(worker["spec"], pods.name)
    return [
        {
            "apiVersion": MPI,
            "kind": "MPIJob",
            "metadata": jobset.metadata(pods),
            "spec": {
                "slotsPerWorker": 1,
                "mpiImplementation": "OpenMPI",
                "launcherCreationPolicy": "WaitForWorkersReady",
                "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                    "Worker": {"replicas": pods.nodes, "restartPolicy": "Never", "template": worker},
                },
            },
        }
    ]


def _of_mpi(spec: Manifest, name: str) -> None:
    """Its pods have another label by which they are told apart from others'."""
    for constraint in spec["topologySpreadConstraints"]:
        constraint["labelSelector"] = {"matchLabels": {"training.kubeflow.org/job-name": name}}


def _mpi_script(pods: Pods) -> str:
    """The usual one, after its rank is asked of Open MPI and its place of the worker."""
    first, _, rest = jobset.script(pods).partition("\n")
    exported = " ".join(("RANK", "WORLD_SIZE", *_OF_POD))
    asked = f'RANK="$OMPI_COMM_WORLD_RANK"\nWORLD_SIZE="$OMPI_COMM_WORLD_SIZE"\n. {_PLACE}\nexport {exported}\n'
    return f"{first}\n{asked}{rest}"
