"""How a verdict, a share and a number look. Whatever has a colour says the same by a shape, a pattern or a word."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from xml.etree.ElementTree import Element

from stampworks.qualification import Verdict
from stampworks.qualification.rails import SHARE_MIN
from stampworks.views.report.tree import e

STEPS = (0.95, SHARE_MIN, 0.6, 0.3)
"""Where the colour of a share changes. Each next one is darker; below SHARE_MIN it is hatched, too."""
_WORDS = {"pass": "passed", "fail": "failed", "unknown": "unknown"}
_SHAPES = {
    "pass": "M2 7.5 5.5 11 12 3.5",
    "fail": "M3 3 11 11M11 3 3 11",
    "unknown": "M4.5 5a2.5 2.5 0 1 1 3.6 2.2Q7 7.8 7 9M7 11.3v.4",
}
_NAME_MAX = 14
"""Of a name in a drawing, which has to end somewhere; tables have the whole of it."""


def shape(verdict: Verdict) -> Element:
    """Where there is no room for a word."""
    return e("svg", e("path", d=_SHAPES[verdict]), viewBox="0 0 14 14", class_="shape", role="img", aria_label=verdict)


def verdict_mark(verdict: Verdict) -> Element:
    return e("span", shape(verdict), verdict, class_=f"verdict {verdict}")


def simulated_mark(simulated: bool) -> Element | None:
    return e("span", "simulated", class_="simulated") if simulated else None


def step(share: float) -> int:
    """0 for what is as it should be, up to 4 for what is hardly there."""
    return sum(share < limit for limit in STEPS)


def hatched(step: int) -> bool:
    """Whether such a share is less than what counts as healthy."""
    return step > STEPS.index(SHARE_MIN)


def legend(*more: Element) -> Element:
    """What the colours of shares mean."""
    limits = [percent(limit) for limit in STEPS]
    words = [f"{limits[0]} or more", *(f"{low} to {high}" for high, low in pairwise(limits))]
    swatches = [
        e("span", e("span", class_=f"swatch step{at}{' hatched' * hatched(at)}"), text, class_="key")
        for at, text in enumerate([*words, f"below {limits[-1]}"])
    ]
    return e("p", e("span", "Part of what the links must deliver:", class_="key"), *swatches, *more, class_="legend")


def figures(drawn: Iterable[Element]) -> Element:
    """Beside each other as far as there is room."""
    return e("div", *drawn, class_="figures")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def number(value: float | None, unit: str = "") -> str:
    """As many digits as a measurement has."""
    return "unknown" if value is None else f"{float(f'{value:.3g}'):.15g} {unit}".rstrip()


def short(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def counted(verdicts: Iterable[Verdict]) -> str:
    """How many of each: 6 passed, 1 failed."""
    found = list(verdicts)
    return ", ".join(f"{found.count(each)} {word}" for each, word in _WORDS.items() if each in found)
