"""A job of a user as a JobSet of Kubernetes: a pod on each node, and the program that it starts."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from stampworks.jobs.checks import Job
from stampworks.jobs.forms import indexes_of, seconds
from stampworks.jobs.script import NODE, RUN, SETUP, WORKDIR, exports, places, scripts, variables
from stampworks.plan import Plan
from stampworks.schedulers import jobset
from stampworks.schedulers.batch import LOST
from stampworks.schedulers.jobset import PodJob

NAME = "stampworks/job"
"""Annotation with the name of a job: the name of its JobSet also contains the user."""
TASK = "stampworks/task"
"""Annotation with the index of a task of an array."""
ARRAY = "stampworks/array"
"""Label that the JobSets of all tasks of an array share."""
GONE_S = 60
"""Seconds that a JobSet with secrets is kept after its end; its Secret is deleted with it."""
ACCELERATORS = "accelerators.json"
"""File in the job's folder with the accelerators of a simulated node, for which no device plugin exists."""
BEAT_S, SILENT_S = 5, 30
"""Seconds between the signs of life of a node, and after how many without one it counts as lost."""
_PORT = 29_500
"""Port of the coordinator. Each pod has its own address, so that ports never collide."""
_NAME_MAX = 63 - len("-node-0-16383-abcde")
"""Maximum length of a JobSet's name: the name of its pod is longer, and at most 63 characters."""


def object_name(name: str, uid: int, task: int | None = None) -> str:
    """Maximum length of a name. Users of a team may have jobs of the same name; a long name ends with a digest."""
    mark = f"-u{uid}" if task is None else f"-u{uid}-{task}"
    if len(name) + len(mark) > _NAME_MAX:
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        name = f"{name[: _NAME_MAX - len(mark) - len(digest) - 1]}-{digest}"
    return name + mark


def tasks(job: Job) -> tuple[int, ...]:
    """Return the indexes of its array; none if it has no array."""
    return tuple(indexes_of(job.file.array)) if job.file.array else ()


def secret_name(name: str) -> str:
    """Return the name of the Secret with the environment of a job."""
    return f"{name}-secrets"


def podjob(job: Job, plan: Plan, pods: PodJob) -> PodJob:
    """Return the pods of a job, based on those of a workload on the same nodes."""
    seen = places(job, plan)
    wanted = {plan.storage[0].name, *(each.name for each in plan.storage if each.mount in seen)}
    programs = () if job.file.image else pods.read_only  # without an image, pods use the programs of their node
    claims = {path: name for path, name in pods.claims.items() if name in wanted or path in programs}
    return replace(
        pods,
        name=object_name(job.name, pods.uid),
        tasks=bool(job.file.array),
        folder=job.folder,
        accelerators=job.gpus,
        image=job.file.image.removeprefix("docker://").replace("#", "/") or pods.image,
        claims=claims,
        read_only=programs,
        path="",
        program=("bash", f"{job.folder}/{NODE}"),
        notice_s=seconds(job.file.checkpoint.grace),
        elastic=False,
        room=pods.room if job.whole_nodes else {},
    )


def files(job: Job, plan: Plan, pods: PodJob) -> dict[str, str]:
    """Return all files of the job's folder."""
    found = {jobset.POD: jobset.script(pods), NODE: node(job, plan), **scripts(job)}
    return found | ({ACCELERATORS: accelerators(job)} if _is_simulated(job) else {})


def _is_simulated(job: Job) -> bool:
    machine = job.pools[0].machine
    return machine.simulated and bool(machine.accelerators)


def accelerators(job: Job) -> str:
    """Return the accelerators for the simulated nvidia-smi in a pod: as many as the job gets of a node."""
    machine = job.pools[0].machine
    given = [
        {
            "index": index,
            "name": f"Simulated {machine.accelerator.upper()}",
            "uuid": f"GPU-{uuid5(NAMESPACE_DNS, f'{job.folder}/{index}')}",
            "memory_mib": (machine.accelerator_memory_gib or 0) * 1024,
            "memory_used_mib": 0,
            "utilization_percent": 0,
            "temperature_c": 34,
            "power_w": 70,
            "ecc_uncorrected": 0,
            "throttle_reasons": "0x0000000000000000",
            "lost": False,
        }
        for index in range(job.gpus)
    ]
    return json.dumps({"simulated": True, "driver_version": "simulated", "accelerators": given}, indent=1) + "\n"


def manifests(job: Job, pods: PodJob) -> list[dict[str, Any]]:
    """Return the JobSet, or that of each task of an array."""
    if not job.file.array:
        return [_manifest(job, pods)]
    found = []
    for task in tasks(job):
        made = _manifest(job, replace(pods, name=object_name(job.name, pods.uid, task)), secret_name(pods.name))
        made["metadata"]["labels"][ARRAY] = pods.name
        made["metadata"]["annotations"][TASK] = str(task)
        [container] = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        container["env"].append({"name": "ARRAY_INDEX", "value": str(task)})
        found.append(made)
    return found


