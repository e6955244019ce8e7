"""Reports in all forms, for certificates with any content.

`pytest tests/views/report --regenerate` records the certificate and the golden reports again.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from stampworks.plan import from_dict, to_dict, to_json
from stampworks.qualification import Certificate, Checked, Measured
from stampworks.text.printable import printable
from stampworks.views import report as views_report
from stampworks.views.report import Event, Report, left, report_html, report_json, report_markdown, report_of
from stampworks.views.report.marks import number, tick_label, ticks

from tests.views.report.proven import certificate_of, plan_of
from tests.views.report.trained import a_run

STYLE = Path(views_report.__file__).with_name("style.css")
GOLDEN = Path(__file__).parent / "golden"
PLAN = plan_of(8, oversubscription=2)
STAMPING = (
    Event("2026-11-21T18:58:00Z", "made: LocalRoom acceptance, LocalNetwork acceptance"),
    Event("2026-11-21T18:58:41Z", "made: LocalGroup acceptance-gpu"),
)
FORMS: tuple[Callable[[Report], str], ...] = (report_html, report_markdown, report_json)
VOID = {"meta"}
HOSTILE = (
    "</style></title><script>alert(1)</script><svg "
    "onload='x()'>\"|`[a](javascript:x)![b](http://x)\x1b[31m\u202e\x00&amp;"
)


def checked(certificate: Certificate) -> Checked:
    return Checked("pass", "signed by key 0011223344556677", certificate)


class Page(HTMLParser):
    """Elements of a page by a parser; each has its end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shape: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shape.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(name, value or "") for name, value in attrs]
        self.open += [tag] if tag not in VOID else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self.open[-1:] != ["style"] else ""


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture
def recorded(regenerate: bool, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """Return a certificate of 8 nodes, measured for long: a node has a slow rail, and a person holds another node."""
    file = GOLDEN / "certificate.json"
    if regenerate:
        certificate = certificate_of(PLAN, {("gpu-003", "rail1"): 0.2}, "standard", ["gpu-007"])
        file.write_text(to_json(certificate), encoding="utf-8")
    certificate = from_dict(Certificate, json.loads(file.read_text(encoding="utf-8")))
    # the certificate was proven for this fingerprint, whatever later plans have
    monkeypatch.setattr("stampworks.views.report.fingerprint", lambda _: certificate.fingerprint)
    return certificate


@pytest.mark.parametrize(("name", "form"), [("report.json", report_json), ("report.md", report_markdown)])
def test_the_recorded_one(name: str, form: Callable[[Report], str], recorded: Certificate, regenerate: bool) -> None:
    """Data and Markdown equal the reviewed files."""
    if regenerate:
        (GOLDEN / "record.json").write_text(json.dumps(a_run(), indent=1) + "\n", encoding="utf-8")
    run = left("demo", (GOLDEN / "record.json").read_text(encoding="utf-8"))
    text = form(report_of(checked(recorded), PLAN, STAMPING, [run]))
    if regenerate:
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text.splitlines() == (GOLDEN / name).read_text(encoding="utf-8").splitlines()


def test_all_forms_say_the_same(recorded: Certificate) -> None:
    """Each form has node, finding and reason."""
    found = report_of(checked(recorded), PLAN, STAMPING)
    page, markdown = Page(report_html(found)).text, report_markdown(found).replace("\\", "")
    said = [text for finding in recorded.findings for text in (finding.why, finding.derivation)]
    said += [event.what for event in STAMPING]
    said += [reason for node in recorded.nodes for reason in node.why] + [recorded.fingerprint, recorded.toolkit]
    said += [expectation.why for expectation in PLAN.expectations] + [version for _, version in PLAN.release.versions]
    for text in said:
        assert text in markdown
        assert text in page


def test_a_page_needs_nothing_but_itself(recorded: Certificate) -> None:
    """The page has no script and no external resource, and forbids loading any."""
    text = report_html(report_of(checked(recorded), PLAN))
    page = Page(text)
    assert {tag for tag, _ in page.shape}.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "style")]
    assert set(re.findall(r"url\([^)]*\)|@import|https?:", text)) == {"url(#hatch)"}
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_the_contents_lead_to_every_section(recorded: Certificate) -> None:
    """Each second-level heading has its link, in order."""
    text = report_html(report_of(checked(recorded), PLAN))
    contents = re.search(r'<nav aria-label="contents">(.*?)</nav>', text, re.DOTALL)
    assert contents
    links = re.findall(r'<a href="#(\w+)">(.*?)</a>', contents[1])
    assert links == re.findall(r'<section id="(\w+)"><h2>(.*?)</h2>', text)
    assert len(links) >= 10


