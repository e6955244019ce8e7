"""Decisions about runs on Kubernetes before any request to the server. See tests/cluster for a real server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.jobs import JobError, JobSource, read_command, resolve
from stampworks.operations import jobs, on_head, own_jobs, runs
from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.operations.job import Job, JobRequest
from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError
from stampworks.operations.kubernetes.jobs import KubernetesJobs, pods_of
from stampworks.operations.on_cluster import ClusterProgram
from stampworks.operations.own_jobs import Prepared
from stampworks.plan import Account, Member, Plan, Queue, Roster, User
from stampworks.schedulers import jobset

from tests.operations.kubernetes.standin import StandIn, gang, pod
from tests.operations.slurm.test_status import directory, the_plan
from tests.schedulers.test_workload import on_azure

ROSTER = Roster("k", "local", (), "root", "", ())


@pytest.fixture
def teams() -> Plan:
    plan = the_plan()
    accounts = (Account("research", ("alice",), 1, 0), Account("product", (), 1, 0))
    users = (User("alice", 2001, ("product", "research")), User("bob", 2002, ()))
    queues = (Queue("main", ("gpu",), default=True, time_limit_minutes=0, priority=""),)
    scheduler = replace(plan.scheduler, kind="kubernetes", accounts=accounts, queues=queues)
    return replace(plan, scheduler=scheduler, users=users)


def on_eks(*more: str, **scheduler: Any) -> Plan:
    """Return a plan on EKS: the first pool has two nodes, the others three."""
    counts = {"gpu": 2, **dict.fromkeys(more, 3)}
    pools = [{"name": name, "machine": "p5en", "count": count, "zone": "us-west-2b"} for name, count in counts.items()]
    storage = [{"name": "data", "kind": "efs", "tier": "regional", "mount": "/data"}]
    declared = {"version": 1, "name": "k", "cloud": "aws", "region": "us-west-2", "pools": pools, "storage": storage}
    image = "registry.example.com/workloads:1"
    return planning.plan(
        load_value({**declared, "scheduler": {"kind": "kubernetes", "workloads_image": image, **scheduler}}, "test")
    )


def spec_of(plan: Plan) -> Any:
    """Return the spec of a run's pods."""
    made = jobset.manifest(pods_of(plan, ROSTER, wanted(plan), "root"))
    return made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]


def wanted(plan: Plan) -> JobRequest:
    machine = plan.pools[0].machine
    return JobRequest("first", "training", "/shared/runs/first", "main", 1, (), machine, "/opt", ("python",))


def run(name: str, team: str = "research", **spec: Any) -> Any:
    """Return a JobSet with the label of runs, as any user may write it."""
    owners = spec.pop("ownerReferences", [])
    labels = {"stampworks/workload": "training"}
    metadata = {"name": name, "namespace": team, "labels": labels, "ownerReferences": owners}
    return {"kind": "JobSet", "metadata": metadata, "spec": spec}


def node_job(**more: Any) -> dict[str, Any]:
    return {"name": "node", "template": {"spec": more}}


def test_team_of_a_run(teams: Plan) -> None:
    """A run belongs to the user's first account, root's to the first team by name. A user without one is refused."""
    assert pods_of(teams, ROSTER, wanted(teams), "alice").team == "product"
    assert pods_of(teams, ROSTER, wanted(teams), "root").team == "product"
    with pytest.raises(InputError) as caught:
        pods_of(teams, ROSTER, wanted(teams), "bob")
    assert str(caught.value) == (
        "bob has no account, and so no team whose nodes a run could use\n"
        "  hint: write accounts: [research] at the user, and run pulumi up"
    )
    everybody = replace(teams, scheduler=replace(teams.scheduler, accounts=()))
    assert pods_of(everybody, ROSTER, wanted(teams), "bob").team == "jobs"


@pytest.mark.parametrize(("topology", "level"), [("tree", "topology.k8s.aws/network-node-layer-3"), ("flat", "")])
def test_a_run_wants_a_place_where_nodes_have_one(topology: str, level: str) -> None:
    """Kueue would never admit it on nodes without labels."""
    plan = on_eks(topology=topology)
    made = jobset.manifest(pods_of(plan, ROSTER, wanted(plan), "root"))
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert "".join(template["metadata"].get("annotations", {}).values()) == level


