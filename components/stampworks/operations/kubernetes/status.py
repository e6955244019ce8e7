"""State of a cluster whose scheduler is Kubernetes: nodes, teams, and reasons for waiting."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from stampworks import catalog
from stampworks.operations.errors import UnknownError
from stampworks.operations.kubernetes.client import (
    KubernetesApi,
    Manifest,
    RefusedError,
    conditions,
    config_of,
    is_true,
    looks_at_files,
    name_of,
    owner,
    placed,
    ready,
)
from stampworks.operations.kubernetes.nodes import held, states
from stampworks.operations.members import endings
from stampworks.operations.status import NodesStatus, StatusTable, Verdict, holder
from stampworks.plan import ACCELERATOR, Account, Ending, Group, Plan, Roster
from stampworks.schedulers import kubernetes
from stampworks.schedulers.kubernetes import PRIORITY_LABEL
from stampworks.schedulers.objects import at, count_at, maps_at, text_at
from stampworks.schedulers.topology.kubernetes import POOL
from stampworks.text.amounts import quantity
from stampworks.text.names import fold
from stampworks.text.reasons import written

State = Literal["waiting", "running", "finished"]
_FOR = re.compile(r"a workload \(UID: ([0-9a-f-]+), JobUID: [0-9a-f-]+\)")
_GANG = ("team", "job", "queue", "priority", "state", "pods", "nodes", "where", "why")
_DRAIN = "stampworks drain keeps jobs from there"


@dataclass(frozen=True)
class PoolStatus:
    """A pool: nodes and accelerators in use."""

    name: str
    nodes: int
    """Number of planned nodes."""
    ready: int
    accelerators: int
    used: int
    """Accelerators that are promised to gangs."""


@dataclass(frozen=True)
class TeamStatus:
    """A team: accelerators in use and waiting jobs."""

    name: str
    own: int
    """Accelerators that are its own."""
    used: int
    waiting: int

    @property
    def borrowed(self) -> int:
        """Accelerators in use beyond its own."""
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
    """Nodes of the gang in the order of ranks; empty while it waits."""
    domains: tuple[str, ...]
    """Domains of the nodes on the level right above them."""
    why: str
    """Why it waits."""
    since: int | None
    """Time of admission in seconds of Unix time; None while it waits."""


@dataclass(frozen=True)
class KubernetesStatus:
    """The state of a cluster whose scheduler is Kubernetes."""

    cluster: str
    cloud: str
    verdict: Verdict
    """Pass when every planned node is there and ready."""
    why: tuple[str, ...]
    pools: tuple[PoolStatus, ...]
    teams: tuple[TeamStatus, ...]
    gangs: tuple[Gang, ...]
    endings: tuple[Ending, ...] = ()
    """Ends of the capacity of nodes, as the cloud reports them."""
    scheduling_only: ClassVar[tuple[str, ...]] = ()
    """Nodes for scheduling only are nodes as all others here."""

    def tables(self) -> tuple[StatusTable, ...]:
        """Return tables of pools, teams and gangs."""
        pools = [
            (each.name, f"{each.ready} of {each.nodes}", f"{each.used} of {each.accelerators}") for each in self.pools
        ]
        teams = [(each.name, each.own, each.used, each.borrowed or "-", each.waiting or "-") for each in self.teams]
        gangs = StatusTable(_GANG, [_cells(each) for each in self.gangs])
        return (
            StatusTable(("pool", "nodes ready", "GPUs used"), pools),
            StatusTable(("team", "own GPUs", "used", "borrowed", "jobs waiting"), teams),
            *([gangs] if self.gangs else []),
        )


def _cells(gang: Gang) -> tuple[object, ...]:
    return (
        *(gang.team, gang.name, gang.queue, gang.priority or "-", gang.state, gang.pods),
        *(fold(names) if names else "-" for names in (gang.nodes, gang.domains)),
        gang.why or "-",
    )


def nodes(plan: Plan, names: Sequence[str]) -> NodesStatus:
    """Return the state of these nodes as a table."""
    found = states(plan, names)
    rows = [
        (
            *(each.name, "ready" if each.ready else "not ready", ", ".join(each.runs) or "-"),
            *((holder(each.held), each.held.text) if each.held else ("-", "-")),
        )
        for each in found
    ]
    verdicts: list[Verdict] = ["pass" if each.ready and not each.held else "fail" for each in found]
    return NodesStatus(found, verdicts, StatusTable(("node", "state", "runs", "held by", "reason"), rows))


def status(plan: Plan, roster: Roster | None = None) -> KubernetesStatus:
    """Ask the server for the state; without an answer it is unknown. A user sees only her own teams and their gangs."""
    found = _objects(plan, roster)
    nodes = [each for each in found if each["kind"] == "Node"]
    queues = [each for each in found if each["kind"] == "ClusterQueue"]
    workloads = [each for each in found if each["kind"] == "Workload"]
    called = {
        text_at(each, "metadata", "uid"): f"{text_at(each, 'metadata', 'namespace')}/{owner(each['metadata'])}"
        for each in workloads
    }
    innermost = kubernetes.level_labels(plan)[-1:]
    domains = {name_of(each): text_at(each, "metadata", "labels", level) for level in innermost for each in nodes}
    gangs = tuple(_gang(each, domains, called) for each in workloads if not looks_at_files(each))
    wrong, flavors = tuple(_wrong(plan, nodes)), kubernetes.flavors(plan)
    reserved = any(pool.reservation for pool in plan.pools)
    return KubernetesStatus(
        cluster=plan.name,
        cloud=plan.cloud,
        verdict="fail" if wrong else "pass",
        why=wrong,
        pools=tuple(_pool(pool, flavors[pool.name], nodes, queues) for pool in kubernetes.pools(plan)),
        teams=tuple(_team(plan, team, flavors.values(), queues, gangs) for team in teams_of(plan, roster)),
        gangs=gangs,
        endings=endings(plan.cloud, plan.name, plan.region) if reserved and not config_of(roster) else (),
    )


def teams_of(plan: Plan, roster: Roster | None) -> tuple[Account, ...]:
    """Return the teams whose namespaces the user may read: all of them for an administrator."""
    found = kubernetes.teams(plan)
    return tuple(team for team in found if roster.user in team.users) if roster and config_of(roster) else found


def namespaces(plan: Plan, roster: Roster | None) -> tuple[str, ...]:
    """Return the kubectl options that list objects of teams, one for each request."""
    if not config_of(roster):
        return ("--all-namespaces",)
    return tuple(f"--namespace={team.name}" for team in teams_of(plan, roster))


def _objects(plan: Plan, roster: Roster | None) -> list[dict[str, Any]]:
    kinds, of_teams = "nodes,clusterqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"
    server = KubernetesApi.of(plan, roster)
    try:
        if not config_of(roster):
            return server.listed_soon(f"{kinds},{of_teams}", "--all-namespaces")
        found = server.listed_soon(kinds)
        for where in namespaces(plan, roster):
            found += server.listed_soon(of_teams, where)
    except RefusedError as error:  # the cluster itself may be healthy
        why = str(error).splitlines()[0]
        raise UnknownError(why, server.remedy(why)) from None
    return found


def _wrong(plan: Plan, nodes: Sequence[Manifest]) -> Iterator[str]:
    there = {name_of(each): each for each in nodes}
    if plan.managed:
        yield from _too_few(plan, nodes)
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


def _too_few(plan: Plan, nodes: Sequence[Manifest]) -> Iterator[str]:
    """Yield pools with missing nodes, counted by label where the cloud names nodes."""
    for pool in kubernetes.pools(plan):
        own = _own(pool, nodes)
        if len(own) != pool.count:
            yield f"pool {pool.name}: {len(own)} of {pool.count} nodes are there"
        for what, names in _late(own).items():
            yield f"{fold(names)}: {what}"
        for what, names in _ill(own).items():
            yield f"{fold(names)}: {what}"


def _ill(nodes: Sequence[Manifest]) -> dict[str, list[str]]:
    """Return the nodes that the cloud's agent calls unhealthy, by reason: they take pods until they are drained."""
    watched = {kind for each in catalog.cloud_nodes().values() for kind in each.health_conditions}
    found: dict[str, list[str]] = {}
    for node in nodes:
        for kind, said in conditions(node).items():
            if kind in watched and said.get("status") != "True":
                is_what = f"{kind} is {str(said.get('status')).lower()}"
                why = ": ".join(filter(None, (is_what, text_at(said, "reason"), text_at(said, "message"))))
                enough = said.get("status") != "False" or held(node)
                found.setdefault(why + ("" if enough else "; " + _DRAIN), []).append(name_of(node))
    return found


