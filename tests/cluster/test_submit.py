"""Runs on a real cluster: submitted, followed, cancelled and continued."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from stampworks.clouds.faults import Injected
from stampworks.clouds.local import faults
from stampworks.machine_room.nodes import power_on
from stampworks.machine_room.room import of_cluster
from stampworks.plan import Plan

from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster

TINY = [
    *("--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.length=32"),
    *("--set", "batch=4", "--set", "data.source=synthetic"),
]
RUNS = "/shared/runs"
SCHEDULER = """\
    fabric: {rail_rate_mbps: 50}
    scheduler:
      drain_timeout_minutes: 1
      protect: false
      preemption: requeue
      queues:
        - {name: main, pools: [gpu], default: true, priority: normal}
        - {name: urgent, pools: [gpu], priority: high}
      priorities:
        - {name: normal, weight: 100}
        - {name: high, weight: 200, preempts: [normal]}
"""
ROOM = """\
nodes: 3
retry: 2
secrets: [{name: TOKEN}]
run: |
  saved="$CHECKPOINT_PATH/$NODE_RANK"
  if [ -e "$saved" ]; then echo "goes on, ${#TOKEN}"; exit 0; fi
  trap 'echo 1 >"$saved"; exit 3' TERM
  echo begins
  sleep 300 & wait
