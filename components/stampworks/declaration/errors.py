"""Problems of a declaration, and how they are shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from stampworks.declaration.wording import alternatives
from stampworks.text.printable import printable, visible

LINE_WIDTH_MAX = 100
CARET_COLUMN_MAX = 60
PROBLEMS_MAX = 100
"""Maximum number of problems in a message: a file with a thousand problems has few causes."""

BOLD, RED, CYAN, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[36m", "\x1b[0m"


@dataclass(frozen=True)
class Problem:
    """A problem with its position."""

    file: str
    """Path of the file, or the name of another origin."""
    line: int
    """Line, counted from 1; 0 if the position is unknown."""
    column: int
    """Column in characters, counted from 1."""
    path: str
    """The declared field, for example pools[0].count; empty for the declaration as a whole."""
    message: str
    hint: str
    source: str
    """The line of text that holds the place."""
    last: bool = False
    """Whether the problem is not a mistake in the declaration, such as a missing lock: such problems come last."""

    @property
    def where(self) -> str:
        """File, line and column in the format of editors."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class DeclarationError(Exception):
    """All problems of a declaration; its text is shown to the user."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        # Keep one more than are shown, so that the message can say that there are more.
        self.problems = in_reading_order(problems)[: PROBLEMS_MAX + 1]
        super().__init__(self.problems)

    def __str__(self) -> str:
        return render(self.problems)

    def render(self, colour: bool) -> str:
        """The same text, with colour for a terminal."""
        return render(self.problems, colour)


class AbsentError(Exception):
    """A value that is invalid in the declaration was read: results that depend on it must wait for its correction."""


def in_reading_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort problems by file in the order of appearance, and by line; notes come last."""
    problems = tuple(problems)
    files = list(dict.fromkeys(problem.file for problem in problems))
    return tuple(sorted(problems, key=lambda each: (each.last, files.index(each.file), each.line, each.column)))


def render(problems: Sequence[Problem], colour: bool = False) -> str:
    """Return each problem with its line, a caret and a hint, and the number of the others."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    if len(problems) > PROBLEMS_MAX:
        count, problems = f"the first {PROBLEMS_MAX} problems", problems[:PROBLEMS_MAX]
    files = alternatives(list(dict.fromkeys(printable(problem.file) for problem in problems)), last="and")
    blocks = ["\n".join(_lines(problem, colour)) for problem in problems]
    return "\n\n".join([*blocks, f"{count} in {files}: nothing was changed."])


def _lines(problem: Problem, colour: bool) -> Iterator[str]:
    bold, red, cyan, plain = (BOLD, RED, CYAN, PLAIN) if colour else ("", "", "", "")
    head = f"{problem.where}: {problem.path}" if problem.path else problem.where
    yield f"{bold}{printable(head)}:{plain} {printable(problem.message)}"
    if problem.line:
        line, caret = _excerpt(problem.source, problem.column - 1)
        yield f"    {line}"
        yield f"    {' ' * caret}{red}^{plain}"
    if problem.hint:
        first, *others = map(printable, problem.hint.splitlines())
        yield f"  {cyan}hint:{plain} {first}"
        yield from (f"        {line}" for line in others)


def _excerpt(source: str, index: int) -> tuple[str, int]:
    """The part of a line around a character that fits a terminal, and at which column of it the caret belongs."""
    before = [visible(character) for character in source[max(0, index - LINE_WIDTH_MAX) : index]]
    after = [visible(character) for character in source[index : index + LINE_WIDTH_MAX]]
    if _width("".join(before + after)) > LINE_WIDTH_MAX:
        before = _fitting(before[::-1], CARET_COLUMN_MAX)[::-1]
    after = _fitting(after, LINE_WIDTH_MAX - _width("".join(before)))
    left = "" if len(before) == index else "..."
    right = "" if len(after) == len(source[index:]) else "..."
    return "".join([left, *before, *after, right]), len(left) + _width("".join(before))


def _fitting(cells: list[str], width: int) -> list[str]:
    """Return the first cells that fit."""
    ends = accumulate(_width(cell) for cell in cells)
    return [cell for cell, end in zip(cells, ends, strict=True) if end <= width]


def _width(text: str) -> int:
    """Return the terminal columns that a text needs."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
