"""Run work on every accelerator of a node at once, each in its own process, as in training, where heat and power are
those of all of them.

An accelerator that breaks or never answers does not affect the results of others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from .result import Answer

COMING_S = 60.0
"""Seconds until torch is loaded, the accelerator is initialized and its data exist: the driver initializes one at a
time."""
LATE_S = 30.0
"""Seconds after the work's duration at which an answer counts as missing."""

Begin = Callable[[], None]
"""Returns when all others are ready, too."""
Work = Callable[[str, Answer, Begin], None]
"""Work on a device; it can be pickled, because another process does it."""


@dataclass(frozen=True)
class _Child:
    process: BaseProcess
    pipe: Connection


def on_each(devices: Mapping[str, str], work: Work, answer: Answer, seconds: float, coming: float = COMING_S) -> None:
    """Run the work on each of these devices (name and torch's name), and collect the answers.

    `seconds` is the duration of the work after the common start. A device without an answer is reported as a problem.
    """
    context = multiprocessing.get_context("spawn")  # an initialized driver does not survive a fork
    children = dict[str, _Child]()
    for name, device in devices.items():
        ours, theirs = context.Pipe()
        process = context.Process(target=_alone, args=(theirs, work, answer.node, name, device), daemon=True)
        process.start()
        theirs.close()
        children[name] = _Child(process, ours)
    said = _heard(children, coming)
    ready = {name: children[name] for name, found in said.items() if found is None}
    for child in ready.values():
        with contextlib.suppress(OSError):  # an ended child is handled below
            child.pipe.send(None)
    said |= _heard(ready, seconds + LATE_S)
    for name, child in children.items():
        child.process.kill()  # a child that waits for its driver may survive even this
        _take_over(answer, name, said.get(name))


def _alone(pipe: Connection, work: Work, node: str, name: str, device: str) -> None:
    """Measure one device in its own process: report ready, wait for the start, and answer."""
    answer = Answer(node, device=name)

    def begin() -> None:
        pipe.send(None)
        pipe.recv()

    try:
        work(device, answer, begin)
    except EOFError:  # the parent has ended
        return
    except Exception as error:
        answer.values.clear()  # values of a broken measurement may be half of something
        answer.texts.clear()
        answer.problem(f"{type(error).__name__}: {error}")
    with contextlib.suppress(OSError):
        pipe.send(answer)


def _heard(children: Mapping[str, _Child], seconds: float) -> dict[str, Answer | str | None]:
    """Return the next message of each child: ready, its answer, or why there is none."""
    said: dict[str, Answer | str | None] = dict.fromkeys(children, f"no answer within {seconds:g} s")
    pending: dict[Any, str] = {child.pipe: name for name, child in children.items()}
    deadline = time.monotonic() + seconds
    while pending and (left := deadline - time.monotonic()) > 0:
        for pipe in wait(list(pending), left):
            name = pending.pop(pipe)
            try:
                said[name] = children[name].pipe.recv()
            except (EOFError, OSError):
                process = children[name].process
                process.join(1)
                said[name] = f"no answer: its process ended with code {process.exitcode}"
    return said


def _take_over(answer: Answer, name: str, found: Answer | str | None) -> None:
    accelerator = f"accelerator {name.rpartition(':')[2]}"
    if not isinstance(found, Answer):
        answer.problem(f"{accelerator}: {found}")
        return
    answer.values += found.values
    answer.texts += found.texts
    answer.versions |= found.versions
    for problem in found.problems:
        answer.problem(f"{accelerator}: {problem.what}", problem.node, problem.rail)
