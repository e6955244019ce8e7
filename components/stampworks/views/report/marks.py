"""Marks for verdicts, shares and numbers. Each colour comes with a shape, a pattern or a word."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import ceil, floor, log10
from xml.etree.ElementTree import Element

from stampworks.qualification import Verdict
from stampworks.qualification.rails import SHARE_MIN
from stampworks.views.report.tree import e

STEPS = (0.95, SHARE_MIN, 0.6, 0.3)
"""Limits at which the colour of a share changes. Each next one is darker; below SHARE_MIN it is also hatched."""
_WORDS = {"pass": "passed", "fail": "failed", "unknown": "unknown"}
_SHAPES = {
    "pass": "M2 7.5 5.5 11 12 3.5",
    "fail": "M3 3 11 11M11 3 3 11",
    "unknown": "M4.5 5a2.5 2.5 0 1 1 3.6 2.2Q7 7.8 7 9M7 11.3v.4",
}
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_NAME_MAX = 14
"""Characters of a name in a drawing. Tables have the whole name."""


def shape(verdict: Verdict) -> Element:
    """Return the mark without a word, for narrow places."""
    return e("svg", e("path", d=_SHAPES[verdict]), viewBox="0 0 14 14", class_="shape", role="img", aria_label=verdict)


def verdict_mark(verdict: Verdict) -> Element:
    """Return a shape and the word of a verdict."""
    return e("span", shape(verdict), verdict, class_=f"verdict {verdict}")


def simulated_mark(simulated: bool) -> Element | None:
    """Return the mark of simulated values, or None for real ones."""
    return e("span", "simulated", class_="simulated") if simulated else None


def step(share: float) -> int:
    """Return the colour of a share: 0 for a good one, up to 4 for the lowest."""
    return sum(share < limit for limit in STEPS)


def hatched(step: int) -> bool:
    """Whether a share of this colour is below the healthy limit."""
    return step > STEPS.index(SHARE_MIN)


def legend(*more: Element) -> Element:
    """Return the legend for the colours of shares."""
    limits = [percent(limit) for limit in STEPS]
    words = [f"{limits[0]} or more", *(f"{low} to {high}" for high, low in pairwise(limits))]
    swatches = [
        e("span", e("span", class_=f"swatch step{at}{' hatched' * hatched(at)}"), text, class_="key")
        for at, text in enumerate([*words, f"below {limits[-1]}"])
    ]
    return e(
        "p",
        e("span", "Share of the rate that the links must deliver:", class_="key"),
        *swatches,
        *more,
        class_="legend",
    )


def figures(drawn: Iterable[Element]) -> Element:
    """Place drawings side by side as far as the width allows."""
    return e("div", *drawn, class_="figures")


def percent(share: float) -> str:
    """Return a share as whole percent."""
    return f"{100 * share:.0f} %"


def number(value: float | None, unit: str = "") -> str:
    """Format a value with three significant digits."""
    return "unknown" if value is None else f"{float(f'{value:.3g}'):.15g} {unit}".rstrip()


def short(name: str) -> str:
    """Return a name cut to _NAME_MAX characters."""
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def counted(verdicts: Iterable[Verdict]) -> str:
    """Return the count of each verdict: 6 passed, 1 failed."""
    found = list(verdicts)
    return ", ".join(f"{found.count(each)} {word}" for each, word in _WORDS.items() if each in found)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from below the lowest value to above the highest, in at most so many steps."""
    extent = high - low if high - low > 1e-9 * max(abs(low), abs(high)) else abs(high) or 1.0
    power = 10.0 ** floor(log10(extent / 2))
    leads = (0.5, 1, 2, 5, 10, 20, 50)
    step = next(lead * power for lead in leads if extent / (lead * power) <= most)
    return [at * step for at in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]


def tick_label(value: float, ticks: list[float]) -> str:
    """Format a number of a scale with the digits that tell it from its neighbours."""
    most, step = max(map(abs, ticks)), ticks[1] - ticks[0]
    unit, letter = next(((unit, letter) for unit, letter in _LARGE if most >= unit), (1.0, ""))
    decimals = -floor(log10(step / unit) + 1e-9)
    if most >= 1e18 or decimals > 6:
        return number(value)
    return f"{value / unit:,.{max(0, decimals)}f} {letter}".rstrip()
