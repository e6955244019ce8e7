"""Read the answers of the programs on the nodes with suspicion.

A node may be broken, so that its output is evidence of nothing but itself. An unreadable answer is no answer, and no
answer is unknown.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from stampworks import plan

VERSION = 1
BYTES_MAX = 16 << 20
"""Maximum size of all answers together, unpacked: ten times that of a thousand nodes in one start."""
ENTRIES_MAX = 100_000
"""Maximum number of values, texts and problems in one answer."""
WORDS_MAX = 200
"""Maximum length of a node's text in a sentence of the toolkit."""
PARTS_MAX = 65_536
BUSY = "the best sample counts, for the host was busy"
"""Note on a value that is not the median."""
_LISTS = ("nodes", "values", "texts", "problems")
NOT_JUDGED = ("versions", "environment", "options")
"""Circumstances of the measurement, for readers of the file on the node; no result depends on them."""
# srun prefixes each line with its rank, so that no rank can speak for another one.
_LINE = re.compile(
    r"(?:(\d{1,6}): )?stampworks-result ([a-z-]{1,40}) (\d{1,6}) (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]{1,900})"
)


@dataclass(frozen=True)
class MeasuredValue:
    """One measured quantity: the median of its samples and their spread."""

    quantity: str
    unit: str
    node: str
    """Empty for a value of all nodes together."""
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


def in_spite_of_the_host(value: MeasuredValue, enough: float, shared: bool) -> MeasuredValue:
    """Return the best sample of a link between nodes on one host, when the median is not enough.

    A busy host makes a rate lower than it is, and never higher. A fault of the link itself affects every sample.
    """
    return replace(value, value=value.high, note=BUSY) if shared and value.value < enough else value


@dataclass(frozen=True)
class Text:
    """A node's statement about itself that is no quantity: a version, a digest, a setting."""

    quantity: str
    node: str
    name: str
    text: str


@dataclass(frozen=True)
class MeasurementProblem:
    """A failed measurement and its reason."""

    node: str
    rail: str
    what: str


@dataclass(frozen=True)
class Result:
    """The answer of one program on one rank."""

    version: int
    workload: str
    rank: int
    ranks: int
    nodes: tuple[str, ...]
    started: str
    seconds: float
    backend: str
    device: str
    values: tuple[MeasuredValue, ...]
    texts: tuple[Text, ...]
    problems: tuple[MeasurementProblem, ...]

    @property
    def node(self) -> str:
        """Return the node that answered. A rank that met no others knows only itself."""
        return self.nodes[self.rank] if len(self.nodes) == self.ranks else "".join(self.nodes[:1])


@dataclass(frozen=True)
class Heard:
    """All answers from one start of some programs."""

    results: tuple[Result, ...]
    unreadable: tuple[str, ...]
    """Ranks with unreadable answers, and why: one sentence each."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Nodes that dropped out, and why: without them, the other answers mean something else."""
    seconds: float = 0.0
    """Duration of the whole start."""

    def of(self, workload: str) -> tuple[Result, ...]:
        """Return the answers of one workload."""
        return tuple(result for result in self.results if result.workload == workload)


def about(heard: Heard, nodes: Collection[str]) -> Heard:
    """Keep only statements about these nodes from ranks entitled to them: rank 0 has gathered, others know
    themselves."""

    def kept(result: Result) -> Result:
        mine = {"", *nodes} if result.rank == 0 else {result.node} & {*nodes}
        return replace(
            result,
            values=tuple(each for each in result.values if each.node in mine and each.peer in {"", *nodes}),
            texts=tuple(each for each in result.texts if each.node in mine),
            problems=tuple(each for each in result.problems if each.node in mine),
        )

    return replace(heard, results=tuple(map(kept, heard.results)))


def read(output: str) -> Heard:
    """Parse the answers in the output; lines that belong to no answer are noise."""
    parts: dict[tuple[str, int], dict[int, tuple[int, str]]] = {}
    for line in output.splitlines():
        if found := _LINE.fullmatch(line.strip()):
            label, workload, rank, number, of, text = found.groups()
            if label in (None, rank):
                parts.setdefault((workload, int(rank)), {})[int(number)] = (int(of), text)
    results: list[Result] = []
    unreadable = []
    left = BYTES_MAX
    for (workload, rank), pieces in sorted(parts.items()):
        try:
            text = _joined(pieces, left)
            left -= len(text)
            results.append(_result(workload, rank, text))
        except (ValueError, OverflowError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else type(error).__name__
            unreadable.append(f"{workload}, rank {rank}: {why[:WORDS_MAX]}")
    return Heard(tuple(results), tuple(unreadable))


def _joined(pieces: Mapping[int, tuple[int, str]], left: int) -> str:
    of = {count for count, _ in pieces.values()}
    if len(of) != 1 or max(of) > PARTS_MAX or sorted(pieces) != list(range(1, max(of) + 1)):
        raise ValueError(f"{len(pieces)} of {max(of)} parts of its answer came")
    return _unpacked("".join(text for _, (_, text) in sorted(pieces.items())), left)


def _result(workload: str, rank: int, text: str) -> Result:
    data = json.loads(text, parse_constant=_no_number)
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(f"its answer is not of version {VERSION}")
    for name in NOT_JUDGED:
        data.pop(name, None)
    if any(isinstance(data.get(name), list) and len(data[name]) > ENTRIES_MAX for name in _LISTS):
        raise ValueError(f"its answer has more than {ENTRIES_MAX} entries")
    result = plan.from_dict(Result, data)
    if (result.workload, result.rank) != (workload, rank):
        raise ValueError("its answer is that of another program or rank")
    if not 0 <= rank < result.ranks or len(result.nodes) not in (1, result.ranks):
        raise ValueError(f"its answer is of rank {rank} of {result.ranks}, on {len(result.nodes)} nodes")
    if strange := [value for value in result.values if not _plausible(value)]:
        raise ValueError(f"{strange[0].quantity} is no measurement: {strange[0].value} of {strange[0].samples} samples")
    return result


def _unpacked(text: str, left: int) -> str:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), left + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"its answer is damaged: {error}") from None
    if len(data) > left or not unpacker.eof:
        raise ValueError(f"its answer is damaged, or all together are larger than {BYTES_MAX >> 20} MiB")
    return data.decode()


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _plausible(value: MeasuredValue) -> bool:
    numbers = (value.value, value.low, value.high)
    return all(math.isfinite(number) for number in numbers) and value.samples > 0 and value.bytes >= 0
