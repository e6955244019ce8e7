"""Record of a run: a JSON object built from its events, for reports.

    python3 -m stampworks_train.record FOLDER

writes `record.json` in the folder of a run again, also for a killed or active run. Its schema is
workloads/record.schema.json; times are seconds after the run's start. Unknown values are null.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import ledger
from .ledger import US, Account, Attempt, Event, Failure, Step
from .words import plain, without_secrets

VERSION = 1
EVENTS = "events.jsonl"
RECORD = "record.json"
POINTS_MAX = 1000
"""Limit for the curve."""
ITEMS_MAX = 200
"""Limit for any other list: as much as a report can show."""


def write(folder: Path) -> Path:
    """Write the record of the run in this folder.

    Readers always find a complete one. It takes about 40 microseconds for each step: a caller that must not wait runs
    this module as a separate program.
    """
    found = record(ledger.Events(folder / EVENTS))
    path = folder / RECORD
    draft = folder / f"{RECORD}.{os.getpid()}.draft"
    try:
        with draft.open("w") as file:
            file.write(json.dumps(found, indent=1, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def record(events: Iterable[Event]) -> dict[str, Any]:
    """Return the record in the form of the schema."""
    account = ledger.account(events)
    starts = _events_of_kind(account, "start")
    ready = [event for _, event in _events_of_kind(account, "ready")]
    failures = account.failures[-ITEMS_MAX:]
    checkpoints = _events_of_kind(account, "checkpoint")
    notices = _events_of_kind(account, "notice")
    intervals = _events_of_kind(account, "interval")
    generations = _events_of_kind(account, "generation")
    return {
        "version": VERSION,
        "name": plain(str(starts[-1][1].get("name", ""))) if starts else "",
        "begun": _date(account.begun),
        "state": (account.attempts[-1].end if account.attempts else "") or "open",
        "settings": without_secrets(account.settings),
        "versions": _texts([event for _, event in starts] + ready),
        "device": _latest(ready, "device"),
        "backend": _latest(ready, "backend"),
        "digest": _latest([event for _, event in _events_of_kind(account, "end")], "digest"),
        "account": _figures(account),
        "curve": curve(account),
        "interval": _interval(intervals[-1][1]) if intervals else None,
        "checkpoints": [_checkpoint(at, event) for at, event in checkpoints[-ITEMS_MAX:]],
        "failures": [_failure(each) for each in failures],
        "generations": [_generation(at, event) for at, event in generations[-ITEMS_MAX:]],
        "attempts": [_attempt(each) for each in account.attempts[-ITEMS_MAX:]],
        "notices": [{"at": at / US, "text": _word(event, "text")} for at, event in notices[-ITEMS_MAX:]],
        "remarks": list(account.remarks),
        "counts": {
            "steps": len(account.steps),
            "checkpoints": len(checkpoints),
            "failures": len(account.failures),
            "generations": len(generations),
            "attempts": len(account.attempts),
            "notices": len(notices),
        },
    }


def _figures(account: Account) -> dict[str, Any]:
    return {
        "wall_s": account.wall_us / US,
        "bins": {name: us / US for name, us in account.bins_us.items()},
        "meanings": ledger.BINS,
        "goodput": account.goodput,
        "step": account.steps[-1].step if account.steps else 0,
        "steps_lost": account.lost_steps,
        "tokens": account.tokens,
        "tokens_per_s": account.tokens_per_s,
        "parameters": account.parameters,
        "flops_per_token": account.flops_per_token,
        "flops_formula": ledger.FLOPS,
        "share_of_peak": account.share_of_peak,
        "cost": account.cost,
        "cost_per_million_tokens": account.cost_per_million_tokens,
    }


def curve(account: Account) -> list[dict[str, Any]]:
    """The steps that count. A rate is that of all steps since the point before."""
    points: list[dict[str, Any]] = []
    before = -1
    for place in _kept(account.steps, account.failures):
        since = account.steps[before + 1 : place + 1]
        took = sum(each.took_us for each in since) / US
        step = account.steps[place]
        points.append({
            "step": step.step, "at": step.at_us / US, "loss": step.loss,
            "tokens_per_s": sum(each.tokens for each in since) / took if took else None,
            "rate": step.rate, "norm": step.norm, **({} if step.memory is None else {"memory": step.memory}),
        })  # fmt: skip
        before = place
    return points


def _kept(steps: Sequence[Step], failures: Sequence[Failure]) -> list[int]:
    """Return the indices of the first and last steps, of outliers, of steps near failures, and of some others."""
    if len(steps) <= POINTS_MAX:
        return list(range(len(steps)))
    losses = [step.loss for step in steps]
    unknown = next((place for place, loss in enumerate(losses) if loss is None), 0)
    kept = {0, len(steps) - 1, unknown, *_extremes(losses, 0, len(steps))}
    for failure in failures[-ITEMS_MAX:]:
        after = _place(steps, failure.at_us)
        kept |= {max(0, after - 1), min(after, len(steps) - 1)}
    pieces = (POINTS_MAX - len(kept)) // 2
    for piece in range(pieces):
        kept |= _extremes(losses, piece * len(steps) // pieces, (piece + 1) * len(steps) // pieces)
    return sorted(kept)


def _extremes(losses: Sequence[float | None], begin: int, end: int) -> set[int]:
    """The places of the least and the greatest."""
    known = [(loss, place) for place in range(begin, end) if (loss := losses[place]) is not None]
    return {min(known)[1], max(known)[1]} if known else {begin}


def _place(steps: Sequence[Step], at_us: int) -> int:
    """Return the index of the first step after that time."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if steps[middle].at_us <= at_us else (low, middle)
    return low