"""
LONG_S = 180
"""Time limit for any wait, also on a busy machine."""


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    """Three nodes, a shared directory, and a queue whose jobs preempt others."""
    stack.edit("count: 2", "count: 3")
    stack.edit("    scheduler: {drain_timeout_minutes: 1, protect: false}\n", SCHEDULER)
    stack.up()
    return stack


def asked(stack: Stack, *argv: str) -> Any:
    done = stack.stampworks(argv[0], "-s", "test", *argv[1:], "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def events(stack: Stack, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stack.shell("head", f"cat {RUNS}/{name}/events.jsonl || true").splitlines()]


def wait_for(stack: Stack, name: str, true: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LONG_S
    while not (found := true()):
        assert time.monotonic() < deadline, stack.shell("head", f"squeue --all; sinfo; cat {RUNS}/{name}/log || true")
        time.sleep(0.5)
    return found


def told(stack: Stack, name: str, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in events(stack, name) if event["what"] in kinds]


def until(stack: Stack, name: str, wanted: int) -> None:
    """Waits for a step of a run."""
    wait_for(stack, name, lambda: any(event["step"] >= wanted for event in told(stack, name, "step")))


def of_run(stack: Stack, name: str) -> dict[str, Any]:
    """Return the entry of `stampworks jobs` for a run."""
    [found] = [job for job in asked(stack, "jobs")["jobs"] if job["name"] == name]
    return dict(found)


def soon(stack: Stack, name: str) -> None:
    """Skip the two minutes that Slurm makes a requeued job wait.

    This happens after its nodes are through with it: a late message about the earlier attempt would end the next one.
    It also happens in another second: a node refuses a credential as old as the revoked one, and the job would end
    silently.
    """
    job = of_run(stack, name)["id"]
    wait_for(stack, name, lambda: "PENDING" in stack.shell("head", f"squeue --noheader --jobs={job} --format=%T"))
    wait_for(stack, name, lambda: not stack.shell("head", "squeue --noheader --states=completing").strip())
    stack.shell("head", f"scontrol update jobid={job} starttime=now+2")


def through(stack: Stack, name: str) -> dict[str, Any]:
    """Follow a run to its end, which must be a success; return its record."""
    followed = stack.stampworks("logs", name, "--follow", "-s", "test")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert of_run(stack, name)["state"] == "finished"
    record: dict[str, Any] = json.loads(stack.shell("head", f"cat {RUNS}/{name}/record.json"))
    bins = record["account"]["bins"]
    assert sum(bins.values()) == pytest.approx(record["account"]["wall_s"], abs=1e-3)
    return record


def well(stack: Stack) -> bool:
    return stack.shell("head", "sinfo --noheader --format=%T").split() in (["idle"], ["idle", "idle"])


def test_a_validation(slurm: Stack) -> None:
    """Results are in the folder of the run and in its log."""
    settings = ["--set", "limits={}", "--set", "clocks={}"]
    found = asked(slurm, "submit", "validation", "look", *settings, "--nodes", "2", "--wait")
    assert (found["state"], found["nodes"], found["folder"]) == ("finished", 2, f"{RUNS}/look"), found
    assert found["warnings"] == [
        "cluster " + slurm.cluster + " was never proven: its declaration says proof.level: none"
    ]
    files = slurm.shell("head", f"ls {RUNS}/look/results").split()
    assert files == ["clocks.0.json", "limits.0.json", "limits.1.json"]
    said = slurm.stampworks("logs", "-s", "test", "look")
    assert said.returncode == 0
    assert "limits" in said.stdout
    assert of_run(slurm, "look")["state"] == "finished"


def test_a_training(slurm: Stack) -> None:
    """The run ends while its log is followed, and leaves its results."""
    asked(slurm, "submit", "training", "demo", *TINY, "--set", "steps=20")
    followed = slurm.stampworks("logs", "-s", "test", "demo", "--follow")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "run demo: step 20/20, loss " in followed.stderr
    assert followed.stderr.endswith("run demo: finished\n")
    assert [event["why"] for event in events(slurm, "demo") if event["what"] == "end"] == ["finished"]
    assert of_run(slurm, "demo")["state"] == "finished"


def test_cancelled_and_gone_on_with(slurm: Stack) -> None:
    """A run that is asked to stop saves, and a second submission continues it."""
    wanted = ["training", "stopped", *TINY, "--set", "steps=100", "--set", "pace_s=0.3"]
    asked(slurm, "submit", *wanted)
    until(slurm, "stopped", 5)
    busy = slurm.stampworks("submit", "-s", "test", *wanted)
    assert busy.returncode == 1
    assert "run stopped is still running or waiting: job " in busy.stderr
    asked(slurm, "cancel", "stopped")
    ended = slurm.stampworks("logs", "-s", "test", "stopped", "--follow")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("run stopped: stopped"), ended.stderr
    done = max(event["step"] for event in events(slurm, "stopped") if event["what"] == "step")
    found = asked(slurm, "submit", *wanted, "--wait")
    assert (found["state"], found["resumes"]) == ("finished", True)
    begun = [event for event in events(slurm, "stopped") if event["what"] == "ready"]
    assert [(event["step"], event["source"]) for event in begun] == [(0, "nothing"), (done, "checkpoint")]
    assert not [event for event in events(slurm, "stopped") if event["what"] == "failure"]


@pytest.mark.long
def test_time_is_up(stamped: Stack) -> None:
    """Slurm signals the batch script, and this the agents; the job is requeued and continues."""
    asked(stamped, "submit", "training", "long", *TINY, "--set", "steps=100", "--set", "pace_s=0.3")
    until(stamped, "long", 5)
    job = of_run(stamped, "long")
    # Slurm sends this signal a minute before the end
    stamped.shell("head", f"scancel --batch --signal=USR1 {job['id']}")
    wait_for(stamped, "long", lambda: told(stamped, "long", "preempted"))
    soon(stamped, "long")
    through(stamped, "long")
    assert of_run(stamped, "long")["id"] == job["id"]


@pytest.fixture
def mended(stamped: Stack) -> Iterator[Stack]:
    """Yield a stack; nodes that a test has lost are restored afterwards."""
    wait_for(stamped, "", lambda: well(stamped))
    yield stamped
    dead = [name for name, node in stamped.nodes().items() if node["state"] == "dead"]
    with stamped.entered():
        for name in dead:
            power_on(of_cluster(stamped.cluster), name)
    wait_for(stamped, "", lambda: well(stamped))


@pytest.mark.long
def test_a_node_is_lost(mended: Stack) -> None:
    """The others continue from memory, at most a step later; log and record name the lost node."""
    asked(mended, "submit", "training", "smaller", *TINY, "--set", "steps=80", "--set", "pace_s=0.3")
    until(mended, "smaller", 5)
    *_, last = told(mended, "smaller", "generation")[0]["nodes"]
    mended.kill(last)
    record = through(mended, "smaller")
    [failure] = record["failures"]
    assert (failure["kind"], failure["node"], failure["source"]) == ("node", last, "memory")
    assert failure["lost_steps"] <= 1
    assert [(each["world"], each["nodes"]) for each in record["generations"]] == [(3, 3), (2, 2)]
    assert [attempt["end"] for attempt in record["attempts"]] == ["finished"]
    assert (
        f"failure of a node after step {failure['step']}: {last}"
        in mended.stampworks("logs", "smaller", "-s", "test").stdout
    )


@pytest.mark.long
def test_the_first_node_is_lost(mended: Stack) -> None:
    """Coordinator and batch script are lost, too: the job is requeued, and continues elsewhere from the newest
    checkpoint."""
    often = ["--set", "steps=100", "--set", "pace_s=0.3", "--set", "checkpoints.every_s=1", "--nodes", "2"]
    asked(mended, "submit", "training", "moved", *TINY, *often)
    wait_for(mended, "moved", lambda: len(told(mended, "moved", "checkpoint")) > 1)
    first, _ = told(mended, "moved", "generation")[0]["nodes"]
    mended.kill(first)
    soon(mended, "moved")
    record = through(mended, "moved")
    _, two = begun = told(mended, "moved", "ready")
    assert [event["source"] for event in begun] == ["nothing", "checkpoint"]
    saved = [event["step"] for event in told(mended, "moved", "checkpoint") if event["at"] < two["at"]]
    assert two["step"] == saved[-1]
    assert first not in [node for node, _ in two["ranks"]]
    [failure] = record["failures"]
    assert (failure["kind"], failure["source"]) == ("job", "checkpoint")
    assert [attempt["end"] for attempt in record["attempts"]] == ["", "finished"]
    assert len({attempt["job"] for attempt in record["attempts"]}) == 1
    assert record["account"]["bins"]["queue"] > 0
    assert record["account"]["step"] == 100


@pytest.mark.long
def test_a_more_urgent_job(mended: Stack) -> None:
    """The run makes room: it saves, is requeued, and continues at the saved step."""
    asked(mended, "submit", "training", "pushed", *TINY, "--set", "steps=100", "--set", "pace_s=0.3")
    until(mended, "pushed", 5)
    urgent = "sbatch --parsable --partition=urgent --nodes=3 --exclusive --output=/dev/null --wrap='sleep 5'"
    number = mended.shell("head", f"cd /; {urgent}")
    wait_for(mended, "pushed", lambda: told(mended, "pushed", "preempted"))
    wait_for(mended, "pushed", lambda: not mended.shell("head", f"squeue --noheader --jobs={number} || true"))
    soon(mended, "pushed")
    record = through(mended, "pushed")
    [stopped] = told(mended, "pushed", "preempted")
    begun = told(mended, "pushed", "ready")
    assert [(event["source"], event["step"]) for event in begun] == [("nothing", 0), ("checkpoint", stopped["step"])]
    assert [attempt["end"] for attempt in record["attempts"]] == ["preempted", "finished"]
    assert record["failures"] == []
    assert record["account"]["steps_lost"] == 0
    assert record["account"]["bins"]["queue"] >= 5


@pytest.mark.long
def test_a_job_of_a_user_makes_room(mended: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job gets SIGTERM, saves, and continues with its secret, like a bundled run."""
    (mended.folder / "room.yaml").write_text(ROOM)
    monkeypatch.setenv("TOKEN", "s3cr3t")
    asked(mended, "submit", "room.yaml", "--user", "root")
    wait_for(mended, "room.root", lambda: "begins" in mended.stampworks("logs", "room", "-s", "test").stdout)
    urgent = "sbatch --parsable --partition=urgent --nodes=3 --exclusive --output=/dev/null --wrap='sleep 5'"
    number = mended.shell("head", f"cd /; {urgent}")
    wait_for(mended, "room.root", lambda: not mended.shell("head", f"squeue --noheader --jobs={number} || true"))
    soon(mended, "room")
    followed = mended.stampworks("logs", "room", "--follow", "-s", "test")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert sorted(line[3:] for line in followed.stdout.splitlines() if "goes on" in line) == ["goes on, 6"] * 3


