"""Read files of a cluster as a user: in the pod of a Job of that user, in the namespace of the team.

It has her user id, and mounts the storage of runs. It requests little, so that it starts next to jobs with all
accelerators, and ends by itself. Its name begins as the policy `users` requires: she may start programs in pods of that
name and in no others.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from stampworks.operations.errors import InputError, OperationError
from stampworks.operations.kubernetes import status as kubernetes_status
from stampworks.operations.kubernetes.client import KubernetesApi, Manifest, is_true, name_of
from stampworks.plan import ACCELERATOR, WORKLOADS_IMAGE, Account, Plan, Roster
from stampworks.schedulers import identity, jobset
from stampworks.schedulers import kubernetes as scheduling
from stampworks.schedulers.kubernetes import DEFAULT_QUEUE, PROGRAMS_PATH, QUEUE_LABEL
from stampworks.schedulers.objects import text_at

_LASTS_S, _SERVES_S, _STARTS_S, _POLL_S = 3600, 1800, 120, 0.5
_ROOM = {"cpu": "100m", "memory": "64Mi", ACCELERATOR: "1"}
"""The request, of the first of these that quotas count: Kueue lets nothing start that asks for nothing."""


def ask(plan: Plan, roster: Roster, argv: Sequence[str], limit_s: float, given: str) -> str:
    """Return the output of a program that runs in the user's pod."""
    team = next(iter(kubernetes_status.teams_of(plan, roster)), None)
    if team is None:
        what = f"{roster.user} is of no account, and so of no team in whose namespace files could be looked at"
        raise InputError(what, "have an administrator write accounts: at the user, and run pulumi up")
    server, where = KubernetesApi.of(plan, roster), f"--namespace={team.name}"
    pod = _opened(server, _job(plan, roster.user, team), where)
    return server.said(["exec", pod, "--stdin", where, "--", *argv], given, limit_s)


def _opened(server: KubernetesApi, job: Manifest, where: str) -> str:
    """Return the name of the ready pod; start its job if it does not exist."""
    name, deadline = name_of(job), time.monotonic() + _STARTS_S
    while True:
        pods = server.listed("pods", where, f"--selector=batch.kubernetes.io/job-name={name}")
        if found := next((pod for pod in pods if is_true(pod, "Ready") and not _leaves(pod)), None):
            return name_of(found)
        jobs = {name_of(each): each for each in server.listed("jobs.batch", where)}
        if name in jobs and (is_true(jobs[name], "Failed") or is_true(jobs[name], "Complete")):
            server.said(["delete", "jobs.batch", name, where, "--ignore-not-found", "--cascade=foreground"])
        elif name not in jobs:
            server.create(job)
        if time.monotonic() > deadline:
            why = _why(server, name, pods, where)
            what = f"the pod in which files are looked at does not start within {_STARTS_S} s: {why}"
            raise OperationError(what, f"stampworks kubectl describe workloads {where}")
        time.sleep(_POLL_S)


def _leaves(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _why(server: KubernetesApi, name: str, pods: Sequence[Manifest], where: str) -> str:
    """Return the reason of Kueue, or that of the node on which the pod is."""
    for workload in server.listed("workloads.kueue.x-k8s.io", where):
        owners = workload["metadata"].get("ownerReferences", ())
        if name in [owner.get("name") for owner in owners] and not is_true(workload, "Admitted"):
            said = {each.get("type"): each for each in workload.get("status", {}).get("conditions", ())}
            return text_at(said, "QuotaReserved", "message") or "Kueue has not looked at it yet"
    return next((event for pod in pods if (event := server.last_event(name_of(pod), where))), "no reason is known")


def _job(plan: Plan, user: str, team: Account) -> dict[str, Any]:
    declared = next(each for each in plan.users if each.name == user)
    groups = [each.gid for each in plan.teams if each.name in declared.groups]
    claims = scheduling.claims(plan)
    mounts, volumes = jobset.mounted(claims, [path for path in claims if path == PROGRAMS_PATH])
    counted = {resource for pool in plan.pools for resource in scheduling.capacity(pool)}
    room = next(({resource: amount} for resource, amount in _ROOM.items() if resource in counted), {})
    container = {
        "name": "program",
        "image": plan.scheduler.workloads_image or WORKLOADS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "workingDir": "/tmp",  # noqa: S108  (the one directory that every image has)
        "volumeMounts": mounts,
        "resources": {"limits": room},
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "tolerations": jobset.given_up(jobset.LOST_S),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": jobset.as_user(declared.uid, groups),
        "containers": [container],
        "volumes": volumes,
    }
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{identity.FILES}{declared.uid}-{digest}-{int(time.time() // _SERVES_S)}"
    labels = {QUEUE_LABEL: DEFAULT_QUEUE, identity.FILES_LABEL: "", **scheduling.OURS}
    whole = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": _LASTS_S,
        "ttlSecondsAfterFinished": 0,
        "template": {"spec": spec},
    }
    metadata = {
        "name": name,
        "namespace": team.name,
        "labels": labels,
        "annotations": {identity.USER: user},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": whole}