def _manifest(job: Job, pods: PodJob, secrets: str = "") -> dict[str, Any]:
    """Return a JobSet. Its time limit leaves room for the notice that its programs get before they are ended."""
    found = jobset.manifest(pods)
    found["metadata"]["annotations"][NAME] = job.name
    spec = found["spec"]
    spec["failurePolicy"]["maxRestarts"] = job.file.retry
    of_pods = spec["replicatedJobs"][0]["template"]["spec"]
    if job.limit_s:
        of_pods["activeDeadlineSeconds"] = job.limit_s - job.notice_s
    if job.file.secrets:
        spec["ttlSecondsAfterFinished"] = GONE_S
        [container] = of_pods["template"]["spec"]["containers"]
        container["envFrom"] = [{"secretRef": {"name": secrets or secret_name(pods.name)}}]
    return found


def secret(job: Job, pods: PodJob, values: dict[str, str], uids: Mapping[str, str]) -> dict[str, Any]:
    """Return the Secret of JobSets, given their uids by name. It is deleted with the last of them."""
    owners = [{"apiVersion": jobset.VERSION, "kind": "JobSet", "name": name, "uid": uid} for name, uid in uids.items()]
    metadata: dict[str, Any] = {"name": secret_name(pods.name), "namespace": pods.team, "ownerReferences": owners}
    metadata |= {"labels": {jobset.WORKLOAD: pods.workload}, "annotations": {NAME: job.name}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def node(job: Job, plan: Plan) -> str:
    """Return the script of each pod."""
    file = job.file
    values = exports(variables(job, plan))
    if job.home:  # else that of all pods, which goes with them
        values += _HOME.replace("@HOME@", shlex.quote(job.home))
    head = f"#!/bin/bash\nfolder={shlex.quote(job.folder)}\n"
    values += f'export STAMPWORKS_ACCELERATORS="$folder/{ACCELERATORS}"\n' if _is_simulated(job) else ""
    script = _NODE.replace("@SIGNAL@", file.checkpoint.signal)
    return head + values + script.replace("@BEAT@", str(BEAT_S)).replace("@SILENT@", str(SILENT_S))


# Any user may create a folder next to the runs, and could take the name of another user's home.
_HOME = """\
export HOME=@HOME@
mkdir -p -m 700 -- "$HOME" || exit 1
if [ -L "$HOME" ] || [ ! -O "$HOME" ]; then
    echo "stampworks: $HOME belongs to another user"
    exit 1
fi
"""
# The pod's own program passes a TERM on; `wait` returns when one comes. The exit code of a job is that of the first
# program that failed: the others are ended for it. A program also fails because another node is lost, often long before
# Kubernetes misses that node. The first program that fails therefore waits for a sign of life from each other node; a
# node that has ended has removed its own.
_NODE = f"""\
export NODE_RANK="$RANK" PET_NODE_RANK="$RANK" NODE_NAMES="$NODE_NAME"
export MASTER_PORT={_PORT} PET_MASTER_PORT={_PORT} PET_MASTER_ADDR="$MASTER_ADDR"
failed="$folder/failed-$JOB_ID" alive="$folder/alive-$JOB_ID" told=
mkdir -p "$CHECKPOINT_PATH" || exit 1
if [ -d "$folder/{WORKDIR}" ]; then cd "$folder/{WORKDIR}"; else cd "$folder"; fi
while :; do echo "$SECONDS" >"$alive-$NODE_RANK"; sleep @BEAT@; done >/dev/null 2>&1 &
beat=$!
set -m # programs are a group of their own, which all get the signal
bash -e -c 'trap : @SIGNAL@; [ ! -e "$1/{SETUP}" ] || bash -e "$1/{SETUP}"; . "$1/{RUN}"' bash "$folder" &
program=$!
set +m
trap 'told=yes; kill -@SIGNAL@ -- "-$program" 2>/dev/null' TERM
lost() {{ # prints the ranks of nodes that give no sign of life
    local rank second before=()
    for ((rank = 0; rank < NNODES; rank++)); do
        if [ "$rank" != "$NODE_RANK" ] && [ -e "$alive-$rank" ]; then before[rank]="$(cat "$alive-$rank")"; fi
    done
    for ((second = 0; second < @SILENT@ && ${{#before[@]}}; second++)); do
        sleep 1
        for rank in "${{!before[@]}}"; do
            [ "${{before[rank]}}" = "$(cat "$alive-$rank" 2>/dev/null || echo ended)" ] || unset "before[rank]"
        done
    done
    echo "${{!before[@]}}"
}}
while :; do
    wait "$program"
    code=$?
    kill -0 "$program" 2>/dev/null && continue
    wait "$program" 2>/dev/null
    again=$?
    [ "$again" = 127 ] || code=$again
    break
done
if [ "$code" != 0 ]; then
    if (set -o noclobber && : >"$failed") 2>/dev/null; then
        silent="$([ "$told" ] || lost)"
        if [ "$silent" ]; then
            echo "stampworks: nodes of the job are lost (NODE_RANK $silent): what ran here ended with $code"
            code={LOST}
            for rank in $silent; do rm -f "$alive-$rank"; done
        fi
        echo "$code" >"$failed"
    else
        for ((second = 0; second < 2 * @SILENT@; second++)); do [ ! -s "$failed" ] && sleep 1 || break; done
        read -r code <"$failed" || code={LOST} # the first that failed is lost, too
    fi
fi
kill "$beat" && wait "$beat" 2>/dev/null
rm -f "$alive-$NODE_RANK"
exit "$code"
"""
