"""Runs on Kubernetes, as far as they are decided before it is asked. See tests/cluster for the same on a real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
