"""Tests of the display of problems."""

from __future__ import annotations

import pickle

import pytest
from stampworks.declaration import DeclarationError, Problem, did_you_mean


def problem(source: str, column: int, **changes: object) -> Problem:
    fields = {"file": "f", "line": 1, "column": column, "path": "", "message": "m", "hint": "", "source": source}
    return Problem(**{**fields, **changes})  # type: ignore[arg-type]


CARETS = {
    "plain": ("name: x", 7, "    name: x", "          ^"),
    "end-of-line": ("name:", 6, "    name:", "         ^"),
    "empty-line": ("", 1, "    ", "    ^"),
    "tab": ("\tname: x", 8, "    \\tname: x", "            ^"),
    "wide": ("日本: x", 5, "    日本: x", "          ^"),
    "combining": ("e\u0301: x", 5, "    e\u0301: x", "       ^"),
    "escape-sequence": ("\x1b[31mred: x", 11, "    \\x1b[31mred: x", "                 ^"),
    "reversing": ("\u202ex: y", 5, "    \\u202ex: y", "             ^"),
    "no-break-space": ("\u00a0x: y", 5, "    \\xa0x: y", "           ^"),
    "long-before": ("a" * 500 + "x", 501, "    ..." + "a" * 60 + "x", " " * 67 + "^"),
    "long-behind": ("x" + "a" * 500, 1, "    x" + "a" * 99 + "...", "    ^"),
    "long-both": ("a" * 500 + "x" + "b" * 500, 501, "    ..." + "a" * 60 + "x" + "b" * 39 + "...", " " * 67 + "^"),
    "just-fits": ("a" * 99 + "x", 100, "    " + "a" * 99 + "x", " " * 103 + "^"),
}


@pytest.mark.parametrize(("source", "column", "line", "caret"), CARETS.values(), ids=CARETS)
def test_caret(source: str, column: int, line: str, caret: str) -> None:
    """The caret is below its character for any line, and the line fits a terminal."""
    assert str(DeclarationError([problem(source, column)])).splitlines()[1:3] == [line, caret]


def test_hostile_text() -> None:
    """No text of a declaration, or the name of its file, controls the terminal."""
    evil = "\x1b]0;title\x07\r\u202e"
    text = str(DeclarationError([problem(evil, 1, file=evil, path=evil, message=evil, hint=evil)]))
    assert all(character.isprintable() for line in text.split("\n") for character in line)


def test_colour() -> None:
    """Colour comes only when asked for, and changes no letter."""
    error = DeclarationError([problem("name: x", 7, hint="h")])
    assert "\x1b" not in str(error)
    assert error.render(colour=True) == (
        "\x1b[1mf:1:7:\x1b[0m m\n    name: x\n          \x1b[31m^\x1b[0m\n  \x1b[36mhint:\x1b[0m h\n\n"
        "1 problem in f: nothing was changed."
    )


def test_order() -> None:
    """Problems come file by file and from top to bottom."""
    places = [("b", 2, 1), ("a", 9, 9), ("b", 1, 5), ("b", 1, 2)]
    error = DeclarationError(problem("", column, file=file, line=line) for file, line, column in places)
    assert [(each.file, each.line, each.column) for each in error.problems] == [
        ("b", 1, 2),
        ("b", 1, 5),
        ("b", 2, 1),
        ("a", 9, 9),
    ]


def test_copies() -> None:
    """An error has the same text in another process."""
    error = DeclarationError([problem("name: x", 7)])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("sim-h10", ["sim-h100", "sim-cpu"], "did you mean 'sim-h100'?"),
        ("Sim_H100", ["sim-h100", "sim-cpu"], "did you mean 'sim-h100'?"),
        ("zebra", ["b", "a"], "there are a and b"),
        ("zebra", ["a"], "there is only a"),
        ("zebra", [], ""),
        (
            "zebra",
            [f"{i:02}" for i in range(15)],
            "there are 00, 01, 02, 03, 04, 05, 06, 07, 08, 09, 10, 11 and 3 more",
        ),
    ],
)
def test_did_you_mean(word: str, known: list[str], hint: str) -> None:
    """The hint is the nearest spelling, or the allowed values."""
    assert did_you_mean(word, known) == hint
