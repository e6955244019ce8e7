"""Print a line for each step: its name, progress and duration."""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path


class StepError(Exception):
    """A step cannot be taken. The text has the reason, the remedy, and the parts that work without it."""


class Step:
    """The line of a step, which shows the time and the last message until the step ends."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._said = "working"
        self._note = ""
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def say(self, text: str) -> None:
        """Show the progress of the step until it ends."""
        self._said = text

    def note(self, text: str) -> None:
        """Set the text that stays on the line when the step has ended."""
        self._note = text

    def start(self) -> None:
        """Start to show the elapsed time."""
        self._clock.start()

    def end(self, verdict: str) -> None:
        """Write the last form of the line: verdict, note and elapsed time."""
        self._over.set()
        self._clock.join()
        elapsed = self._elapsed()
        self._write(", ".join(part for part in (verdict, self._note, elapsed) if part), end="\n")

    def _tick(self) -> None:
        """A terminal's line moves four times a second; a pipe gets a line now and then, so that a log shows life."""
        period = 0.25 if self._terminal else 20
        while not self._over.wait(period):
            self._write(f"{self._said}, {self._elapsed() or '0 s'}", end="" if self._terminal else "\n")

    def _write(self, text: str, end: str) -> None:
        line = f"{self._title:<18}{text}"
        if self._terminal:
            line = "\r\x1b[K" + line[: os.get_terminal_size().columns - 1]
        sys.stdout.write(line + end)
        sys.stdout.flush()

    def _elapsed(self) -> str:
        seconds = time.monotonic() - self._started
        return "" if seconds < 1 else f"{seconds:.0f} s"


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Show a step while its work is done."""
    shown = Step(title)
    shown.start()
    try:
        yield shown
    except BaseException:
        shown.end("failed")
        raise
    shown.end("ready")


def run(
    argv: Sequence[str | Path],
    each_line: Callable[[str], object] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command silently, and pass on each line of its output. A failure is an error with the last lines, except
    progress lines, for which `each_line` returns True."""
    command = [str(word) for word in argv]
    last: collections.deque[str] = collections.deque(maxlen=20)
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout  # noqa: S101  (for the type checker: it is a pipe)
        for line in process.stdout:
            if not each_line or each_line(line.rstrip()) is not True:
                last.append(line.rstrip())
    if process.returncode:
        said = "\n".join(f"  {line}" for line in last)
        raise StepError(f"'{' '.join(command)}' ended with exit status {process.returncode}:\n{said}")