def test_a_run_has_a_node_to_itself(teams: Plan) -> None:
    """Otherwise Kubernetes would count its cores and memory as free. The node's own pods have enough; simulated nodes
    share the machine's."""
    plan = on_eks()
    machine = plan.pools[0].machine
    assert machine.cpus
    assert machine.memory_mib
    [pod] = spec_of(plan)["containers"]
    asked = pod["resources"]["requests"]
    assert asked.keys() == {"cpu", "memory"}
    assert 0.7 * machine.cpus < int(asked["cpu"]) < 0.9 * machine.cpus
    assert 0.7 * machine.memory_mib < int(asked["memory"].removesuffix("Mi")) < 0.9 * machine.memory_mib
    assert "requests" not in spec_of(teams)["containers"][0]["resources"]
    nobody_knows = replace(wanted(plan), machine=replace(machine, cores=None, accelerators=0))
    told = jobset.manifest(pods_of(plan, ROSTER, nobody_knows, "root"))["spec"]["replicatedJobs"][0]["template"]
    resources = told["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"].keys() == {"memory"}
    assert "cpu" not in resources["limits"], "it would have one core of all"


@pytest.mark.parametrize(
    ("operator", "limits", "told"),
    [(True, {"nvidia.com/gpu": 8, "rdma/shared": "1"}, ["IB"]), (False, {"nvidia.com/gpu": 8}, [])],
)
def test_on_infiniband_a_run_asks_for_what_the_network_operator_offers(
    operator: bool, limits: dict[str, Any], told: list[str]
) -> None:
    """The resource name of another plug-in is unknown, and without a device NCCL's settings could not work."""
    [pod] = spec_of(on_azure(network_operator=operator))["containers"]
    assert pod["resources"]["limits"] == limits
    assert [each["value"] for each in pod["env"] if each["name"] == "NCCL_NET"] == told


@pytest.mark.parametrize(
    ("asked", "fits"), [({"nodes": 3}, True), ({"nodes": 4}, False), ({}, False), ({"pool": "other"}, True)]
)
def test_a_run_is_in_one_pool(asked: dict[str, Any], fits: bool) -> None:
    """Kueue gives a gang a single flavor: over two pools it would wait for ever."""
    plan = on_eks("other")
    there = [(pool.name, number) for pool in plan.pools for number in range(pool.count)]
    members = tuple(Member(f"{pool}-{number}", pool, "", "", (), "") for pool, number in there)
    roster, one = replace(ROSTER, members=members), jobs.RunRequest("validation", "first", **asked)
    if fits:
        assert jobs.wanted_of(plan, roster, one)[0].nodes == 3
        return
    with pytest.raises(InputError) as caught:
        jobs.wanted_of(plan, roster, one)
    assert str(caught.value) == (
        "queue main has 5 nodes in several pools, and on Kubernetes a run is in one: none has "
        f"{asked.get('nodes', 5)} now\n  hint: ask for 1 to 3"
    )


