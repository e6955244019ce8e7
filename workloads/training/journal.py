"""Events of a run as they happen: events.jsonl in its folder, and trackers."""

from __future__ import annotations

import collections
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from stampworks_train import ledger, record
from stampworks_train.events import EventLog, experienced
from stampworks_train.words import without_secrets

from .settings import Settings
from .trackers import tracker

SAY_S = 5.0
"""Minimum seconds between two printed lines about steps."""
RECORD_S = 30.0
"""Seconds between two records of a running run."""
WATCHED, SLOW = 20, 0.1
"""Consecutive steps, and the share of their time that may wait for second copies without a notice."""


class Journal:
    """Writer of the events, in the coordinator; a restarted run appends to the same file."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = Path(settings.folder)
        self.path = self.folder / record.EVENTS
        self.tracker = tracker(settings.tracking, self.folder)
        self._chooser, account = experienced(self.path)
        self.attempt = len(account.attempts) + 1 if account else 1
        self.jobs_with_losses = _jobs_with_losses(account)
        self._saved = time.time()
        self._failed = 0.0
        self._asked = False
        self._said = 0.0
        self._copying: collections.deque[tuple[float, float]] | None = collections.deque(maxlen=WATCHED)
        """Waits of the last steps for second copies, with their durations; None after the notice."""
        self._recording: subprocess.Popen[bytes] | None = None
        self._recorded = 0.0
        self._log = EventLog(self.path)

    def write(self, what: str, **told: Any) -> None:
        """Log an event and pass it to the trackers. Secrets in the settings are removed."""
        if what == "generation":
            self._asked = False  # the rank that was asked has ended
        elif what == "start":
            told = without_secrets(told)
        self._log.put(what, told)
        if what != "step" or time.monotonic() - self._said > SAY_S:
            print(_readable(what, told), flush=True)
            self._said = time.monotonic()
        if what == "start":
            self.tracker.start(self.settings.name, self.settings.told())
        elif what == "failure":
            self._failed = self._log.now()
        elif what == "ready" and self._failed and told["source"] != "memory":
            self._chooser.failed(self._failed)  # a restart from memory loses no step: only other failures count
        if what in ("ready", "checkpoint") and time.monotonic() - self._recorded > RECORD_S:
            self._record()
        for text in self.tracker.said():
            self.write("notice", text=text)

    def _record(self) -> None:
        """Write the current record in a separate process, because it takes long. It serves readers during the run, or
        after a kill."""
        if self._recording is None or self._recording.poll() is not None:
            command = [sys.executable, "-m", "stampworks_train.record", str(self.folder)]
            self._recording = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self._recorded = time.monotonic()

    def close(self, status: str) -> None:
        """The run is over for now: its record is written, and the tracker has that, too."""
        if self._recording:
            self._recording.kill()
            self._recording.wait()
        self._log.close()
        try:
            self.tracker.artifact(record.write(self.folder))
        except OSError as error:
            print(f"{self.folder}: {error.strerror}: the record is not written", flush=True)
        self.tracker.end(status)
        for text in self.tracker.said():
            print(_readable("notice", {"text": text}), flush=True)

    def stepped(self, generation: int, message: dict[str, Any]) -> None:
        """Log a finished step that a rank reports."""
        told = {key: message[key] for key in ("step", "loss", "tokens", "seconds", "stalled", "rate", "norm")}
        told |= {"memory": message["memory"]} if "memory" in message else {}
        self.write("step", number=generation, **told)
        rate = told["tokens"] / told["seconds"]
        figures = {"learning_rate": told["rate"], "gradient_norm": told["norm"]}
        self.tracker.step(told["step"], {"loss": told["loss"], "tokens_per_s": rate, **figures})
        self._watch_copies(message["copying"], message["seconds"])
        if message["saves"]:
            self._saved, self._asked = self._log.now(), False

    def _watch_copies(self, waited: float, seconds: float) -> None:
        """Report once that the network of the snapshots slows training down."""
        if self._copying is None:
            return
        self._copying.append((waited, seconds))
        part = sum(each for each, _ in self._copying) / sum(each for _, each in self._copying)
        if len(self._copying) == WATCHED and part > SLOW:
            said = f"second copies of snapshots take longer than steps, of which the last {WATCHED} waited {part:.0%}"
            ways = "the option copies chooses their network, ddp and hsdp need none, snapshots=false leaves them out"
            self.write("notice", text=f"{said}: {ways}")
            self._copying = None

    def saved(self, message: dict[str, Any]) -> None:
        """Log a finished checkpoint, and adapt the interval to its cost."""
        told = {key: message[key] for key in ("step", "seconds", "blocked_s", "slowed_s", "bytes", "folder")}
        self.write("checkpoint", **told)
        self._chooser.cost(told["blocked_s"] + told["slowed_s"])

    def wants_checkpoint(self) -> bool:
        """Return whether the next checkpoint is due; a single call consumes it."""
        now = self._log.now()
        given = self.settings.checkpoints.every_s
        interval = None if given else self._chooser.interval(now)
        every = interval.seconds if interval else given
        if self._asked or now - self._saved < every:
            return False
        if interval:
            self.write("interval", seconds=interval.seconds, why=interval.why)
        self._asked = True
        return True


def _jobs_with_losses(account: ledger.Account | None) -> frozenset[str]:
    """Jobs that have lost a node."""
    if account is None:
        return frozenset()
    lost = [failure.at_us for failure in account.failures if failure.kind == "node"]
    jobs = (each.job for each in account.attempts if any(0 <= at - each.begun_us <= each.wall_us for at in lost))
    return frozenset(jobs)


def _readable(what: str, told: dict[str, Any]) -> str:
    """Return the line of the run's log."""
    if what == "step":
        rate = told["tokens"] / told["seconds"]
        return f"step {told['step']}: loss {told['loss']:.4f}, {rate:.0f} tokens/s"
    if what == "start":
        return f"{told['name']} begins, attempt {told['attempt']}, nodes: {told['nodes']}"
    if what == "generation":
        return f"generation {told['number']}: {told['world']} ranks on {', '.join(told['nodes'])}: {told['why']}"
    if what == "ready":
        return f"goes on after step {told['step']}, state from {told['source']}" if told["step"] else "begins anew"
    if what == "checkpoint":
        return f"checkpoint of step {told['step']}: {told['bytes'] / 1e6:.1f} MB in {told['seconds']:.1f} s"
    if what == "failure":
        return f"failure of a {told['kind']} after step {told['step']}: {told['node']} {told['text']}"
    if what == "interval":
        return f"a checkpoint is due, {told['seconds']:.3g} s after the last: {told['why']}"
    return f"{what}: {', '.join(f'{key} {value}' for key, value in told.items() if value not in ('', None))}"
