"""Thresholds that somebody wrote into a CSV file: what is there, or everything that is wrong with it."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stampworks import catalog
from stampworks.printable import printable

HEADER: Final = ("machine", "nodes", "quantity", "bytes", "unit", "value")
QUANTITIES: Final = (
    *("all_reduce_busbw", "all_gather_busbw", "reduce_scatter_busbw", "alltoall_busbw"),
    *("nic_bandwidth", "h2d_bandwidth", "memory_bandwidth", "matmul_bf16", "storage_write", "storage_read"),
)
UNITS: Final = ("GB/s", "Gb/s", "MB/s", "TFLOP/s", "GFLOP/s")

FILE_BYTES_MAX = 4 << 20
"""As large as 50,000 thresholds, which nobody has."""
PROBLEMS_MAX = 100
"""Nobody reads more at once."""
NODES_MAX = 100_000
SIZE_BYTES_MAX = 1 << 50
VALUE_MAX = 1e15
TEXT_LENGTH_MAX = 60

WHOLE = re.compile(r"\d{1,18}", re.ASCII)
NUMBER = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Threshold:
    """What a healthy machine must reach, in somebody's opinion."""

    line: int
    machine: str
    """As it is written: one of the names that the catalog has for it."""
    nodes: int
    quantity: str
    size_bytes: int
    """0 where the size of the payload means nothing."""
    unit: str
    value: float


@dataclass(frozen=True)
class Problem:
    line: int
    """0 for the file as a whole."""
    column: str
    message: str
    hint: str


class ThresholdsError(Exception):
    """All that is wrong in a file of thresholds; its text is what the user reads."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        # one more than are shown, by which one can tell that there are more
        self.problems = tuple(problems[: PROBLEMS_MAX + 1])
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        if len(problems) > PROBLEMS_MAX:
            count = f"the first {PROBLEMS_MAX} problems"
        file = printable(file)
        blocks = [_text(file, problem) for problem in self.problems[:PROBLEMS_MAX]]
        super().__init__("\n".join([*blocks, f"{count} in {file}: nothing was judged."]))


def read_thresholds(path: Path) -> list[Threshold]:
    """The thresholds of a file, in its order. Raises ThresholdsError with every problem at its line."""
    text = _content(path)
    found: list[Threshold] = []
    problems: list[Problem] = []
    for line, row in _rows(text, problems):
        if len(problems) > PROBLEMS_MAX:
            break
        if wrong := list(_problems(line, row)):
            problems += wrong
        else:
            found.append(_threshold(line, row))
    if not found and not problems:
        problems.append(Problem(0, "", "holds no thresholds", "write one in each line below the header"))
    if problems:
        raise ThresholdsError(str(path), problems)
    return found


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or str(error)
        raise _whole(path, f"cannot be read: {reason}", "name a CSV file") from None
    if len(data) > FILE_BYTES_MAX:
        raise _whole(path, f"is larger than {FILE_BYTES_MAX >> 20} MiB", "audit a part of it at a time")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ThresholdsError(str(path), [_no_text(line)]) from None
    if "\0" in text:
        raise ThresholdsError(str(path), [_no_text(text.count("\n", 0, text.index("\0")) + 1)])
    return text


def _whole(path: Path, message: str, hint: str) -> ThresholdsError:
    return ThresholdsError(str(path), [Problem(0, "", message, hint)])


def _no_text(line: int) -> Problem:
    return Problem(line, "", "is no text", "write the file as UTF-8, with commas between columns")


def _rows(text: str, problems: list[Problem]) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header that have its columns, each with the line where it begins; empty lines are none."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begin, header = 1, False
    try:
        for cells in reader:
            line, begin = begin, reader.line_num + 1
            row = [cell.strip() for cell in cells]
            if not any(row):
                continue
            if not header:
                header = True
                if tuple(row) != HEADER:
                    problems.append(_wrong_header(line, row))
                    return
            elif len(row) == len(HEADER):
                yield line, row
            else:
                count = "1 column" if len(row) == 1 else f"{len(row)} columns"
                hint = f"the columns are {','.join(HEADER)}"
                problems.append(Problem(line, "", f"has {count} where the header has {len(HEADER)}", hint))
    except csv.Error as error:
        problems.append(Problem(reader.line_num, "", f"cannot be read as CSV: {error}", "look at its quotes"))
    if not header and not problems:
        problems.append(Problem(0, "", "is empty", f"begin it with {','.join(HEADER)}"))


def _wrong_header(line: int, row: Sequence[str]) -> Problem:
    return Problem(line, "", f"the header is {_shown(','.join(row))}", f"the first line is {','.join(HEADER)}")


def _problems(line: int, row: Sequence[str]) -> Iterator[Problem]:
    machine, nodes, quantity, size_bytes, unit, value = row
    yield from _unlisted(line, "machine", machine, catalog.machine_names())
    yield from _no_count(line, "nodes", nodes, 1, NODES_MAX)
    yield from _unlisted(line, "quantity", quantity, QUANTITIES)
    yield from _no_count(line, "bytes", size_bytes, 0, SIZE_BYTES_MAX)
    yield from _unlisted(line, "unit", unit, UNITS)
    yield from _no_value(line, value)


def _unlisted(line: int, column: str, text: str, known: Collection[str]) -> Iterator[Problem]:
    if text not in known:
        yield Problem(line, column, f"no {column} is called {_shown(text)}", _nearest(column, text, known))


def _nearest(column: str, text: str, known: Collection[str]) -> str:
    if column == "unit":
        return f"write {', '.join(UNITS[:-1])} or {UNITS[-1]}: B are bytes, b are bits"
    plain = {name.lower().replace("-", "_"): name for name in known}
    near = difflib.get_close_matches(text[:TEXT_LENGTH_MAX].lower().replace("-", "_"), plain, n=1)
    if near:
        return f"did you mean {plain[near[0]]}?"
    return (
        f"there are {', '.join(known)}" if column == "quantity" else "the machines are those of catalog/machines.yaml"
    )


def _no_count(line: int, column: str, text: str, least: int, most: int) -> Iterator[Problem]:
    if not WHOLE.fullmatch(text) or not least <= int(text) <= most:
        hint = "16 MiB are 16777216, and 0 stands for no size" if column == "bytes" else "count the nodes of the run"
        yield Problem(line, column, f"{_shown(text)} is no whole number from {least} to {most}", hint)


def _no_value(line: int, text: str) -> Iterator[Problem]:
    hint = "write a plain number like 440 or 23.5; its unit has a column of its own"
    if text.startswith("-") and NUMBER.fullmatch(text[1:]):
        yield Problem(line, "value", f"{_shown(text)} is negative", "a machine reaches 0 or more")
    elif not NUMBER.fullmatch(text):
        yield Problem(line, "value", f"{_shown(text)} is no number", hint)
    elif float(text) > VALUE_MAX:
        yield Problem(line, "value", f"{_shown(text)} is larger than any number here", hint)


def _threshold(line: int, row: Sequence[str]) -> Threshold:
    machine, nodes, quantity, size_bytes, unit, value = row
    # a whole number stays one, so that what is printed is what was written
    number = int(value) if WHOLE.fullmatch(value) else float(value)
    return Threshold(line, machine, int(nodes), quantity, int(size_bytes), unit, number)


def _text(file: str, problem: Problem) -> str:
    place = f"{file}:{problem.line}" if problem.line else file
    column = f" {problem.column}:" if problem.column else ""
    return f"{place}:{column} {problem.message}\n  hint: {problem.hint}"


def _shown(text: str) -> str:
    return repr(printable(text if len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 3] + "..."))
