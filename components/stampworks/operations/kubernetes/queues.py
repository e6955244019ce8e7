"""Queues of a Kubernetes that go, and the gangs that are in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stampworks.operations.drain import BusyError
from stampworks.operations.kubernetes.client import (
    KubernetesApi,
    Manifest,
    RefusedError,
    has_started,
    is_true,
    looks_at_files,
    name_of,
    owner,
)
from stampworks.operations.kubernetes.door import close_of_users
from stampworks.schedulers.objects import text_at

Queues = Mapping[str, Mapping[str, str]]
"""LocalQueues of each team, with the ClusterQueue of each."""
_KINDS = "cohorts.kueue.x-k8s.io,workloads.kueue.x-k8s.io"
_NO_SUCH_KIND = "the server doesn't have a resource type"
_SHOWN = 10


def keep(server: KubernetesApi, queues: Queues) -> None:
    """Raise BusyError while gangs are in teams or queues to be removed: deleting a team's namespace would delete them,
    and Kueue keeps a ClusterQueue until its gangs have ended. Pods for reading files do not count."""
    if found := in_what_goes(server, queues):
        more = [f"... ({len(found)} in all)"] if len(found) > _SHOWN else []
        lines = [f"  {each}" for each in (*found[:_SHOWN], *more)]
        raise BusyError(
            "\n".join(["gangs are in a team or a queue that is to be removed: nothing was removed", *lines]),
            "wait for them, or cancel them (stampworks cancel RUN, or stampworks kubectl -- delete jobset NAME "
            "--namespace TEAM); then pulumi up",
        )
    close_of_users(server)


def in_what_goes(server: KubernetesApi, queues: Queues) -> list[str]:
    """Return a sentence about each gang that has not ended and whose team or queue is to be removed."""
    try:
        there = server.listed_soon(_KINDS, "--all-namespaces")
    except RefusedError as error:
        if _NO_SUCH_KIND in str(error):  # Kueue comes later in the same `up`
            return []
        raise
    teams = {team for each in there if (team := _team(each, server.cluster))}
    workloads = [each for each in there if each["kind"] == "Workload" and not looks_at_files(each)]
    gangs = [each for each in workloads if text_at(each, "metadata", "namespace") in teams]
    found = {_gang(each): why for each in gangs if (why := next(_goes(each, queues), ""))}
    return [f"{gang}: {found[gang]}" for gang in sorted(found)]


def _team(each: Manifest, cluster: str) -> str:
    """Return the team of a quota; several clusters may share a Kubernetes."""
    ours = each["kind"] == "Cohort" and text_at(each, "spec", "parentName") == cluster
    return name_of(each).removeprefix(f"{cluster}-") if ours else ""


def _gang(workload: Manifest) -> str:
    return f"run {text_at(workload, 'metadata', 'namespace')}/{owner(workload['metadata'])}"


def _goes(workload: Manifest, queues: Queues) -> Iterator[str]:
    if is_true(workload, "Finished"):
        return
    does = "is at work" if has_started(workload) else "waits"
    team, queue = text_at(workload, "metadata", "namespace"), text_at(workload, "spec", "queueName")
    if team not in queues:
        yield f"{does}, and its team {team} goes with its namespace"
    elif queue not in queues[team]:
        yield f"{does}, and its queue {queue} goes"
    elif has_started(workload) and _admitted_by(workload) not in queues[team].values():
        yield f"{does}, and what queue {queue} led to goes"


def _admitted_by(workload: Manifest) -> str:
    return text_at(workload, "status", "admission", "clusterQueue")
