"""Read thresholds from a user's CSV file: the content of each row, or its problems."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stampworks.text.printable import printable

HEADER: Final = ("machine", "nodes", "quantity", "bytes", "unit", "value")
QUANTITIES: Final = (
    *("all_reduce_busbw", "all_gather_busbw", "reduce_scatter_busbw", "alltoall_busbw"),
    *("nic_bandwidth", "h2d_bandwidth", "memory_bandwidth", "matmul_bf16", "storage_write", "storage_read"),
)
UNITS: Final = ("GB/s", "Gb/s", "MB/s", "TFLOP/s", "GFLOP/s")

FILE_BYTES_MAX = 4 << 20
ROWS_MAX = 10_000
"""More thresholds than any real file has."""
NODES_MAX = 100_000
SIZE_BYTES_MAX = 1 << 50
VALUE_MAX = 1e15
TEXT_LENGTH_MAX = 60

WHOLE = re.compile(r"\d{1,18}", re.ASCII)
NUMBER = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Threshold:
    """The value that a healthy machine must reach, according to the file's author."""

    line: int
    machine: str
    """The machine's name as written in the file; the catalog may not know it."""
    nodes: int
    quantity: str
    size_bytes: int
    """0 when the payload size has no meaning."""
    unit: str
    value: float


@dataclass(frozen=True)
class NoThreshold:
    """A row that contains nothing to judge."""

    line: int
    cells: tuple[str, ...]
    problems: tuple[str, ...]
    """The problems of the row, and the correct form."""


class ThresholdsError(Exception):
    """A file that contains no thresholds; the text is for the user."""

    def __init__(self, path: Path, line: int, message: str, hint: str) -> None:
        place = f"{printable(str(path))}:{line}" if line else printable(str(path))
        super().__init__(f"{place}: {message}\n  hint: {hint}\nNothing was judged.")


def read_thresholds(path: Path) -> list[Threshold | NoThreshold]:
    """Return the rows of a file, in its order; raise ThresholdsError when it is not such a file."""
    text = _content(path)
    found = [_threshold(line, row) for line, row in itertools.islice(_rows(path, text), ROWS_MAX + 1)]
    if not found:
        raise ThresholdsError(path, 0, "holds no thresholds", "write one in each line below the header")
    if len(found) > ROWS_MAX:
        raise ThresholdsError(path, 0, f"has more than {ROWS_MAX} rows", "audit a part of it at a time")
    return found


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # a name with a zero byte raises ValueError
        reason = getattr(error, "strerror", None) or str(error)
        raise ThresholdsError(path, 0, f"cannot be read: {reason}", "name a CSV file") from None
    if len(data) > FILE_BYTES_MAX:
        raise ThresholdsError(path, 0, f"is larger than {FILE_BYTES_MAX >> 20} MiB", "audit a part of it at a time")
    try:
        text = data.decode("utf-8-sig")
        wrong = text.find("\0")
    except UnicodeDecodeError as error:
        text, wrong = data[: error.start].decode("utf-8", "replace"), error.start
    if wrong >= 0:
        line = text.count("\n", 0, wrong) + 1
        raise ThresholdsError(path, line, "is not text", "write the file as UTF-8, with commas between columns")
    return text


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows below the header, each with the line where it begins; skip empty lines."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begin, header = 1, False
    try:
        for cells in reader:
            line, begin = begin, reader.line_num + 1
            row = [cell.strip() for cell in cells]
            if not any(row):
                continue
            if header:
                yield line, row
            elif tuple(row) == HEADER:
                header = True
            else:
                message = f"the header is {_shown(','.join(row))}"
                raise ThresholdsError(path, line, message, f"the first line is {','.join(HEADER)}")
    except csv.Error as error:
        message = f"cannot be read as CSV: {error}"
        raise ThresholdsError(path, reader.line_num, message, "check its quotes") from None
    if not header:
        raise ThresholdsError(path, 0, "is empty", f"begin it with {','.join(HEADER)}")


def _threshold(line: int, row: Sequence[str]) -> Threshold | NoThreshold:
    if problems := tuple(_problems(row)):
        return NoThreshold(line, tuple(row), problems)
    machine, nodes, quantity, size_bytes, unit, value = row
    # A whole number stays an int, so that it is printed as it was written.
    number = int(value) if WHOLE.fullmatch(value) else float(value)
    return Threshold(line, machine, int(nodes), quantity, int(size_bytes), unit, number)


def _problems(row: Sequence[str]) -> Iterator[str]:
    if len(row) != len(HEADER):
        count = "1 column" if len(row) == 1 else f"{len(row)} columns"
        yield f"{count} where the header has {len(HEADER)}: write {','.join(HEADER)}"
        return
    _, nodes, quantity, size_bytes, unit, value = row
    yield from _no_count("nodes", nodes, 1, NODES_MAX, "count the nodes of the run")
    if quantity not in QUANTITIES:
        yield f"no quantity is called {_shown(quantity)}: {nearest(quantity, QUANTITIES) or _listed(QUANTITIES)}"
    yield from _no_count("bytes", size_bytes, 0, SIZE_BYTES_MAX, "16 MiB are 16777216, and 0 stands for no size")
    if unit not in UNITS:
        yield f"no unit is called {_shown(unit)}: {_listed(UNITS)}; B are bytes, b are bits"
    yield from _no_value(value)


def nearest(text: str, known: Collection[str]) -> str:
    """Return a question with the known name that the text resembles; empty when there is none."""
    plain = {name.lower().replace("-", "_"): name for name in known}
    near = difflib.get_close_matches(text[:TEXT_LENGTH_MAX].lower().replace("-", "_"), plain, n=1)
    return f"did you mean {plain[near[0]]}?" if near else ""


def _listed(known: Sequence[str]) -> str:
    return f"write {', '.join(known[:-1])} or {known[-1]}"


def _no_count(column: str, text: str, least: int, most: int, hint: str) -> Iterator[str]:
    if not WHOLE.fullmatch(text) or not least <= int(text) <= most:
        yield f"{column} {_shown(text)} is not a whole number from {least} to {most}: {hint}"


def _no_value(text: str) -> Iterator[str]:
    hint = "write a plain number like 440 or 23.5; its unit has a column of its own"
    if text.startswith("-") and NUMBER.fullmatch(text[1:]):
        yield f"value {_shown(text)} is negative: a machine reaches 0 or more"
    elif not NUMBER.fullmatch(text):
        yield f"value {_shown(text)} is not a number: {hint}"
    elif float(text) > VALUE_MAX:
        yield f"value {_shown(text)} is larger than any number here: {hint}"


def _shown(text: str) -> str:
    return repr(printable(text if len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 3] + "..."))