def test_an_earlier_attempt_that_does_not_end_is_named(teams: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(StandIn):
        def said(self, words: Sequence[str], given: str = "", limit_s: float = 0) -> str:  # noqa: ARG002
            if words[0] == "delete":
                raise RefusedError("error: timed out waiting for the condition on jobsets/first", "")
            raise AssertionError(words)

    monkeypatch.setattr(KubernetesApi, "of", lambda *_: Stuck())
    with pytest.raises(OperationError, match="pods of the earlier attempt of first have not ended within 60 s"):
        KubernetesJobs(teams, ROSTER).submit(wanted(teams), "alice")


def test_a_jobset_that_somebody_else_has_written_is_shown_as_it_is(
    teams: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of a team may use our label, which does not affect other runs."""
    server = StandIn()
    server.others = [
        run("ours", replicatedJobs=[node_job(completions=2, parallelism=2)]),
        run(
            "pair", replicatedJobs=[node_job(completions=2, parallelism=2), {**node_job(parallelism=3), "replicas": 2}]
        ),
        run("bare", replicatedJobs=[node_job()]),
        run("empty"),
    ]
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: server)
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
def test_cancel_trusts_no_owner_named_by_a_jobset(
    owner: dict[str, Any], teams: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administrator cancels, and may delete more than the team."""
    server = StandIn()
    server.others = [run("own", ownerReferences=[{**owner, "controller": True}])]
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: server)
    KubernetesJobs(teams, ROSTER).cancel(Job("own", "training", "running", "research/own", "", (), 1, None, ""))
    assert server.told[0].startswith("delete jobsets.jobset.x-k8s.io own ")
    assert server.told[1].startswith("delete configmaps --field-selector=metadata.name=own ")


def test_cancel_deletes_the_owner_of_a_jobset(teams: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Trainer would create the JobSet again. Objects printed with it are deleted, and no others."""
    server = StandIn()
    trainer = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "controller": True}
    for name, owners in (("own", []), ("theirs", [{**trainer, "name": "theirs"}])):
        server.others.append({"metadata": {"name": name, "namespace": "research", "ownerReferences": owners}})
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: server)
    for name, user in (("own", "root"), ("theirs", "alice")):
        job = Job(name, "training", "running", f"research/{name}", user, (), 1, None, "")
        KubernetesJobs(teams, ROSTER).cancel(job)
    ours, when = "--selector=app.kubernetes.io/managed-by=stampworks", "--wait=false --cascade=foreground"
    runtimes = "trainingruntimes.trainer.kubeflow.org"
    assert [each.replace("--namespace=research", "").replace("  ", " ") for each in server.told] == [
        f"delete jobsets.jobset.x-k8s.io own {when}",
        f"delete configmaps --field-selector=metadata.name=own {ours} {when}",
        f"delete trainjob.trainer.kubeflow.org theirs {when}",
        f"delete configmaps --field-selector=metadata.name=theirs {ours} {when}",
        f"delete {runtimes} --field-selector=metadata.name=theirs-u2001 {ours} {when}",
    ]


def test_an_image_that_does_not_exist(teams: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run holds nodes and does not start: the reason is shown with the run."""
    server = StandIn()
    where = {"jobset.sigs.k8s.io/jobset-name": "first"}
    stuck = pod("first-node-0-0", "n1", labels=where)
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling\nimage "no/such:1"'}
    stuck["status"]["containerStatuses"] = [{"state": {"waiting": waiting}}]
    started = pod("other-node-0-0", "n2", labels={"jobset.sigs.k8s.io/jobset-name": "other"})
    started["status"]["containerStatuses"] = [{"state": {"running": {}}}]
    server.others = [run("first"), run("other"), gang("first", "n1"), gang("other", "n2"), stuck, started]
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: server)
    found = {each.name: (each.state, each.why) for each in KubernetesJobs(teams, ROSTER).jobs()}
    assert found == {
        "first": ("running", 'n1: its pod does not start: Back-off pulling image "no/such:1"'),
        "other": ("running", ""),
    }


def task(index: int, **status: Any) -> Any:
    """The JobSet of a task of alice's array."""
    labels = {"stampworks/workload": "job", "stampworks/array": "many-u2001"}
    notes = {"stampworks/user": "alice", "stampworks/job": "many", "stampworks/task": str(index)}
    metadata = {"name": f"many-u2001-{index}", "namespace": "product", "labels": labels, "annotations": notes}
    return {"kind": "JobSet", "metadata": metadata, "spec": {}, "status": status}


@pytest.fixture
def array(teams: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Plan, StandIn]:
    """Tasks 0 to 2: finished, failed and waiting. The folder has their files."""
    server = StandIn()
    server.others = [task(0, terminalState="Completed"), task(1, terminalState="Failed"), task(2)]
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: server)
    folder = tmp_path / "many.alice"
    folder.mkdir()
    (folder / "run.json").write_text('{"workload": "job", "nodes": 1, "user": "alice", "tasks": 3}')
    (folder / "log").write_text("0: 0: a\n1: 0: b\n0: 0: c\n")
    for index, code in ((0, 0), (1, 7)):
        (folder / f"exit-{index}").write_text(f"{code}\n")
    monkeypatch.setattr(runs, "look", lambda *words: on_head.look(tmp_path / Path(words[-1]).name))
    monkeypatch.setattr(
        runs, "follow", lambda _, __, where, log, events: on_head.follow(tmp_path / Path(where).name, log, events)
    )
    return replace(teams, storage=(directory("/shared"),)), server


def test_tasks_of_an_array_are_one_job(array: tuple[Plan, StandIn]) -> None:
    """As on Slurm, the array runs as long as any of its tasks. A task is named by its index."""
    plan, _ = array
    [job] = KubernetesJobs(plan, ROSTER).jobs()
    assert (job.name, job.id, job.state, job.why) == (
        "many",
        "product/many-u2001",
        "waiting",
        "1 finished, 1 failed, 1 waiting",
    )
    assert [(each.task, each.id, each.state) for each in job.tasks] == [
        (0, "product/many-u2001-0", "finished"),
        (1, "product/many-u2001-1", "failed"),
        (2, "product/many-u2001-2", "waiting"),
    ]
    followed = {
        name: [*jobs.follow(plan, ROSTER, name, live=False)] for name in ("many_0", "many_1", "product/many-u2001_2")
    }
    assert ["".join(piece.log for piece in pieces) for pieces in followed.values()] == [
        "0: 0: a\n0: 0: c\n",
        "1: 0: b\n",
        "",
    ]
    last = [pieces[-1].job for pieces in followed.values()]
    assert [(each.state, each.exit_code) for each in last] == [("finished", 0), ("failed", 7), ("waiting", None)]
    with pytest.raises(InputError) as caught:
        jobs.cancel(plan, ROSTER, "many_9")
    assert str(caught.value) == "job many has no task 9 that is known apart\n  hint: there are [0-2]"


