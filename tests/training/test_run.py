"""Whole runs: they end with the same weights after any kill, stop on request, and report problems."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import Run, finished, running, until_gone

STEPS, BATCH = 24, 10
SETTINGS: dict[str, Any] = {"steps": STEPS, "batch": BATCH, "checkpoints": {"every_s": 600.0}}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished(tmp_path_factory.mktemp("undisturbed"), ranks=4, **SETTINGS)


def test_a_run_learns(undisturbed: Run) -> None:
    """Every step is reported once, in order; the loss falls; the remaining files say so."""
    assert [event["step"] for event in undisturbed.events("step")] == list(range(1, STEPS + 1))
    found = undisturbed.losses()
    assert found[STEPS] < 0.8 * found[1]
    assert undisturbed.last()["why"] == "finished"
    assert not list(undisturbed.folder.glob("meeting-*"))
    record = json.loads((undisturbed.folder / "record.json").read_text())
    assert record["state"] == "finished"
    assert record["account"]["parameters"] > 0
    assert [path.name for path in (undisturbed.folder / "checkpoints").iterdir()] == [f"step-{STEPS:08}"]


@pytest.mark.long
def test_a_run_keeps_its_pace(tmp_path: Path) -> None:
    """The flow of a run can be tried without its load."""
    run = finished(tmp_path, ranks=2, **{**SETTINGS, "steps": 4, "pace_s": 0.5})
    assert all(event["seconds"] >= 0.5 for event in run.events("step"))


def test_killed_ranks_cost_a_step_each_and_nothing_else(undisturbed: Run, tmp_path: Path) -> None:
    """A failure of any rank at any time repeats at most one completed step, and the weights are bit-identical."""
    chance = random.Random()  # noqa: S311
    with running(tmp_path, ranks=4, **SETTINGS) as run:
        for step in (5, 11, 17):
            run.until_step(step)
            run.kill_rank(chance.randrange(4))
            run.until(lambda: len(run.events("ready")) > len(run.events("failure")))
        codes, said = run.end()
    assert codes == [0], said
    assert run.last()["digest"] == undisturbed.last()["digest"]
    told = [event["step"] for event in run.events("step")]
    again = [step for step, before in zip(told[1:], told, strict=False) if step != before + 1]
    assert len(again) <= 3
    assert len(told) <= STEPS + 3
    failures = run.events("failure")
    assert [event["kind"] for event in failures] == ["rank"] * 3
    assert all("SIGKILL" in event["text"] for event in failures)
    assert [event["source"] for event in run.events("ready")] == ["nothing", "memory", "memory", "memory"]
    assert run.losses() == undisturbed.losses()


@pytest.mark.long
def test_a_lost_node_is_left_behind(undisturbed: Run, tmp_path: Path) -> None:
    """Another node has its part of the state: the rest continues from memory."""
    with running(tmp_path, nodes=3, ranks=1, **SETTINGS) as run:
        run.until_step(8)
        run.kill_node(1)
        codes, said = run.end()
    assert codes == [0, -signal.SIGKILL, 0], said
    [failure] = run.events("failure")
    assert (failure["kind"], failure["node"]) == ("node", "n1")
    before, after = run.events("ready")
    assert [node for node, _ in before["ranks"]] == ["n0", "n1", "n2"]
    assert [node for node, _ in after["ranks"]] == ["n0", "n2"]
    assert after["source"] == "memory"
    assert after["step"] >= failure["step"] - 1
    expected = undisturbed.losses()
    for step, loss in run.losses().items():
        assert loss == pytest.approx(expected[step], rel=1e-3), step


@pytest.mark.long
def test_a_lost_first_node_leaves_nobody_alone(undisturbed: Run, tmp_path: Path) -> None:
    """Without the coordinator the other agents end with a reason; a restart continues."""
    often = {**SETTINGS, "checkpoints": {"every_s": 0.1}, "patience": {"node": 2.0}}
    with running(tmp_path, nodes=3, ranks=1, **often) as run:
        run.until(lambda: len(run.events("checkpoint")) > 1)
        run.kill_node(0)
        codes, _ = run.end()
        assert codes == [-signal.SIGKILL, 69, 69], run.said
        assert [f"n{place}: the coordinator does not answer" in said for place, said in enumerate(run.said)] == [
            *(False, True, True)
        ]
        ranks = [pid for _, pid in run.events("ready")[0]["ranks"]]
        until_gone(ranks)
        saved = run.events("checkpoint")[-1]["step"]
        run.start()
        codes, said = run.end()
    assert codes == [0, 0, 0], said
    assert (run.events("ready")[-1]["source"], run.events("ready")[-1]["step"]) == ("checkpoint", saved)
    record = json.loads((run.folder / "record.json").read_text())
    assert [attempt["end"] for attempt in record["attempts"]] == ["", "finished"]
    assert [(each["kind"], each["source"]) for each in record["failures"]] == [("job", "checkpoint")]


def test_a_run_that_is_asked_to_stop_goes_on_later(undisturbed: Run, tmp_path: Path) -> None:
    """The run leaves a checkpoint, exits with 75, and a restart has the same result as an undisturbed run."""
    with running(tmp_path, ranks=4, **SETTINGS) as run:
        run.until_step(6)
        run.agents[0].send_signal(signal.SIGTERM)
        codes, said = run.end()
        assert codes == [75], said
        assert run.last()["why"] == "preempted"
        stopped = run.last()["step"]
        run.start()
        codes, said = run.end()
    assert codes == [0], said
    assert run.events("ready")[-1]["source"] == "checkpoint"
    assert run.events("ready")[-1]["step"] == stopped
    assert run.last()["digest"] == undisturbed.last()["digest"]
    assert [event["attempt"] for event in run.events("start")] == [1, 2]
    record = json.loads((run.folder / "record.json").read_text())
    assert [attempt["end"] for attempt in record["attempts"]] == ["preempted", "finished"]


@pytest.mark.parametrize(
    ("layout", "more"), [("ddp", {}), ("tp", {"tensor_parallel": 2}), ("hsdp", {}), ("fsdp", {"micro": 1})]
)
def test_layouts_learn_the_same(undisturbed: Run, tmp_path: Path, layout: str, more: dict[str, Any]) -> None:
    """This holds for any layout, and for any number of samples computed at once."""
    run = finished(tmp_path, ranks=4, layout=layout, **{**SETTINGS, "steps": 3, "warmup": 10}, **more)
    expected = undisturbed.losses()
    assert run.losses()[1] == pytest.approx(expected[1], rel=1e-5)


REFUSED = [
    (
        {"layout": "tp", "tensor_parallel": 4},
        "the layout does not fit: tensor_parallel 4 must divide the number of ranks",
    ),
    ({"learning_rate": 1e9, "clip": 1e9, "warmup": 0}, "try a lower learning_rate than 1000000000.0"),
    ({"data": {"source": "/nowhere"}}, "/nowhere"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_runs_that_cannot_continue_say_why(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    """The run is not retried, and the last message names the cause."""
    with running(tmp_path, **{**SETTINGS, **settings}) as run:
        codes, said = run.end()
    assert codes == [1], said
    assert run.last()["why"] == "failed"
    assert words in run.last()["text"]
    assert len(run.events("generation")) <= 1
    assert words in said
