"""Runs like those of a cluster's jobs: the workload itself writes the record, from events of this file."""

from __future__ import annotations

import json
import math
from typing import Any

from stampworks_train import record

BEGUN = 1_795_287_600.0


def a_run(steps: int = 24, failing: int = 9, name: str = "demo") -> dict[str, Any]:
    """A run of two nodes and four ranks; a rank dies once, and a step is repeated."""
    at = BEGUN
    settings = {"steps": steps, "batch": 16, "layout": "fsdp", "model": {"layers": 4, "width": 128, "length": 128}}
    start = {"name": name, "job": "7", "attempt": 1, "nodes": ["gpu-001", "gpu-002"], "settings": settings}
    events: list[dict[str, Any]] = [
        {"at": at, "what": "start", **start, "versions": {"python": "3.13.5"}},
        {"at": at + 1, "what": "generation", "number": 1, "world": 4, "nodes": 2, "source": "nothing", "step": 1},
        {"at": at + 3, "what": "ready", "number": 1, "device": "cpu", "backend": "gloo", "parameters": 800_000},
    ]
    at += 3
    step = 1
    failed = False
    while step <= steps:
        at += 0.5
        stalled = {"data": 0.01, "snapshot": 0.02, "checkpoint": 0.1 if step % 10 == 0 else 0.0}
        told = {"loss": round(1.5 + 4 * math.exp(-step / 8), 4), "tokens": 2048, "seconds": 0.5, "stalled": stalled}
        events.append({"at": at, "what": "step", "number": 1, "step": step, **told, "rate": 0.003, "norm": 1.0})
        if step % 10 == 0:
            events.append({"at": at, "what": "interval", "seconds": 5.0, "why": "sqrt(2 x 0.1 s x 125 s) = 5 s"})
            saved = {"blocked_s": 0.1, "seconds": 0.8, "bytes": 9_600_000, "folder": f"step-{step:08}"}
            events.append({"at": at + 0.2, "what": "checkpoint", "step": step, **saved})
        if step == failing and not failed:
            failed = True
            gone = {"kind": "rank", "node": "gpu-002", "rank": 3, "step": step, "text": "ended by signal 9"}
            events.append({"at": at + 0.2, "what": "failure", **gone})
            again = {"number": 2, "world": 4, "nodes": 2, "why": "rank 3 ended", "source": "memory", "step": step}
            events.append({"at": at + 0.3, "what": "generation", **again})
            events.append({"at": at + 1.1, "what": "ready", "number": 2})
            at += 1.1
        else:
            step += 1
    events.append({"at": at + 0.4, "what": "notice", "text": "tracking: mlflow was not told of 3 steps"})
    events.append({"at": at + 0.5, "what": "end", "why": "finished", "step": steps, "digest": "0123456789abcdef"})
    return record.record(events)


def text(found: dict[str, Any]) -> str:
    return json.dumps(found)
