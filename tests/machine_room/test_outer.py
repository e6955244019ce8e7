"""The outer process of a room."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from stampworks.machine_room import outer
from stampworks.machine_room.processes import Process


@pytest.mark.cluster
def test_a_room_whose_starter_dies_before_knowing_it_ends_by_itself(tmp_path: Path) -> None:
    """No process runs without a record of it."""
    known: list[Process] = []

    def die(process: Process) -> None:
        known.append(process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outer.start("here", "here", die, leashed=False)
    known[0].wait("here")


def test_a_line_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next line is for the next reader."""
    monkeypatch.setattr(outer, "START_TIMEOUT_S", 0.1)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", 0) as stream, os.fdopen(writer, "wb", 0) as other:
        other.write(b"4711\nready\n")
        assert outer._line(stream) == "4711"
        assert outer._line(stream) == "ready"


@pytest.mark.parametrize("said", [b"", b"47"])
def test_a_line_without_an_end_is_not_waited_for_for_ever(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outer process that hangs must not stop an `up`."""
    monkeypatch.setattr(outer, "START_TIMEOUT_S", 0.1)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", 0) as stream, os.fdopen(writer, "wb", 0) as other:
        other.write(said)
        closing = threading.Timer(30, other.close)  # bounds the wait of a reader that has no limit of its own
        closing.start()
        outer._line(stream)
        assert not other.closed
        closing.cancel()
