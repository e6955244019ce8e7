"""Calendar days as texts, so that pure packages do not need the clock's module."""

from __future__ import annotations


def days_between(earlier: str, later: str) -> int:
    """Count the days between two days or times, each like 2026-11-22; negative when `later` is the earlier one."""
    return day_number(later) - day_number(earlier)


def day_number(text: str) -> int:
    """Count the days since a fixed day; raise ValueError for a text that is not a date."""
    year, month, day = (int(part) for part in text[:10].split("-"))
    if not (1970 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{text!r} is not a date")
    shifted, before = (year, month - 3) if month > 2 else (year - 1, month + 9)  # leap days come last
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * before + 2) // 5 + day