@pytest.mark.long
def test_a_rank_is_killed(mended: Stack) -> None:
    """The machine room kills it, and the run continues from memory. Without ranks nothing can be killed."""
    refused = mended.stampworks("fault", "inject", "rank-killed", "--node", "gpu-002", "-s", "test")
    assert refused.returncode != 0
    assert "gpu-002: cannot kill a rank: no training run has a rank here now" in refused.stderr
    asked(mended, "submit", "training", "killed", *TINY, "--set", "steps=80", "--set", "pace_s=0.3")
    until(mended, "killed", 5)
    with mended.entered():  # the command line would be too slow for such a small run
        faults.inject(cast(Plan, SimpleNamespace(name=mended.cluster)), Injected("rank-killed", "gpu-002", "", None))
    record = through(mended, "killed")
    [failure] = record["failures"]
    assert (failure["kind"], failure["node"], failure["source"]) == ("rank", "gpu-002", "memory")
    assert failure["lost_steps"] <= 1


@pytest.mark.long
def test_a_rank_hangs(mended: Stack) -> None:
    """No step within the time limit: all ranks are restarted, and continue from memory."""
    slowly = ["--set", "steps=60", "--set", "pace_s=0.3", "--set", "patience.step=20"]
    asked(mended, "submit", "training", "hanging", *TINY, *slowly)
    until(mended, "hanging", 5)
    node, process = told(mended, "hanging", "ready")[0]["ranks"][1]
    mended.shell(node, f"kill -STOP {process}")
    record = through(mended, "hanging")
    [failure] = record["failures"]
    assert (failure["kind"], failure["source"]) == ("hang", "memory")
    assert failure["text"] == "it makes no step for 20 s"
    assert failure["lost_steps"] <= 1


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("rm {}", "is missing"),
        ("sed -i 's/ t/ d/g' {}", "corrupt"),
    ],
)
@pytest.mark.long
def test_data_that_a_node_lacks(mended: Stack, harm: str, words: str) -> None:
    """The end names the nodes that lack data; nothing is tried again, and no checkpoint is left."""
    name = "data-" + harm[:2]
    folder = f"/var/tmp/{name}"
    program = "cd /usr/local/lib/stampworks/workloads && python3 -m training"
    make = (
        f"{program}.corpus /var/tmp/{name}.txt --pages 4 && {program}.shards /var/tmp/{name}.txt {folder} --tokens 33"
    )
    nodes = ["gpu-001", "gpu-002", "gpu-003"]
    for node in nodes:
        mended.shell(node, make)
    shard = f"{folder}/shard-000000.tar"
    mended.shell(nodes[1], harm.format(shard))
    asked(mended, "submit", "training", name, *TINY[:-2], "--set", f"data.source={folder}", "--set", "steps=20")
    followed = mended.stampworks("logs", name, "--follow", "-s", "test")
    assert followed.returncode == 1, followed.stdout + followed.stderr
    [end] = told(mended, name, "end")
    assert end["why"] == "failed"
    for said in (f"rank 1 on {nodes[1]}", shard, words, "bring it there again"):
        assert said in end["text"]
    assert end["text"] in of_run(mended, name)["why"]
    assert len(told(mended, name, "generation")) == 1
    assert told(mended, name, "checkpoint") == []


def test_as_a_user(slurm: Stack) -> None:
    """Files belong to the user of the run; runs of other users with this name are not touched."""
    wanted = ["validation", "hers", "--set", "limits={}", "--user", "alice"]
    assert asked(slurm, "submit", *wanted, "--wait")["state"] == "finished"
    assert set(slurm.shell("head", f"stat -c %U {RUNS}/hers {RUNS}/hers/*").split()) == {"alice"}
    refused = slurm.stampworks("submit", "-s", "test", *wanted[:-2])
    assert refused.returncode != 0
    assert f"{RUNS}/hers belongs to another user" in refused.stderr
