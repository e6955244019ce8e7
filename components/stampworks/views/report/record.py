"""The record of a training run, read as untrusted input.

Its schema is workloads/record.schema.json. A record with anything else is refused as a whole, with the place: a part of
a record would mislead.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from stampworks.plan import from_dict

VERSION = 1
BYTES_MAX = 2 << 20
POINTS_MAX = 1000
ITEMS_MAX = 200
WORD_MAX = 500
_SETTINGS = (
    *("steps", "batch", "layout", "tensor_parallel", "precision", "learning_rate", "seed"),
    *("model.layers", "model.width", "model.heads", "model.length", "data.source", "tracking.kind"),
)
"""Settings that the report shows."""


class RecordError(ValueError):
    """A text is not a valid record. The message says why."""


@dataclass(frozen=True)
class Bin:
    """A share of the run's time."""

    name: str
    seconds: float
    meaning: str


@dataclass(frozen=True)
class Figures:
    """Totals of the run."""

    wall_s: float
    goodput: float | None
    step: int
    steps_lost: int
    tokens: int
    tokens_per_s: float | None
    parameters: int | None
    flops_per_token: float | None
    flops_formula: str
    share_of_peak: float | None
    cost: float | None
    cost_per_million_tokens: float | None


@dataclass(frozen=True)
class TrainingPoint:
    """A step of the curve."""

    step: int
    at: float
    loss: float | None
    tokens_per_s: float | None
    rate: float | None
    norm: float | None
    memory: float | None = None
    """Most bytes of the first rank's accelerator that tensors had."""


@dataclass(frozen=True)
class Interval:
    """The time between checkpoints, and why it was chosen."""

    seconds: float | None
    why: str


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that the run wrote."""

    at: float
    step: int | None
    blocked_s: float | None
    seconds: float | None
    bytes: float | None
    folder: str


@dataclass(frozen=True)
class RecordedFailure:
    """A failure that the run survived, or its end."""

    at: float
    kind: str
    node: str
    rank: int | None
    step: int
    text: str
    source: str
    lost_steps: int
    lost_s: float
    restart_s: float
    until_step_s: float | None


@dataclass(frozen=True)
class Generation:
    """The members of a run between two failures."""

    at: float
    number: int | None
    world: int | None
    step: int | None
    nodes: int | None
    why: str
    source: str


@dataclass(frozen=True)
class Attempt:
    """A job of the scheduler in which the run continued."""

    number: int
    job: str
    nodes: int
    at: float
    seconds: float
    end: str


@dataclass(frozen=True)
class Notice:
    """A line for the user."""

    at: float
    text: str


@dataclass(frozen=True)
class Counts:
    """Total numbers, also of rows that the record leaves out."""

    steps: int
    checkpoints: int
    failures: int
    generations: int
    attempts: int
    notices: int


@dataclass(frozen=True)
class Record:
    """The record as the report shows it."""

    version: int
    name: str
    begun: str
    state: str
    settings: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    device: str
    backend: str
    digest: str
    account: Figures
    bins: tuple[Bin, ...]
    curve: tuple[TrainingPoint, ...]
    interval: Interval | None
    checkpoints: tuple[Checkpoint, ...]
    failures: tuple[RecordedFailure, ...]
    generations: tuple[Generation, ...]
    attempts: tuple[Attempt, ...]
    notices: tuple[Notice, ...]
    remarks: tuple[str, ...]
    counts: Counts


def read(text: str) -> Record:
    """Parse a record. Raise RecordError, which says what is wrong with the text."""
    if len(text) > BYTES_MAX:
        raise RecordError(f"it has more than {BYTES_MAX >> 20} MiB, which no record needs")
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RecordError("it is not a JSON object")
    if found.get("version") != VERSION:
        words = f"it is of version {_word(found.get('version'))}, and this release reads version {VERSION}"
        raise RecordError(f"{words}: a newer release of Stampworks may read it")
    try:
        record = from_dict(Record, _prepared(found))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"it is not a record of a run: {_word(error)}") from None
    _look(dataclasses.asdict(record), "record")
    gap = abs(sum(each.seconds for each in record.bins) - record.account.wall_s)
    if gap > 1e-3 + 1e-9 * record.account.wall_s:
        raise RecordError("its seconds do not sum to its wall time: it was changed")
    return record


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not a number that can be measured")


def _prepared(found: dict[str, Any]) -> dict[str, Any]:
    """Return the data with mappings as lists, because the dataclasses have no free fields."""
    figures = dict(found["account"])
    bins, meanings = dict(figures.pop("bins")), dict(figures.pop("meanings"))
    told = {"bins": [{"name": name, "seconds": bins[name], "meaning": meanings.get(name, "")} for name in bins]}
    return {
        **found,
        "account": figures,
        **told,
        "settings": [[name, _word(value)] for name in _SETTINGS if (value := _setting(found["settings"], name)) != ""],
        "versions": [[_word(name), _word(version)] for name, version in dict(found["versions"]).items()],
    }


def _setting(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = settings.get(part, "") if isinstance(settings, dict) else ""
    return settings if isinstance(settings, str | int | float) else ""


def _word(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _look(value: Any, place: str) -> None:
    """Refuse impossible numbers, and lists and texts that are too long."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name != "loss":
                _look(item, f"{place}.{name}")
    elif isinstance(value, tuple | list):
        most = POINTS_MAX if place.endswith(".curve") else ITEMS_MAX
        if len(value) > most:
            raise RecordError(f"{place}: has {len(value)} items, and {most} are enough")
        for item in value:
            _look(item, place)
    elif isinstance(value, str) and len(value) > WORD_MAX:
        raise RecordError(f"{place}: has {len(value)} characters, and {WORD_MAX} are enough")
    elif isinstance(value, int | float) and not (0 <= value < 1e24 and math.isfinite(value)):
        raise RecordError(f"{place}: {value:g} is out of the range of a real run")
