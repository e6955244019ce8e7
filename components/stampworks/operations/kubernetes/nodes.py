"""Nodes of a Kubernetes in and out of service: holders of nodes, and their running work."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.operations.drain import DRAINED, WHOSE, BusyError, Progress, check_names, not_returned
from stampworks.operations.errors import InputError
from stampworks.operations.ground import NodeStanding
from stampworks.operations.kubernetes import client as kubernetes
from stampworks.operations.kubernetes.client import KubernetesApi, Manifest, name_of
from stampworks.operations.members import managed, too_few, waiting
from stampworks.plan import BUCKETS_NAMESPACE, PROOF_NAMESPACE, UNPROVEN_AGAIN, UNPROVEN_TAINT, Member, Plan, Roster
from stampworks.schedulers.kubernetes import pools
from stampworks.schedulers.objects import at, maps_at, text_at
from stampworks.schedulers.topology.kubernetes import POOL
from stampworks.text.reasons import STARTED_AGAIN, UNPROVEN, DrainReason, parsed, written

HELD = "stampworks/held"
"""Annotation with the reason of a cordon, in the form of `stampworks.text.reasons`."""
_REQUEUED = "stampworks/requeued"
"""Annotation of a gang that a roll has stopped, until it may start again."""
_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_SYSTEM = "kube-system"
"""Namespace of the system's pods, which no team has started: add-ons of a cloud run on any node with room."""
_STOPPED_S, _POLL_S, _GATHER_S = 60.0, 0.5, 10.0
_SEE = "see stampworks status, and the cloud's console"
_ANYBODY = DrainReason("person", "somebody", "cordoned")
_ENDED = ("Succeeded", "Failed")
# The driver of buckets starts its own pod, without an owner, on each node where a pod mounts a bucket, and ends it
# after the last of these (aws-mountpoint-s3-csi-driver 2.7, mountpoint-s3-csi-driver 57c6bedb,
# pkg/podmounter/mppod/creator.go and docs/MOUNTPOINT_POD_SHARING.md, read 2026-11-25). The label alone proves nothing:
# anybody who may start pods can write it.
_BUCKET = "s3.csi.aws.com/mountpoint-version"


@dataclass(frozen=True)
class KubernetesNodeState:
    """A node as the server reports it."""

    name: str
    ready: bool
    held: DrainReason | None
    """Reason that keeps pods from it, with its author."""
    runs: tuple[str, ...]
    """Pods and runs of users on it, in words."""


def states(plan: Plan, names: Iterable[str]) -> tuple[KubernetesNodeState, ...]:
    """Return the state of each of these nodes that the server knows."""
    server = KubernetesApi.of(plan)
    known, busy = server.nodes(), runs(server)
    return tuple(
        KubernetesNodeState(name, kubernetes.ready(known[name]), held(known[name]), busy.get(name, ()))
        for name in dict.fromkeys(names)
        if name in known
    )


def roster(cluster: str, of: str, region: str, pools: Iterable[str]) -> Roster:
    """Return the nodes in these pools from Kubernetes: nothing else names such nodes, and no ssh reaches them."""
    wanted, members = {*pools}, []
    for node in sorted(KubernetesApi(cluster, of, region).listed_soon("nodes"), key=name_of):
        if (pool := node["metadata"].get("labels", {}).get(POOL)) in wanted:
            members.append(Member(name_of(node), pool, _machine(node), _address(node), (), ""))
    return Roster(cluster, of, (), "", "", tuple(members), region)


def _machine(node: Manifest) -> str:
    """Return an id that changes when the node is another machine, or has restarted."""
    return f"{node['metadata'].get('uid', '')}/{node['status'].get('nodeInfo', {}).get('bootID', '')}"


def _address(node: Manifest) -> str:
    there = node["status"].get("addresses", ())
    return str(next((each["address"] for each in there if each["type"] == "InternalIP"), ""))


