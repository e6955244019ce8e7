"""Read folders of runs in a pod with the same mounts as their pods, when nodes have no programs of ours.

It is in the namespace of proofs, on whichever node, takes nothing of it, and ends by itself. Its name has a digest of
what it is made from: one from another image, or with other claims, serves those who declare that. It has the time, too:
there is another one before it ends, for whoever follows a run would be looking through it just then. A claim cannot go
for as long as a pod has it that Kubernetes knows, whether that has ended or not: whoever opens one removes those that
are over, and an `up` that makes other claims removes all.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes.client import KubernetesApi, Manifest, RefusedError, name_of
from stampworks.plan import PROOF_NAMESPACE, PROOF_TAINT, UNPROVEN_TAINT, Plan
from stampworks.schedulers import jobset
from stampworks.schedulers.identity import FILES_LABEL
from stampworks.schedulers.kubernetes import claims

_DOOR = "stampworks/door"
"""The label of all of them."""
_LASTS_S, _SERVES_S, _STARTS_S = 3600, 1800, 300
_WHERE, _ALL = (f"--namespace={PROOF_NAMESPACE}",), f"--selector={_DOOR}"


def ask(plan: Plan, uid: int, argv: Sequence[str], limit_s: float, given: str = "") -> str:
    """Return the output of a program there, run with this uid."""
    server = KubernetesApi.of(plan)
    as_whom = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"] if uid else []
    name = _open(server, plan)
    return server.said(["exec", name, "--stdin", *_WHERE, "--", *as_whom, *argv], given, limit_s)


def close(server: KubernetesApi) -> None:
    """Close the pods of any image, including those of users; the next command opens a new one."""
    server.said(["delete", "pods", *_WHERE, _ALL, "--ignore-not-found", "--grace-period=1", "--wait=false"])
    close_of_users(server)


def close_of_users(server: KubernetesApi) -> None:
    """Delete the pods that look at files for users."""
    which = ["jobs.batch", "--all-namespaces", f"--selector={FILES_LABEL}"]
    server.said(["delete", *which, "--ignore-not-found", "--wait=false"])


def _open(server: KubernetesApi, plan: Plan) -> str:
    """Return the name of a running pod, which serves all commands; start one if needed."""
    pod = _pod(plan)
    name = name_of(pod)
    there = {name_of(each): each for each in server.listed("pods", *_WHERE, _ALL)}
    if old := [each for each in there if _is_over(there[each])]:
        # The node may be lost, and could then not confirm the end of its pod.
        server.said(["delete", "pods", *old, *_WHERE, "--ignore-not-found", "--force", "--grace-period=0"])
    if name in old or name not in there:
        server.create(pod)
    try:
        waits = ["wait", "--for=condition=Ready", f"pod/{name}", *_WHERE, f"--timeout={_STARTS_S}s"]
        server.said(waits, limit_s=_STARTS_S + 20)
    except RefusedError as error:
        why = server.last_event(name, *_WHERE) or "no reason is given"
        what = f"the pod that reads runs does not start within {_STARTS_S} s: {why}"
        raise OperationError(what, f"stampworks kubectl -- describe pod {name} {_WHERE[0]}") from error
    return name


def _is_over(pod: Manifest) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


def _pod(plan: Plan) -> dict[str, Any]:
    mounts, volumes = jobset.mounted(claims(plan))
    container = {
        "name": "program",
        "image": plan.scheduler.workloads_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "volumeMounts": mounts,
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _LASTS_S,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"key": taint, "operator": "Exists"} for taint in (UNPROVEN_TAINT, PROOF_TAINT)],
        "containers": [container],
        "volumes": volumes,
    }
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    since = int(time.time() // _SERVES_S)
    metadata = {"name": f"door-{digest}-{since}", "namespace": PROOF_NAMESPACE, "labels": {_DOOR: ""}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
