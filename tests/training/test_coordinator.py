"""The coordinator and its members, as agents that only exchange messages, without ranks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from stampworks_train.wire import connect
from training.coordinator import FAILED, FINISHED, LOST, Coordinator
from training.journal import Journal
from training.settings import Patience, Settings

SECRET = "of these tests"
Answers = Callable[["Talker", dict[str, Any]], list[dict[str, Any]]]
"""Answer of an agent when a generation is formed."""


@dataclass
class Talker:
    """An agent of a single rank, as the coordinator sees it."""

    place: int
    answers: Answers
    formed: list[int] = field(default_factory=list)
    """Number of ranks of each generation in which it took part."""
    ended: int | None = None

    async def talk(self, port: int) -> None:
        wire = await connect("127.0.0.1", port, SECRET, 10)
        wire.say({"node": f"n{self.place}", "place": self.place, "ranks": 1, "keeper": ["127.0.0.1", 1]})
        while message := await wire.hear():
            if message["do"] == "form":
                self.formed.append(message["world"])
                of = {"generation": message["generation"], "rank": message["seats"][0]["rank"]}
                for answer in self.answers(self, message):
                    wire.say({**of, **answer})
            elif message["do"] == "stop":
                wire.say({"what": "ended", "held": []})
            elif message["do"] == "end":
                self.ended = message["code"]
                break
        wire.close()


def through(self: Talker, message: dict[str, Any]) -> list[dict[str, Any]]:
    ready = {"what": "ready", "pid": 1, "step": 0, "source": "nothing", "about": {}, "passed_over": []}
    return [ready, {"what": "finished", "step": 1, "digest": "00"}]


def broken(self: Talker, message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"what": "gone", "text": "killed by SIGBUS"}]


def conducted(
    folder: Path, answers: list[Answers], change: Callable[[Coordinator], object] = lambda each: None, **settings: Any
) -> tuple[int, list[Talker], list[dict[str, Any]]]:
    """Return the end of the run, the agents, and the events."""
    told = Settings("demo", str(folder), ranks=1, **settings)
    talkers = [Talker(place, answer) for place, answer in enumerate(answers)]

    async def run() -> int:
        coordinator = Coordinator(told, Journal(told), SECRET, len(talkers))
        change(coordinator)
        port = await coordinator.open("127.0.0.1")
        async with asyncio.timeout(60):
            talking = asyncio.gather(*(each.talk(port) for each in talkers))
            code = await coordinator.run()
            await talking
        return code

    code = asyncio.run(run())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return code, talkers, events


def test_a_node_that_breaks_two_generations_is_left_behind(tmp_path: Path) -> None:
    """Its device may be broken: the others continue, and it is told to end."""
    code, (first, second, third), events = conducted(tmp_path, [through, broken, through])
    assert code == FINISHED
    assert (first.formed, second.formed, third.formed) == ([3, 3, 2], [3, 3], [3, 3, 2])
    assert (first.ended, second.ended, third.ended) == (FINISHED, FAILED, FINISHED)
    said = [event["text"] for event in events if event["what"] == "notice"]
    assert said == ["n1 has broken two generations one after the other, and is left behind"]
    assert [event["node"] for event in events if event["what"] == "failure"] == ["n1", "n1"]


def test_nodes_that_break_generations_by_turns_are_not_left_behind(tmp_path: Path) -> None:
    """No node is to blame for any such failures: after three of them the run ends."""

    def one_by_one(self: Talker, message: dict[str, Any]) -> list[dict[str, Any]]:
        return broken(self, message) if self.place == message["generation"] % 3 else through(self, message)[:1]

    code, talkers, events = conducted(tmp_path, [one_by_one] * 3)
    assert code == FAILED
    assert [each.formed for each in talkers] == [[3, 3, 3]] * 3
    assert events[-1]["text"].startswith("3 times in a row no step was completed; the last time: rank 0 on n0:")


def test_a_coordinator_that_breaks_ends_the_run(tmp_path: Path) -> None:
    """All agents end, and the message names the fault."""

    def breaks(coordinator: Coordinator) -> None:
        def ready(*_: Any) -> None:
            raise KeyError("pid")

        vars(coordinator)["_ready"] = ready

    code, talkers, events = conducted(tmp_path, [through, through], breaks)
    assert code == FAILED
    assert [each.ended for each in talkers] == [FAILED, FAILED]
    assert (events[-1]["what"], events[-1]["why"]) == ("end", "failed")
    assert events[-1]["text"] == "the coordinator broke: KeyError: 'pid'"


def test_checkpoints_that_take_longer_than_there_may_be(tmp_path: Path) -> None:
    """The scheduler's notice must suffice for a checkpoint: the message appears once, with a remedy."""

    def saves(self: Talker, message: dict[str, Any]) -> list[dict[str, Any]]:
        ready, finished = through(self, message)
        more = {"slowed_s": 0.0, "bytes": 1, "folder": "f"}
        saved = [{"what": "checkpoint", "step": 1, "seconds": took, "blocked_s": 0.1, **more} for took in (29, 31, 40)]
        return [ready, *saved, finished]

    _, _, events = conducted(tmp_path, [saves])
    [said] = [event["text"] for event in events if event["what"] == "notice"]
    assert said.startswith("a checkpoint takes 31 s, and the scheduler says 60 s before that time is up: a torn one")
    assert said.endswith("submit it again with --set notice_s=124")


@pytest.mark.parametrize("there", [1, 2])
def test_nodes_that_never_come(tmp_path: Path, there: int) -> None:
    """Present nodes are named, and told to end."""

    def more(coordinator: Coordinator) -> None:
        coordinator.nodes = 3

    code, talkers, events = conducted(tmp_path, [through] * there, more, patience=Patience(start=1.0))
    assert code == FAILED
    assert {each.ended for each in talkers} == {FAILED}
    came = ", ".join(f"n{place}" for place in range(there))
    assert events[-1]["text"] == f"3 nodes were to come within 1 s, and there are: {came}"


@pytest.mark.parametrize(
    ("job", "code", "why"), [("this", LOST, "preempted"), ("another", FAILED, "failed"), ("", FAILED, "failed")]
)
def test_a_job_that_has_lost_a_node_and_is_resumed_makes_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, code: int, why: str
) -> None:
    """Kubernetes starts none of its programs again that have failed: it would wait for ever, and all others with it."""
    before = [
        {"at": 1.0, "what": "start", "name": "demo", "attempt": 1, "nodes": 3, "job": "this", "settings": {}},
        {"at": 2.0, "what": "failure", "kind": "node", "node": "n2", "rank": None, "step": 5, "text": "it is gone"},
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in before))
    monkeypatch.setenv("JOB_ID", job)

    def more(coordinator: Coordinator) -> None:
        coordinator.nodes = 3

    ended, talkers, events = conducted(tmp_path, [through] * 2, more, patience=Patience(start=1.0))
    assert ended == code
    assert {each.ended for each in talkers} == {code}
    assert events[-1]["why"] == why
    told = "3 nodes were to come within 1 s, and there are: n0, n1"
    more_told = ": this job had lost a node, and another one is to have all of them" if code == LOST else ""
    assert events[-1]["text"] == told + more_told
