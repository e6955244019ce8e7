"""Upper and lower bounds of numbers, each with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from stampworks.catalog import Unknown

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Bound:
    """A predicted number with its derivation."""

    value: float
    why: str


@dataclass(frozen=True)
class Bounds:
    """The range of a measured number: above the ceiling it is wrong, at the floor or below something is broken."""

    ceiling: Bound
    floor: Bound


class UnknownFactError(Exception):
    """A number cannot be derived, because the catalog lacks a fact; the text names it."""


def known(fact: Fact | Unknown, what: str) -> Fact:
    """Return the fact itself; raise an error that names it when it is unknown."""
    if isinstance(fact, Unknown):
        raise UnknownFactError(f"the catalog does not know {what}")
    return fact


def rounded(value: float) -> float:
    """Round to four significant digits, which is more precise than any measurement."""
    return float(f"{value:.4g}")


def figure(value: float) -> str:
    """Return the rounded value as text."""
    return f"{rounded(value):.15g}"
