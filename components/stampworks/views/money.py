"""Costs in words, as a range if a part does not always run."""

from __future__ import annotations

from stampworks.changes.charges import Cost


def usd(least: float | None, most: float | None, sign: str = "") -> str:
    """Return one amount, or the least and the most. With sign "+" each amount has a sign."""
    if least is None or most is None:
        return "unknown"
    # a difference of ranges may have its ends swapped
    words = dict.fromkeys(f"{each:{sign},.2f}" for each in sorted((least, most)))
    return " to ".join(words)


def uncounted(cost: Cost) -> str:
    """Return the parts that a sum leaves out; empty if there are none."""
    return f"not counted: {'; '.join(cost.uncounted)}" if cost.uncounted else ""
