"""Progress on a terminal and in a pipe."""

from __future__ import annotations

import io
import time

import pytest
from stampworks.cli import output
from stampworks.cli.output import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_quick_step_shows_nothing_on_a_terminal() -> None:
    """A step below a second prints no progress."""
    terminal = Terminal()
    with Progress("asking", terminal) as progress:
        progress("head")
    assert terminal.getvalue() == "\r\x1b[K"


def test_a_slow_step_shows_what_it_does_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is rewritten during the step; the last one keeps the duration."""
    monkeypatch.setattr(output, "SHOWN_AFTER_S", 0.02)
    terminal = Terminal()
    with Progress("building", terminal) as progress:
        progress("packages\x1b[2J")
        time.sleep(0.1)
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[1] == "building: packages\\x1b[2J (0 s)"
    assert lines[-1] == "building: 0.1 s\n"


def test_a_pipe_gets_plain_lines() -> None:
    """Each message is a plain line without control characters."""
    pipe = io.StringIO()
    with Progress("building", pipe) as progress:
        for line in ("base", "base", "packages"):
            progress(line)
    assert pipe.getvalue() == "building: base\nbuilding: packages\n"


def test_a_step_that_fails_does_not_say_that_it_is_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the last line; the step does not report its end."""
    monkeypatch.setattr(output, "SHOWN_AFTER_S", 0.0)
    pipe = io.StringIO()
    with pytest.raises(ZeroDivisionError), Progress("building", pipe):
        raise ZeroDivisionError
    assert pipe.getvalue() == ""