def test_values_of_nodes_stand_on_a_scale(recorded: Certificate) -> None:
    """Each strip has round numbers that enclose its values, and a text alternative."""
    found = report_of(checked(recorded), PLAN)
    strips = re.findall(r'<td class="strip"><svg [^>]*aria-label="([^"]*)">(.*?)</svg>', report_html(found))
    assert len(strips) == len(found.nodes)
    for spread, (label, drawn) in zip(found.nodes, strips, strict=True):
        assert label.endswith(f"to {number(spread.values[-1].value, spread.unit)}")
        assert drawn.count('class="tick"') == len(spread.values)
        low, high, unit = re.findall(r"<text [^>]*>([^<]*)</text>", drawn)
        assert unit == spread.unit
        assert scaled(low) <= spread.values[0].value <= spread.values[-1].value <= scaled(high)
        assert scaled(low) < scaled(high)


def scaled(text: str) -> float:
    """Read a number of a scale; a billionth more or less is nothing."""
    figure, _, letter = text.replace(",", "").partition(" ")
    return float(figure) * {"": 1.0, "M": 1e6, "G": 1e9, "T": 1e12}[letter]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (98.9, 99.6, ["98.5", "99.0", "99.5", "100.0"]),
        (28e6, 28e6, ["20 M", "30 M"]),
        (2000.0, 2000.0, ["2,000", "3,000"]),
        (0.0, 0.0, ["0.0", "0.5"]),
        (-3.0, 7.0, ["-5", "0", "5", "10"]),
        (1.25e9, 3.1e9, ["1 G", "2 G", "3 G", "4 G"]),
    ],
)
def test_a_scale_has_round_numbers(low: float, high: float, labels: list[str]) -> None:
    """They enclose the values, even if all are equal."""
    found = ticks(low, high, most=3)
    assert [tick_label(each, found) for each in found] == labels


