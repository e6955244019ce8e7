"""Account for every second of a run, from its file of events.

Each second of wall time is in exactly one of BINS. Time is counted in whole microseconds, so that the bins sum to the
wall time exactly. The cost of a step is known when it is complete, but whether it counts only when no later generation
repeats it: steps are kept until the end, and those repeated by a generation are moved to lost time.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .words import plain

Event = Mapping[str, Any]

BINS = {
    "productive": "steps that count",
    "data": "steps waited for samples",
    "snapshot": "steps waited for a snapshot in memory",
    "checkpoint": "steps waited for a checkpoint, or the run did before it ended",
    "restart": "ranks were started, for the first time or after a failure was noticed, until all had their state",
    "lost": "work that was done again, and steps that a failure broke off",
    "queue": "in the scheduler's queue, from the time the job came there, for the first time or again, until it began",
    "waiting": "between attempts, until nodes had met, and what no step accounts for",
}
STALLS = ("data", "snapshot", "checkpoint")
FLOPS = (
    "6 N + 12 L H S for a token, forwards and backwards: N parameters without the input embedding, L layers of width H,"
    " samples of S tokens; attention counted in full"
)
LINE_MAX = 2**20
WINDOW = 1000
"""Lines within which events may be out of order."""
US = 1_000_000
QUEUED_MAX = 30 * 86400 * US
"""Longest believable wait of a job: a longer one comes from another clock, or none."""
LATEST = 2 * 10**11
"""Seconds since 1970 that no clock shows before the year 8307."""
KNOWN = ("start", "generation", "ready", "step", "interval", "checkpoint", "failure", "notice", "preempted", "end")


class Events:
    """The events of a file, in its order; it may end in the middle of a line, because its writer was killed there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable = 0
        """Lines that the last reading could not parse."""

    def __iter__(self) -> Iterator[Event]:
        self.unreadable = 0
        with self.path.open("rb") as file:
            while line := file.readline(LINE_MAX + 1):
                if (event := _event(line)) is not None:
                    yield event
                elif line.strip():
                    self.unreadable += 1


def read(path: Path) -> Events:
    """Return the events of a file, which each iteration reads again."""
    return Events(path)


def _event(line: bytes) -> Event | None:
    """Return the event of a line, also behind a torn one."""
    for start in (0, line.rfind(b'{"at"')):
        try:
            event = json.loads(line[start:]) if start >= 0 else None
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("what"), str) and _timestamp(event) is not None:
            return event
    return None


@dataclass(slots=True)
class Step:
    """A completed step, and the time that it waited."""

    step: int
    at_us: int
    """Time of its end, since the run's beginning."""
    took_us: int
    stalls_us: tuple[int, int, int]
    world: int
    tokens: int
    loss: float | None
    """Value; None if it is not finite, like the other three."""
    rate: float | None
    norm: float | None
    memory: float | None
    """Maximum bytes of tensors on the first rank's accelerator; None if it has none."""


@dataclass
class Failure:
    """Failure, with its costs."""

    at_us: int
    kind: str
    """rank, node or hang; job for an attempt that ended without a record."""
    node: str
    rank: int | None
    step: int
    text: str
    lost_steps: int = 0
    """Complete steps that were repeated."""
    lost_us: int = 0
    """Lost time, with the interrupted step."""
    restart_us: int = 0
    """Time until all ranks had their state, or the next failure."""
    until_step_us: int | None = None
    """Time from its notice to the next complete step."""
    source: str = ""
    """Source of the state after the failure."""


@dataclass
class Attempt:
    """A start of the job; `end` is empty for a killed or running one."""

    number: int
    job: str
    nodes: int
    begun_us: int
    wall_us: int = 0
    end: str = ""


