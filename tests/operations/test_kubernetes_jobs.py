"""Runs on Kubernetes, as far as they are decided before it is asked. See tests/cluster for the same on a real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from stampworks.operations.errors import InputError, OperationError
from stampworks.operations.job import Job, Wanted
from stampworks.operations.kubernetes import RefusedError, Server
from stampworks.operations.kubernetes_jobs import KubernetesJobs, pods_of
from stampworks.plan import Account, Plan, Queue, Roster, User

from tests.operations.kubernetes_standin import StandIn
from tests.operations.test_status import the_plan

ROSTER = Roster("k", "local", (), "root", "", ())


@pytest.fixture
def teams() -> Plan:
    plan = the_plan()
    accounts = (Account("research", ("alice",), 1, 0), Account("product", (), 1, 0))
    users = (User("alice", 2001, ("product", "research")), User("bob", 2002, ()))
    queues = (Queue("main", ("gpu",), default=True, time_limit_minutes=0, priority=""),)
    scheduler = replace(plan.scheduler, kind="kubernetes", accounts=accounts, queues=queues)
    return replace(plan, scheduler=scheduler, users=users)


def wanted(plan: Plan) -> Wanted:
    machine = plan.pools[0].machine
    return Wanted("first", "training", "/shared/runs/first", "main", 1, (), machine, "/opt", ("python",))


def run(name: str, team: str = "research", **spec: Any) -> Any:
    """A JobSet with the label of runs, as somebody has written it."""
    owners = spec.pop("ownerReferences", [])
    labels = {"stampworks/workload": "training"}
    metadata = {"name": name, "namespace": team, "labels": labels, "ownerReferences": owners}
    return {"kind": "JobSet", "metadata": metadata, "spec": spec}


def node_job(**more: Any) -> dict[str, Any]:
    return {"name": "node", "template": {"spec": more}}


def test_whose_team_a_run_is_of(teams: Plan) -> None:
    """Its user's first account; root's is the first team; who has none has no nodes either, and is told so."""
    assert pods_of(teams, ROSTER, wanted(teams), "alice").team == "product"
    assert pods_of(teams, ROSTER, wanted(teams), "root").team == "research"
    with pytest.raises(InputError) as caught:
        pods_of(teams, ROSTER, wanted(teams), "bob")
    assert str(caught.value) == (
        "bob is of no account, and so of no team whose nodes a run could have\n"
        "  hint: write accounts: [research] at the user, and run pulumi up"
    )
    everybody = replace(teams, scheduler=replace(teams.scheduler, accounts=()))
    assert pods_of(everybody, ROSTER, wanted(teams), "bob").team == "jobs"


def test_an_earlier_attempt_that_does_not_end_is_named(teams: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(StandIn):
        def said(self, words: Sequence[str], given: str = "", limit_s: float = 0) -> str:  # noqa: ARG002
            if words[0] == "delete":
                raise RefusedError("error: timed out waiting for the condition on jobsets/first", "")
            raise AssertionError(words)

    monkeypatch.setattr(Server, "of", lambda _: Stuck())
    with pytest.raises(OperationError, match="pods of the earlier attempt of run first have not ended within 60 s"):
        KubernetesJobs(teams, ROSTER).submit(wanted(teams), "alice")


def test_a_jobset_that_somebody_else_has_written_is_shown_as_it_is(
    teams: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody of a team may give one our label, and nobody else's runs are the worse for it."""
    server = StandIn()
    server.others = [
        run("ours", replicatedJobs=[node_job(completions=2, parallelism=2)]),
        run(
            "pair", replicatedJobs=[node_job(completions=2, parallelism=2), {**node_job(parallelism=3), "replicas": 2}]
        ),
        run("bare", replicatedJobs=[node_job()]),
        run("empty"),
    ]
    monkeypatch.setattr(Server, "of", lambda _: server)
    found = KubernetesJobs(teams, ROSTER).jobs()
    assert [(each.name, each.wanted) for each in found] == [("ours", 2), ("pair", 8), ("bare", 1), ("empty", 0)]
    assert {(each.state, each.user) for each in found} == {("waiting", "")}


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "name": "k-product-main"},
        {"apiVersion": "x/v1", "kind": "--raw=/api/v1/namespaces/product?", "name": "own"},
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "--all"},
    ],
)
def test_who_says_that_something_makes_its_jobset_has_nothing_else_deleted(
    owner: dict[str, Any], teams: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the administrator who cancels, and may delete what no team may."""
    server = StandIn()
    server.others = [run("own", ownerReferences=[{**owner, "controller": True}])]
    monkeypatch.setattr(Server, "of", lambda _: server)
    KubernetesJobs(teams, ROSTER).cancel(Job("own", "training", "running", "research/own", "", (), 1, None, ""))
    assert server.told[0].startswith("delete jobsets.jobset.x-k8s.io own ")
    assert server.told[1].startswith("delete configmaps --field-selector=metadata.name=own ")


def test_what_somebody_makes_a_jobset_of_is_what_is_cancelled(teams: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it Trainer would make the same JobSet again. What was printed beside it goes, and nothing of others."""
    server = StandIn()
    trainer = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "controller": True}
    for name, owners in (("own", []), ("theirs", [{**trainer, "name": "theirs"}])):
        server.others.append({"metadata": {"name": name, "namespace": "research", "ownerReferences": owners}})
    monkeypatch.setattr(Server, "of", lambda _: server)
    for name in ("own", "theirs"):
        job = Job(name, "training", "running", f"research/{name}", "root", (), 1, None, "")
        KubernetesJobs(teams, ROSTER).cancel(job)
    ours, when = "--selector=app.kubernetes.io/managed-by=stampworks", "--wait=false --cascade=foreground"
    beside = "configmaps,trainingruntimes.trainer.kubeflow.org"
    assert [each.replace("--namespace=research", "").replace("  ", " ") for each in server.told] == [
        f"delete jobsets.jobset.x-k8s.io own {when}",
        f"delete configmaps --field-selector=metadata.name=own {ours} {when}",
        f"delete trainjob.trainer.kubeflow.org theirs {when}",
        f"delete {beside} --field-selector=metadata.name=theirs {ours} {when}",
    ]