def gather(
    cluster: str, of: str, region: str, counts: Mapping[str, int], progress: Progress, patience_s: float
) -> Roster:
    """Return all members, once each pool has enough nodes that answer. Report the cloud's reasons for missing ones:
    they may disappear during the wait."""
    server, until = KubernetesApi(cluster, of, region), time.monotonic() + patience_s
    while True:
        answering = Counter(
            node["metadata"].get("labels", {}).get(POOL) for node in server.nodes().values() if kubernetes.ready(node)
        )
        short = [pool for pool, count in counts.items() if answering[pool] < count]
        if not short:
            return roster(cluster, of, region, counts)
        what = f"{', '.join(f'{pool}: {answering[pool]} of {counts[pool]} nodes' for pool in short)} answer Kubernetes"
        refused = managed(of).node_refusals(cluster, region, short)
        if any(each.lasting for each in refused):
            raise too_few(f"{what}, and waiting does not help", refused, _SEE)
        if time.monotonic() > until:
            raise too_few(f"{what} after {patience_s:.0f} s", refused, _SEE)
        progress(waiting(what, refused))
        time.sleep(_GATHER_S)


def drain(server: KubernetesApi, plan: Plan, names: Sequence[str], reason: DrainReason) -> None:
    """Cordon nodes of the plan; their pods continue. Replace an earlier reason."""
    check(plan, names, server.nodes())
    hold(server, dict.fromkeys(names, reason))


def give_back(server: KubernetesApi, plan: Plan, names: Sequence[str], force: bool = False) -> None:
    """Uncordon all of these nodes or none. Nodes that the toolkit holds need force."""
    known = server.nodes()
    check(plan, names, known)
    why = {name: reason for name in dict.fromkeys(names) if (reason := held(known[name]))}
    ours = {name: reason for name, reason in why.items() if reason.by in WHOSE}
    if ours and not force:
        raise not_returned(ours)
    let_in(server, list(why))


def wait_until_free(
    server: KubernetesApi,
    names: Sequence[str],
    timeout_minutes: float,
    progress: Progress,
    poll_s: float = 1.0,
    else_: str = DRAINED,
) -> None:
    """Wait until no pod runs on these nodes. `else_` is the hint after the time limit."""
    until = time.monotonic() + 60 * timeout_minutes
    while busy := {name: what for name, what in runs(server).items() if name in names}:
        if time.monotonic() > until:
            late = f"{', '.join(busy)} did not become free within {timeout_minutes:g} minutes: {else_}"
            lines = [f"  {name}: {what}" for name in busy for what in busy[name]]
            hint = "wait for them, or cancel them; scheduler.drain_timeout_minutes says how long to wait"
            raise BusyError("\n".join([late, *lines]), hint)
        progress(f"waiting for {', '.join(sorted({what for each in busy.values() for what in each}))}")
        time.sleep(poll_s)


def give_back_own(server: KubernetesApi, names: Iterable[str]) -> None:
    """Return the nodes that the toolkit still holds itself: a person may hold one by now."""
    known = server.nodes()
    there = {name: held(known[name]) for name in names if name in known}
    let_in(server, [name for name, reason in there.items() if reason and reason.by == "stampworks"])


def requeue(server: KubernetesApi, names: Sequence[str]) -> None:
    """Requeue workloads: a deactivated workload stops, and waits for its turn once it is active again.

    A mark identifies workloads that a killed roll has deactivated.
    """
    there = server.listed("pods,workloads.kueue.x-k8s.io", "--all-namespaces")
    gangs = {gang for pod in there if pod["kind"] == "Pod" and _stands_on(pod, names) for gang in _gangs_of(pod)}
    stopped = [
        each
        for each in there
        if each["kind"] == "Workload" and (_is_on(each, names, gangs) or _REQUEUED in _annotations(each))
    ]
    try:
        for each in stopped:
            _set_active(server, each, active=False)
        until = time.monotonic() + _STOPPED_S
        while _still(server, stopped) and time.monotonic() < until:
            time.sleep(_POLL_S)
    finally:
        for each in stopped:
            _set_active(server, each, active=True)


def _stands_on(pod: Manifest, names: Sequence[str]) -> bool:
    return pod["spec"].get("nodeName") in names and pod["status"].get("phase") not in _ENDED


