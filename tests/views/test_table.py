"""Tables and paragraphs of plain text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.text.printable import printable
from stampworks.views.table import explained, paragraph, table

relaxed = settings(deadline=None)  # the machine's load says nothing about the code


def test_numbers_stand_right_and_words_left() -> None:
    """A column is right-aligned if all its entries are numbers, numbers with a unit, or dashes."""
    assert table(("pool", "count", "rate", "note"), [("gpu", 4, "200 Mb/s", "a"), ("prep", 128, "-", "b")], 80) == [
        "  pool  count      rate  note",
        "  gpu       4  200 Mb/s  a",
        "  prep    128         -  b",
    ]


def test_the_last_column_wraps_below_itself() -> None:
    """The other columns are never broken."""
    assert table(("what", "because"), [("a", "one two three four five six seven")], 32) == [
        "  what  because",
        "  a     one two three four five",
        "        six seven",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    """Only the header is printed."""
    assert table(("a", "b"), [], 80) == ["  a  b"]


def test_no_line_ends_in_a_space() -> None:
    """Text can be pasted and compared."""
    assert table(("a", "long header"), [("x", ""), ("y", "z")], 80) == ["  a  long header", "  x", "  y  z"]


def test_explained_rows_are_aligned_with_their_texts_between_them() -> None:
    """Numbers are aligned, for any explanation between them."""
    assert explained([("first", "1", "GB/s"), ("second", "10", "GB/s")], ["because", "so"], 80) == [
        "  first    1  GB/s",
        "      because",
        "  second  10  GB/s",
        "      so",
    ]
    assert explained([], [], 80) == []


def test_a_paragraph_keeps_its_indent() -> None:
    """Words are not broken."""
    assert paragraph("word " * 3 + "w" * 40, 30, "    ") == ["    word word word", "    " + "w" * 40]


@relaxed
@given(st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=1), st.integers(1, 120))
def test_no_text_breaks_a_table(rows: list[tuple[str, str, str]], width: int) -> None:
    """Any content of cells is printed safely, with the whole first column."""
    lines = table(("a", "b", "c"), rows, width)
    assert all(line.isprintable() for line in lines)
    assert all(any(printable(row[0]).strip() in line for line in lines) for row in rows)


def test_numbers_of_thousands_are_numbers_and_lists_are_none() -> None:
    lines = table(("a", "b", "c"), [("1,702,000", "7, 8", ""), ("598.6", "1", "")], 80)
    assert lines == ["          a  b     c", "  1,702,000  7, 8", "      598.6  1"]
