"""What something costs, where a part of it does not always run."""

from __future__ import annotations

from stampworks.changes.charges import Cost


def usd(least: float | None, most: float | None, sign: str = "") -> str:
    """One number, or both; with sign "+", that of each."""
    if least is None or most is None:
        return "unknown"
    words = dict.fromkeys(f"{each:{sign},.2f}" for each in sorted((least, most)))  # a difference may be less of more
    return " to ".join(words)


def uncounted(cost: Cost) -> str:
    """What a sum leaves out; empty where that is nothing."""
    return f"not counted: {'; '.join(cost.uncounted)}" if cost.uncounted else ""
