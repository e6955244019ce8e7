"""Answer of a program, and its way off the node: a JSON object, split into lines of standard output.

Its schema is workloads/result.schema.json. It contains only measured values: unknown ones are left out, or are a
problem.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from .timing import Spread

VERSION = 1
MARK = "stampworks-result"
CUT = 800
"""Characters of a result on a line: with the prefix it stays below 900, a length that nothing splits."""
READABLE_MAX = 20
"""Lines of a result printed for a user, to show that it worked."""
WORDS_MAX = 500
"""Maximum characters of a text from elsewhere."""


@dataclass(frozen=True)
class Value:
    """A measured quantity with its spread."""

    quantity: str
    unit: str
    value: float
    low: float
    high: float
    samples: int
    node: str = ""
    peer: str = ""
    rail: str = ""
    device: str = ""
    bytes: int = 0
    simulated: bool = False
    note: str = ""


@dataclass(frozen=True)
class Text:
    """Something to compare between nodes that is no number."""

    quantity: str
    node: str
    name: str
    text: str


@dataclass(frozen=True)
class Problem:
    """Value that could not be measured, or a fault found by the measurement; empty if no node is at fault."""

    what: str
    node: str = ""
    rail: str = ""


@dataclass
class Answer:
    """Findings of a program so far, which are reported in any case."""

    node: str
    device: str = ""
    backend: str = ""
    values: list[Value] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    told: bool = False
    """The first rank reports the result, so that this one need not."""
    environment: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def value(self, quantity: str, unit: str, spread: Spread | float, **more: Any) -> None:
        """Add a value, by default of this node."""
        found = spread if isinstance(spread, Spread) else Spread(spread, spread, spread, 1)
        note = "; ".join(filter(None, (more.pop("note", ""), found.note)))
        where = {"node": self.node, **more}
        self.values.append(Value(quantity, unit, found.value, found.low, found.high, found.samples, note=note, **where))

    def text(self, quantity: str, name: str, text: str) -> None:
        """Add a text about this node, without control characters."""
        self.texts.append(Text(quantity, self.node, name, plain(text)))

    def problem(self, what: str, node: str | None = None, rail: str = "") -> None:
        """Add a problem of a node, by default of this one."""
        self.problems.append(Problem(plain(what), self.node if node is None else node, rail))


def plain(text: str) -> str:
    """Text from anywhere as one line of bounded length."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return line if len(line) <= WORDS_MAX else line[: WORDS_MAX - 3] + "..."


def findings(answer: Answer) -> dict[str, Any]:
    """The part of a result that is the program's own."""
    return {
        "values": [asdict(value) for value in answer.values],
        "texts": [asdict(text) for text in answer.texts],
        "problems": [asdict(problem) for problem in answer.problems],
    }


def lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield a result as lines of standard output: all lines together give the result, between any other output."""
    packed = base64.b64encode(zlib.compress(json.dumps(result, separators=(",", ":")).encode(), 9)).decode()
    pieces = [packed[start : start + CUT] for start in range(0, len(packed), CUT)]
    for number, piece in enumerate(pieces, 1):
        yield f"{MARK} {result['workload']} {result['rank']} {number}/{len(pieces)} {piece}"


def readable(result: dict[str, Any]) -> Iterator[str]:
    """The same for a person: a line for each problem and for the first values."""
    for problem in result["problems"]:
        where = [problem[key] for key in ("node", "rail") if problem[key]]
        yield f"{result['workload']}: problem: {' '.join(where)}{': ' if where else ''}{problem['what']}"
    for value in result["values"][:READABLE_MAX]:
        where = [value[key] for key in ("node", "rail", "device") if value[key]]
        where += [f"to {value['peer']}"] if value["peer"] else []
        where += [f"{value['bytes']} bytes"] if value["bytes"] else []
        spread = f" ({value['low']:.4g} to {value['high']:.4g}, {value['samples']})" if value["samples"] > 1 else ""
        note = f", {value['note']}" if value["note"] else ""
        yield f"{value['quantity']} {' '.join(where)}: {value['value']:.4g} {value['unit']}{spread}{note}"
    if len(result["values"]) > READABLE_MAX:
        yield f"{result['workload']}: {len(result['values']) - READABLE_MAX} more values"