def _gangs_of(pod: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the possible owners of a pod, by team: a job, or the gang that it belongs to."""
    metadata = pod["metadata"]
    owners = [str(each["name"]) for each in metadata.get("ownerReferences", ())]
    return ((metadata["namespace"], name) for name in (*owners, _gang_of(pod)))


def _gang_of(pod: Manifest) -> str:
    """The JobSet that it is a pod of; empty for none."""
    return str(pod["metadata"].get("labels", {}).get(_JOBSET, ""))


def _is_on(workload: Manifest, names: Sequence[str], gangs: Collection[tuple[str, str]]) -> bool:
    """Return whether a workload is on these nodes: by Kueue's assignment, or by its pods if it has no topology."""
    here = (workload["metadata"]["namespace"], kubernetes.owner(workload["metadata"])) in gangs
    return kubernetes.has_started(workload) and (here or not set(names).isdisjoint(kubernetes.placed(workload)))


def _still(server: KubernetesApi, stopped: Sequence[Manifest]) -> bool:
    """Return whether Kueue has not stopped one of them yet: reactivated too early, it would simply continue."""
    which = {_where(each) for each in stopped}
    there = server.listed("workloads.kueue.x-k8s.io", "--all-namespaces")
    return any(_where(each) in which and kubernetes.has_started(each) for each in there)


def _set_active(server: KubernetesApi, workload: Manifest, *, active: bool) -> None:
    """Reactivate a workload, unless it has been deleted."""
    mark = None if active else "true"
    patch = json.dumps({"metadata": {"annotations": {_REQUEUED: mark}}, "spec": {"active": active}})
    team, name = _where(workload)
    try:
        server.said(["patch", "workload", name, f"--namespace={team}", "--type=merge", f"--patch={patch}"])
    except kubernetes.RefusedError as error:
        if "(NotFound)" not in str(error):
            raise


def _where(each: Manifest) -> tuple[str, str]:
    return each["metadata"]["namespace"], name_of(each)


def _annotations(each: Manifest) -> Manifest:
    found = at(each, "metadata", "annotations")
    return found if isinstance(found, Mapping) else {}


def standing(node: Manifest, runs: Sequence[str]) -> NodeStanding:
    """Return whether a node runs pods and takes new ones."""
    silent, why = not kubernetes.ready(node), held(node)
    return NodeStanding(
        busy=f"{runs[0]} is on it" if runs else "",
        held=why,
        out=next(_out(node, silent, why), ""),
        silent=silent,
    )


def _out(node: Manifest, silent: bool, why: DrainReason | None) -> Iterator[str]:
    if silent:
        yield "it does not answer Kubernetes"
    if why:
        yield f"held: {why.text}"
    for key, taint in taints(node).items():
        own = key.startswith(("stampworks/", "node.kubernetes.io/"))
        if not own and taint.get("effect") in ("NoSchedule", "NoExecute"):
            yield f"its taint {key} keeps pods away"


def held(node: Manifest) -> DrainReason | None:
    """Return the reason that keeps pods from a node. `kubectl cordon` leaves none."""
    if not at(node, "spec", "unschedulable"):
        taint = taints(node).get(UNPROVEN_TAINT)
        return None if taint is None else STARTED_AGAIN if taint.get("value") == UNPROVEN_AGAIN else UNPROVEN
    reason = parsed(str(_annotations(node).get(HELD, "")))
    return _ANYBODY if reason.by == "slurm" else reason


def taints(node: Manifest) -> dict[str, Manifest]:
    """Return the taints of a node by key."""
    return {text_at(taint, "key"): taint for taint in maps_at(node, "spec", "taints")}


def hold(server: KubernetesApi, reasons: Mapping[str, DrainReason]) -> None:
    """Cordon nodes with a reason each. The caller decides whose reasons may be replaced."""
    for reason in dict.fromkeys(reasons.values()):
        names = [name for name, its in reasons.items() if its == reason]
        if reason.by == "proof" and reason.text.startswith(UNPROVEN.text):  # a taint keeps no more data
            server.said(["taint", "node", *names, f"{UNPROVEN_TAINT}=:NoSchedule", "--overwrite"])
            _uncordon(server, names)
        else:
            server.said(["annotate", "node", *names, f"{HELD}={written(reason)}", "--overwrite"])
            server.said(["cordon", *names])


def let_in(server: KubernetesApi, names: Sequence[str]) -> None:
    """Uncordon nodes, and remove the taint of unproven ones."""
    known = _uncordon(server, names)
    if new := [name for name in names if name in known and UNPROVEN_TAINT in taints(known[name])]:
        server.said(["taint", "node", *new, f"{UNPROVEN_TAINT}-"])


def _uncordon(server: KubernetesApi, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Uncordon nodes, and return all nodes as they were before."""
    known = server.nodes()
    there = [name for name in names if name in known]
    if out := [name for name in there if known[name]["spec"].get("unschedulable")]:
        server.said(["uncordon", *out])
    if said := [name for name in there if HELD in _annotations(known[name])]:
        server.said(["annotate", "node", *said, f"{HELD}-"])
    return known


def runs(server: KubernetesApi) -> dict[str, tuple[str, ...]]:
    """Return the work on each node: admitted gangs, even before their pods start, and other pods, including those of
    preempted gangs that save their state. Kueue reserves all nodes of a gang until it ends, but a node that the gang
    has lost runs nothing. Gangs do not count on unproven nodes: they wait there."""
    found: dict[str, list[str]] = {}
    gangs: set[tuple[str, str, str]] = set()
    there = server.listed("nodes,pods,workloads.kueue.x-k8s.io", "--all-namespaces")
    born = {name_of(each): each["metadata"].get("creationTimestamp", "") for each in there if each["kind"] == "Node"}
    closed = {name_of(each) for each in there if each["kind"] == "Node" and UNPROVEN_TAINT in taints(each)}
    left = _left(each for each in there if each["kind"] == "Pod")
    for each in sorted((one for one in there if one["kind"] != "Node"), key=lambda one: one["kind"] != "Workload"):
        team, name = _where(each)
        if kubernetes.looks_at_files(each):
            continue
        if each["kind"] == "Workload":
            owner = kubernetes.owner(each["metadata"])
            none = closed | left.get((team, owner), set())
            for node in kubernetes.holds(each):
                if node not in none:
                    found.setdefault(node, []).append(f"run {team}/{owner}")
                    gangs.add((team, owner, node))
        elif team != PROOF_NAMESPACE and _runs(each, born) and not _is_of(each, team, gangs):
            found.setdefault(each["spec"].get("nodeName", ""), []).append(f"pod {team}/{name}")
    return {node: tuple(what) for node, what in found.items() if node}


def _left(pods: Iterable[Manifest]) -> dict[tuple[str, str], set[str]]:
    """Return the nodes of each gang on which its pods have ended while others continue."""
    ended: dict[tuple[str, str], set[str]] = {}
    at_work: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        gang = pod["metadata"]["namespace"], _gang_of(pod)
        those = ended if pod["status"].get("phase") in _ENDED else at_work
        those.setdefault(gang, set()).add(pod["spec"].get("nodeName", ""))
    return {gang: ended[gang] - nodes for gang, nodes in at_work.items() if gang[1] and gang in ended}


def _is_of(pod: Manifest, team: str, gangs: set[tuple[str, str, str]]) -> bool:
    """Return whether a pod belongs to one of the listed gangs."""
    return (team, _gang_of(pod), pod["spec"].get("nodeName", "")) in gangs


def _runs(pod: Manifest, born: Mapping[str, str]) -> bool:
    """Return whether a pod runs a job. Pods of daemon sets, bucket drivers and Kubernetes itself do not count, nor do
    pods older than their node: they ran on an earlier node of that name."""
    began, made = pod["status"].get("startTime", ""), born.get(pod["spec"].get("nodeName", ""), "")
    if began and began < made:  # both are in UTC and in the same format
        return False
    metadata = pod["metadata"]
    daemons = any(each["kind"] in ("DaemonSet", "Node") for each in metadata.get("ownerReferences", ()))
    bucket = metadata["namespace"] == BUCKETS_NAMESPACE and _BUCKET in metadata.get("labels", {})
    system = metadata["namespace"] == _SYSTEM
    return not (daemons or bucket or system) and pod["status"].get("phase") not in _ENDED


def check(plan: Plan, names: Sequence[str], known: Mapping[str, Manifest]) -> None:
    """Raise InputError for a name that is no worker, or that has not joined yet."""
    of_pools = {pool.name for pool in pools(plan)}
    ours = {name for name, node in known.items() if node["metadata"].get("labels", {}).get(POOL) in of_pools}
    check_names(plan, names, ours if plan.managed else {node.name for pool in pools(plan) for node in pool.nodes})
    if missing := [name for name in names if name not in known]:
        raise InputError(f"Kubernetes does not know {missing[0]} yet", "`pulumi up` adds it to the cluster")
