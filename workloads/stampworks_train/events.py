"""Events of a run as lines of a file: written when they happen, and read when the run continues."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from pathlib import Path
from typing import Any

from . import ledger
from .interval import Chooser

AGAIN_S = 1.0


class EventLog:
    """Writer of a file of events; a restarted run appends to the same file.

    A thread writes, so that nodes do not look lost while a shared directory is silent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clock = time.time() - time.monotonic()  # changes of the clock do not affect durations
        with path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # an attempt was killed in the middle of a line
                    file.write(b"\n")
        self._closing = False
        self._lines = queue.SimpleQueue[str | None]()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def now(self) -> float:
        """Return the time in seconds since 1970, on a clock that never goes back."""
        return self._clock + time.monotonic()

    def put(self, what: str, told: dict[str, Any]) -> None:
        """Queue an event; a thread writes it."""
        self._lines.put(json.dumps({"at": self.now(), "what": what, **told}) + "\n")

    def close(self) -> None:
        """Write the queued lines, or give up if that fails now."""
        self._closing = True
        self._lines.put(None)
        self._writer.join()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            said = False
            while not self._closing or not said:
                try:
                    with self.path.open("a") as file:
                        file.write(line)
                    break
                except OSError as error:
                    if not said:
                        print(f"{self.path}: {error.strerror}: events wait until it can be written", flush=True)
                    said = True
                    time.sleep(AGAIN_S)


def experienced(path: Path) -> tuple[Chooser, ledger.Account | None]:
    """Return a chooser with the checkpoint costs and failures of earlier attempts."""
    try:
        account = ledger.account(ledger.read(path))
    except OSError:
        return Chooser(time.time()), None
    chooser = Chooser(account.begun)
    for _, event in account.told:
        if event["what"] == "checkpoint" and (blocked := ledger.finite(event.get("blocked_s"))) is not None:
            chooser.cost(blocked + (ledger.finite(event.get("slowed_s")) or 0.0))
    for attempt in account.attempts:
        if attempt.end not in ("finished", "preempted"):
            chooser.failed(account.begun + (attempt.begun_us + attempt.wall_us) / ledger.US)
    return chooser, account
