"""Findings with their numbers and derivations."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from stampworks.qualification import Certificate, CheckFinding
from stampworks.text.names import fold
from stampworks.views.report import tree
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import number, simulated_mark, verdict_mark
from stampworks.views.report.tree import e

TITLE = "All findings"
_NONE = "Nothing was checked."
_DERIVED = "Origin of these numbers"
_HEADER = ("verdict", "check", "about", "measured", "at least", "why", "from")


def of(certificate: Certificate) -> tuple[CheckFinding, ...]:
    """Return the findings, failures first."""
    return tuple(sorted(certificate.findings, key=lambda finding: ("fail", "unknown", "pass").index(finding.verdict)))


def _derivations(findings: tuple[CheckFinding, ...]) -> list[str]:
    """Return each derivation once, for many findings share one."""
    return list(dict.fromkeys(finding.derivation for finding in findings if finding.derivation))


def _source(finding: CheckFinding, derivations: list[str]) -> str:
    return f"({derivations.index(finding.derivation) + 1})" if finding.derivation else ""


def _about(finding: CheckFinding) -> str:
    return fold(finding.nodes) or "all together"


def _numbers(finding: CheckFinding) -> tuple[str, str]:
    if finding.measured is None and finding.expected is None:
        return "", ""
    return number(finding.measured, finding.unit), number(finding.expected, finding.unit)


def html(findings: tuple[CheckFinding, ...]) -> Element:
    """Return the section as elements of the page."""
    derivations = _derivations(findings)
    rows = [
        (
            verdict_mark(each.verdict),
            e("td", each.check, " ", simulated_mark(each.simulated)),
            tree.name(_about(each)),
            *map(tree.figure, _numbers(each)),
            each.why,
            tree.figure(_source(each, derivations)),
        )
        for each in findings
    ]
    notes = [e("h3", _DERIVED), e("ol", *(e("li", text) for text in derivations))] if derivations else []
    return e("section", e("h2", TITLE), tree.table(_HEADER, rows) if rows else e("p", _NONE), *notes)


def markdown(findings: tuple[CheckFinding, ...]) -> list[str]:
    """Return the section as lines of Markdown."""
    derivations = _derivations(findings)
    rows = [
        (
            each.verdict,
            each.check + " (simulated)" * each.simulated,
            _about(each),
            *_numbers(each),
            each.why,
            _source(each, derivations),
        )
        for each in findings
    ]
    notes = [f"{at}. {plain(text)}" for at, text in enumerate(derivations, 1)]
    below = ["", f"### {_DERIVED}", "", *notes] if notes else []
    return [f"## {TITLE}", "", *(table(_HEADER, rows) if rows else [plain(_NONE)]), *below]
