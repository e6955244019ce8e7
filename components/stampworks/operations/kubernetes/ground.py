"""Proving nodes of a Kubernetes: a taint keeps other pods away, and programs start in pods that are pinned to their
nodes.

A Lease replaces Slurm's reservation, so that proofs take turns. The scheduler places no pods on nodes that take none,
so that these pods name their node. If nodes have programs of the toolkit, a proof's pod enters its node: the node
itself is measured, in the same way for each scheduler. In a pod's view an unmounted directory looks like a mounted one,
and packages, accelerators and limits of the node are missing. On other nodes a pod is like one of a run, with the same
image, claims and devices, but in the node's network: it measures what jobs get, and a claim that cannot be mounted
keeps it from starting, with the reason.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from stampworks.operations import holder
from stampworks.operations.errors import OperationError
from stampworks.operations.ground import Ended, NodeStanding, Progress, ProofHeldError, look_again
from stampworks.operations.kubernetes import client as kubernetes
from stampworks.operations.kubernetes import nodes as kubernetes_nodes
from stampworks.operations.kubernetes.client import OURS_ONLY, name_of
from stampworks.operations.kubernetes.nodes import taints
from stampworks.plan import ACCELERATOR, PROOF_NAMESPACE, PROOF_TAINT, WORKLOADS_IMAGE, Roster
from stampworks.qualification import Subject
from stampworks.schedulers import jobset
from stampworks.schedulers.kubernetes import OURS
from stampworks.schedulers.workload import EFA
from stampworks.text.names import fold
from stampworks.text.reasons import DrainReason

LEASE = "proof"
LEASE_S = 300
_ASK = "stampworks/ask"
_POLL_S, _TURN_S = 0.5, 2.0
_BROKEN_OFF = DrainReason("proof", "", "its proof was interrupted")
_GONE = "(NotFound)"
_NOT_OURS = re.compile(r"\((AlreadyExists|Conflict|NotFound)\)")
_WHERE = (f"--namespace={PROOF_NAMESPACE}",)
_SAID = re.compile(r"\[pod/[a-z0-9-]+-(\d{1,6})/program\] (.*)")
_ENDED = ("Succeeded", "Failed")
_NEVER_BEGUN = ("ContainerCannotRun", "StartError")
_LATE_S = 20.0
"""Seconds that a pod may take to start and end, besides the time of its program."""
_ENTER, _STAY, _WORD = 'nsenter --target 1 --mount -- sh -c "$1" sh', 'sh -c "$1" sh', '"$WORD_{}"'
_AS_JOBS = """\
[ -r /etc/stampworks/collectives.env ] || exec "$@"
while IFS= read -r line; do
    case "$line" in [A-Z]*=*) export "$line" ;; esac
