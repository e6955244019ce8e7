"""Runs on a stand-in for a cluster: requests to Slurm, and refusals before them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from stampworks.operations import InputError, jobs
from stampworks.operations.job import Job, State
from stampworks.operations.jobs import RunRequest, UsedError
from stampworks.operations.qualify import PYTHON
from stampworks.plan import Plan, Queue, User

from tests.operations.slurm.standin import StandIn, node
from tests.operations.slurm.test_status import directory, the_plan

RUNUSER = """#!/bin/sh
[ "$1" = -l ] && [ "$3" = -c ] && [ $# = 4 ] || exit 99
echo "$2" >> "$HERE/users"
exec sh -c "$4"
"""
SBATCH = """#!/bin/sh
echo "$*" >> "$HERE/sbatch"
echo 7
"""
SCANCEL = """#!/bin/sh
echo "$*" >> "$HERE/scancel"
"""


@pytest.fixture
def plan(cluster: StandIn, tmp_path: Path) -> Plan:
    """A plan of two single-rank nodes and a shared directory on this machine."""
    for name, text in (("runuser", RUNUSER), ("sbatch", SBATCH), ("scancel", SCANCEL)):
        cluster.program(name, text)
    shared = tmp_path / "shared"
    shared.mkdir()
    found = the_plan()
    queue = Queue("main", ("gpu",), default=True, time_limit_minutes=0, priority="")
    return dataclasses.replace(
        found,
        storage=(directory(shared),),
        scheduler=dataclasses.replace(found.scheduler, queues=(queue,)),
        users=(User("alice", 2001, ()),),
        proof=dataclasses.replace(found.proof, level="standard"),
    )


def queued(name: str, state: str, reason: str = "None", number: int = 7, **more: Any) -> dict[str, Any]:
    return {
        "job_id": number,
        "user_name": "root",
        "nodes": "",
        "name": name,
        "job_state": [state],
        "state_reason": reason,
        "comment": "stampworks:training",
        "partition": "main",
        "node_count": {"set": True, "number": 2},
        **more,
    }


def folder(plan: Plan, name: str = "demo") -> Path:
    return Path(plan.storage[0].mount) / "runs" / name


def submitted(cluster: StandIn, plan: Plan, *settings: str, **more: Any) -> jobs.CheckedRun:
    run = jobs.prepare(plan, cluster.roster, RunRequest("training", "demo", settings=settings, **more))
    assert jobs.submit(plan, cluster.roster, run) == 7
    return run


def test_a_run_is_written_down_and_queued(cluster: StandIn, plan: Plan) -> None:
    """The run has the plan's defaults, the given options, and its nodes."""
    run = submitted(cluster, plan, "steps=20", "model.layers=2", "data.source=synthetic")
    assert (run.resumes, run.warnings) == (False, ())
    assert (cluster.folder / "sbatch").read_text() == f"--parsable {folder(plan)}/batch.sh\n"
    options = json.loads((folder(plan) / "options.json").read_text())
    assert (options["name"], options["folder"], options["steps"]) == ("demo", str(folder(plan)), 20)
    assert (options["model"]["layers"], options["data"]["source"], options["layout"]) == (2, "synthetic", "fsdp")
    assert [(each["name"], each["address"]) for each in options["cluster"]["nodes"]] == [
        ("gpu-001", "10.77.1.1"),
        ("gpu-002", "10.77.1.2"),
    ]
    assert options["cluster"]["shared"] is True
    assert folder(plan).parent.stat().st_mode & 0o7777 == 0o1777


def test_as_a_user(cluster: StandIn, plan: Plan) -> None:
    """Folder and job belong to the user; the directory of all runs is shared."""
    submitted(cluster, plan, user="alice")
    assert (cluster.folder / "users").read_text().split() == ["root", "root", "alice", "alice"]


def test_the_same_again_goes_on(cluster: StandIn, plan: Plan) -> None:
    """A run continues, also with another number of nodes."""
    submitted(cluster, plan, "steps=20")
    assert submitted(cluster, plan, "steps=20", nodes=1).resumes


def test_how_long_before_its_time_is_up(cluster: StandIn, plan: Plan) -> None:
    """A run with slower checkpoints may be warned earlier when it continues."""
    submitted(cluster, plan, "steps=20")
    assert "--signal=B:USR1@60\n" in (folder(plan) / "batch.sh").read_text()
    assert submitted(cluster, plan, "steps=20", "notice_s=900").resumes
    assert "--signal=B:USR1@900\n" in (folder(plan) / "batch.sh").read_text()


@pytest.mark.parametrize(
    ("minutes", "notice", "said"),
    [
        (0, 65536, "notice_s: 65536 is more than a scheduler can be told\n  hint: set notice_s to 1 to 65535"),
        (
            10,
            301,
            "notice_s: 301 is more than half of the 600 s that queue main gives a job\n"
            "  hint: set notice_s to 1 to 300",
        ),
        (0, 65535, ""),
        (10, 300, ""),
    ],
)
def test_a_notice_that_leaves_no_time_to_train(
    cluster: StandIn, plan: Plan, minutes: int, notice: int, said: str
) -> None:
    """The run would be requeued as soon as it starts, for ever."""
    queues = (dataclasses.replace(plan.scheduler.queues[0], time_limit_minutes=minutes),)
    limited = dataclasses.replace(plan, scheduler=dataclasses.replace(plan.scheduler, queues=queues))
    if not said:
        submitted(cluster, limited, f"notice_s={notice}")
        return
    with pytest.raises(InputError) as caught:
        submitted(cluster, limited, f"notice_s={notice}")
    assert str(caught.value) == said


def test_something_else_of_the_same_name(cluster: StandIn, plan: Plan) -> None:
    """The run is refused with the differences, and nothing is overwritten."""
    submitted(cluster, plan, "steps=20")
    before = (folder(plan) / "options.json").read_text()
    with pytest.raises(UsedError) as caught:
        submitted(cluster, plan, "steps=30", "model.width=64")
    assert str(caught.value) == (
        "run demo exists with other options:\n"
        "  steps: 20 before, 30 now\n"
        "  model.width: 128 before, 64 now\n"
        "  hint: take another name, or give the same options, and the run continues"
    )
    assert (folder(plan) / "options.json").read_text() == before


def test_a_run_at_work_is_left_alone(cluster: StandIn, plan: Plan) -> None:
    """This includes a waiting run."""
    cluster.jobs([queued("demo", "PENDING", "Resources")])
    with pytest.raises(UsedError) as caught:
        submitted(cluster, plan)
    assert str(caught.value) == (
        "run demo is still running or waiting: job 7 of root, waiting\n"
        "  hint: stampworks logs demo --follow, or first: stampworks cancel demo"
    )


def test_a_folder_of_somebody_else(cluster: StandIn, plan: Plan) -> None:
    """Submit does not write into folders that it has not made."""
    folder(plan).mkdir(parents=True)
    with pytest.raises(UsedError) as caught:
        submitted(cluster, plan)
    assert str(caught.value).startswith(f"{folder(plan)} exists, and was not made by submit")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a-name-with-a-shell-in-it": (
        {"name": "Demo; reboot"},
        "'Demo; reboot' is not a legal name of a run\n"
        "  hint: a name is 1 to 40 small letters, digits and '-', from a letter to a letter or digit, "
        "for example demo-reboot",
    ),
    "a-name-that-climbs": ({"name": "../demo"}, "'../demo' is not a legal name of a run\n"),
    "too-many-nodes": ({"nodes": 3}, "queue main has 2 nodes now, not 3\n  hint: ask for 1 to 2"),
    "another-pool": ({"pool": "gpus"}, "no pool is called 'gpus' in cluster local\n  hint: did you mean gpu?"),
    "another-user": ({"user": "alise"}, "no user is called 'alise' in cluster local\n  hint: did you mean alice?"),
    "an-unknown-option": (
        {"settings": ("model.laers=2", "steps=x")},
        "training.steps: must be a whole number, not a text\n",
    ),
    "a-near-option": (
        {"settings": ("model.layer=2",)},
        "training.model: knows no option 'layer': did you mean layers?",
    ),
    "what-submit-says-itself": (
        {"settings": ("folder=/tmp",)},
        "folder is not an option of a run: submit sets it\n  hint: leave folder out",
    ),
    "no-setting": (
        {"settings": ("steps",)},
        "'steps' sets nothing\n  hint: write key=value, like --set steps=200 or --set model.layers=8",
    ),
    "a-part-and-the-whole": (
        {"settings": ("model=1", "model.layers=2")},
        "model.layers is set, and so is model as a whole\n  hint: set one of the two",
    ),
    "no-json": ({"file": "steps: 2"}, "the options are not JSON: "),
    "a-list": ({"file": "[]"}, "the options are not a JSON object\n"),
    "a-layout-for-fewer": (
        {"settings": ("layout=tp", "tensor_parallel=4", "ranks=3")},
        "layout tp: 2 nodes x 3 ranks = 6 ranks; in groups of tensor_parallel 6 / 4 = 1.5, which is not whole\n"
        "  hint: choose another layout, or set ranks: how many a node has",
    ),
    "hsdp-with-one-rank": (
        {"settings": ("layout=hsdp",)},
        "layout hsdp: hsdp splits a model within a node, and each has 1 rank\n",
    ),
    "heads-that-cannot-be-cut": (
        {"settings": ("layout=tp", "tensor_parallel=3", "ranks=3")},
        "tensor_parallel: the model has 4 heads, and 4 / 3 = 1.333, which is not whole\n"
        "  hint: choose one that divides 4, or set model.heads",
    ),
}


