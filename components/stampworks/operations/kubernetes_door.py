"""Where the folders of runs are looked at, when no node has programs of ours: in a pod that sees what pods of runs see.

It is in the namespace of proofs, on whichever node, takes nothing of it, and ends by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes import RefusedError, Server
from stampworks.plan import PROOF_TAINT, UNPROVEN_TAINT, Plan
from stampworks.schedulers import jobset
from stampworks.schedulers.kubernetes import PROOF, claims

_NAME = "door"
_LASTS_S, _STARTS_S = 3600, 300
_WHERE = (f"--namespace={PROOF}",)


def ask(plan: Plan, uid: int, argv: Sequence[str], limit_s: float, given: str = "") -> str:
    """What a program says there, as whoever has this number."""
    server = Server.of(plan)
    as_whom = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"] if uid else []
    command = ["exec", _NAME, "--stdin", *_WHERE, "--", *as_whom, *argv]
    _open(server, plan)
    return server.said(command, given, limit_s)


def _open(server: Server, plan: Plan) -> None:
    """One that is there and has not ended serves everybody."""
    found = server.said(["get", "pod", _NAME, *_WHERE, "--ignore-not-found", "--output=json"])
    there = json.loads(found) if found.strip() else {}
    if there.get("status", {}).get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in there.get(
        "metadata", {}
    ):
        # its node may be lost, and would never say that it is gone
        server.said(["delete", "pod", _NAME, *_WHERE, "--ignore-not-found", "--force", "--grace-period=0"])
        there = {}
    if not there:
        try:
            server.said(["create", "--filename=-"], json.dumps(_pod(plan)))
        except RefusedError as error:
            if "(AlreadyExists)" not in str(error):  # somebody else was quicker
                raise
    try:
        waits = ["wait", "--for=condition=Ready", f"pod/{_NAME}", *_WHERE, f"--timeout={_STARTS_S}s"]
        server.said(waits, limit_s=_STARTS_S + 20)
    except RefusedError as error:
        what = f"the pod in which runs are looked at does not start within {_STARTS_S} s: {_why(server)}"
        raise OperationError(what, f"stampworks kubectl -- describe pod {_NAME} {_WHERE[0]}") from error


def _why(server: Server) -> str:
    events = ["get", "events", *_WHERE, f"--field-selector=involvedObject.name={_NAME}", "--output=json"]
    items = json.loads(server.said(events))["items"]
    return str(items[-1].get("message", "")) if items else "nobody says why"


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
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _NAME, "namespace": PROOF}, "spec": spec}
