"""Progress of a run in one line, from untrusted events."""

from __future__ import annotations

import json
from typing import Any

from stampworks.views.running import RunProgress


def told(*events: dict[str, Any]) -> RunProgress:
    running = RunProgress()
    running.take("".join(json.dumps(event) + "\n" for event in events))
    return running


def step(number: int, at: float, **more: Any) -> dict[str, Any]:
    return {"at": at, "what": "step", "step": number, "loss": 2.5, "tokens": 1000, "seconds": 1.0, **more}


START = {"at": 100.0, "what": "start", "settings": {"steps": 10}}


def test_before_the_first_step() -> None:
    """Unknown values are left out."""
    assert told().line() == ""
    assert told(START).line() == "step 0/10, starting"


def test_under_way() -> None:
    """Speed and remaining time come from the last steps, goodput from all of the time."""
    assert told(START, step(1, 102.0), step(2, 103.0), step(3, 104.0)).line() == (
        "step 3/10, loss 2.500, 1k tokens/s, 7 s left, goodput 75%"
    )


def test_a_failure() -> None:
    """A step that had to be done again counts once."""
    lost = {"at": 104.0, "what": "failure", "kind": "rank"}
    assert told(START, step(1, 102.0), step(2, 103.0), lost).line() == (
        "step 2/10, loss 2.500, 1k tokens/s, 8 s left, goodput 50%, 1 failure, going on without a rank"
    )
    again = told(START, step(1, 102.0), step(2, 103.0), lost, {"at": 105.0, "what": "generation"}, step(2, 108.0))
    assert again.line() == "step 2/10, loss 2.500, goodput 25%, 1 failure"


def test_waiting_for_data_is_no_useful_time() -> None:
    """The same holds for any other stall."""
    assert told(START, step(1, 102.0, stalled={"data": 0.5, "snapshot": 0.25})).line().endswith("goodput 12%")


def test_lines_that_come_in_halves() -> None:
    """The file is read while it is written."""
    text = json.dumps(START) + "\n" + json.dumps(step(4, 104.0)) + "\n"
    for cut in range(len(text)):
        running = RunProgress()
        running.take(text[:cut])
        running.take(text[cut:])
        assert running.line() == "step 4/10, loss 2.500, goodput 25%"


def test_unreadable_text_is_left_out() -> None:
    """No text of a node ends the command that shows it."""
    running = told(START, step(1, 102.0))
    strange = ["", "{", "[]", "null", '{"at": "x"}', '{"at": 1e999, "what": "step"}', "[" * 100_000]
    strange += [json.dumps({"at": 103.0, "what": "notice", "text": "x" * 100_000})]
    running.take("\n".join([*strange, ""]))
    values: list[Any] = ["x", None, [], True, 10**400, float("nan")]
    for value in values:
        running.take(json.dumps({"at": 103.0, "what": "step", "step": 2, "loss": value, "tokens": value}) + "\n")
    running.take(json.dumps({"at": 103.0, "what": "start", "settings": 7}) + "\n")
    assert running.line().startswith("step 2")
