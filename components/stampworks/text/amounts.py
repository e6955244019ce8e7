"""Counts for people: 70B, 15T, 1.4e12, 1 node, 16 nodes; and amounts of Kubernetes: 1k, 2Gi.

Standard library only, so that every room may import it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

AMOUNT_PATTERN = r"^[0-9]{1,30}(\.[0-9]{1,30})?([eE]\+?[0-9]{1,2})?[kKmMbBgGtT]?$"
_PARTS = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)(?:[eE]\+?([0-9]{1,2}))?([kmbgt]?)", re.ASCII)
_SIZES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_QUANTITY_MAX = 64
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?")
_SUFFIXES = {
    **{letter: 10.0 ** (3 * power) for power, letter in enumerate(("n", "u", "m", "", "k", *"MGTPE"), start=-3)},
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)},
}
HOW = "write it like 70B, 15T, 1.4e12 or 8030261248"


def amount(text: str) -> int:
    """Return the count in a text. Raise ValueError, which says what is wrong with the text."""
    parts = _PARTS.fullmatch(text.strip().replace("_", "").lower())
    if not parts:
        raise ValueError(f"{text[:60]!r} is no count")
    value = Fraction(parts[1]) * 10 ** int(parts[2] or 0) * _SIZES[parts[3]]
    if value.denominator != 1:
        raise ValueError(f"{text[:60]!r} is no whole number")
    return int(value)


def counted(count: int, what: str) -> str:
    """Return a count with its noun, singular for 1."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def many(count: float) -> str:
    """Return a count with four digits and a letter: 8.03B, 15T, 250.7k."""
    for letter, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{float(f'{count / size:.4g}'):.15g}{letter}"
    return f"{float(f'{count:.4g}'):.15g}"


def quantity(amount: Any) -> float | None:
    """Return the value of a Kubernetes amount, such as 1k for 1000; None if the text is no amount."""
    text = str(amount).strip()
    found = _QUANTITY.fullmatch(text) if len(text) <= _QUANTITY_MAX else None
    if found is None:
        return None
    digits, suffix = found[1], found[2] or ""
    return float(digits) * _SUFFIXES[suffix] if suffix in _SUFFIXES else float(digits + suffix)
