"""Messages during a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stampworks_train import record
from training.agent import Agent
from training.journal import WATCHED, Journal
from training.settings import Settings
from validation.ranks import Cluster, Node, Ranks


def stepped(step: int, copying: float) -> dict[str, Any]:
    stalled = {"data": 0.0, "snapshot": copying, "checkpoint": 0.0}
    figures = {"loss": 1.0, "tokens": 10, "seconds": 1.0, "rate": 0.1, "norm": 1.0}
    return {"step": step, "stalled": stalled, "saves": False, "copying": copying, **figures}


@pytest.mark.parametrize(("copying", "said"), [(0.05, 0), (0.3, 1)])
def test_copies_that_are_slower_than_steps_are_said_once(copying: float, said: int, tmp_path: Path) -> None:
    """Slow copies at the beginning do not count."""
    journal = Journal(Settings(name="it", folder=str(tmp_path)))
    journal.stepped(1, stepped(1, 2 * copying))
    for step in range(2, 3 * WATCHED):
        journal.stepped(1, stepped(step, copying))
    journal.close("finished")
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    notices = [event["text"] for event in events if event["what"] == "notice"]
    assert len(notices) == said
    if said:
        assert notices[0].startswith(
            "second copies of snapshots take longer than steps, of which the last 20 waited 31%: the option copies"
        )
        assert [event["what"] for event in events].index("notice") == WATCHED


def test_memory_of_an_accelerator_is_written_where_a_rank_told_it(tmp_path: Path) -> None:
    """A record of it has the memory of each step."""
    journal = Journal(Settings(name="it", folder=str(tmp_path)))
    journal.stepped(1, stepped(1, 0.0))
    journal.stepped(1, {**stepped(2, 0.0), "memory": 5 << 30})
    journal.close("finished")
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event.get("memory") for event in events if event["what"] == "step"] == [None, 5 << 30]
    assert [point.get("memory") for point in record.record(events)["curve"]] == [None, 5 << 30]


@pytest.mark.parametrize(
    ("copies", "rails", "where"),
    [
        ("rail", ("10.1.0.5", "10.2.0.5"), "10.1.0.5"),
        ("management", ("10.1.0.5",), "10.77.0.5"),
        ("rail", (), "10.77.0.5"),
    ],
)
def test_second_copies_go_by_the_first_rail(copies: str, rails: tuple[str, ...], where: str) -> None:
    """The first rail is used if the node has one, unless the other network is chosen; agents always meet on the
    management network."""
    cluster = Cluster(nodes=(Node("n0", "10.77.0.5", rails),), rails=("rail0", "rail1"))
    settings = Settings(name="it", folder="/nowhere", copies=copies, cluster=cluster)
    agent = Agent(settings, Ranks(cluster, {"NODE_NAME": "n0"}))
    assert (agent.keeps_at, agent.address) == (where, "10.77.0.5")


def test_a_way_for_copies_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="knows no way 'pigeon' for copies: it has rail, management"):
        Settings(name="it", folder="/nowhere", copies="pigeon")


def test_a_checkpoint_costs_what_it_makes_slower_too(tmp_path: Path) -> None:
    """The cost counts for this attempt and the next one, which reads it from the events."""
    saved = {"step": 1, "seconds": 1.0, "blocked_s": 0.1, "slowed_s": 0.3, "bytes": 1, "folder": "f"}
    for attempt in (1, 2):
        journal = Journal(Settings(name="it", folder=str(tmp_path)))
        journal.write("start", name="it", attempt=attempt, nodes=1, settings={})
        if attempt == 1:
            journal.saved(saved)
        journal._saved -= 3600
        assert journal.wants_checkpoint()
        journal.close("finished")
        events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
        assert [event for event in events if event["what"] == "interval"][-1]["why"].startswith(
            "a checkpoint costs 0.4 s (median of the last 1); "
        )
