"""What the programs on the nodes answer, read with suspicion.

A node may be broken, so that what it prints is no evidence of anything but itself: an answer that cannot be read is no
answer, and no answer is unknown.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from stampworks import plan

VERSION = 1
BYTES_MAX = 16 << 20
"""Of one answer: a sweep over a thousand nodes is a tenth of that."""
PARTS_MAX = 65_536
NOT_JUDGED = ("versions", "environment", "options")
"""How it was measured: for whoever reads the file on the node; nothing is concluded from it."""
_LINE = re.compile(r"stampworks-result ([a-z-]{1,40}) (\d{1,6}) (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]{1,900})")


@dataclass(frozen=True)
class Value:
    """One measured quantity: the median of its samples and their spread."""

    quantity: str
    unit: str
    node: str
    """Empty for one about all nodes together."""
    peer: str
    rail: str
    device: str
    bytes: int
    value: float
    low: float
    high: float
    samples: int
    simulated: bool
    note: str


@dataclass(frozen=True)
class Text:
    """Something a node says of itself that is no quantity: a version, a digest, a setting."""

    quantity: str
    node: str
    name: str
    text: str


@dataclass(frozen=True)
class Problem:
    """What could not be measured, and why."""

    node: str
    rail: str
    what: str


@dataclass(frozen=True)
class Result:
    """What one program answered on one rank."""

    version: int
    workload: str
    rank: int
    ranks: int
    nodes: tuple[str, ...]
    started: str
    seconds: float
    backend: str
    device: str
    values: tuple[Value, ...]
    texts: tuple[Text, ...]
    problems: tuple[Problem, ...]

    @property
    def node(self) -> str:
        """Whose answer it is. A rank that met no others knows only itself."""
        return self.nodes[self.rank] if len(self.nodes) == self.ranks else "".join(self.nodes[:1])


@dataclass(frozen=True)
class Heard:
    """All that came back from one start of some programs."""

    results: tuple[Result, ...]
    unreadable: tuple[str, ...]
    """Whose answers could not be read, and why: a sentence each."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Nodes that dropped out meanwhile, and why: without them, what was asked means something else."""

    def of(self, workload: str) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.workload == workload)


def read(output: str) -> Heard:
    """The answers in what was printed; lines that are no part of one are noise."""
    parts: dict[tuple[str, int], dict[int, tuple[int, str]]] = {}
    for line in output.splitlines():
        if found := _LINE.fullmatch(line.strip()):
            workload, rank, number, of, text = found.groups()
            parts.setdefault((workload, int(rank)), {})[int(number)] = (int(of), text)
    results, unreadable = [], []
    for (workload, rank), pieces in sorted(parts.items()):
        try:
            results.append(_result(workload, rank, pieces))
        except ValueError as error:
            unreadable.append(f"{workload}, rank {rank}: {error}")
    return Heard(tuple(results), tuple(unreadable))


def _result(workload: str, rank: int, pieces: Mapping[int, tuple[int, str]]) -> Result:
    of = {count for count, _ in pieces.values()}
    if len(of) != 1 or max(of) > PARTS_MAX or sorted(pieces) != list(range(1, max(of) + 1)):
        raise ValueError(f"{len(pieces)} of {max(of)} parts of its answer came")
    data = json.loads(_unpacked("".join(text for _, (_, text) in sorted(pieces.items()))), parse_constant=_no_number)
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(f"its answer is not of version {VERSION}")
    for name in NOT_JUDGED:
        data.pop(name, None)
    result = plan.from_dict(Result, data)
    if (result.workload, result.rank) != (workload, rank):
        raise ValueError("its answer is that of another program or rank")
    if strange := [value for value in result.values if not _plausible(value)]:
        raise ValueError(f"{strange[0].quantity} is no measurement: {strange[0].value} of {strange[0].samples} samples")
    return result


def _unpacked(text: str) -> str:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), BYTES_MAX)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"its answer is damaged: {error}") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"its answer is damaged, or larger than {BYTES_MAX >> 20} MiB")
    return data.decode()


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _plausible(value: Value) -> bool:
    numbers = (value.value, value.low, value.high)
    return all(math.isfinite(number) for number in numbers) and value.samples > 0 and value.bytes >= 0
