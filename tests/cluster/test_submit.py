"""Runs on a real cluster: submitted, followed, cancelled, gone on with."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cluster.conftest import Stack

pytestmark = pytest.mark.cluster

TINY = [
    *("--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.length=32"),
    *("--set", "batch=4", "--set", "data.source=synthetic"),
]
RUNS = "/shared/runs"


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    """Two nodes and a shared directory."""
    stack.up()
    return stack


def asked(stack: Stack, *argv: str) -> Any:
    done = stack.stampworks(argv[0], "-s", "test", *argv[1:], "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def state(stack: Stack, name: str) -> str:
    [found] = [job["state"] for job in asked(stack, "jobs")["jobs"] if job["name"] == name]
    return str(found)


def events(stack: Stack, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stack.shell("head", f"cat {RUNS}/{name}/events.jsonl || true").splitlines()]


def until(stack: Stack, name: str, wanted: int) -> None:
    """Waits for a step of a run."""
    deadline = time.monotonic() + 120
    while not any(event.get("step", 0) >= wanted for event in events(stack, name) if event["what"] == "step"):
        assert time.monotonic() < deadline, stack.shell("head", f"cat {RUNS}/{name}/log")
        time.sleep(0.5)


def test_a_validation(stamped: Stack) -> None:
    """Its results lie in the folder of the run, and its log says them again."""
    settings = ["--set", "limits={}", "--set", "clocks={}"]
    found = asked(stamped, "submit", "validation", "look", *settings, "--wait")
    assert (found["state"], found["nodes"], found["folder"]) == ("finished", 2, f"{RUNS}/look"), found
    assert found["warnings"] == [
        "cluster " + stamped.cluster + " was never proven: its declaration says proof.level: none"
    ]
    files = stamped.shell("head", f"ls {RUNS}/look/results").split()
    assert files == ["clocks.0.json", "limits.0.json", "limits.1.json"]
    said = stamped.stampworks("logs", "-s", "test", "look")
    assert said.returncode == 0
    assert "limits" in said.stdout
    assert state(stamped, "look") == "finished"


def test_a_training(stamped: Stack) -> None:
    """It runs to its end while its log is followed, and leaves what its user needs."""
    asked(stamped, "submit", "training", "demo", *TINY, "--set", "steps=20")
    followed = stamped.stampworks("logs", "-s", "test", "demo", "--follow")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "run demo: step 20/20, loss " in followed.stderr
    assert followed.stderr.endswith("run demo: finished\n")
    assert [event["why"] for event in events(stamped, "demo") if event["what"] == "end"] == ["finished"]
    assert state(stamped, "demo") == "finished"


def test_cancelled_and_gone_on_with(stamped: Stack) -> None:
    """A run that is told to stop saves what it has, and the same again goes on behind it."""
    wanted = ["training", "stopped", *TINY, "--set", "steps=1000"]
    asked(stamped, "submit", *wanted)
    until(stamped, "stopped", 5)
    busy = stamped.stampworks("submit", "-s", "test", *wanted)
    assert busy.returncode == 1
    assert "run stopped is at work: job " in busy.stderr
    asked(stamped, "cancel", "stopped")
    ended = stamped.stampworks("logs", "-s", "test", "stopped", "--follow")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("run stopped: stopped"), ended.stderr
    done = max(event["step"] for event in events(stamped, "stopped") if event["what"] == "step")
    found = asked(stamped, "submit", *wanted, "--wait")
    assert (found["state"], found["resumes"]) == ("finished", True)
    begun = [event for event in events(stamped, "stopped") if event["what"] == "ready"]
    assert [(event["step"], event["source"]) for event in begun] == [(0, "nothing"), (done, "checkpoint")]
    assert not [event for event in events(stamped, "stopped") if event["what"] == "failure"]


def test_time_is_up(stamped: Stack) -> None:
    """Slurm tells the batch script, that the agents; the job goes back into the queue and goes on."""
    asked(stamped, "submit", "training", "long", *TINY, "--set", "steps=1500")
    until(stamped, "long", 5)
    [job] = [each for each in asked(stamped, "jobs")["jobs"] if each["name"] == "long"]
    stamped.shell("head", f"scancel --batch --signal=USR1 {job['id']}")  # what Slurm does a minute before the end
    deadline = time.monotonic() + 60
    while not any(event["what"] == "preempted" for event in events(stamped, "long")):
        assert time.monotonic() < deadline, stamped.shell("head", f"cat {RUNS}/long/log")
        time.sleep(0.5)
    while state(stamped, "long") == "ending":
        time.sleep(0.5)
    [again] = [each for each in asked(stamped, "jobs")["jobs"] if each["name"] == "long"]
    assert again["id"] == job["id"]
    stamped.shell("head", f"scontrol update jobid={job['id']} starttime=now")
    followed = stamped.stampworks("logs", "-s", "test", "long", "--follow")
    assert followed.returncode == 0, followed.stdout + followed.stderr


def test_as_a_user(stamped: Stack) -> None:
    """Whose run it is, theirs are the files; nobody else's run of that name is touched."""
    stamped.edit("    storage:\n", "    users: [{name: alice, uid: 2001}]\n    storage:\n")
    stamped.up()
    wanted = ["validation", "hers", "--set", "limits={}", "--user", "alice"]
    assert asked(stamped, "submit", *wanted, "--wait")["state"] == "finished"
    assert set(stamped.shell("head", f"stat -c %U {RUNS}/hers {RUNS}/hers/*").split()) == {"alice"}
    refused = stamped.stampworks("submit", "-s", "test", *wanted[:-2])
    assert refused.returncode != 0
    assert f"{RUNS}/hers belongs to somebody else" in refused.stderr
