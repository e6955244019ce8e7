"""Charges of a cluster, and their sum: made by planning, shown by views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Charge:
    """What a part of a cluster costs."""

    what: str
    basis: str
    """What is paid for, with all that is billed: of the same basis and price, nothing more is to be paid."""
    usd_per_hour_min: float | None
    """While only those nodes run that always do."""
    usd_per_hour: float | None
    """While all of them run."""
    why: str
    """Whose price it is, or why there is none."""
    sold: bool = True
    """Whether somebody sells it at all."""

    @property
    def price(self) -> tuple[str, float | None, float | None]:
        """What is paid, and for what."""
        return self.basis, self.usd_per_hour_min, self.usd_per_hour


@dataclass(frozen=True)
class Cost:
    charges: tuple[Charge, ...]
    uncounted: tuple[str, ...] = ()
    """What is billed besides, and is no charge here."""

    @property
    def usd_per_hour_min(self) -> float | None:
        return _sum(each.usd_per_hour_min for each in self.charges)

    @property
    def usd_per_hour(self) -> float | None:
        """None as soon as one charge is not known."""
        return _sum(each.usd_per_hour for each in self.charges)


def _sum(charges: Iterable[float | None]) -> float | None:
    known = [*charges]
    return None if None in known else sum(each or 0 for each in known)