def _checkpoint(at: int, event: Event) -> dict[str, Any]:
    figures = {name: ledger.finite(event.get(name)) for name in ("blocked_s", "seconds", "bytes")}
    return {"at": at / US, "step": ledger.whole(event, "step"), **figures, "folder": _word(event, "folder")}


def _interval(event: Event) -> dict[str, Any]:
    seconds = ledger.finite(event.get("seconds"))
    return {"seconds": seconds if seconds is not None and seconds >= 0 else None, "why": _word(event, "why")}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    told = {name: getattr(attempt, name) for name in ("number", "job", "nodes", "end")}
    return told | {"at": attempt.begun_us / US, "seconds": attempt.wall_us / US}


def _failure(failure: Failure) -> dict[str, Any]:
    told = {name: getattr(failure, name) for name in ("kind", "node", "rank", "step", "source", "lost_steps")}
    return {
        "at": failure.at_us / US,
        "text": without_secrets(failure.text),
        "lost_s": failure.lost_us / US,
        "restart_s": failure.restart_us / US,
        "until_step_s": None if failure.until_step_us is None else failure.until_step_us / US,
        **told,
    }


def _generation(at: int, event: Event) -> dict[str, Any]:
    wholes = {name: ledger.whole(event, name) for name in ("number", "world", "step")}
    nodes = event.get("nodes")
    count = len(nodes) if isinstance(nodes, list) else ledger.whole(event, "nodes")
    return {"at": at / US, **wholes, "nodes": count, "why": _word(event, "why"), "source": _word(event, "source")}


def _events_of_kind(account: Account, what: str) -> list[tuple[int, Event]]:
    return [(at, event) for at, event in account.told if event["what"] == what]


def _texts(events: Sequence[Event]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events:
        if isinstance(versions := event.get("versions"), Mapping):
            found |= {plain(str(name)): plain(str(version)) for name, version in versions.items()}
    return dict(list(found.items())[:ITEMS_MAX])


def _latest(events: Sequence[Event], name: str) -> str:
    return next((_word(event, name) for event in reversed(events) if event.get(name)), "")


def _word(event: Event, name: str) -> str:
    word: str = without_secrets(plain(str(event.get(name) or "")))
    return word


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main(argv: Sequence[str]) -> int:
    """Write the record of a run's folder, print its path, and return the exit status."""
    about = "Write the record of a run from its events."
    parser = argparse.ArgumentParser(prog="stampworks_train.record", description=about)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of the run")
    folder = parser.parse_args(argv).folder
    try:
        print(write(folder))
    except OSError as error:
        print(f"record: {error.filename or folder}: {error.strerror}: no record is written", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
