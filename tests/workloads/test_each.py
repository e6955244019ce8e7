"""Work on two simulated accelerators, each in a separate process: neither affects the other."""

from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path

import pytest
from validation.each import Begin, on_each
from validation.result import Answer

TWO = {"cuda:0": "first", "cuda:1": "second"}


def measure(folder: str, device: str, answer: Answer, begin: Begin) -> None:
    """Measure after both have started: each finds the other's mark."""
    if device == "second":
        time.sleep(0.3)  # an accelerator that initializes late
    Path(folder, device).touch()
    begin()
    answer.value("matmul_bf16", "TFLOP/s", float(len(list(Path(folder).iterdir()))), device=answer.device)
    answer.text("matmul_digest", f"1024 bf16 1 {answer.device}", device)
    answer.versions["torch"] = "2.6"


def breaks(how: str, device: str, answer: Answer, begin: Begin) -> None:
    """Measure two devices: the second fails as `how` says, before or after its measurement."""
    if device == "second" and how == "on waking":
        raise RuntimeError("no such device")
    begin()
    answer.value("matmul_bf16", "TFLOP/s", 700.0, device=answer.device)
    if device == "second" and how == "at work":
        raise RuntimeError("uncorrectable ECC error")
    if device == "second" and how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if device == "second" and how == "hangs":
        time.sleep(60)
    if device == "second" and how == "says so":
        answer.problem("of two products one is missing")


@pytest.fixture
def answer() -> Answer:
    return Answer("gpu-001")


def test_each_answers_for_itself(tmp_path: Path, answer: Answer) -> None:
    """Each has its own value and text, and all start together."""
    on_each(TWO, functools.partial(measure, str(tmp_path)), answer, 1.0)
    assert [(each.node, each.device, each.value) for each in answer.values] == [
        ("gpu-001", "cuda:0", 2.0), ("gpu-001", "cuda:1", 2.0)
    ]  # fmt: skip
    assert [(each.name, each.text) for each in answer.texts] == [
        ("1024 bf16 1 cuda:0", "first"), ("1024 bf16 1 cuda:1", "second")
    ]  # fmt: skip
    assert (answer.problems, answer.versions) == ([], {"torch": "2.6"})


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("on waking", "accelerator 1: RuntimeError: no such device"),
        ("at work", "accelerator 1: RuntimeError: uncorrectable ECC error"),
        ("killed", "accelerator 1: no answer: its process ended with code -9"),
        ("hangs", "accelerator 1: no answer within 3 s"),
    ],
)
def test_one_that_breaks_is_named_and_takes_nothing_along(
    how: str, what: str, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial measurement gives no value, and the other value stays."""
    monkeypatch.setattr("validation.each.LATE_S", 3.0)
    on_each(TWO, functools.partial(breaks, how), answer, 0.0 if how == "hangs" else 9.0)
    assert [(each.node, each.what) for each in answer.problems] == [("gpu-001", what)]
    assert [(each.device, each.value) for each in answer.values] == [("cuda:0", 700.0)]


def test_a_problem_bears_the_name_of_its_accelerator(answer: Answer) -> None:
    """An accelerator with a problem may also answer, and keeps its values."""
    on_each(TWO, functools.partial(breaks, "says so"), answer, 9.0)
    assert [each.what for each in answer.problems] == ["accelerator 1: of two products one is missing"]
    assert [each.device for each in answer.values] == ["cuda:0", "cuda:1"]


@pytest.mark.long
def test_one_that_never_wakes_is_named(answer: Answer) -> None:
    """The others are measured without it."""
    on_each(TWO, sleeps, answer, 9.0, coming=15.0)
    assert [each.what for each in answer.problems] == ["accelerator 1: no answer within 15 s"]
    assert [each.device for each in answer.values] == ["cuda:0"]


def sleeps(device: str, answer: Answer, begin: Begin) -> None:
    if device == "second":
        time.sleep(60)
    breaks("", device, answer, begin)
