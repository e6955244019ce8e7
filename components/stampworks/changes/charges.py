"""Charges of a cluster and their sum: created by planning, shown by views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Charge:
    """The cost of one part of a cluster."""

    what: str
    basis: str
    """The billed items in words. Charges with the same basis and price cost the same."""
    usd_per_hour_min: float | None
    """Cost while only the nodes run that always do."""
    usd_per_hour: float | None
    """Cost while all nodes run."""
    why: str
    """The source of the price, or the reason why there is none."""
    sold: bool = True
    """Whether the provider charges for this item."""

    @property
    def price(self) -> tuple[str, float | None, float | None]:
        """Return everything that determines whether two charges cost the same."""
        return self.basis, self.usd_per_hour_min, self.usd_per_hour


@dataclass(frozen=True)
class Cost:
    """The charges of a cluster."""

    charges: tuple[Charge, ...]
    uncounted: tuple[str, ...] = ()
    """Items that are billed besides, without a charge here."""

    @property
    def usd_per_hour_min(self) -> float | None:
        """The sum of the known lower bounds; None when no charge has a price."""
        return _sum(each.usd_per_hour_min for each in self.charges)

    @property
    def usd_per_hour(self) -> float | None:
        """Return the sum; None when a charge is unknown."""
        return _sum(each.usd_per_hour for each in self.charges)


def _sum(charges: Iterable[float | None]) -> float | None:
    known = [*charges]
    return None if None in known else sum(each or 0 for each in known)
