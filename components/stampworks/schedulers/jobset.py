"""A run on Kubernetes: a JobSet of one pod on each node, and what each pod starts."""

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
"""In the run's folder: what each pod starts."""
STOPPED = 75
"""How a program ends that was asked to, and can go on (EX_TEMPFAIL)."""
UNKNOWN = 255
"""Exit code by containerd for a program that was gone at its restart, as after that of its node."""
RESTARTS_MAX = 20
"""A run that never gets anywhere ends, at last."""
LOST_S = 30
"""So long a node may be silent before its pod is given up: usually it is five minutes."""
KEPT_S = 7 * 24 * 3600
"""So long after its end a run is still an object, of which its pods are a part. How it ended its folder knows."""
_ELASTIC: Mapping[str, Any] = {"backoffLimitPerIndex": 0, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB = "batch.kubernetes.io/controller-uid"
_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


@dataclass(frozen=True)
class PodJob:
    """One program on some nodes, a pod on each, started again when a node is lost or others are more urgent."""

    name: str
    workload: str
    team: str
    """Whose namespace they are in."""
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
    """Pools of the queue that are not meant."""
    accelerators: int
    """Accelerators of a node: all."""
    level: str
    """The label of where nodes are close to each other; empty where nobody knows."""
    image: str
    claims: Mapping[str, str]
    """Claims of the team's namespace that are mounted, by path."""
    read_only: tuple[str, ...]
    path: str
    """Where Python finds the programs."""
    program: tuple[str, ...]
    notice_s: int = NOTICE_S
    elastic: bool = False
    """Whether the programs go on without some of them. The first one knows how they ended, together; those of another
    run have to be told where it is."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Devices of the fabric that each pod takes of a node."""
    room: Mapping[str, str] = field(default_factory=dict)
    """So much of a node's cores and memory is nobody else's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables about the fabric for libraries."""
    tasks: bool = False
    """Whether other tasks of an array share the folder: ARRAY_INDEX tells a pod which one is its own."""
    told: str = ""
    """Where pods see a ConfigMap of the run's name with what they start; empty where that lies in the folder."""


def manifest(pods: PodJob) -> dict[str, Any]:
    whole = {**spec(pods), "ttlSecondsAfterFinished": KEPT_S}
    return {"apiVersion": VERSION, "kind": "JobSet", "metadata": metadata(pods), "spec": whole}


def metadata(pods: PodJob) -> dict[str, Any]:
    """Return the metadata of an object that Kueue admits, whatever its kind."""
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
    """A pod that was taken away says nothing about its program. One that ended by itself, and not so that it can go on,
    would do so again."""
    taken = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    goes_on = [LOST, STOPPED, 137, 143, UNKNOWN]
    broke = {"containerName": container, "operator": "NotIn", "values": goes_on}
    return [taken, {"action": "FailJob", "onExitCodes": broke}]


def _pod(pods: PodJob, container: str) -> dict[str, Any]:
    mounts, volumes = mounted(pods.claims, pods.read_only)
    if pods.told:
        mounts.append({"name": "told", "mountPath": pods.told, "readOnly": True})
        volumes.append({"name": "told", "configMap": {"name": pods.name}})
    # No quota counts a pod that asks for nothing, and Kueue never admits it.
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
    # Kueue looks for another node when a pod is given up, and where there is none stops all the others: who goes on
    # without some is not given up.
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
    """Where there is no accelerator to take whole, nothing else keeps two pods of a run apart."""
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


# Tasks of an array share a log: each line begins with its task.
# Output goes to Kubernetes and, with its rank, into the run's folder: Kubernetes forgets pods.
# The first run of all may be one that nobody has submitted: where the folders of runs lie, everybody may have one.
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
# The shell's `wait` returns when a signal comes: it is called again until the program has ended. Where the first one is
# stays written when it is through: it may be before others have begun.
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
