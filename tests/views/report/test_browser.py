"""A report as a browser shows and prints it, checked pixel by pixel if needed."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from stampworks.qualification import Checked
from stampworks.views.report import left, report_html, report_of

from tests.views.report.browser import Page, browser, pixels
from tests.views.report.proven import certificate_of, plan_of
from tests.views.report.trained import a_run

SCREEN, A4 = 1120, 688
"""Points of a window, and of a page of paper between its margins."""
BAD_EVENTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
SIZES = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
NIGHT = [{"name": "prefers-color-scheme", "value": "dark"}]
CELL = """(() => {
    const row = [...document.querySelectorAll('.heat tbody tr')].find(each => each.cells[0].innerText === '%s');
    const {x, y, width, height} = row.querySelectorAll('.link')[1].getBoundingClientRect();
    return {x: x + scrollX, y: y + scrollY, width, height};
})()"""


@pytest.mark.long
def test_a_report_in_a_browser(tmp_path: Path) -> None:
    """The page fits screen and paper, marks verdicts without colours, and requests nothing."""
    plan = plan_of(8, oversubscription=2)
    certificate, all_of_it = (
        certificate_of(plan, {("gpu-003", "rail1"): 0.2}, level, ["gpu-007"]) for level in ("standard", "burn-in")
    )
    odd = dataclasses.replace(all_of_it.nodes[0], name="n" * 300, why=("<script>alert(1)</script>" + "w" * 500,))
    strange = dataclasses.replace(all_of_it, cluster="c" * 300, nodes=(odd, *all_of_it.nodes[1:]))
    usual, wide = tmp_path / "usual.html", tmp_path / "wide.html"
    odd_run = a_run(300) | {"device": "d" * 500, "remarks": ["r" * 500]}
    runs = [[left("a", json.dumps(each))] for each in (a_run(), odd_run)]
    of_usual = report_of(Checked("unknown", "no key", certificate), plan, runs=runs[0])
    of_wide = report_of(Checked("unknown", "no key", strange), runs=runs[1])
    usual.write_text(report_html(of_usual), encoding="utf-8")
    wide.write_text(report_html(of_wide), encoding="utf-8")

    with browser(tmp_path) as page:
        page.show(usual, SCREEN)
        fits(page)
        text = page.tell("document.body.innerText")
        assert all(
            said in text for said in ("acceptance", "FAIL", "gpu-003", "held by ann: new fans", "simulated", "Run demo")
        )
        good, bad = (shades(page.picture(**page.tell(CELL % node))) for node in ("gpu-002", "gpu-003"))
        assert mean(good) - mean(bad) > 0.3 * 255
        assert changes(good[2]) == 0  # above the number: nothing, and stripes in the other one
        assert changes(bad[2]) > 8
        whole = shades(page.picture(x=0, y=0, width=SCREEN, height=300))
        assert len({shade for row in whole for shade in row}) > 50
        page.ask("Emulation.setEmulatedMedia", media="screen", features=NIGHT)
        dark = shades(page.picture(x=0, y=0, width=SCREEN, height=300))
        page.ask("Emulation.setEmulatedMedia", media="screen", features=[])
        assert mean(dark) < 0.3 * 255 < 0.7 * 255 < mean(whole)
        paper = page.paper()
        assert paper.startswith(b"%PDF-")
        assert 3 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 12
        page.show(wide, SCREEN)
        fits(page)
        asked = [heard["params"]["request"]["url"] for heard in page.events if "request" in heard.get("params", {})]
        assert asked == [usual.as_uri(), wide.as_uri()]
        assert [heard for heard in page.events if heard.get("method") in BAD_EVENTS] == []


def fits(page: Page) -> None:
    """Check that nothing is wider than the window or paper; restore the page."""
    for media, width in (("print", A4), ("screen", SCREEN)):
        page.ask("Emulation.setEmulatedMedia", media=media)
        page.resize(width)
        wanted, there = page.tell(SIZES)
        assert wanted <= there <= width


def shades(png: bytes) -> list[list[float]]:
    """Return the brightness of each pixel, which is left without colours."""
    return [[0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in row] for row in pixels(png)]


def mean(picture: Sequence[Sequence[float]]) -> float:
    return sum(map(sum, picture)) / sum(map(len, picture))


def changes(row: Sequence[float]) -> int:
    """Return the number of changes between bright and dark."""
    inner = row[3:-3]
    middle = (max(inner) + min(inner)) / 2
    if max(inner) - min(inner) < 16:
        return 0
    return sum((one < middle) != (other < middle) for one, other in pairwise(inner))
