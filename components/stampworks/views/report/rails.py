"""Matrix of nodes and rails: share of the rate that each link showed, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.plan import Plan
from stampworks.qualification import Certificate, CheckFinding, Verdict, worst
from stampworks.qualification.rails import QUANTITY, SHARE_MIN
from stampworks.views.report import tree
from stampworks.views.report.markdown import table
from stampworks.views.report.marks import figures, hatched, legend, percent, shape, step, verdict_mark
from stampworks.views.report.pairs import Pairs
from stampworks.views.report.tree import e

TITLE = "Nodes and rails"
_EXPLAINED = (
    "Each link as it showed itself in the best of its pairs, for a pair is as slow as the slower of its two; one that "
    "failed, in the pair that it was judged by. The last column is about the node with all of its checks."
)
_NO_RAILS = "The cluster has no rails, so that there is nothing between its nodes to prove."
_NO_NODES = "Nothing is known of any node."
_MARKED: tuple[Verdict, ...] = ("fail", "unknown")
_BLOCK = 16
"""Rows of one block. Blocks stand side by side."""


@dataclass(frozen=True)
class RailLink:
    """The link of a node to a rail."""

    rail: str
    there: bool
    """Whether the plan gives the node a link to this rail."""
    verdict: Verdict
    share: float | None
    """Share of the rate that it must deliver; None if nothing was measured, or nothing arrived."""


@dataclass(frozen=True)
class NodeRow:
    """A row of the matrix."""

    name: str
    leaf: str
    """Leaf of the node; empty if unknown."""
    verdict: Verdict
    held: bool
    links: tuple[RailLink, ...]


@dataclass(frozen=True)
class RailSummary:
    """A column of the matrix."""

    name: str
    verdict: Verdict


@dataclass(frozen=True)
class Rails:
    """The matrix."""

    rails: tuple[RailSummary, ...]
    nodes: tuple[NodeRow, ...]


def of(certificate: Certificate, pairs: Pairs, plan: Plan | None) -> Rails:
    """Build the matrix. Without a plan, leaves and missing links are unknown."""
    planned = {node.name: node for pool in plan.pools for node in pool.nodes} if plan else {}
    shares = _best(pairs)
    found: dict[tuple[str, str], list[CheckFinding]] = {}
    for finding in certificate.findings:
        for node in finding.nodes:
            found.setdefault((node, finding.rail), []).append(finding)

    def link(node: str, index: int, rail: str) -> RailLink:
        there = node not in planned or len(planned[node].rail_addresses) > index
        about = found.get((node, rail), [])
        failed = [each for each in about if each.verdict == "fail" and each.quantity == QUANTITY]
        share = _judged(failed[0]) if failed else shares.get((node, rail))
        return RailLink(rail, there, worst(finding.verdict for finding in about), share)

    rails = [rail.name for rail in certificate.rails]
    rows = [
        NodeRow(
            name=node.name,
            leaf=planned[node.name].leaf if node.name in planned else "",
            verdict=node.verdict,
            held=node.held,
            links=tuple(link(node.name, index, rail) for index, rail in enumerate(rails)),
        )
        for node in certificate.nodes
    ]
    return Rails(tuple(RailSummary(rail.name, rail.verdict) for rail in certificate.rails), tuple(rows))


def _best(pairs: Pairs) -> Mapping[tuple[str, str], float]:
    shares: dict[tuple[str, str], float] = {}
    for pair in pairs.measured:
        for link in ((pair.sender, pair.rail), (pair.receiver, pair.rail)):
            if pair.share is not None:
                shares[link] = max(pair.share, shares.get(link, 0.0))
    return shares


def _judged(failed: CheckFinding) -> float | None:
    """Return the share that a verdict rests on; None when nothing arrived."""
    if failed.measured is None or not failed.expected:
        return None
    return round(SHARE_MIN * failed.measured / failed.expected, 4)


def html(rails: Rails) -> Element:
    """Return the section as elements of the page."""
    if not rails.nodes:
        return e("section", e("h2", TITLE), e("p", _NO_NODES))
    above = [e("p", _EXPLAINED), legend(*map(verdict_mark, _MARKED))] if rails.rails else [e("p", _NO_RAILS)]
    blocks = [_block(rails, rails.nodes[at : at + _BLOCK]) for at in range(0, len(rails.nodes), _BLOCK)]
    return e("section", e("h2", TITLE), *above, figures(blocks))


def _block(rails: Rails, rows: Sequence[NodeRow]) -> Element:
    leaves = any(row.leaf for row in rails.nodes)
    heads = [e("th", e("div", rail.name), verdict_mark(rail.verdict)) for rail in rails.rails]
    header = ["node", *(["leaf"] * leaves), *heads, "all checks"]
    body = [
        (
            e("th", row.name),
            *([row.leaf] * leaves),
            *map(_cell, row.links),
            e("td", verdict_mark(row.verdict), _held(row)),
        )
        for row in rows
    ]
    return tree.table(header, body, "heat")


def _cell(link: RailLink) -> Element:
    """Return a cell with the number in the colour of its share, and a mark for a verdict other than pass."""
    if not link.there:
        return e("td", "no link", class_="absent")
    at = step(link.share or 0.0)
    look = f"step{at}{' hatched' * hatched(at)}" if link.share is not None or link.verdict == "fail" else "open"
    mark = None if link.verdict == "pass" else shape(link.verdict)
    return e("td", e("span", mark, _number(link)), class_=f"link {look}")


def _number(link: RailLink) -> str:
    if link.share is None:
        return "none" if link.verdict == "fail" else ""
    return percent(link.share)


def _held(row: NodeRow) -> str:
    return ", held back" if row.held else ""


def markdown(rails: Rails) -> list[str]:
    """Return the section as lines of Markdown."""
    header = ["node", "leaf", *(f"{rail.name} ({rail.verdict})" for rail in rails.rails), "all checks"]
    rows = [(row.name, row.leaf, *map(_words, row.links), row.verdict + _held(row)) for row in rails.nodes]
    none = [] if rails.rails else [_NO_RAILS, ""]
    return [f"## {TITLE}", "", *none, *(table(header, rows) if rows else [_NO_NODES])]


def _words(link: RailLink) -> str:
    if not link.there:
        return "no link"
    return f"{link.verdict}, {_number(link) or 'no value'}"