done </etc/stampworks/collectives.env
exec "$@"
"""
"""Environment of jobs, in which proofs run, too."""
_OFFERED_S = 300.0
"""Seconds after joining until the device plugin of a node must run."""
_FETCHED_S = 900.0
"""Seconds for the image: it contains torch, and a new node has no layer of it."""
_HOPELESS_S = 60.0
"""Seconds of a kubelet's complaints until a pod counts as unable to start: three tries."""
# States in which a kubelet tries again, and errors that no retry mends (Kubernetes 1.35, pkg/kubelet/images/types.go
# and kuberuntime/kuberuntime_container.go, read 2026-11-25). From 1.32 on, a kubelet that waits to pull an image shows
# the registry's answer: it may be a fault of the network, and the next pull succeeds.
_PULLS = ("ErrImagePull", "ImagePullBackOff")
_NOT_TO_BE_HAD = re.compile(
    r"not ?found|does not exist|unauthorized|forbidden|denied|authorization failed|no basic auth credentials", re.I
)
# An object that containerd could not create under load ("CreateContainerError") may succeed another time.
_CANNOT_START = ("CreateContainerConfigError", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName")
_OTHER_IMAGE = (
    "set scheduler.workloads_image to an image that these nodes may pull and can start, or permit the pull; for "
    f"details: stampworks kubectl -- get events --namespace {PROOF_NAMESPACE}"
)
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"

Manifest = Mapping[str, Any]


class KubernetesGround:
    """The proving ground of a Kubernetes, held by a Lease."""

    scheduler = "Kubernetes"

    def __init__(self, subject: Subject, roster: Roster) -> None:
        self._subject, self._roster = subject, roster
        self._addresses = {member.name: member.address for member in roster.members}
        self._server = kubernetes.KubernetesApi(roster.cluster, roster.cloud, roster.region)
        self._left: dict[str, Any] | None = None
        """The lease of a proof that was killed, to be taken over."""
        self._holder = ""
        self._until = 0.0
        """End of the lease on our clock."""
        self._stuck: dict[str, str] = {}
        """Nodes on which the last pod did not start, with the reasons."""
        self._hopeless: dict[str, tuple[float, str]] = {}
        """Nodes whose kubelet reports a permanent failure: since when, and the reason."""

    def await_turn(self, patience_s: float, progress: Progress) -> None:
        """Wait until no other proof runs. Raise OperationError when patience is over."""
        until = time.monotonic() + patience_s
        while True:
            self._left = self._lease()
            if not self._left or _is_over(self._left):
                return
            who = f"of {holder.person(_holder(self._left))}"
            if time.monotonic() > until:
                what = f"another proof {who} is running on cluster {self._server.cluster}"
                hint = (
                    "wait for it, or end it there; after a proof was killed, the next one can begin "
                    f"{LEASE_S // 60} minutes later"
                )
                raise ProofHeldError(what, hint)
            progress(f"waiting for another proof {who}")
            time.sleep(_TURN_S)

    def look(self, names: Collection[str]) -> dict[str, NodeStanding]:
        """Return the state of nodes, after another health check of held ones: a node may be healthy by now."""
        held = self.held()
        if not self._subject.image:
            look_again(self._roster, [name for name in names if name in held and held[name].by == "health"])
        at_work, runs = self._at_work(), kubernetes_nodes.runs(self._server)
        return {name: _standing(node, runs.get(name, ()), at_work) for name, node in self._server.nodes().items()}

    def held(self) -> dict[str, DrainReason]:
        """Return the nodes that take no pods, with the reasons."""
        at_work = self._at_work()
        found = {name: _standing(node, (), at_work).held for name, node in self._server.nodes().items()}
        return {name: why for name, why in found.items() if why}

    def _at_work(self) -> bool:
        lease = self._lease()
        return lease is not None and not _is_over(lease)

    def take(self, names: Sequence[str]) -> bool:
        """Take the lease; return False if another proof was faster."""
        self._holder = holder.ourselves()
        lease = _lease(self._holder, LEASE_S)
        verb = "create"
        if self._left:  # replace only the lease that we have seen, in case another proof has taken it
            verb = "replace"
            lease["metadata"]["resourceVersion"] = self._left["metadata"]["resourceVersion"]
        try:
            self._server.said([verb, "--filename=-"], json.dumps(lease))
        except kubernetes.RefusedError as error:
            if verb == "create" and _GONE in str(error):
                what = f"Kubernetes has no namespace {PROOF_NAMESPACE}, where proofs run"
                raise OperationError(what, "`pulumi up --refresh` creates it again") from error
            if _NOT_OURS.search(str(error)):
                return False
            raise
        self._until = time.monotonic() + LEASE_S
        try:
            self._forget(OURS_ONLY)
            left = [name for name in self._tainted() if name not in names]
            self.hold(dict.fromkeys(left, _BROKEN_OFF))  # the reasons of that proof are not known
            self._free(left)
            self._server.said(["taint", "node", *names, f"{PROOF_TAINT}=:NoSchedule", "--overwrite"])
        except BaseException:
            self.give_back()
            raise
        return True

    def extend(self, seconds: float) -> None:
        """Renew the lease if it would end within this time. Raise OperationError if it is lost."""
        if time.monotonic() + seconds + 60 > self._until:
            lasts, lease = int(seconds) + LEASE_S, self._lease()
            if not lease or _holder(lease) != self._holder:
                what = f"this proof did not run for so long that another has taken its nodes of {self._server.cluster}"
                raise OperationError(what, "run it again")
            renewed = _lease(self._holder, lasts)
            renewed["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
            self._server.said(["replace", "--filename=-"], json.dumps(renewed))
            self._until = time.monotonic() + lasts

    def give_back(self) -> None:
        """Delete the lease if it is still ours. Nodes are free before the next proof starts."""
        lease = self._lease()
        if lease and _holder(lease) == self._holder:
            self._forget(OURS_ONLY)
            self._free(self._tainted())
            self._server.said(["delete", "lease", LEASE, *_WHERE, "--ignore-not-found"])

    def _tainted(self) -> list[str]:
        return [name for name, node in self._server.nodes().items() if PROOF_TAINT in taints(node)]

    def _free(self, names: Sequence[str]) -> None:
        if names:
            self._server.said(["taint", "node", *names, f"{PROOF_TAINT}-"])

    def _forget(self, which: str, wait: bool = False) -> None:
        """Delete pods. Wait for pods with devices: their node refuses the next pod that names it until they are
        gone."""
        until = ["--wait=true", "--timeout=60s"] if wait else ["--wait=false"]
        self._server.said(["delete", "pods,configmaps", which, *_WHERE, "--grace-period=1", *until])

    def _lease(self) -> dict[str, Any] | None:
        text = self._server.said(["get", "lease", LEASE, *_WHERE, "--ignore-not-found", "--output=json"])
        return json.loads(text) if text.strip() else None

    def let_in(self, names: Sequence[str]) -> None:
        """Uncordon nodes, and remove the taint of unproven ones."""
        kubernetes_nodes.let_in(self._server, names)

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """Cordon nodes that are not held yet."""
        known = self._server.nodes() if reasons else {}
        free = [name for name in reasons if name in known and not known[name]["spec"].get("unschedulable")]
        kubernetes_nodes.hold(self._server, {name: reasons[name] for name in free})

    def busy(self) -> dict[str, str]:
        """Return the nodes on which pods of users run, with a sentence about each."""
        return {name: f"{what[0]} is on it" for name, what in kubernetes_nodes.runs(self._server).items()}

    def lost(self, names: Sequence[str], limit_s: float, progress: Progress) -> dict[str, str]:
        """Return the nodes that cannot be measured, with the reasons."""
        begun = time.monotonic()
        while True:
            nodes = self._server.nodes()
            known = {name: _standing(node, (), at_work=True) for name, node in nodes.items()}
            silent = [name for name in names if name in known and known[name].silent]
            lacking = {name: why for name in names if name in nodes and (why := self._lacking(name, nodes[name]))}
            took_s = time.monotonic() - begun
            if silent and took_s < limit_s:
                progress(f"waiting for {fold(silent)} to answer Kubernetes")
            elif lacking and took_s < _OFFERED_S:
                self.extend(_OFFERED_S)
                progress(f"waiting for {fold(list(lacking))}: {next(iter(lacking.values()))}")
            else:
                break
            time.sleep(_POLL_S)
        unknown = NodeStanding(out="Kubernetes does not know it")
        out = {name: known.get(name, unknown).out or lacking.get(name) or self._stuck.get(name, "") for name in names}
        return {name: why for name, why in out.items() if why}

    def _lacking(self, name: str, node: Manifest) -> str:
        """Return the devices that a node does not offer to pods: its device plug-in may not run there yet."""
        offered = node["status"].get("allocatable", {})
        missing = [each for each in self._devices(name, self._accelerators(name)) if offered.get(each, "0") == "0"]
        return f"it offers none of its {' and '.join(missing)} to pods" if missing else ""

    def _accelerators(self, name: str) -> int:
        machine = self._subject.pool_of[name].machine
        return 0 if machine.simulated else machine.accelerators

    def _devices(self, name: str, accelerators: int | None) -> dict[str, str]:
        """Return the devices that a pod has to ask for; a program that enters a node sees all of them."""
        if not self._subject.image or accelerators is None:
            return {}
        rails = self._subject.pool_of[name].rails if self._subject.fabric.kind == "efa" else 0
        found = {ACCELERATOR: accelerators, EFA: rails}
        return {device: str(count) for device, count in found.items() if count}

    def start(
        self,
        queue: str,  # noqa: ARG002  (no queue is asked: the nodes are ours)
        nodes: Sequence[str],
        accelerators: int,
        program: Sequence[str],
        limit_s: float,
    ) -> Ended:
        """Run a program in pods on all of these nodes, and return its end."""
        return self._start(nodes, accelerators, program, limit_s)

    def prepare(self, names: Sequence[str], progress: Progress) -> None:
        """Fetch the image of the programs, apart from the time of measurements."""
        if self._subject.image and names:
            what = f"{fold(names)} fetch {self._subject.image}, where they lack it"
            self.extend(_FETCHED_S)
            self._start(names, None, ["true"], _FETCHED_S, lambda said: progress(": ".join(filter(None, (what, said)))))
            # a single node in this state is out of order; all nodes in it have the wrong image
            if self._believed().issuperset(names):
                image, why = self._subject.image, " ".join(self._hopeless[names[0]][1].split())
                what = f"no node of cluster {self._server.cluster} starts a pod from {image}: {names[0]}: {why}"
                raise OperationError(what, _OTHER_IMAGE)

    def _believed(self) -> set[str]:
        """Return the nodes whose pod has failed to start for so long that it never will."""
        now = time.monotonic()
        return {name for name, (since, _) in self._hopeless.items() if now - since >= _HOPELESS_S}

    def _start(
        self,
        nodes: Sequence[str],
        accelerators: int | None,
        program: Sequence[str],
        limit_s: float,
        progress: Progress = lambda _: None,
    ) -> Ended:
        """Request no accelerators, only CPUs of the node."""
        ask = f"proof-{secrets.token_hex(4)}"
        pods = [self._pod(ask, rank, nodes, len(program), accelerators, limit_s) for rank in range(len(nodes))]
        items = [_told(ask, program), *pods]
        try:
            self._server.said(
                ["create", "--filename=-"], json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            )
            there = self._ended(ask, len(nodes), limit_s, progress)
            begun = [pod for pod in there if _terminated(pod) or pod["status"].get("phase") == "Running"]
            self._stuck = {_node_of(pod): f"no pod starts on it: {_waits(pod)}" for pod in there if pod not in begun}
            output = self._printed(ask, begun, all_=len(begun) == len(nodes))
        except OperationError as error:
            return Ended(-1, "", str(error).splitlines()[0])
        finally:
            with contextlib.suppress(OperationError):
                self._forget(f"--selector={_ASK}={ask}", wait=bool(self._subject.image))
        return Ended(*_how(nodes, there, output))

    def _ended(self, ask: str, count: int, limit_s: float, progress: Progress) -> list[dict[str, Any]]:
        """Return the pods when all have ended, some cannot start, or the time is up."""
        until = time.monotonic() + limit_s + _LATE_S
        self._hopeless = {}
        while True:
            there = self._server.listed("pods", *_WHERE, f"--selector={_ASK}={ask}")
            now = time.monotonic()
            said = {_node_of(pod): _waits(pod) for pod in there if _reason(pod) in (*_PULLS, *_CANNOT_START)}
            since = {name: self._hopeless.get(name, (now, ""))[0] for name in said}
            self._hopeless = {name: (since[name], said[name]) for name in map(_node_of, filter(_cannot, there))}
            through = {_node_of(pod) for pod in there if pod["status"].get("phase") in _ENDED} | self._believed()
            if len(through) >= count or now > until:
                return there
            progress(next((f"{name}: {why}" for name, why in said.items()), ""))
            time.sleep(_POLL_S)

    def _printed(self, ask: str, pods: Sequence[Manifest], all_: bool) -> str:
        """Return the output of pods with their ranks; read the pods one by one if some have printed nothing yet."""
        which = (
            [[f"--selector={_ASK}={ask}", f"--max-log-requests={len(pods)}"]]
            if all_
            else [[name_of(pod)] for pod in pods]
        )
        logs = [["logs", *_WHERE, *each, "--prefix", "--tail=-1"] for each in which]
        lines = (_SAID.fullmatch(line) for command in logs for line in self._server.said(command).splitlines())
        return "\n".join(f"{found[1]}: {found[2]}" for found in lines if found)

    def _pod(
        self, ask: str, rank: int, nodes: Sequence[str], words: int, accelerators: int | None, limit_s: float
    ) -> dict[str, Any]:
        devices = self._devices(nodes[rank], accelerators)
        told = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(nodes)),
            "NODE_NAME": nodes[rank],
            "MASTER_ADDR": self._addresses[nodes[0]],
            "JOB_ID": ask,
            **(jobset.of_fabric(self._subject.fabric.kind) if EFA in devices else {}),
        }
        way = _STAY if self._subject.image else _ENTER
        container = {
            "name": "program",
            "image": self._subject.image or WORKLOADS_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", f"exec {way} {' '.join(map(_WORD.format, range(words)))}", "sh", _AS_JOBS],
            "env": [
                *({"name": name, "value": value} for name, value in told.items()),
                *(
                    {"name": f"WORD_{index}", "valueFrom": {"configMapKeyRef": {"name": ask, "key": str(index)}}}
                    for index in range(words)
                ),
            ],
        }
        spec = {
            "nodeName": nodes[rank],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": math.ceil(limit_s + _LATE_S),  # this applies even if this process ends
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostNetwork": True,
            "tolerations": [{"operator": "Exists"}],
            **(self._measuring(container, devices) if self._subject.image else _entering(container)),
        }
        metadata = {"name": f"{ask}-{rank}", "namespace": PROOF_NAMESPACE, "labels": {_ASK: ask, **OURS}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _measuring(self, container: Manifest, devices: Mapping[str, str]) -> dict[str, Any]:
        """Configure a container as runs are, and with the kernel's log, which shows errors of accelerators."""
        mounts, volumes = jobset.mounted(dict(self._subject.claims))
        program = {
            **container,
            "securityContext": {"capabilities": {"add": ["SYSLOG"]}},
            "resources": {"limits": devices},
            "volumeMounts": mounts,
        }
        return {"containers": [program], "volumes": volumes}


def _entering(container: Manifest) -> dict[str, Any]:
    """Configure a container that enters its node and sees everything on it."""
    usr = {"name": "usr", "mountPath": "/usr", "readOnly": True}  # needed to enter the node's namespaces
    program = {**container, "securityContext": {"privileged": True}, "volumeMounts": [usr]}
    return {
        "hostIPC": True,
        "hostPID": True,
        "containers": [program],
        "volumes": [{"name": "usr", "hostPath": {"path": "/usr", "type": "Directory"}}],
    }


def _told(ask: str, program: Sequence[str]) -> dict[str, Any]:
    """Return the ConfigMap of the programs, once for all: the options of a thousand nodes would be long in each pod."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ask, "namespace": PROOF_NAMESPACE, "labels": {_ASK: ask, **OURS}},
        "data": {str(index): word for index, word in enumerate(program)},
    }


def _lease(who: str, seconds: int) -> dict[str, Any]:
    now = datetime.now(UTC).strftime(_TIME)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": PROOF_NAMESPACE, "labels": dict(OURS)},
        "spec": {"holderIdentity": who, "leaseDurationSeconds": seconds, "renewTime": now},
    }


def _holder(lease: Manifest) -> str:
    return str(lease["spec"].get("holderIdentity", ""))


def _is_over(lease: Manifest) -> bool:
    """Return whether its time is up or its process has ended."""
    spec = lease["spec"]
    renewed = datetime.fromisoformat(spec.get("renewTime") or "1970-01-01T00:00:00Z")
    lasts = spec.get("leaseDurationSeconds") or 0
    return holder.is_gone(_holder(lease)) or (datetime.now(UTC) - renewed).total_seconds() > lasts


def _standing(node: Manifest, runs: Sequence[str], at_work: bool) -> NodeStanding:
    """Return the state of a node. Without a running proof (`at_work`), its marks mean that a proof was interrupted."""
    found = kubernetes_nodes.standing(node, runs)
    if found.held or PROOF_TAINT not in taints(node) or at_work:
        return found
    return replace(found, held=_BROKEN_OFF, out=found.out or f"held: {_BROKEN_OFF.text}")


def _terminated(pod: Manifest) -> Manifest | None:
    """Return the end of the program; None if it has not started."""
    found: Manifest | None = _state(pod).get("terminated")
    return None if found and found.get("reason") in _NEVER_BEGUN else found


def _state(pod: Manifest) -> Manifest:
    """Return the state of its only container."""
    found = [each.get("state", {}) for each in pod["status"].get("containerStatuses", ())]
    return next(iter(found), {})


def _node_of(pod: Manifest) -> str:
    return str(pod["spec"]["nodeName"])


def _reason(pod: Manifest) -> str:
    """The kubelet's reason why its container waits."""
    return str(_state(pod).get("waiting", {}).get("reason", ""))


def _cannot(pod: Manifest) -> bool:
    """Whether it is in vain to wait until it starts."""
    reason = _reason(pod)
    return reason in _CANNOT_START or (reason in _PULLS and bool(_NOT_TO_BE_HAD.search(_waits(pod))))


def _waits(pod: Manifest) -> str:
    """Kubernetes' reason why it has not begun."""
    status, state = pod["status"], _state(pod)
    said = [status.get("message")]
    said += [
        each.get("message") or each.get("reason") for each in (state.get("waiting"), state.get("terminated")) if each
    ]
    return str(next(filter(None, [*said, status.get("reason")]), "no reason is given"))


def _how(nodes: Sequence[str], pods: Sequence[Manifest], output: str) -> tuple[int, str, str]:
    """Return the exit status of all pods together, their output, and the reason of a failure."""
    if gone := set(nodes) - {_node_of(pod) for pod in pods}:
        return -1, output, f"{min(gone)}: its pod is gone"
    bad = [pod for pod in pods if pod["status"].get("phase") != "Succeeded"]
    if not bad:
        return 0, output, ""
    pod = min(bad, key=lambda each: not _terminated(each))
    ended = _terminated(pod)
    late = pod["status"].get("reason") == "DeadlineExceeded" or (not ended and pod["status"].get("phase") == "Running")
    if late or not ended:
        return (124 if late else -1), output, f"{_node_of(pod)}: {_waits(pod)}"
    rank = name_of(pod).rpartition("-")[2]
    said = [line for line in output.splitlines() if line.startswith(f"{rank}: ")]
    return int(ended.get("exitCode", -1)), output, f"{_node_of(pod)}: {said[-1] if said else 'it printed nothing'}"
