"""Training runs in a report, for records with any content."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from stampworks.text.printable import printable
from stampworks.views.report import Report, left, report_html, report_json, report_markdown, report_of

from tests.views.report.proven import certificate_of, plan_of
from tests.views.report.test_report import HOSTILE, Page, checked, strange
from tests.views.report.trained import a_run, text

PLAN = plan_of(2)
CERTIFICATE = certificate_of(PLAN, level="quick")


def report(*records: dict[str, Any]) -> Report:
    runs = [left(f"run-{number}", text(each)) for number, each in enumerate(records, 1)]
    return report_of(checked(CERTIFICATE), PLAN, runs=runs)


def why(found: Any) -> str:
    return left("run", found if isinstance(found, str) else json.dumps(found)).why


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    found = copy.deepcopy(a_run())
    change(found)
    return found


def test_where_every_second_went() -> None:
    """All bins, with their part, and the whole; in all forms."""
    found = report(a_run())
    page, markdown = Page(report_html(found)).text, report_markdown(found)
    data = json.loads(report_json(found))["training"]["runs"][0]["record"]
    assert sum(each["seconds"] for each in data["bins"]) == pytest.approx(data["account"]["wall_s"])
    for each in data["bins"]:
        assert f"| {each['name']} |" in markdown
        assert each["meaning"] in page
        assert each["name"] in page
    assert "| lost | 0.7 s | 4.1 % |" in markdown
    assert "| all of it | 17.1 s | 100.0 % | wall time |" in markdown


def test_report_of_a_run() -> None:
    """The report has state, goodput, speed, failures with their cost, and checkpoints."""
    found = report(a_run())
    page, markdown = Page(report_html(found)).text, report_markdown(found)
    for said in ("Run demo", "finished", "24 of 24, 1 lost and done again", "4 on cpu (gloo)", "ended by signal 9"):
        assert said in page
        assert said in markdown
    assert "| 7.7 s | rank | gpu-002 rank 3 | 9 | 1 | 0.7 s | 0.9 s | 1.4 s | memory | ended by signal 9 |" in markdown
    assert "| 14.8 s | 20 | 0.1 s | 0.8 s | 9.6 MB |" in markdown
    assert "tracking: mlflow was not told of 3 steps" in page
    assert "a checkpoint every 5 s: sqrt(2 x 0.1 s x 125 s) = 5 s" in page


def test_simulated_nodes_are_marked() -> None:
    """Page and Markdown mark them, so that their speed is not taken for that of accelerators."""
    found = report(a_run())
    assert found.training.simulated
    section = report_html(found).partition("<h2>Training</h2>")[2].partition("</section>")[0]
    assert section.count('<span class="simulated">simulated</span>') == 2
    assert re.search(r"^- Throughput: .* tokens/s \(simulated\)$", report_markdown(found), re.MULTILINE)


def test_the_last_two_runs_are_compared() -> None:
    """Common figures are shown with their change; a single run has no such table."""
    assert not report(a_run()).training.changes
    found = report(a_run(48, name="second"), a_run(name="first"))
    steps = next(each for each in found.training.changes if each.name == "steps")
    assert (steps.then, steps.now, steps.percent) == (24, 48, 100.0)
    assert "| figure | run first | run second | change |" in report_markdown(found)
    assert "| steps | 24 | 48 | +100.0 % |" in report_markdown(found)
    assert "+100.0 %" in Page(report_html(found)).text


def test_use_of_the_accelerators_is_drawn_where_it_is_known() -> None:
    """It follows from the rate of each step and the run's share of the peak. Without a peak, or with other ranks,
    nothing is drawn."""
    known = changed(lambda run: run["account"].update(share_of_peak=0.4))
    drawn = "share of the accelerators' peak, %, by step"
    assert drawn not in Page(report_html(report(a_run()))).text
    assert drawn in Page(report_html(report(known))).text
    known["generations"][1]["world"] = 2
    assert drawn not in Page(report_html(report(known))).text


def test_memory_is_drawn_where_accelerators_told_it() -> None:
    """Memory is in GiB; nodes without accelerators report none."""
    drawn = "memory of the first accelerator, GiB, by step"
    assert drawn not in Page(report_html(report(a_run()))).text
    known = changed(lambda run: [point.update(memory=3 << 30) for point in run["curve"]])
    assert drawn in Page(report_html(report(known))).text
    assert re.search(rf'aria-label="{drawn}, from 3 to 3"', report_html(report(known)))


def test_drawings_have_a_second_sign() -> None:
    """A failure is a dashed line with a triangle, a checkpoint a square: colour alone has no meaning."""
    section = report_html(report(a_run())).partition("<h2>Training</h2>")[2].partition("</section>")[0]
    assert section.count("<polyline") == section.count("<figure") == 2
    assert section.count('class="failed mark"') == 2
    assert section.count('class="saved"') == 4
    broken = a_run()
    broken["curve"][12]["loss"] = None
    section = report_html(report(broken)).partition("<h2>Training</h2>")[2].partition("</section>")[0]
    assert section.count("<polyline") == 3


def test_several_runs_in_their_order() -> None:
    """Each run has its name; a run that cannot be shown has the reason."""
    found = report(a_run(name="second"), a_run(name="first"), {"version": 2})
    assert re.findall(r"^### Run (.*)$", report_markdown(found), re.MULTILINE) == ["second", "first", "run-3"]
    for form in (Page(report_html(found)).text, report_markdown(found)):
        assert "it is of version 2, and this release reads version 1: a newer release of Stampworks may read it" in form


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("{", "it is not JSON: "),
        ("[" * 100_000, "it is not JSON: "),
        ("[]", "it is not a JSON object"),
        ("{}", "it is of version None, and this release reads version 1"),
        (" " * (3 << 20), "it has more than 2 MiB"),
        ('{"version": NaN}', "it is not JSON: NaN is not a number"),
        ({"version": 1}, "it is not a record of a run: 'account'"),
        (changed(lambda found: found.pop("curve")), "it is not a record of a run: Record: lacks curve"),
        (changed(lambda found: found.update(more=1)), "it is not a record of a run: Record: knows no more"),
        (changed(lambda found: found["account"].update(step="9")), "expected int, got '9'"),
        (changed(lambda found: found["account"]["bins"].update(lost=99.0)), "its seconds do not sum to its wall time"),
        (
            changed(lambda found: found["failures"][0].update(lost_s=-1.0)),
            "record.failures.lost_s: -1 is out of the range",
        ),
        (changed(lambda found: found["curve"][0].update(tokens_per_s=1e30)), "record.curve.tokens_per_s: 1e+30 is out"),
        (changed(lambda found: found.update(curve=found["curve"] * 50)), "record.curve: has 1200 items, and 1000 are"),
        (changed(lambda found: found.update(remarks=["x"] * 201)), "record.remarks: has 201 items, and 200 are enough"),
        (
            changed(lambda found: found.update(device="x" * 501)),
            "record.device: has 501 characters, and 500 are enough",
        ),
    ],
)
def test_malformed_record_is_refused(found: Any, said: str) -> None:
    """The record is refused as a whole, with the place; the rest of the report is written."""
    assert why(found).startswith("Its record cannot be shown: ")
    assert said in why(found)


def test_text_is_never_markup() -> None:
    """Names, reasons and settings of any content leave the elements of the page unchanged."""
    harmless, hostile = (strange(a_run(), harm) for harm in ("x", HOSTILE))
    pages = [Page(report_html(report(each))) for each in (harmless, hostile)]
    assert pages[0].shape == pages[1].shape
    assert f"ended by signal 9{printable(HOSTILE)}" in pages[1].text
    bare = re.sub(r"\\.", "", report_markdown(report(hostile)))
    assert re.search(r"[<>`\[\]&]|https?://", bare) is None


@pytest.mark.parametrize("losses", [[None] * 24, [0.0] * 24, [-1e300, 1e300] * 12, [5e-324] * 24, [1e17] * 24])
def test_any_curve_can_be_drawn(losses: list[float | None]) -> None:
    """A curve that cannot be drawn is left out."""
    found = a_run()
    for point, loss in zip(found["curve"], losses, strict=True):
        point["loss"] = loss
    for form in (report_html, report_markdown, report_json):
        form(report(found))


@pytest.mark.parametrize("steps", [0, 1, 2, 1000])
def test_runs_of_any_length(steps: int) -> None:
    """This includes a run without a step."""
    found = report(a_run(steps, failing=0))
    assert "Run demo" in Page(report_html(found)).text
    assert "### Run demo" in report_markdown(found)


def test_where_nothing_is_known() -> None:
    """The section has the reason and a remedy."""
    assert "not have them. The report of a stack does" in report_markdown(report_of(checked(CERTIFICATE)))
    assert "No run has left a record yet: stampworks submit training NAME." in report_markdown(report())
    told = report_of(checked(CERTIFICATE), PLAN, runs="Training runs are unknown: nobody answers.")
    assert "Training runs are unknown: nobody answers." in Page(report_html(told)).text