def _late(nodes: Sequence[Manifest]) -> dict[str, list[str]]:
    """Return the nodes that take no pods, by reason."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if not ready(node):
            found.setdefault("not ready", []).append(name_of(node))
        elif reason := held(node):
            found.setdefault(f"takes no pods: {written(reason)}", []).append(name_of(node))
    return found


def _own(pool: Group, nodes: Sequence[Manifest]) -> list[Manifest]:
    return [each for each in nodes if text_at(each, "metadata", "labels", POOL) == pool.name]


def _pool(pool: Group, flavor: str, nodes: Sequence[Manifest], queues: Sequence[Manifest]) -> PoolStatus:
    own = _own(pool, nodes)
    return PoolStatus(
        name=pool.name,
        nodes=pool.count,
        ready=sum(map(ready, own)),
        accelerators=pool.count * pool.machine.accelerators,
        used=sum(_used(queue, {flavor}) for queue in queues),
    )


def _team(
    plan: Plan, team: Account, flavors: Collection[str], queues: Sequence[Manifest], gangs: Iterable[Gang]
) -> TeamStatus:
    owner = kubernetes.quota_owner(plan, team)
    return TeamStatus(
        name=team.name,
        own=kubernetes.own_accelerators(plan, team),
        used=sum(_used(queue, flavors) for queue in queues if at(queue, "spec", "cohortName") == owner),
        waiting=sum(gang.team == team.name and gang.state == "waiting" for gang in gangs),
    )


def _used(queue: Manifest, flavors: Collection[str]) -> int:
    return sum(
        int(quantity(resource.get("total")) or 0)
        for each in maps_at(queue, "status", "flavorsReservation")
        for resource in maps_at(each, "resources")
        if text_at(each, "name") in flavors and resource.get("name") == ACCELERATOR
    )


def _gang(workload: Manifest, domain_of: Mapping[str, str], called: Mapping[str, str]) -> Gang:
    metadata, names = workload["metadata"], placed(workload)
    state: State = (
        "finished" if is_true(workload, "Finished") else "running" if is_true(workload, "Admitted") else "waiting"
    )
    admitted = conditions(workload).get("Admitted")
    return Gang(
        team=text_at(metadata, "namespace"),
        name=owner(metadata),
        queue=text_at(workload, "spec", "queueName"),
        priority=text_at(workload, "spec", "priorityClassRef", "name") or text_at(metadata, "labels", PRIORITY_LABEL),
        state=state,
        pods=sum(count_at(each, "count") for each in maps_at(workload, "spec", "podSets")),
        nodes=names,
        domains=tuple(dict.fromkeys(domain for name in names if (domain := domain_of.get(name)))),
        why=_why(workload, called) if state == "waiting" else "",
        since=_seconds(text_at(admitted, "lastTransitionTime")) if state == "running" else None,
    )


def _seconds(time: str) -> int | None:
    try:
        return int(datetime.fromisoformat(time).timestamp())
    except (ValueError, OverflowError):
        return None


def _why(workload: Manifest, called: Mapping[str, str]) -> str:
    """Return the reason why Kueue does not admit it; after a preemption also the preempting run."""
    said = conditions(workload)
    texts = [text_at(said, "Evicted", "message")] if is_true(workload, "Evicted") else []
    texts += [text_at(said, "QuotaReserved", "message")] if "QuotaReserved" in said else ["not judged yet"]
    return _FOR.sub(lambda found: called.get(found[1], "a deleted one"), "; ".join(texts))