@dataclass(frozen=True)
class Account:
    """Account of a run's time. A figure that needs an unknown value is None."""

    begun: float
    """Seconds since 1970, by the clock of the first attempt."""
    bins_us: Mapping[str, int]
    steps: tuple[Step, ...]
    """Steps that count."""
    lost_steps: int
    attempts: tuple[Attempt, ...]
    failures: tuple[Failure, ...]
    told: tuple[tuple[int, Event], ...]
    """The events that are no steps and no failures, with their microseconds after the run's begin."""
    settings: Mapping[str, Any]
    parameters: int | None
    remarks: tuple[str, ...]
    """Remarks on numbers that are less certain than they look."""

    @property
    def wall_us(self) -> int:
        """Microseconds of the run; each belongs to one bin."""
        return sum(self.bins_us.values())

    @property
    def goodput(self) -> float | None:
        """The part of the wall time that was productive."""
        return _ratio(self.bins_us["productive"], self.wall_us)

    @property
    def tokens(self) -> int:
        """Tokens of all steps that count."""
        return sum(step.tokens for step in self.steps)

    @property
    def tokens_per_s(self) -> float | None:
        """Return the rate during counted steps, including their waits."""
        return _ratio(self.tokens * US, sum(step.took_us for step in self.steps))

    @property
    def flops_per_token(self) -> float | None:
        """Return the value of FLOPS. It needs the number of parameters, which a rank reports when it is ready."""
        model = self.settings.get("model")
        if not isinstance(model, Mapping) or not self.parameters:
            return None
        layers, width, length = (whole(model, name) for name in ("layers", "width", "length"))
        return flops_per_token(self.parameters, layers, width, length) if layers and width and length else None

    @property
    def share_of_peak(self) -> float | None:
        """Return the share of the devices' peak that was used by steps that count."""
        flops, peak = self.flops_per_token, _number(self.settings, "peak_tflops")
        device_us = sum(step.took_us * step.world for step in self.steps)
        return _ratio(self.tokens * flops * US, device_us * peak * 1e12) if flops and peak else None

    @property
    def cost(self) -> float | None:
        """Return the cost in the price's currency: all nodes of each attempt, from its beginning to its end."""
        price = _number(self.settings, "price")
        return price * sum(each.nodes * each.wall_us for each in self.attempts) / US / 3600 if price else None

    @property
    def cost_per_million_tokens(self) -> float | None:
        """Cost in the currency of the price; None when unknown."""
        return None if self.cost is None else _ratio(self.cost * 1e6, self.tokens)


def flops_per_token(parameters: int, layers: int, width: int, length: int) -> float:
    """Floating-point operations of training, as FLOPS says."""
    return 6.0 * parameters + 12.0 * layers * width * length


def account(events: Iterable[Event]) -> Account:
    """Account for every second from the first event to the last; a running job is included as far as it has come."""
    book = _Book()
    for first, attempt in _attempts(events):
        book.enter(first, attempt)
    if isinstance(events, Events) and events.unreadable:
        book.remarks.append(f"{events.unreadable} lines of the events could not be read")
    return book.account()


def _attempts(events: Iterable[Event]) -> Iterator[tuple[Event, Iterator[Event]]]:
    """The event that each attempt begins with in the file, and all of its events by its own clock."""
    starts = itertools.count()
    number = next(starts)

    def attempt(event: Event) -> int:
        nonlocal number
        number = next(starts) if event["what"] == "start" else number
        return number

    sound = (event for event in events if _timestamp(event) is not None and isinstance(event.get("what"), str))
    for _, of_one in itertools.groupby(sound, attempt):
        first = next(of_one)
        yield first, _in_order(itertools.chain([first], of_one))  # noqa: B031 (the rest of it)


def _in_order(events: Iterable[Event]) -> Iterator[Event]:
    """Yield events by time, if none is more than WINDOW lines away from its place."""
    waiting: list[tuple[int, int, Event]] = []
    for place, event in enumerate(events):
        heapq.heappush(waiting, (_us_of(event), place, event))
        if len(waiting) > WINDOW:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


