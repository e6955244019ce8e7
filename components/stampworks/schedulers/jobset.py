"""A run on Kubernetes: a JobSet with a pod on each node, and the script of each pod."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stampworks.plan import ACCELERATOR, OVER_EFA, OVER_VERBS
from stampworks.schedulers.batch import EXIT, LOG, LOST, NOTICE_S
from stampworks.schedulers.identity import USER
from stampworks.schedulers.kubernetes import OURS, PRIORITY_LABEL, QUEUE_LABEL
from stampworks.schedulers.topology.kubernetes import POOL

VERSION = "jobset.x-k8s.io/v1alpha2"
WORKLOAD = "stampworks/workload"
"""The label of JobSets that are runs."""
POD = "pod.sh"
"""File in the run's folder with the command of each pod."""
STOPPED = 75
"""Exit status of a program that stopped on request and can continue (EX_TEMPFAIL)."""
UNKNOWN = 255
"""Exit status that containerd reports for a program that ended before its restart, as after a restart of the node."""
RESTARTS_MAX = 20
"""A run that never gets anywhere ends, at last."""
LOST_S = 30
"""Seconds of a node's silence after which its pod is given up; the default is five minutes."""
KEPT_S = 7 * 24 * 3600
"""Seconds that a run and its pods are kept as objects after the end. Its folder records the result."""
_ELASTIC: Mapping[str, Any] = {"backoffLimitPerIndex": 0, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB = "batch.kubernetes.io/controller-uid"
_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


@dataclass(frozen=True)
class PodJob:
    """A program on some nodes, a pod on each, restarted when a node is lost or another job preempts it."""

    name: str
    workload: str
    team: str
    """Team, whose namespace has the pods."""
    user: str
    uid: int
    groups: tuple[int, ...]
    """Numbers of the user's groups."""
    folder: str
    """Folder of the run, seen by all pods."""
    queue: str
    priority: str
    nodes: int
    without: tuple[str, ...]
    """Pools of the queue that are not used."""
    accelerators: int
    """Accelerators of a node: all."""
    level: str
    """Label of the level on which nodes are near each other; empty if unknown."""
    image: str
    claims: Mapping[str, str]
    """Claims of the team's namespace that are mounted, by path."""
    read_only: tuple[str, ...]
    path: str
    """Python path of the programs."""
    program: tuple[str, ...]
    notice_s: int = NOTICE_S
    elastic: bool = False
    """Whether the programs continue without some nodes. The first pod then knows their common end; in other runs each
    pod must learn the first pod's address."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Fabric devices of each pod."""
    room: Mapping[str, str] = field(default_factory=dict)
    """Cores and memory of a node that the pod reserves."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables about the fabric for libraries."""
    tasks: bool = False
    """Whether other tasks of an array share the folder: ARRAY_INDEX is the index of a pod's task."""
    told: str = ""
    """Mount path of a ConfigMap with the run's options; empty when the run's folder holds them."""


def manifest(pods: PodJob) -> dict[str, Any]:
    """Return the JobSet of a run, which Kubernetes deletes some time after its end."""
    whole = {**spec(pods), "ttlSecondsAfterFinished": KEPT_S}
    return {"apiVersion": VERSION, "kind": "JobSet", "metadata": metadata(pods), "spec": whole}


def metadata(pods: PodJob) -> dict[str, Any]:
    """Return the metadata of an object of any kind that Kueue admits."""
    labels = {QUEUE_LABEL: pods.queue, WORKLOAD: pods.workload, **OURS}
    labels |= {PRIORITY_LABEL: pods.priority} if pods.priority else {}
    return {"name": pods.name, "namespace": pods.team, "labels": labels, "annotations": {USER: pods.user}}


def spec(pods: PodJob, container: str = "program", labels: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return the spec of its JobSet; operators may look for the container's name and the job's labels."""
    job = {
        "completionMode": "Indexed",
        "completions": pods.nodes,
        "parallelism": pods.nodes,
        **(_ELASTIC if pods.elastic else {"backoffLimit": 0}),
        "podFailurePolicy": {"rules": _judged(container)},
        "template": template(pods, container),
    }
    template_of_job = {"metadata": {"labels": {WORKLOAD: pods.workload, **labels}}, "spec": job}
    return {
        "failurePolicy": {
            "maxRestarts": RESTARTS_MAX,
            "rules": [
                {"name": "broke", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
            ],
        },
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": template_of_job}],
    }


def template(pods: PodJob, container: str) -> dict[str, Any]:
    """Return the template of the pod on each node, with its placement."""
    return {"metadata": {"annotations": {_PREFERRED: pods.level}} if pods.level else {}, "spec": _pod(pods, container)}


def _judged(container: str) -> list[dict[str, Any]]:
    """Return the failure policy of a container: a removed pod says nothing about its program; a program that failed
    without a checkpoint would fail again."""
    taken = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    goes_on = [LOST, STOPPED, 137, 143, UNKNOWN]
    broke = {"containerName": container, "operator": "NotIn", "values": goes_on}
    return [taken, {"action": "FailJob", "onExitCodes": broke}]


def _pod(pods: PodJob, container: str) -> dict[str, Any]:
    mounts, volumes = mounted(pods.claims, pods.read_only)
    if pods.told:
        mounts.append({"name": "told", "mountPath": pods.told, "readOnly": True})
        volumes.append({"name": "told", "configMap": {"name": pods.name}})
    # A pod without requests counts for no quota, and Kueue never admits it.
    counted = {ACCELERATOR: pods.accelerators} if pods.accelerators else {} if pods.room else {"cpu": "1"}
    limits = {**counted, **pods.devices}
    program = {
        "name": container,
        "image": pods.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", f"{pods.told or pods.folder}/{POD}"],
        "workingDir": "/tmp",  # noqa: S108  (the one directory that every image has)
        "env": _environment(pods),
        "volumeMounts": mounts,
        "resources": {"limits": limits, **({"requests": dict(pods.room)} if pods.room else {})},
        **({"securityContext": {"allowPrivilegeEscalation": False}} if pods.uid else {}),
    }
    # Kueue searches another node for a pod that is given up, and without one stops all others: elastic runs keep such
    # pods.
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": pods.notice_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"securityContext": as_user(pods.uid, pods.groups)} if pods.uid else {}),
        **({"affinity": _elsewhere(pods.without)} if pods.without else {}),
        "tolerations": given_up(None if pods.elastic else LOST_S),
        "topologySpreadConstraints": [_one_a_node(pods)],
        "containers": [program],
        "volumes": volumes,
    }


def given_up(after_s: int | None) -> list[dict[str, Any]]:
    """Return tolerations by which a pod is given up so long after its node was lost; None for never."""
    late = {} if after_s is None else {"tolerationSeconds": after_s}
    return [
        {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", **late}
        for each in ("not-ready", "unreachable")
    ]


def as_user(uid: int, groups: Sequence[int]) -> dict[str, Any]:
    """Return the security context of pods that run with the numbers of a user and of the user's groups."""
    more = {"supplementalGroups": [*groups]} if groups else {}
    return {"runAsUser": uid, "runAsGroup": uid, **more}


def mounted(claims: Mapping[str, str], read_only: Sequence[str] = ()) -> tuple[list[Any], list[Any]]:
    """Return volumes and mounts of a container: its pod's, claims by path, and shared memory."""
    mounts, volumes = [], []
    for index, (path, claim) in enumerate(claims.items()):
        mounts.append({"name": f"v{index}", "mountPath": path, **({"readOnly": True} if path in read_only else {})})
        volumes.append({"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}})
    mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108
    volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    return mounts, volumes


def of_fabric(kind: str) -> dict[str, str]:
    """Return the variables that tell libraries of a pod about the fabric of its devices."""
    return dict({"efa": OVER_EFA, "infiniband": OVER_VERBS, "roce": OVER_VERBS}.get(kind, {}))


def _environment(pods: PodJob) -> list[dict[str, Any]]:
    told = {
        "RANK": f"metadata.annotations['{_INDEX}']",
        "JOB_ID": f"metadata.labels['{_JOB}']",
        "NODE_NAME": "spec.nodeName",
        "POD_IP": "status.podIP",
    }
    said = {"WORLD_SIZE": str(pods.nodes), "PYTHONPATH": pods.path, "HOME": "/tmp", "GLOO_SOCKET_IFNAME": "eth0"}  # noqa: S108
    said |= pods.environment
    return [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in told.items()),
        *({"name": name, "value": value} for name, value in said.items()),
    ]


def _elsewhere(pools: tuple[str, ...]) -> dict[str, Any]:
    not_there = {"matchExpressions": [{"key": POOL, "operator": "NotIn", "values": list(pools)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [not_there]}}}


def _one_a_node(pods: PodJob) -> dict[str, Any]:
    """Return an anti-affinity, because without accelerators nothing else separates two pods of a run."""
    own = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": pods.name}}
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway" if pods.accelerators else "DoNotSchedule",
        "labelSelector": own,
    }


def script(pods: PodJob) -> str:
    """A shell script; nothing in it is left for the shell to interpret."""
    folder, command = shlex.quote(pods.folder), shlex.join(pods.program)
    meet = "" if pods.elastic else _MEET
    task = "-$ARRAY_INDEX" if pods.tasks else ""
    before = _BEFORE.replace("@TASK@", task).replace("@PREFIX@", "$ARRAY_INDEX: " if pods.tasks else "")
    after = _AFTER.replace("@TASK@", task)
    return f'#!/bin/sh\nfolder={folder}\n{before}{meet}{command} >"$pipe" 2>&1 &\n{after}'


# Lines of an array's tasks, which share a log, begin with the task. Kubernetes forgets pods, so that output also goes
# to the run's folder, with the rank. If the first run is a printed manifest, it creates the folder of all runs, in
# which any user may have one.
_BEFORE = f"""\
runs="${{folder%/*}}"
if [ ! -d "$runs" ]; then mkdir -p "$runs" && chmod 1777 "$runs"; fi
mkdir -p "$folder"
first="$folder/first@TASK@-$JOB_ID"
if [ "$RANK" = 0 ]; then
    rm -f "$folder/{EXIT}@TASK@" "$folder/first@TASK@-"*
    echo "$POD_IP" >"$first.draft" && mv "$first.draft" "$first"
fi
pipe="$(mktemp -u)"
mkfifo "$pipe"
sed -u "s/^/@PREFIX@$RANK: /" <"$pipe" | tee -a "$folder/{LOG}" &
said=$!
"""
_MEET = """\
for second in $(seq 300); do
    if [ -s "$first" ]; then break; fi
    sleep 1
done
export MASTER_ADDR="$(cat "$first")"
"""
# The shell's `wait` returns at a signal: call it again until the program has ended. The address of the first rank stays
# after its end, because others may start later.
_AFTER = f"""\
program=$!
trap 'kill -TERM "$program" 2>/dev/null' TERM
while :; do
    wait "$program" 2>/dev/null
    code=$?
    kill -0 "$program" 2>/dev/null || break
done
wait "$said" 2>/dev/null
if [ "$RANK" = 0 ]; then
    [ "$code" = 0 ] || rm -f "$first"
    echo "$code" >"$folder/{EXIT}@TASK@"
fi
exit "$code"
"""
