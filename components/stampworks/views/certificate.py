"""A certificate as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stampworks.physics.collectives import size
from stampworks.qualification import Certificate, CheckFinding
from stampworks.text.amounts import counted
from stampworks.text.names import fold
from stampworks.text.printable import printable
from stampworks.views.report import curves
from stampworks.views.report.marks import number, percent
from stampworks.views.table import paragraph, table

WIDTH = 100


def certificate_text(certificate: Certificate, width: int = WIDTH) -> str:
    """Return the verdict, the findings, and the nodes that are not proven. The file has the numbers behind them.

    The text ends with a newline.
    """
    sections = [_headline(certificate, width), _findings(certificate, width), _together(certificate, width)]
    sections.append(_nodes(certificate, width))
    return "\n\n".join("\n".join(map(printable, lines)) for lines in sections if lines) + "\n"


def _headline(certificate: Certificate, width: int) -> list[str]:
    count = len(certificate.nodes)
    what = f"cluster {certificate.cluster} on {certificate.cloud}: {certificate.verdict}"
    how = f"level {certificate.level}, {counted(count, 'node')}, {certificate.started} to {certificate.ended}"
    return [*paragraph(f"{what} ({how})", width, ""), *paragraph(_of(certificate), width, "")]


def _of(certificate: Certificate) -> str:
    return (
        f"fingerprint {certificate.fingerprint or 'unknown'}, release {certificate.release}, "
        f"proof {certificate.proven}, by stampworks {certificate.toolkit}"
    )


def _findings(certificate: Certificate, width: int) -> list[str]:
    rows = [
        (finding.verdict, finding.check + _simulated(finding), fold(finding.nodes) or "all together", finding.why)
        for finding in _worst_first(certificate.findings)
    ]
    return table(("verdict", "check", "about", "finding"), rows, width) if rows else []


def _worst_first(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    return sorted(findings, key=lambda finding: ("fail", "unknown", "pass").index(finding.verdict))


def _together(certificate: Certificate, width: int) -> list[str]:
    """Return a table with the largest size of each collective, which is judged. A report has all sizes."""
    largest = {(point.quantity, point.rail): point for point in curves.of(certificate)}
    rows = [
        (
            curves.name(point.quantity), point.rail, size(point.bytes), number(point.value, point.unit),
            number(point.expected, point.unit), "unknown" if point.share is None else percent(point.share),
        )
        for point in sorted(largest.values(), key=lambda point: (point.quantity, point.rail))
    ]  # fmt: skip
    header = ("all nodes together", "rail", "size", "measured", "at most", "share")
    return table(header, rows, width) if rows else []


def _simulated(finding: CheckFinding) -> str:
    return " (simulated)" if finding.simulated else ""


def _nodes(certificate: Certificate, width: int) -> list[str]:
    rows = list(_held(certificate))
    return ["Nodes that are not proven", *table(("node", "verdict", "takes jobs", "why"), rows, width)] if rows else []


def _held(certificate: Certificate) -> Iterator[tuple[str, str, str, str]]:
    for node in certificate.nodes:
        if node.verdict != "pass":
            yield node.name, node.verdict, "no" if node.held else "yes", "; ".join(node.why)
