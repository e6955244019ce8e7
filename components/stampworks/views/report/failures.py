"""Failures: each node or rail that did not pass, why, and the consequence."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.qualification import Certificate, NodeVerdict, Verdict
from stampworks.views.report import tree
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import verdict_mark
from stampworks.views.report.tree import e

TITLE = "Checks that did not pass, and consequences"
_NONE = "All checks passed."
_HEADER = ("about", "verdict", "why", "consequence")


@dataclass(frozen=True)
class FailureRow:
    """A node or rail that did not pass."""

    about: str
    verdict: Verdict
    why: tuple[str, ...]
    done: str


def of(certificate: Certificate) -> tuple[FailureRow, ...]:
    """Return nodes first, then findings without a node. Failed ones come before unknown ones."""
    nodes = [
        FailureRow(node.name, node.verdict, node.why, _done(node))
        for node in certificate.nodes
        if node.verdict != "pass"
    ]
    whole = [
        FailureRow(finding.rail or "all together", finding.verdict, (f"{finding.check}: {finding.why}",), _NOBODY)
        for finding in certificate.findings
        if finding.verdict != "pass" and not finding.nodes
    ]
    return tuple(sorted([*nodes, *whole], key=lambda failure: failure.verdict != "fail"))


_NOBODY = "no single node is faulty, and none is held back for it"


def _done(node: NodeVerdict) -> str:
    return "held back: it takes no jobs" if node.held else "not held back by the proof"


def html(failures: tuple[FailureRow, ...]) -> Element:
    """Return the section as elements of the page."""
    rows = [
        (e("th", each.about), verdict_mark(each.verdict), e("td", *(e("div", why) for why in each.why)), each.done)
        for each in failures
    ]
    content = tree.table(_HEADER, rows) if failures else e("p", _NONE)
    return e("section", e("h2", TITLE), content)


def markdown(failures: tuple[FailureRow, ...]) -> list[str]:
    """Return the section as lines of Markdown."""
    rows = [(each.about, each.verdict, "; ".join(each.why), each.done) for each in failures]
    return [f"## {TITLE}", "", *(table(_HEADER, rows) if rows else [plain(_NONE)])]