class _Book:
    """Process the events once. `mark` is the accounted time, `state` what the run does: waiting, restart or step."""

    def __init__(self) -> None:
        self.begun: int | None = None
        self.shift = 0
        """Offset from an attempt's clock to the time since the run's beginning."""
        self.mark = 0
        self.state = "waiting"
        self.spent = Counter[str]()
        self.steps: list[Step] = []
        self.lost_steps = 0
        self.attempts: list[Attempt] = []
        self.failures: list[Failure] = []
        self.outage: list[Failure] = []
        """Failures after which no step is complete yet."""
        self.saved: int | None = None
        """Time of the last publication of a checkpoint after the mark."""
        self.early = 0
        """Time by which the last steps were earlier than their durations."""
        self.world = 1
        self.told: list[tuple[int, Event]] = []
        self.settings: Mapping[str, Any] = {}
        self.parameters: int | None = None
        self.remarks: list[str] = []
        self.strange = Counter[str]()

    def enter(self, first: Event, events: Iterator[Event]) -> None:
        """Begin an attempt. The time since the last attempt counts as waiting, whatever the reason."""
        earliest = next(events)
        self._start(first, _us_of(earliest))
        now = self.mark
        for event in itertools.chain([earliest], events):
            now = max(now, _us_of(event) + self.shift)
            if event["what"] not in ("step", "failure"):
                self.told.append((now, event))
            match str(event["what"]):
                case "generation":
                    self._generation(event, now)
                case "ready":
                    self._ready(event, now)
                case "step":
                    self._step(event, now)
                case "checkpoint":
                    self.saved = now
                case "failure":
                    self._failure(event, now)
                case "preempted" | "end" as what:
                    self._close(event, what, now)
                case what if what not in KNOWN:
                    self.strange[plain(what)[:40]] += 1
        self._until(now)
        self.attempts[-1].wall_us = self.mark - self.attempts[-1].begun_us

    def _start(self, event: Event, first: int) -> None:
        starts = str(event["what"]) == "start"
        submitted = self._believed(_us(event, "submitted"), first) if starts else None
        queued = first if submitted is None else min(first, submitted)
        if self.begun is None:
            self.begun = queued
        self.shift = -self.begun
        if first + self.shift < self.mark:
            behind = (self.mark - first - self.shift) / US
            self.remarks.append(
                f"attempt {len(self.attempts) + 1} began {behind:.3f} s before the last event of the one before it, so"
                " their clocks differ: what was waited between them is not known, and counts as nothing"
            )
            self.shift = self.mark - first
        if self.attempts and not self.attempts[-1].end:
            self._fail(Failure(self.mark, "job", "", None, self._last(), "it ended without a word"))
        self._spend(max(self.mark, queued + self.shift), "waiting")
        self._spend(first + self.shift, "queue")
        self.state, self.saved = "waiting", None
        number = (whole(event, "attempt") if starts else None) or len(self.attempts) + 1
        nodes = event.get("nodes")
        count = len(nodes) if isinstance(nodes, list) else whole(event, "nodes") or 1
        self.attempts.append(Attempt(number, plain(str(event.get("job") or "")), count, self.mark))
        if starts and isinstance(told := event.get("settings"), Mapping):
            self.settings = told

    def _believed(self, submitted: int | None, first: int) -> int | None:
        if submitted is None or 0 <= first - submitted <= QUEUED_MAX:
            return submitted
        how = f"{abs(first - submitted) / US:.3f} s {'before' if submitted < first else 'after'} its first event"
        self.remarks.append(
            f"attempt {len(self.attempts) + 1} was put into the queue {how}, which is not believed: clocks differ, and"
            " its time in the queue is not known and counts as nothing"
        )
        return None

    def _generation(self, event: Event, now: int) -> None:
        """Begin a generation: steps from its first one on are repeated."""
        self._break_off(now)
        self.state = "restart"
        self.world = whole(event, "world") or 1
        for failure in self.outage:
            failure.source = plain(str(event.get("source") or ""))
        if first := whole(event, "step"):
            self._lose(first)

    def _ready(self, event: Event, now: int) -> None:
        """All ranks have their state: if it comes from storage, only they know its step."""
        self._until(now)
        self.state, self.early = "step", 0
        self.parameters = whole(event, "parameters") or self.parameters
        for failure in self.outage:
            failure.source = plain(str(event.get("source") or failure.source))
        if (step := whole(event, "step")) is not None:
            self._lose(step + 1)

    def _failure(self, event: Event, now: int) -> None:
        if self.state != "step":
            self._until(now)
        kind, node, text = (plain(str(event.get(name) or "")) for name in ("kind", "node", "text"))
        self._fail(Failure(now, kind, node, whole(event, "rank"), whole(event, "step") or self._last(), text))
        self._break_off(now)
        self.state = "restart"

    def _fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        self.outage.append(failure)

    def _step(self, event: Event, now: int) -> None:
        """Account for a step: the last seconds are the step itself, and the time between the mark and the step belongs
        to the state.

        Messages are early or late by chance: later steps make up for the time of an early one.
        """
        step = whole(event, "step")
        if step is None:
            self.strange["step without its number"] += 1
            return
        since = now - self.mark
        seconds = _us(event, "seconds")
        seconds = since if seconds is None else seconds
        going_on = self.state == "step"
        took = min(since, seconds + self.early)
        self.early = max(0, seconds + self.early - since) if going_on else 0
        self._spend(now - took, "waiting" if going_on else self.state)
        self.mark, self.saved = now, None
        self._lose(step)
        values = [finite(event.get(name)) for name in ("loss", "rate", "norm", "memory")]
        self.steps.append(Step(step, now, took, _stalls(event, took), self.world, whole(event, "tokens") or 0, *values))
        for failure in self.outage:
            failure.until_step_us = now - failure.at_us
        self.outage = []
        self.state = "step"

    def _close(self, event: Event, what: str, now: int) -> None:
        why = "preempted" if what == "preempted" else plain(str(event.get("why") or "ended"))
        if why == "failed":
            self._break_off(now)
        self._until(now)
        self.state = "waiting"
        self.attempts[-1].end = why

    def _until(self, now: int) -> None:
        """Assign the time since the mark to the current state. After the last step, wait for pending writes."""
        if self.state != "restart" and self.saved is not None:
            self._spend(self.saved, "checkpoint")
        self._spend(now, "restart" if self.state == "restart" else "waiting")

    def _break_off(self, now: int) -> None:
        """Lose the active step, if there is one."""
        if self.state == "step":
            if self.outage:
                self.outage[-1].lost_us += now - self.mark
            self._spend(now, "lost")
        self._until(now)

    def _spend(self, until: int, kind: str) -> None:
        if kind == "restart" and self.outage:
            self.outage[-1].restart_us += until - self.mark
        self.spent[kind] += until - self.mark
        self.mark, self.saved = until, None

    def _lose(self, first: int) -> None:
        """Discard the steps from this one on."""
        while self.steps and self.steps[-1].step >= first:
            took = self.steps.pop().took_us
            self.lost_steps += 1
            self.spent["lost"] += took
            if self.outage:
                self.outage[-1].lost_steps += 1
                self.outage[-1].lost_us += took

    def _last(self) -> int:
        return self.steps[-1].step if self.steps else 0

    def account(self) -> Account:
        bins = {name: self.spent[name] for name in BINS}
        for step in self.steps:
            for name, stall in zip(STALLS, step.stalls_us, strict=True):
                bins[name] += stall
            bins["productive"] += step.took_us - sum(step.stalls_us)
        unknown = [f"{count} events {name!r} are of no known kind" for name, count in self.strange.most_common(10)]
        return Account(
            (self.begun or 0) / US,
            bins,
            tuple(self.steps),
            self.lost_steps,
            tuple(self.attempts),
            tuple(self.failures),
            tuple(self.told),
            self.settings,
            self.parameters,
            (*self.remarks, *unknown),
        )


def _stalls(event: Event, took: int) -> tuple[int, int, int]:
    """Return the waits of a step, at most its duration."""
    told, left, found = event.get("stalled"), took, []
    for name in STALLS:
        found.append(min(left, (_us(told, name) or 0) if isinstance(told, Mapping) else 0))
        left -= found[-1]
    return found[0], found[1], found[2]


def _timestamp(event: Event) -> float | None:
    at = _number(event, "at")
    return at if at is not None and at < LATEST else None


def _us_of(event: Event) -> int:
    return round((_timestamp(event) or 0.0) * US)


def _us(event: Event, name: str) -> int | None:
    """A time or a duration in microseconds."""
    seconds = _number(event, name)
    return round(seconds * US) if seconds is not None and seconds < LATEST else None


def _number(event: Event, name: str) -> float | None:
    """Return a number if it is finite and not negative, else None."""
    value = finite(event.get(name))
    return value if value is not None and value >= 0 else None


def whole(event: Event, name: str) -> int | None:
    """Return a field if it is an integer from 0 to 2^63 - 1, else None."""
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def finite(value: Any) -> float | None:
    """Return a finite number of either sign, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
