"""Read folders of runs in a pod with the same mounts as their pods, if nodes have no programs of the toolkit.

The pod is in the namespace of proofs, on any node, uses none of its resources, and ends by itself. Its name has a
digest of its inputs, so that a pod of another image or other claims serves their own declarations. The name has the
time, too: another pod starts before this one ends, because a reader may be following a run. A claim cannot be deleted
while Kubernetes knows a pod with it, even an ended one: opening a pod removes ended ones, and an `up` with other claims
removes all.
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
    """Delete the pods that read files for users."""
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
