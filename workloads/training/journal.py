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
"""Between two lines about steps for a person."""
RECORD_S = 30.0
"""Between two records of a run that goes on."""
WATCHED, SLOW = 20, 0.1
"""Steps in a row, and the part of their time that they may wait for second copies before it is said."""


class Journal:
    """One writer, the coordinator; a run that is started again goes on in the same file."""

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
        """For how long the last steps waited for second copies, of how long; nothing when that was said."""
        self._recording: subprocess.Popen[bytes] | None = None
        self._recorded = 0.0
        self._log = EventLog(self.path)

    def write(self, what: str, **told: Any) -> None:
        if what == "generation":
            self._asked = False  # whoever was asked is gone
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
            self._chooser.failed(self._failed)  # failures that memory mends cost no checkpoint
        if what in ("ready", "checkpoint") and time.monotonic() - self._recorded > RECORD_S:
            self._record()
        for text in self.tracker.said():
            self.write("notice", text=text)

    def _record(self) -> None:
        """How far it is, for whoever looks meanwhile or finds it killed; in a process of its own, for it takes long."""
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
        """Says once where training could be faster than the network that its snapshots travel by."""
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
        told = {key: message[key] for key in ("step", "seconds", "blocked_s", "slowed_s", "bytes", "folder")}
        self.write("checkpoint", **told)
        self._chooser.cost(told["blocked_s"] + told["slowed_s"])

    def wants_checkpoint(self) -> bool:
        """Whether it is time for the next one; asked for once."""
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
    """One line of the run's log."""
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
