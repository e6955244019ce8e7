"""Record of a run: whole, bounded, and safe to show."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from stampworks_train import record
from stampworks_train.record import POINTS_MAX
from stampworks_train.words import without_secrets

WORKLOADS = Path(__file__).parents[2] / "workloads"
SCHEMA = json.loads((WORKLOADS / "record.schema.json").read_text())
Event = dict[str, Any]


def a_run(steps: int = 20, failing: tuple[int, ...] = (), losses: dict[int, float] | None = None) -> Iterator[Event]:
    """Yield events with a second for each step and failure, without repeated steps."""
    told = {"settings": {"tracking": {"url": "https://me:secret@host/?token=abc&x=1"}}, "versions": {"python": "3.13"}}
    yield {"at": 0, "what": "start", "name": "run", "job": "7", "attempt": 1, "nodes": ["a", "b"], **told}
    yield {"at": 0, "what": "generation", "number": 1, "world": 4, "nodes": ["a", "b"], "source": "nothing", "step": 1}
    yield {"at": 0, "what": "ready", "number": 1, "device": "cpu", "backend": "gloo", "versions": {"torch": "2.6"}}
    at = 0
    for step in range(1, steps + 1):
        at += 1
        loss = (losses or {}).get(step, 5 + (step % 7) / 100)
        yield {
            "at": at,
            "what": "step",
            "step": step,
            "loss": loss,
            "tokens": 10,
            "seconds": 1,
            "rate": 1e-3,
            "norm": 1,
        }
        if step in failing:
            yield {
                "at": at,
                "what": "failure",
                "kind": "rank",
                "node": "b",
                "rank": 1,
                "step": step,
                "text": "signal 9",
            }
            at += 1
            yield {"at": at, "what": "generation", "number": step, "world": 4, "source": "memory", "step": step + 1}
            yield {"at": at, "what": "ready", "number": step}
    yield {
        "at": at,
        "what": "checkpoint",
        "step": steps,
        "blocked_s": 0.1,
        "seconds": 1,
        "bytes": 10,
        "folder": "step-1",
    }
    yield {"at": at, "what": "end", "why": "finished", "step": steps, "digest": "abc"}


def kept(found: dict[str, Any]) -> list[int]:
    return [point["step"] for point in found["curve"]]


def valid(found: Any) -> None:
    jsonschema.validate(json.loads(json.dumps(found, allow_nan=False)), SCHEMA)


def test_a_record_holds_to_its_schema() -> None:
    """This covers records of a whole, a partial, and an empty run."""
    events = list(a_run(3000, failing=(100, 200)))
    for found in (record.record(events), record.record(events[:50]), record.record([])):
        valid(found)
        assert sum(found["account"]["bins"].values()) == pytest.approx(found["account"]["wall_s"], abs=1e-6)
    told = [{**event, "memory": 5 << 30} if event["what"] == "step" else event for event in events]
    valid(record.record(told))
    with pytest.raises(jsonschema.ValidationError):
        valid(record.record(events) | {"version": 2})


def test_a_record_from_before_there_was_a_queue_is_one() -> None:
    """Records of the same version may lack later fields."""
    found = record.record(a_run())
    del found["account"]["bins"]["queue"]
    valid(found)


def test_a_record_says_how_it_went() -> None:
    """A record has versions, and the cost of each failure."""
    found = record.record(a_run(20, failing=(5,)))
    assert (found["name"], found["state"], found["digest"]) == ("run", "finished", "abc")
    assert (found["device"], found["backend"]) == ("cpu", "gloo")
    assert found["versions"] == {"python": "3.13", "torch": "2.6"}
    assert found["account"]["goodput"] == pytest.approx(20 / 21)
    where = {"at": 5, "kind": "rank", "node": "b", "rank": 1, "step": 5, "text": "signal 9", "source": "memory"}
    assert found["failures"] == [where | {"lost_steps": 0, "lost_s": 0, "restart_s": 1, "until_step_s": 2}]
    assert found["checkpoints"][0]["blocked_s"] == 0.1


def test_a_run_that_goes_on_is_open() -> None:
    """The record of a killed run is open, too."""
    assert record.record(list(a_run())[:-1])["state"] == "open"


def test_a_curve_is_thinned_where_nothing_happens() -> None:
    """First, last, extreme and non-numeric points stay, and the neighbours of failures."""
    nan = float("nan")
    found = record.record(a_run(50_000, failing=(777, 31_234), losses={12_345: 9.0, 23_456: 1.0, 40_001: nan}))
    steps = kept(found)
    assert len(steps) <= POINTS_MAX
    assert {1, 50_000, 12_345, 23_456, 40_001, 777, 778, 31_234, 31_235} <= set(steps)
    assert steps == sorted(set(steps))
    assert max(b - a for a, b in itertools.pairwise(steps)) < 300
    assert next(point["loss"] for point in found["curve"] if point["step"] == 40_001) is None
    assert found["curve"][-1]["tokens_per_s"] == pytest.approx(10)


def test_a_short_curve_is_whole() -> None:
    """Failures after each step do not shorten it."""
    assert kept(record.record(a_run(POINTS_MAX))) == list(range(1, POINTS_MAX + 1))
    found = record.record(a_run(2000, failing=tuple(range(1, 2001))))
    assert len(kept(found)) <= POINTS_MAX
    assert (len(found["failures"]), found["counts"]["failures"]) == (record.ITEMS_MAX, 2000)


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("http://me:secret@host:1/x", "http://...@host:1/x"),
        ("s3://b/x?X-Amz-Signature=abc&part=1", "s3://b/x?X-Amz-Signature=...&part=1"),
        ("https://a.blob/c?sv=1&sig=abc", "https://a.blob/c?sv=1&sig=..."),
        ("/a/plain@path", "/a/plain@path"),
    ],
)
def test_secrets_stay_behind(told: str, left: str) -> None:
    """This covers settings, notices and all other texts."""
    assert without_secrets({"a": [told, 1]}) == {"a": [left, 1]}
    events = [*a_run(), {"at": 99, "what": "notice", "text": told}]
    assert record.record(events)["notices"][-1]["text"] == left
    assert "secret@" not in json.dumps(record.record(events))


def test_a_record_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the earlier record stays, without a temporary file."""
    events = tmp_path / record.EVENTS
    events.write_text("".join(json.dumps(each) + "\n" for each in a_run()))
    path = record.write(tmp_path)
    before = path.read_bytes()
    valid(json.loads(before))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        record.write(tmp_path)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [record.EVENTS, record.RECORD]


def test_anybody_can_make_the_record_of_a_killed_run(tmp_path: Path) -> None:
    """The record needs only the run's folder; another folder is refused by name."""
    (tmp_path / record.EVENTS).write_text(json.dumps(next(a_run())) + '\n{"at": 1, "wh')
    command = [sys.executable, "-m", "stampworks_train.record"]
    found = subprocess.run([*command, str(tmp_path)], cwd=WORKLOADS, capture_output=True, text=True, check=True)
    assert found.stdout == f"{tmp_path / record.RECORD}\n"
    refused = subprocess.run([*command, "/nowhere"], cwd=WORKLOADS, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr == "record: /nowhere/events.jsonl: No such file or directory: no record is written\n"
