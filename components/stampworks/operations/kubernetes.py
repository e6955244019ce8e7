"""A cluster whose scheduler is Kubernetes: its nodes, its teams and what they wait for, as the server says it."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal

from stampworks.names import fold
from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.operations.status import Verdict
from stampworks.plan import UNPROVEN_TAINT, Account, Group, Plan
from stampworks.reasons import UNPROVEN, DrainReason, parsed, written
from stampworks.schedulers import kubernetes
from stampworks.schedulers.kubernetes import ACCELERATOR, PRIORITY_LABEL
from stampworks.schedulers.topology.kubernetes import HOSTNAME, POOL, PREFIX, flavor

State = Literal["waiting", "running", "finished"]
_TIMEOUT_S, _LONG_S = 5, 120
_UNREACHED = re.compile("(The connection|Unable to connect) to the server")
_FOR = re.compile(r"a workload \(UID: ([0-9a-f-]+), JobUID: [0-9a-f-]+\)")
HELD = "stampworks/held"
"""The annotation that says who has cordoned a node, in the form of `stampworks.reasons`."""
_ANYBODY = DrainReason("person", "somebody", "cordoned")
Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class PoolStatus:
    name: str
    nodes: int
    """As planned."""
    ready: int
    accelerators: int
    used: int
    """Those that are promised to gangs."""


@dataclass(frozen=True)
class TeamStatus:
    name: str
    own: int
    """Accelerators that are its own."""
    used: int
    waiting: int

    @property
    def borrowed(self) -> int:
        return max(0, self.used - self.own)


@dataclass(frozen=True)
class Gang:
    """Pods that run all together or not at all."""

    team: str
    name: str
    queue: str
    priority: str
    state: State
    pods: int
    nodes: tuple[str, ...]
    """Those that it has, in the order of its ranks; none while it waits."""
    domains: tuple[str, ...]
    """Where they stand, on the level right above nodes."""
    why: str
    """Why it waits."""
    since: int | None
    """When it was let start, in seconds of Unix time; None while it waits."""


@dataclass(frozen=True)
class KubernetesStatus:
    cluster: str
    cloud: str
    verdict: Verdict
    """Pass when every planned node is there and ready."""
    why: tuple[str, ...]
    pools: tuple[PoolStatus, ...]
    teams: tuple[TeamStatus, ...]
    gangs: tuple[Gang, ...]


class RefusedError(OperationError):
    """The server answered, and did not do what it was asked to."""


def kubectl(plan: Plan) -> tuple[str, ...]:
    """Begins a command that asks the server of the plan's cluster."""
    if plan.scheduler.kind != "kubernetes":
        raise InputError(f"the scheduler of cluster {plan.name} is Slurm", "stampworks run -- sinfo asks that")
    return reach(plan.name, plan.cloud, plan.region)


def reach(cluster: str, cloud: str, region: str) -> tuple[str, ...]:
    """The same, of a cluster whose scheduler is Kubernetes."""
    module = f"stampworks.clouds.{cloud}.access"
    command: tuple[str, ...] = importlib.import_module(module).kubectl(cluster, region) if find_spec(module) else ()
    if not command:
        raise InputError(f"no Kubernetes of cluster {cluster} is running", "start it: pulumi up")
    return command


class Server:
    """That of a cluster, as its administrator."""

    def __init__(self, cluster: str, cloud: str, region: str) -> None:
        self.cluster, self._place = cluster, (cloud, region)

    @cached_property
    def _kubectl(self) -> tuple[str, ...]:
        return reach(self.cluster, *self._place)

    def listed(self, kinds: str, *more: str, limit_s: float = _LONG_S) -> list[dict[str, Any]]:
        text = self.said(["get", kinds, *more, "--output=json"], limit_s=limit_s)
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def said(self, words: Sequence[str], given: str = "", limit_s: float = _LONG_S) -> str:
        command = [*self._kubectl, *words]
        whole = f"the Kubernetes of cluster {self.cluster}"
        try:
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            raise UnknownError(f"{whole} does not answer within {limit_s:g} s", "pulumi up repairs it") from None
        why = (done.stderr.strip().splitlines() or [f"kubectl ended with {done.returncode}"])[-1]
        if done.returncode and _UNREACHED.match(why):
            raise UnknownError(f"{whole} does not answer: {why}", "pulumi up repairs it")
        if done.returncode:
            raise RefusedError(f"{whole} refused: {why}", "stampworks status")
        return done.stdout