def test_a_task_and_all_that_are_left_are_cancelled(array: tuple[Plan, StandIn]) -> None:
    plan, server = array
    server.others.append(task(3))
    jobs.cancel(plan, ROSTER, "many_2")
    assert (
        server.told[0]
        == "delete jobsets.jobset.x-k8s.io many-u2001-2 --namespace=product --wait=false --cascade=foreground"
    )
    server.told.clear()
    jobs.cancel(plan, ROSTER, "many")
    deleted = "delete jobsets.jobset.x-k8s.io many-u2001-2 many-u2001-3 --ignore-not-found --namespace=product"
    assert server.told == [f"{deleted} --wait=false --cascade=foreground"]


def test_an_array_that_is_forgotten_has_its_worst_end(array: tuple[Plan, StandIn]) -> None:
    """Exit codes in its folder decide; a task without one is unknown."""
    plan, server = array
    server.others.clear()
    for codes, end in (({"0": 0, "1": 7}, ("failed", 7)), ({"1": 0}, ("unknown", None)), ({"2": 0}, ("finished", 0))):
        look = runs.look(plan, ROSTER, "/shared/runs/many.alice")
        look["tasks"] = {"0": 0, "1": 0, **codes} if "2" in codes else codes
        look["exit"] = max(look["tasks"].values())
        job = jobs._of_folder("many.alice", look, None)
        assert job
        assert (job.state, job.exit_code) == end


def test_a_task_of_somebody_else_is_no_part_of_an_array(array: tuple[Plan, StandIn]) -> None:
    """Any member of the team may write that label."""
    plan, server = array
    theirs = task(5)
    theirs["metadata"]["annotations"]["stampworks/user"] = "bob"
    server.others.append(theirs)
    found = KubernetesJobs(plan, ROSTER).jobs()
    assert [(job.user, len(job.tasks)) for job in found] == [("alice", 3), ("bob", 1)]
    assert KubernetesJobs(plan, ROSTER)._tasks_of("product", "many-u2001", "alice") == [
        f"many-u2001-{index}" for index in range(3)
    ]


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_submit_waits_for_the_jobs_before(
    end: str, array: tuple[Plan, StandIn], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It waits until they have ended, even if the server is silent for a while. A failed job is then a problem of the
    file."""
    plan, server = array
    server.others = [task(0)]
    said: list[str] = []
    heard = server.listed

    def listed(kinds: str, *words: str, limit_s: float = 0) -> list[Any]:
        if len(said) == 1:
            raise UnknownError("the Kubernetes of cluster k does not answer", "wait")
        return heard(kinds, *words, limit_s=limit_s)

    def progress(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            server.others = [task(0, terminalState=end)]
            (tmp_path / "many.alice" / "run.json").write_text('{"workload": "job"}')
            (tmp_path / "many.alice" / "exit-1").unlink()

    monkeypatch.setattr(server, "listed", listed)
    monkeypatch.setattr(own_jobs, "_POLL_S", 0)
    monkeypatch.setattr(own_jobs, "checked", lambda _, source, user, environment: prepared(source, user))
    monkeypatch.setattr(ClusterProgram, "ask", lambda *_: {"mine": True, "turn": "1"})
    source = read_command(["hostname"], {"depends_on": ["many"]}, tmp_path)

    def prepared(source: JobSource, user: str) -> Prepared:
        return Prepared(resolve(source, plan, user, "/shared/runs"), {}, None, (), source)

    if end == "Failed":
        with pytest.raises(JobError) as caught:
            own_jobs.prepare_after(plan, ROSTER, source, "alice", {}, progress)
        assert "depends_on[0]: job many has not ended well" in str(caught.value)
    else:
        assert own_jobs.prepare_after(plan, ROSTER, source, "alice", {}, progress).after == ()
    waits = "waits for product/many-u2001"
    assert said == [waits, f"{waits}: the cluster is not heard", waits]
