"""Progress of a training run in one line, from its events."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

RECENT = 20
"""Steps from which speed and remaining time are computed."""
_LINE_MAX = 1 << 16


@dataclass
class RunProgress:
    """Progress from events as they arrive. Events that cannot be read are left out."""

    steps: int = 0
    done: int = 0
    loss: float | None = None
    failures: int = 0
    state: str = ""
    _begun: float | None = None
    _last: float = 0.0
    _useful: dict[int, float] = field(default_factory=dict)
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """End of each of the last steps, and its tokens."""
    _half: str = ""

    def take(self, text: str) -> None:
        """Read more lines of the file. The last one may be incomplete."""
        *lines, self._half = (self._half + text)[-_LINE_MAX * RECENT :].split("\n")
        for line in lines:
            try:
                event = json.loads(line[:_LINE_MAX])
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and (at := _number(event.get("at"))) is not None:
                self._begun, self._last = at if self._begun is None else self._begun, at
                self._one(event, at)

    def _one(self, event: dict[str, Any], at: float) -> None:
        what = event.get("what")
        if what == "start":
            settings = event.get("settings")
            self.steps = int(_number(settings.get("steps") if isinstance(settings, dict) else None) or 0)
            self.state = "starting"
            self._recent.clear()
        elif what == "generation":
            self.state = "gathering its ranks"
            self._recent.clear()
        elif what == "step":
            self._step(event, at)
        elif what == "failure":
            self.failures += 1
            self.state = f"going on without a {event['kind']}" if event.get("kind") in ("rank", "node") else "going on"
        elif what == "end":
            self.state = ""

    def _step(self, event: dict[str, Any], at: float) -> None:
        step = int(_number(event.get("step")) or 0)
        self.done, self.loss, self.state = step, _number(event.get("loss")), ""
        stalled = event.get("stalled")
        lost = sum(_number(each) or 0.0 for each in stalled.values()) if isinstance(stalled, dict) else 0.0
        self._useful[step] = max(0.0, (_number(event.get("seconds")) or 0.0) - lost)
        self._recent.append((at, _number(event.get("tokens")) or 0.0))

    def line(self) -> str:
        """Return step, loss, tokens per second, goodput and remaining time, as far as they are known."""
        parts = [f"step {self.done}/{self.steps}" if self.steps else f"step {self.done}"] if self._begun else []
        parts += [f"loss {self.loss:.3f}"] if self.loss is not None else []
        parts += self._pace()
        wall = self._last - (self._begun or 0.0)
        parts += [f"goodput {min(1.0, sum(self._useful.values()) / wall):.0%}"] if self._useful and wall > 0 else []
        parts += [f"{self.failures} failure{'s' if self.failures > 1 else ''}"] if self.failures else []
        return ", ".join([*parts, self.state] if self.state else parts)

    def _pace(self) -> list[str]:
        if len(self._recent) < 2:
            return []
        span = self._recent[-1][0] - self._recent[0][0]
        tokens = sum(each for _, each in list(self._recent)[1:])
        if span <= 0:
            return []
        left = max(0, self.steps - self.done) * span / (len(self._recent) - 1)
        return [f"{_short(tokens / span)} tokens/s", *([f"{_time(left)} left"] if left else [])]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e18 or not isfinite(value):
        return None
    return float(value)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _time(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes:.0f} min" if minutes < 120 else f"{hours:.1f} h"
