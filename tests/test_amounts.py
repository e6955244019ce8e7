"""Counts as people write them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks.text.amounts import AMOUNT_PATTERN, amount, counted, many, quantity


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("70e9", 70 * 10**9), ("70B", 70 * 10**9), ("15T", 15 * 10**12), ("1.4e12", 14 * 10**11), ("0.5b", 5 * 10**8),
        ("8030261248", 8030261248), ("8_030_261_248", 8030261248), ("250.7k", 250_700), ("3E+3", 3000),
        ("15.6T", 156 * 10**11),
    ],
)  # fmt: skip
def test_reads_exact_counts(text: str, count: int) -> None:
    """Counts are exact, because none passes through a float."""
    assert amount(text) == count


@pytest.mark.parametrize(
    "text", ["", "B", "-7B", "7Q", "nan", "inf", "1e999", "7 B B", "0x10", "½", "1.5", "1e-3", "٣"]
)
def test_refuses_other_counts(text: str) -> None:
    """No value is rounded, negative, infinite or guessed."""
    with pytest.raises(ValueError, match=r"is no (count|whole number)"):
        amount(text)


@given(st.integers(1, 10**18))
def test_a_whole_number_is_itself(count: int) -> None:
    assert amount(str(count)) == count
    assert re.match(AMOUNT_PATTERN, str(count))


@given(st.integers(1, 10**15))
def test_shown_counts_can_be_read(count: int) -> None:
    """The four digits have nearly the same value."""
    assert amount(many(count)) == pytest.approx(count, rel=1e-3)


def test_one_is_singular() -> None:
    assert [counted(count, "node") for count in (0, 1, 2, 1000)] == ["0 nodes", "1 node", "2 nodes", "1000 nodes"]


NO_AMOUNTS: list[Any] = ["", "k", "1K", "1 k", "1kk", "nan", "inf", "1_0", "1e999", "9" * 5000, None, []]


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (8, 8),
        ("992", 992),
        ("1k", 1000),
        ("2k", 2000),
        ("4e3", 4000),
        ("1E", 1e18),
        ("1.5Gi", 1.5 * 2**30),
        ("100m", 0.1),
        ("-.5", -0.5),
        *((wrong, None) for wrong in NO_AMOUNTS),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(said: Any, number: float | None) -> None:
    """Text that is no quantity is refused, however long it is."""
    found = quantity(said)
    assert found == number if number is None else found == pytest.approx(number)