@pytest.mark.parametrize(("asked", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(cluster: StandIn, plan: Plan, asked: dict[str, Any], text: str) -> None:
    """The error comes before any file or job, with the reason and a hint."""
    with pytest.raises(InputError) as caught:
        jobs.prepare(plan, cluster.roster, RunRequest(**{"workload": "training", "name": "demo", **asked}))
    assert text in str(caught.value)
    assert not folder(plan).parent.exists()


def test_how_many_nodes_fit(cluster: StandIn, plan: Plan) -> None:
    """A layout that fits fewer nodes says how many."""
    with pytest.raises(InputError) as caught:
        submitted(cluster, plan, "layout=tp", "tensor_parallel=2", "ranks=1", nodes=1)
    assert str(caught.value).startswith("layout tp: 1 node x 1 rank = 1 rank; in groups of tensor_parallel 1 / 2")
    assert submitted(cluster, plan, "layout=tp", "tensor_parallel=2").wanted.nodes == 2


def test_a_cluster_without_storage(cluster: StandIn, plan: Plan) -> None:
    """A run's folder must be seen by all nodes."""
    with pytest.raises(InputError) as caught:
        jobs.prepare(dataclasses.replace(plan, storage=()), cluster.roster, RunRequest("training", "demo"))
    assert str(caught.value) == (
        "cluster local has no storage that all nodes see, and a run needs a folder there\n"
        "  hint: declare one: storage: [{name: shared, kind: directory, mount: /shared}]"
    )


def test_nodes_that_take_no_jobs(cluster: StandIn, plan: Plan) -> None:
    """The run may wait for them, and the user is informed."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="rail1 is slow"))
    unproven = dataclasses.replace(plan, proof=dataclasses.replace(plan.proof, level="none"))
    assert jobs.prepare(unproven, cluster.roster, RunRequest("training", "demo")).warnings == (
        "cluster local was never proven: its declaration says proof.level: none",
        "it will wait: 1 of 2 nodes take jobs, and it wants 2 (gpu-002: rail1 is slow)",
    )
    assert jobs.prepare(plan, cluster.roster, RunRequest("training", "demo", nodes=1)).warnings == ()


def test_validation(cluster: StandIn, plan: Plan) -> None:
    """All programs run, or only those with options; each writes its results into the run's folder."""
    settings = ("matmul.seconds=1", "limits={}")
    run = jobs.prepare(plan, cluster.roster, RunRequest("validation", "look", settings=settings))
    assert run.wanted.program == (
        *(PYTHON, "-m", "validation", "matmul", "limits", "--options", f"{folder(plan, 'look')}/options.json"),
        *("--out", f"{folder(plan, 'look')}/results"),
    )
    assert "pairs" in jobs.prepare(plan, cluster.roster, RunRequest("validation", "all")).wanted.program
    with pytest.raises(InputError) as caught:
        jobs.prepare(plan, cluster.roster, RunRequest("validation", "look", settings=("matmull.seconds=1",)))
    assert "validation: knows no program 'matmull': did you mean matmul?" in str(caught.value)


def ended(plan: Plan, name: str, event: Any = None, code: str = "") -> None:
    folder(plan, name).mkdir(parents=True)
    told = {"version": 1, "workload": "training", "nodes": 2, "user": "root", "options": {}}
    (folder(plan, name) / "run.json").write_text(json.dumps(told))
    if event:
        (folder(plan, name) / "events.jsonl").write_text('{"what": "start"}\n' + json.dumps(event) + "\n")
    if code:
        (folder(plan, name) / "exit").write_text(code)


def test_states_of_runs(cluster: StandIn, plan: Plan) -> None:
    """A run's own record counts first, then Slurm's state, then the exit code; otherwise the state is unknown."""
    ended(plan, "well", {"what": "end", "why": "finished"})
    ended(plan, "moved", {"what": "end", "why": "preempted", "text": "its time limit was reached"})
    ended(plan, "broken", {"what": "end", "why": "failed", "text": "out of memory"})
    ended(plan, "validated", code="0\n")
    ended(plan, "crashed", code="139\n")
    ended(plan, "lost")
    ended(plan, "late")
    (folder(plan, "strange")).mkdir()
    cluster.jobs(
        [
            queued("late", "TIMEOUT"),
            queued("now", "PENDING", "Priority", number=9),
            queued("other", "RUNNING", comment="mine", number=10),
        ]
    )
    found = {job.name: (job.state, job.why) for job in jobs.listed(plan, cluster.roster)}
    assert found == {
        "now": ("waiting", "other jobs are more urgent, or came first"),
        "well": ("finished", ""),
        "moved": ("stopped", "its time limit was reached"),
        "broken": ("failed", "out of memory"),
        "validated": ("finished", ""),
        "crashed": ("failed", "exit code 139"),
        "lost": ("unknown", "its end is not recorded"),
        "late": ("failed", "its time limit was reached"),
        "other": ("running", ""),
    }


def test_a_run_that_goes_on_with_fewer_nodes(cluster: StandIn, plan: Plan) -> None:
    """The nodes lost since the last start are listed until the run ends."""
    folder(plan).mkdir(parents=True)
    (folder(plan) / "run.json").write_text(json.dumps({"workload": "training", "nodes": 3}))
    lost = [
        {"at": 1, "what": "start"},
        {"at": 2, "what": "failure", "kind": "node", "node": "gpu-009"},
        {"at": 3, "what": "start"},
        {"at": 4, "what": "failure", "kind": "rank", "node": "gpu-001"},
        {"at": 5, "what": "failure", "kind": "node", "node": "gpu-003, gpu-002"},
        {"at": 6, "what": "step", "step": 1},
    ]
    text = "".join(f"{json.dumps(each)}\n" for each in lost)
    (folder(plan) / "events.jsonl").write_text(f'{text}{{"at": 7, "what": "failure", "kind"')
    for job, why in (("RUNNING", "goes on without gpu-[002-003]"), ("COMPLETING", "")):
        cluster.jobs([queued("demo", job)])
        assert [each.why for each in jobs.listed(plan, cluster.roster)] == [why]


def test_cancel(cluster: StandIn, plan: Plan) -> None:
    """Only a waiting or running job is cancelled, by its number."""
    cluster.jobs([queued("demo", "RUNNING", number=12)])
    assert jobs.cancel(plan, cluster.roster, "demo").id == 12
    assert (cluster.folder / "scancel").read_text() == "12\n"
    cluster.jobs([queued("demo", "CANCELLED", number=12)])
    assert jobs.cancel(plan, cluster.roster, "demo").state == "cancelled"
    assert (cluster.folder / "scancel").read_text() == "12\n"
    with pytest.raises(InputError, match="no run is called 'dema' on cluster local\n  hint: did you mean demo"):
        jobs.cancel(plan, cluster.roster, "dema")


class OfTeams:
    """A Kubernetes that knows these runs, each with its team."""

    def __init__(self, **known: State) -> None:
        self._known = known
        self.cancelled: list[str] = []

    def jobs(self) -> tuple[Job, ...]:
        return tuple(
            Job("demo", "training", state, f"{team}/demo", "", (), 2, None, "") for team, state in self._known.items()
        )

    def every_job(self, ended: bool) -> tuple[Job, ...]:  # noqa: ARG002
        return self.jobs()

    def cancel(self, job: Job) -> None:
        self.cancelled.append(str(job.id))


def test_runs_of_two_teams_with_one_name(cluster: StandIn, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are kept apart, and an ambiguous name is refused."""
    ended(plan, "demo", {"what": "end", "why": "preempted", "text": "cancelled"})
    scheduler = OfTeams(research="running", product="running")
    monkeypatch.setattr(jobs, "of_cluster", lambda *_: scheduler)
    assert [(job.id, job.state) for job in jobs.listed(plan, cluster.roster)] == [
        ("research/demo", "running"),
        ("product/demo", "running"),
    ]
    with pytest.raises(InputError) as caught:
        jobs.cancel(plan, cluster.roster, "demo")
    assert str(caught.value) == (
        "several runs are called demo: product/demo, research/demo\n  hint: name one by its id, as it stands here"
    )
    with pytest.raises(InputError, match=r"no run is called 'reserch/demo' .*\n  hint: did you mean research/demo"):
        jobs.cancel(plan, cluster.roster, "reserch/demo")
    assert scheduler.cancelled == []
    assert jobs.cancel(plan, cluster.roster, "product/demo").id == "product/demo"
    assert scheduler.cancelled == ["product/demo"]


def test_folder_counts_only_for_a_run_of_unique_name(
    cluster: StandIn, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of two teams with the same name are shown as Kubernetes knows them; a single run also as its folder does."""
    ended(plan, "demo", {"what": "end", "why": "preempted", "text": "cancelled"})
    monkeypatch.setattr(jobs, "of_cluster", lambda *_: OfTeams(research="failed", product="running"))
    assert [(job.id, job.state) for job in jobs.listed(plan, cluster.roster)] == [
        ("product/demo", "running"),
        ("research/demo", "failed"),
    ]
    monkeypatch.setattr(jobs, "of_cluster", lambda *_: OfTeams(research="failed"))
    assert [(job.id, job.state) for job in jobs.listed(plan, cluster.roster)] == [("research/demo", "stopped")]
    [piece] = jobs.follow(plan, cluster.roster, "research/demo", live=False)
    assert (piece.job.id, piece.job.state) == ("research/demo", "stopped")


def test_following(cluster: StandIn, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line is printed once, to the very last."""
    monkeypatch.setattr(jobs, "_POLL_S", 0.01)
    ended(plan, "demo")
    log = folder(plan) / "log"
    log.write_text("one\ntw")
    running, over = queued("demo", "RUNNING"), queued("demo", "COMPLETED")
    cluster.jobs([running], [running], [over])
    said = []
    for number, piece in enumerate(jobs.follow(plan, cluster.roster, "demo", live=True)):
        said.append((piece.job.state, piece.log))
        log.write_text(["one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\n"][number])
    assert said == [("running", "one\ntw"), ("running", "o\n"), ("finished", "three\n")]
