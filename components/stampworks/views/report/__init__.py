"""A certificate and its plan as a report: one page for a screen or paper, Markdown, or JSON.

Each section is a module that computes its data (`of`) and shows it (`html`, `markdown`). All forms show the data of the
JSON, so they cannot differ.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from stampworks.plan import Plan, fingerprint, to_dict
from stampworks.qualification import Certificate, Checked, CheckFinding, Measured
from stampworks.views.report import (
    alone,
    curves,
    failures,
    findings,
    headline,
    pairs,
    planned,
    proofs,
    rails,
    timeline,
    training,
    tree,
)
from stampworks.views.report import record as records
from stampworks.views.report.timeline import Event
from stampworks.views.report.training import Left
from stampworks.views.report.tree import e

__all__ = ["Event", "Left", "Report", "left", "report_html", "report_json", "report_markdown", "report_of"]

VERSION = 1
_STYLE = Path(__file__).with_name("style.css")
_NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'"
"""Content policy without scripts, images or fonts: a reader's browser sends no request, whatever a text contains."""


@dataclass(frozen=True)
class Report:
    """All sections of a report as data."""

    version: int
    headline: headline.Headline
    failures: tuple[failures.FailureRow, ...]
    rails: rails.Rails
    pairs: pairs.Pairs
    collectives: tuple[curves.CurvePoint, ...]
    nodes: tuple[alone.QuantitySpread, ...]
    training: training.TrainingReport
    timeline: timeline.Timeline
    proofs: proofs.Proofs
    findings: tuple[CheckFinding, ...]
    plan: planned.Planned


_SECTIONS = (
    (failures, "failures"), (rails, "rails"), (pairs, "pairs"), (curves, "collectives"), (alone, "nodes"),
    (training, "training"), (timeline, "timeline"), (proofs, "proofs"), (findings, "findings"), (planned, "plan"),
)  # fmt: skip


def left(name: str, text: str) -> Left:
    """Return a run's record, from a text that anyone may have written."""
    try:
        found = records.read(text)
    except records.RecordError as error:
        return Left(name, None, f"Its record cannot be shown: {error}.")
    return Left(found.name or name, found)


def report_of(
    checked: Checked,
    plan: Plan | None = None,
    stamping: Sequence[Event] | None = None,
    runs: Sequence[Left] | str = training.UNKNOWN,
    earlier: Sequence[Certificate] | str = proofs.UNKNOWN,
) -> Report:
    """Return the whole report. Leave out a plan that is not the proven one, with a note.

    `runs` are records of runs, `earlier` the certificates of earlier proofs, or the reason why none are known.
    """
    certificate, notes = _sound(checked.certificate)
    if plan and fingerprint(plan) != certificate.fingerprint:
        notes += (
            f"The stack now declares another cluster than the one that was proven: fingerprint {fingerprint(plan)}. "
            "Its plan is left out.",
        )
        plan = None
    measured = pairs.of(certificate)
    return Report(
        version=VERSION,
        headline=headline.of(dataclasses.replace(checked, certificate=certificate), plan, notes),
        failures=failures.of(certificate),
        rails=rails.of(certificate, measured, plan),
        pairs=measured,
        collectives=curves.of(certificate),
        nodes=alone.of(certificate),
        training=training.of(certificate, plan, runs),
        timeline=timeline.of(certificate, stamping),
        proofs=proofs.of(certificate, earlier if isinstance(earlier, str) else [_sound(each)[0] for each in earlier]),
        findings=findings.of(certificate),
        plan=planned.of(certificate, plan),
    )


def _sound(certificate: Certificate) -> tuple[Certificate, tuple[str, ...]]:
    """Return the certificate without impossible values: anyone may have written the file."""
    kept = tuple(each for each in certificate.measured if _is_sound(each))
    numbers = tuple(
        dataclasses.replace(each, measured=_number(each.measured), expected=_number(each.expected))
        for each in certificate.findings
    )
    left_out = len(certificate.measured) - len(kept)
    notes = (f"{left_out} values are no measurements and are left out.",) if left_out else ()
    return dataclasses.replace(certificate, measured=kept, findings=numbers), notes


def _is_sound(measured: Measured) -> bool:
    values = (measured.value, measured.low, measured.high, measured.expected)
    return all(value is None or _number(value) is not None for value in values) and 0 <= measured.bytes < 1 << 63


def _number(value: float | None) -> float | None:
    """Return None for an impossible value: not finite, or outside the range of safe arithmetic."""
    return value if value is not None and (value == 0 or 1e-18 < abs(value) < 1e18) else None


def report_json(found: Report) -> str:
    """Return all data as JSON. It is ASCII, so that invalid Unicode can be written, too."""
    return json.dumps(to_dict(found), indent=2) + "\n"


def report_markdown(found: Report) -> str:
    """Return the report as Markdown."""
    sections = [headline.markdown(found.headline)]
    sections += [module.markdown(getattr(found, name)) for module, name in _SECTIONS]
    return "\n".join(line for section in sections for line in (*section, ""))


def report_html(found: Report) -> str:
    """Return one HTML file without scripts and without references to anything outside."""
    body = e("main", headline.html(found.headline), _contents())
    for module, name in _SECTIONS:
        section = module.html(getattr(found, name))
        section.set("id", name)
        body.append(section)
    head = e(
        "head",
        e("meta", charset="utf-8"),
        e("meta", http_equiv="Content-Security-Policy", content=_NOTHING_FROM_OUTSIDE),
        e("meta", name="viewport", content="width=device-width"),
        e("title", f"Cluster {found.headline.cluster}: {found.headline.verdict}"),
        e("style", " ".join(_STYLE.read_text().split())),
    )
    return tree.document(e("html", head, e("body", _patterns(), body), lang="en"))


def _contents() -> Element:
    links = (e("li", e("a", module.TITLE, href=f"#{name}")) for module, name in _SECTIONS)
    return e("nav", e("ul", *links), aria_label="contents")


def _patterns() -> Element:
    """Return the hatching pattern of the drawings."""
    line = e("path", d="M0 6 6 0M-1 1 1 -1M5 7 7 5", class_="hatching")
    pattern = e("pattern", line, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return e("svg", e("defs", pattern), width=0, height=0, class_="patterns", aria_hidden="true")