def status(plan: Plan) -> KubernetesStatus:
    """Asks the server; where it does not answer nothing is known."""
    found = _objects(plan)
    nodes = [each for each in found if each["kind"] == "Node"]
    queues = [each for each in found if each["kind"] == "ClusterQueue"]
    workloads = [each for each in found if each["kind"] == "Workload"]
    called = {
        each["metadata"]["uid"]: f"{each['metadata']['namespace']}/{owner(each['metadata'])}" for each in workloads
    }
    domains = {each["metadata"]["name"]: _domain(each) for each in nodes}
    gangs = tuple(_gang(each, domains, called) for each in workloads)
    wrong = tuple(_wrong(plan, nodes))
    return KubernetesStatus(
        cluster=plan.name,
        cloud=plan.cloud,
        verdict="fail" if wrong else "pass",
        why=wrong,
        pools=tuple(_pool(plan, pool, nodes, queues) for pool in kubernetes.pools(plan)),
        teams=tuple(_team(plan, team, queues, gangs) for team in kubernetes.teams(plan)),
        gangs=gangs,
    )


def _objects(plan: Plan) -> list[dict[str, Any]]:
    kinds = "nodes,clusterqueues.kueue.x-k8s.io,workloads.kueue.x-k8s.io"
    whole = ("--all-namespaces", f"--request-timeout={_TIMEOUT_S}s")
    try:
        return Server(plan.name, plan.cloud, plan.region).listed(kinds, *whole, limit_s=4 * _TIMEOUT_S)
    except RefusedError as error:  # its cluster may be well all the same
        raise UnknownError(str(error).splitlines()[0], "pulumi up repairs it") from None


def held(node: Manifest) -> DrainReason | None:
    """Who keeps pods from a node. Whoever cordons it with kubectl leaves no word."""
    if not node["spec"].get("unschedulable"):
        new = any(taint["key"] == UNPROVEN_TAINT for taint in node["spec"].get("taints", ()))
        return UNPROVEN if new else None
    reason = parsed(str(node["metadata"].get("annotations", {}).get(HELD, "")))
    return _ANYBODY if reason.by == "slurm" else reason


def _wrong(plan: Plan, nodes: Sequence[Manifest]) -> Iterator[str]:
    there = {each["metadata"]["name"]: each for each in nodes}
    for pool in kubernetes.pools(plan):
        missing = [node.name for node in pool.nodes if node.name not in there]
        late = [node.name for node in pool.nodes if node.name in there and not ready(there[node.name])]
        for names, what in ((missing, "missing"), (late, "not ready")):
            if names:
                yield f"{fold(names)}: {what}"
        out: dict[str, list[str]] = {}
        for node in pool.nodes:
            if reason := held(there[node.name]) if node.name in there else None:
                out.setdefault(written(reason), []).append(node.name)
        yield from (f"{fold(names)}: takes no pods: {why}" for why, names in out.items())


def ready(node: Manifest) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))


def _pool(plan: Plan, pool: Group, nodes: Sequence[Manifest], queues: Sequence[Manifest]) -> PoolStatus:
    own = [each for each in nodes if each["metadata"].get("labels", {}).get(POOL) == pool.name]
    return PoolStatus(
        name=pool.name,
        nodes=pool.count,
        ready=sum(map(ready, own)),
        accelerators=pool.count * pool.machine.accelerators,
        used=sum(_used(queue, {flavor(plan.name, pool.name)}) for queue in queues),
    )


