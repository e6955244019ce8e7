"""The plan behind a certificate: versions, pools and expected values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from xml.etree.ElementTree import Element

from stampworks.plan import Expectation, Plan
from stampworks.qualification import Certificate
from stampworks.text.names import fold
from stampworks.views.report import tree
from stampworks.views.report.markdown import table
from stampworks.views.report.marks import number
from stampworks.views.report.tree import e

TITLE = "Plan and versions"
_UNKNOWN = "unknown: a certificate does not hold its plan; the report of a stack does"
_HEADER = ("expected at most", "value", "why")


@dataclass(frozen=True)
class Line:
    """A fact with its name."""

    what: str
    text: str


@dataclass(frozen=True)
class Planned:
    """Facts and expectations of the plan."""

    lines: tuple[Line, ...]
    expectations: tuple[Expectation, ...]


def of(certificate: Certificate, plan: Plan | None) -> Planned:
    """Collect the section's data. Without a plan only the certificate's facts are known."""
    lines = [
        Line("judged by", f"stampworks {certificate.toolkit}, certificate version {certificate.version}"),
        Line("release", certificate.release),
    ]
    if plan is None:
        return Planned((*lines, Line("versions and plan", _UNKNOWN)), ())
    lines += [Line(part, version) for part, version in plan.release.versions]
    return Planned((*lines, *_cluster(plan)), plan.expectations)


def _cluster(plan: Plan) -> list[Line]:
    pools = [
        Line(
            f"pool {pool.name}",
            f"{pool.count} x {pool.machine.name}{' (simulated)' * pool.machine.simulated}",
        )
        for pool in plan.pools
    ]
    fabric = plan.fabric
    rates = [
        Line(fold(rail.interface for rail in rails), f"{rate} Mb/s")
        for rate, rails in ((rate, list(its)) for rate, its in groupby(fabric.rails, lambda rail: rail.rate_mbps))
    ]
    leaves = f"{len(fabric.leaves)} of at most {fabric.leaf_nodes} nodes, {fabric.oversubscription}:1"
    storage = [Line(f"storage {each.name}", f"{each.kind} at {each.mount}") for each in plan.storage]
    return [*pools, Line("fabric", fabric.kind), *rates, *([Line("leaves", leaves)] if fabric.leaves else []), *storage]


def html(planned: Planned) -> Element:
    """Return the section as elements of the page."""
    lines = [part for line in planned.lines for part in (e("dt", line.what), e("dd", line.text))]
    rows = [
        (tree.name(each.name), tree.figure(number(each.value, each.unit)), tree.derived(each.why))
        for each in planned.expectations
    ]
    return e("section", e("h2", TITLE), e("dl", *lines), tree.table(_HEADER, rows) if rows else None)


def markdown(planned: Planned) -> list[str]:
    """Return the section as lines of Markdown."""
    lines = table(("what", "version or plan"), [(line.what, line.text) for line in planned.lines])
    rows = [(each.name, number(each.value, each.unit), each.why) for each in planned.expectations]
    return [f"## {TITLE}", "", *lines, *(["", *table(_HEADER, rows)] if rows else [])]
