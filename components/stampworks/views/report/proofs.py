"""Earlier proofs of the cluster, and the figures of the last two side by side."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.physics.collectives import size
from stampworks.plan import Level
from stampworks.qualification import Certificate, Verdict
from stampworks.views.report import alone, changes, curves, pairs, timeline, tree
from stampworks.views.report.changes import FigureChange
from stampworks.views.report.markdown import plain, table
from stampworks.views.report.marks import counted, verdict_mark
from stampworks.views.report.tree import e

TITLE = "Earlier proofs"
UNKNOWN = "Earlier proofs are unknown: a certificate does not have them. --earlier adds their files."
_NONE = "This is the first proof that is known."
_EXPLAINED = (
    "Each figure is the median of what was measured; of collectives it is that of the largest size. A proof measures "
    "what changed since the one before, so that figures can be of other nodes."
)
_HEADER = ("began (UTC)", "verdict", "level", "nodes", "lasted", "release", "toolkit")
_SHOWN = 10


@dataclass(frozen=True)
class ProofRow:
    started: str
    verdict: Verdict
    level: Level
    nodes: str
    seconds: int | None
    release: str
    toolkit: str


@dataclass(frozen=True)
class Proofs:
    why: str
    """Reason why no earlier proof is shown; empty if one is."""
    rows: tuple[ProofRow, ...]
    """Proofs, the latest first; it is the one of this report."""
    changes: tuple[FigureChange, ...]
    """Figures of this proof beside those of the one before."""


def of(certificate: Certificate, earlier: Sequence[Certificate] | str) -> Proofs:
    """Return the section for earlier certificates in any order, or for the reason why none are known."""
    if isinstance(earlier, str):
        return Proofs(earlier, (), ())
    before = sorted(
        {each.started: each for each in earlier if each.started != certificate.started}.values(),
        key=lambda each: each.started,
        reverse=True,
    )
    if not before:
        return Proofs(_NONE, (), ())
    then, now = dict(_figures(before[0])), dict(_figures(certificate))
    return Proofs(
        why="",
        rows=tuple(map(_row, (certificate, *before[: _SHOWN - 1]))),
        changes=tuple(
            FigureChange(name, unit, then[name, unit][0], value, simulated)
            for (name, unit), (value, simulated) in now.items()
            if (name, unit) in then
        ),
    )


def _row(certificate: Certificate) -> ProofRow:
    return ProofRow(
        started=certificate.started,
        verdict=certificate.verdict,
        level=certificate.level,
        nodes=counted(node.verdict for node in certificate.nodes) or "none",
        seconds=timeline.between(certificate.started, certificate.ended),
        release=certificate.release,
        toolkit=certificate.toolkit,
    )


def _figures(certificate: Certificate) -> Iterator[tuple[tuple[str, str], tuple[float, bool]]]:
    """Yield by name and unit the value of each figure, and whether it is simulated."""
    shares: dict[str, list[float]] = {}
    simulated = set()
    for pair in pairs.of(certificate).measured:
        if pair.share is not None:
            shares.setdefault(pair.rail, []).append(100 * pair.share)
            simulated |= {pair.rail} if pair.simulated else set()
    for rail, its in shares.items():
        yield (f"pairs on {rail}, of the expected rate", "%"), (statistics.median(its), rail in simulated)
    largest: Mapping[tuple[str, str], curves.CurvePoint] = {
        (point.rail, point.quantity): point for point in curves.of(certificate)
    }
    for point in largest.values():  # points come with growing sizes
        name = f"{curves.name(point.quantity)} on {point.rail}, {size(point.bytes)}"
        yield (name, point.unit), (point.value, point.simulated)
    for spread in alone.of(certificate):
        if spread.unit in ("bytes", "count"):  # these follow from the number of nodes
            continue
        yield (alone.name(spread), spread.unit), (spread.median, spread.simulated)


def _words(row: ProofRow) -> tuple[str, ...]:
    lasted = "unknown" if row.seconds is None else timeline.span(row.seconds)
    return row.level, row.nodes, lasted, row.release, row.toolkit


def _sides(proofs: Proofs) -> tuple[str, str, str, str]:
    return "figure", proofs.rows[1].started, proofs.rows[0].started, "change"


def html(proofs: Proofs) -> Element:
    if proofs.why:
        return e("section", e("h2", TITLE), e("p", proofs.why))
    rows = [(e("td", row.started, class_="time"), verdict_mark(row.verdict), *_words(row)) for row in proofs.rows]
    section = e("section", e("h2", TITLE), tree.table(_HEADER, rows))
    if proofs.changes:
        below = (
            e("h3", "This proof and the previous one"),
            e("p", _EXPLAINED),
            changes.html(_sides(proofs), proofs.changes),
        )
        tree.into(section, below)
    return section


def markdown(proofs: Proofs) -> list[str]:
    if proofs.why:
        return [f"## {TITLE}", "", plain(proofs.why)]
    rows = [(row.started, row.verdict, *_words(row)) for row in proofs.rows]
    lines = [f"## {TITLE}", "", *table(_HEADER, rows)]
    if proofs.changes:
        lines += ["", "### This proof and the previous one", "", plain(_EXPLAINED), ""]
        lines += table(_sides(proofs), changes.rows(proofs.changes))
    return lines