def palette(style: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", style))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_can_be_read_by_day_and_night() -> None:
    """Every colour of text has the contrast of 4.5 that WCAG 2 asks for, on either ground."""
    style = STYLE.read_text(encoding="utf-8")
    night = re.search(r"prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}", style, re.DOTALL)
    assert night
    for colours in (palette(style.partition("@media")[0]), palette(night[1])):
        for ground in ("paper", "faint"):
            for ink in ("ink", "soft", "good", "bad", "open"):
                pair = sorted((luminance(colours[ink]), luminance(colours[ground])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (ink, ground)


def test_earlier_proofs_are_compared_with_this_one(recorded: Certificate) -> None:
    """Figures are compared with the latest one; a first proof says so."""
    assert "--earlier adds their files" in report_markdown(report_of(checked(recorded)))
    assert "This is the first proof that is known." in report_markdown(report_of(checked(recorded), earlier=[recorded]))
    slower = tuple(
        dataclasses.replace(each, value=each.value / 2) if each.quantity == "matmul_fp32" else each
        for each in recorded.measured
    )
    older, old = (
        dataclasses.replace(recorded, started=f"2026-11-{day}T09:00:00Z", ended=f"2026-11-{day}T09:02:30Z", **more)
        for day, more in (("18", {"verdict": "pass"}), ("19", {"measured": slower}))
    )
    found = report_of(checked(recorded), earlier=[older, old])
    assert [row.started for row in found.proofs.rows] == [recorded.started, old.started, older.started]
    [matmul] = [each for each in found.proofs.changes if each.name.startswith("matmul")]
    assert matmul.percent == 100.0
    page, markdown = Page(report_html(found)).text, report_markdown(found)
    for said in ("2026-11-18T09:00:00Z", "+100.0 %", "This proof and the previous one"):
        assert said in page
        assert said in markdown


def test_every_colour_has_a_second_sign(recorded: Certificate) -> None:
    """A failed link has a shape and a hatch in addition to its colour; verdicts are words."""
    text = report_html(report_of(checked(recorded), PLAN))
    [row] = re.findall(r"<tr><th>gpu-003</th><td>leaf1-1</td>(.*?)</tr>", text)
    good, bad, whole = re.findall(r"<td.*?</td>", row)
    assert re.fullmatch(r'<td class="link step0"><span>\d+ %</span></td>', good)
    assert re.fullmatch(r'<td class="link step4 hatched"><span><svg .*aria-label="fail".*</svg>20 %</span></td>', bad)
    assert Page(whole).text == "fail, held back"
    assert Page(text).text.count("simulated") >= 3


def strange(value: Any, harm: str) -> Any:
    """Return the same certificate with hostile characters after every free text."""
    if isinstance(value, dict):
        kept = ("verdict", "level", "started", "fingerprint", "quantity")
        return {name: item if name in kept else strange(item, harm) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strange(item, harm) for item in value]
    return value + harm if isinstance(value, str) else value


def test_text_is_never_markup(recorded: Certificate) -> None:
    """Names, reasons, units and times of any content leave the elements of the page unchanged."""
    harmless, hostile = (from_dict(Certificate, strange(to_dict(recorded), harm)) for harm in ("x", HOSTILE))
    pages = [Page(report_html(report_of(checked(each)))) for each in (harmless, hostile)]
    assert pages[0].shape == pages[1].shape
    assert f"gpu-003{printable(HOSTILE)}" in pages[1].text
    assert all(name != "onload" for name, _ in pages[1].attributes)
    assert all(value.startswith("#") for name, value in pages[1].attributes if name == "href")


def test_markdown_shows_text_as_it_is(recorded: Certificate) -> None:
    """No text ends a cell, or begins markup, a link or an image."""
    text = report_markdown(report_of(checked(from_dict(Certificate, strange(to_dict(recorded), HOSTILE)))))
    bare = re.sub(r"\\.", "", text)
    assert re.search(r"[<>`\[\]&]|https?://", bare) is None
    for block in bare.split("\n\n"):
        assert len({line.count("|") for line in block.splitlines() if line.startswith("|")}) <= 1
    assert all(line[:1] in "|-#0123456789EWTN" for line in text.splitlines() if line)


def test_values_that_are_none_are_left_out(recorded: Certificate) -> None:
    """Infinite, empty and absurd values are counted in the report, and its JSON is valid."""
    nan, inf, huge = float("nan"), float("inf"), 1e300
    first = recorded.measured[0]
    bad = [dataclasses.replace(first, value=each) for each in (nan, inf, -inf, huge, 1e-300)]
    bad += [dataclasses.replace(first, expected=nan), dataclasses.replace(first, bytes=1 << 70)]
    zero = dataclasses.replace(first, value=0.0, low=-1.0, high=0.0, expected=0.0, node="", bytes=1024)
    finding = dataclasses.replace(recorded.findings[0], measured=nan, expected=inf)
    certificate = dataclasses.replace(recorded, measured=(*recorded.measured, *bad, zero), findings=(finding,))
    found = report_of(checked(certificate))
    assert "7 values are no measurements and are left out." in found.headline.notes
    for form in FORMS:
        form(found)
    json.loads(report_json(found), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))


def without(certificate: Certificate, **more: Any) -> Certificate:
    return dataclasses.replace(certificate, rails=(), measured=(), findings=(), **more)


SLOW_AND_DOWN = {("gpu-013", "rail1"): 0.5, ("gpu-040", "rail0"): 0.0}
KINDS: dict[str, tuple[Callable[[], Certificate], str]] = {
    "one node": (lambda: certificate_of(plan_of(1)), "No pair of nodes was measured."),
    "two nodes": (lambda: certificate_of(plan_of(2)), "gpu-002"),
    "64 nodes": (lambda: certificate_of(plan_of(64, leaf_nodes=8), SLOW_AND_DOWN), "gpu-064"),
    "no rails": (lambda: without(certificate_of(plan_of(4))), "The cluster has no rails"),
    "nothing": (lambda: without(certificate_of(plan_of(1)), nodes=()), "Nothing is known of any node."),
    "only quick": (lambda: certificate_of(plan_of(4), level="quick"), "No collective was measured."),
}
"""Clusters with a missing part, and the report's text about it."""


@pytest.mark.parametrize(("make", "says"), KINDS.values(), ids=KINDS)
def test_clusters_of_any_size(make: Callable[[], Certificate], says: str) -> None:
    """Each size has a page, which mentions missing parts."""
    found = report_of(checked(make()))
    assert says in Page(report_html(found)).text
    assert says in report_markdown(found)


def test_a_link_that_is_down() -> None:
    """The worst value is shown, and none is missing."""
    plan = plan_of(4)
    found = report_of(checked(certificate_of(plan, {("gpu-002", "rail0"): 0.0})), plan)
    link = next(row for row in found.rails.nodes if row.name == "gpu-002").links[0]
    assert (link.verdict, link.share) == ("fail", None)
    assert "| gpu-002 | leaf1-1 | fail, none | pass, " in report_markdown(found)
    assert '<td class="link step4 hatched">' in report_html(found)


def test_a_certificate_alone_leaves_things_unknown(recorded: Certificate) -> None:
    """Plan, versions and the time of stamping are unknown."""
    text = report_markdown(report_of(checked(recorded)))
    assert "The time of stamping is unknown" in text
    assert "| versions and plan | unknown: a certificate does not hold its plan" in text


def test_another_plan_is_left_out() -> None:
    """The present declaration does not explain an earlier proof."""
    found = report_of(checked(certificate_of(plan_of(4))), plan_of(5))
    assert found.plan.expectations == ()
    assert found.headline.notes[-1].startswith("The stack now declares another cluster than the one that was proven: ")


def test_an_older_proof_is_part_of_the_timeline(recorded: Certificate) -> None:
    """It shows nodes that were not measured again, and the order of events; invalid times do no harm."""
    old = dataclasses.replace(recorded.nodes[0], proven="2026-11-20T07:00:00Z")
    nodes = (old, *recorded.nodes[1:])
    events = report_of(checked(dataclasses.replace(recorded, nodes=nodes)), None, STAMPING).timeline.events
    assert events[0] == Event("2026-11-20T07:00:00Z", "proof of gpu-001, which still holds")
    assert [event.what for event in events[-2:]] == ["measuring begins, level standard", "measuring ends: fail"]
    odd = report_of(checked(dataclasses.replace(recorded, ended="2026-13-41T99:99:99Z")))
    assert odd.headline.seconds is None


def test_simulated_values_say_so() -> None:
    """Curve, matrix and spread are marked."""
    values = [
        Measured("pair_bandwidth", "Gb/s", "a", "b", "rail0", 0, 1.0, 1.0, 1.0, 1, 1.0, True),
        Measured("all_reduce_busbw", "GB/s", "", "", "rail0", 1024, 1.0, 1.0, 1.0, 1, 1.0, True),
        Measured("matmul_fp32", "GFLOP/s", "a", "", "", 0, 1.0, 1.0, 1.0, 1, None, True),
    ]
    certificate = dataclasses.replace(certificate_of(plan_of(1)), findings=(), measured=tuple(values))
    found = report_of(checked(certificate))
    assert found.headline.notes == ("Simulated, and marked so: 3 of 3 findings and values.",)
    assert report_html(found).count('<span class="simulated">simulated</span>') == 4
    assert 'class="point simulated"' in report_html(found)
    assert report_markdown(found).count("(simulated)") == 3


def test_accelerators_are_one_row_and_its_ends_have_their_number(recorded: Certificate) -> None:
    """Readers of many equal accelerators look for the slowest and the fastest."""
    one = dataclasses.replace(recorded.measured[0], quantity="matmul_bf16", unit="TFLOP/s", rail="", peer="", bytes=0)
    each = [
        dataclasses.replace(one, node=node, device=f"cuda:{number}", value=700.0 + 10 * number + of)
        for of, node in enumerate(("gpu-001", "gpu-002"))
        for number in range(8)
    ]
    text = report_markdown(report_of(checked(dataclasses.replace(recorded, measured=tuple(each)))))
    [row] = [line for line in text.splitlines() if "matmul bf16" in line]
    assert "| 16 |" in row
    assert "700 (gpu-001 accelerator 0)" in row
    assert "771 (gpu-002 accelerator 7)" in row