def _team(plan: Plan, team: Account, queues: Sequence[Manifest], gangs: Iterable[Gang]) -> TeamStatus:
    nodes, owner = kubernetes.shares(plan)[team.name], kubernetes.quota_owner(plan, team)
    flavors = {flavor(plan.name, pool.name) for pool in kubernetes.pools(plan)}
    return TeamStatus(
        name=team.name,
        own=sum(nodes[pool.name] * pool.machine.accelerators for pool in kubernetes.pools(plan)),
        used=sum(_used(queue, flavors) for queue in queues if queue["spec"].get("cohort") == owner),
        waiting=sum(gang.team == team.name and gang.state == "waiting" for gang in gangs),
    )


def _used(queue: Manifest, flavors: set[str]) -> int:
    return sum(
        int(resource.get("total", 0))
        for each in queue.get("status", {}).get("flavorsReservation", ())
        for resource in each["resources"]
        if each["name"] in flavors and resource["name"] == ACCELERATOR
    )


def _gang(workload: Manifest, domain_of: Mapping[str, str], called: Mapping[str, str]) -> Gang:
    metadata, spec, conditions = workload["metadata"], workload["spec"], _conditions(workload)
    names = tuple(_placed(workload))
    state: State = (
        "finished" if _is(conditions, "Finished") else "running" if _is(conditions, "Admitted") else "waiting"
    )
    return Gang(
        team=metadata["namespace"],
        name=owner(metadata),
        queue=spec.get("queueName", ""),
        priority=spec.get("priorityClassName", "") or metadata.get("labels", {}).get(PRIORITY_LABEL, ""),
        state=state,
        pods=sum(each.get("count", 0) for each in spec.get("podSets", ())),
        nodes=names,
        domains=tuple(dict.fromkeys(domain for name in names if (domain := domain_of.get(name)))),
        why=_why(conditions, called) if state == "waiting" else "",
        since=_seconds(conditions["Admitted"]["lastTransitionTime"]) if state == "running" else None,
    )


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


def owner(metadata: Manifest) -> str:
    """What it stands for: a workload has a name that nobody has chosen."""
    owners = metadata.get("ownerReferences", ())
    return str(owners[0]["name"] if owners else metadata["name"])


def holds(workload: Manifest) -> tuple[str, ...]:
    """The nodes that a gang has which was let start and has not ended."""
    conditions = _conditions(workload)
    return () if _is(conditions, "Finished") or not _is(conditions, "Admitted") else tuple(_placed(workload))


def _conditions(workload: Manifest) -> dict[str, Manifest]:
    return {each["type"]: each for each in workload.get("status", {}).get("conditions", ())}


def _is(conditions: Mapping[str, Manifest], kind: str) -> bool:
    return conditions.get(kind, {}).get("status") == "True"


def _placed(workload: Manifest) -> Iterator[str]:
    for pods in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ()):
        place = pods.get("topologyAssignment", {})
        if HOSTNAME in place.get("levels", ()):
            index = place["levels"].index(HOSTNAME)
            yield from (domain["values"][index] for domain in place["domains"])


def _domain(node: Manifest) -> str:
    """Where it stands, on the level right above it; empty where nobody says."""
    labels = node["metadata"].get("labels", {})
    places = [value for key, value in labels.items() if key.startswith(PREFIX)]
    return str(places[-1]) if places else ""


def _why(conditions: Mapping[str, Manifest], called: Mapping[str, str]) -> str:
    """Why Kueue does not let it start; of one that made room, also for whom, by the name that people know."""
    texts = [conditions["Evicted"]["message"]] if _is(conditions, "Evicted") else []
    texts += [conditions["QuotaReserved"]["message"]] if conditions.get("QuotaReserved") else ["nobody has looked yet"]
    return _FOR.sub(lambda found: called.get(found[1], "one that is gone"), "; ".join(texts))
