"""Text of others as a terminal shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks.text.printable import masking, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with ümlaut", "plain, with ümlaut"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\u202eright to left", "\\u202eright to left"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("half \udc80", "half \\udc80"),
        ("größer 日本語 Ω", "größer 日本語 Ω"),
        ("bell\a tab\t", "bell\\x07 tab\\t"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    """Names and reasons cannot colour, move or hide anything."""
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_nothing_is_left_to_obey(text: str) -> None:
    """A terminal only shows any text; lines stay lines."""
    assert printable(text).isprintable()
    assert all(line.isprintable() for line in printable_lines(text).split("\n"))


def test_a_secret_that_begins_with_another_is_masked_as_a_whole() -> None:
    """Masking the shorter one first would leave the rest of the longer one readable."""
    mask = masking(["hunter", "hunter-and-gatherer\nhunter-and"])
    assert mask("key: hunter-and-gatherer, hunter") == "key: [secret], [secret]"
