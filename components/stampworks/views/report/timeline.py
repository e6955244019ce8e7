"""Timeline of the cluster: its stamping, as far as it is known, and its proof."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.qualification import Certificate
from stampworks.text.names import fold
from stampworks.views.report import tree
from stampworks.views.report.markdown import table
from stampworks.views.report.tree import e

TITLE = "Timeline"
_UNKNOWN = "The time of stamping is unknown: a certificate does not have it. The report of a stack does."
_HEADER = ("time (UTC)", "later by", "what")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,9})?Z")
_SPANS = ((2 * 86_400, 86_400, "d"), (2 * 3_600, 3_600, "h"), (2 * 60, 60, "min"))


@dataclass(frozen=True)
class Event:
    """A row of the timeline."""

    at: str
    what: str


@dataclass(frozen=True)
class Timeline:
    """The events of stamping and proof."""

    stamping_known: bool
    events: tuple[Event, ...]
    """Events, the earliest first."""


def of(certificate: Certificate, stamping: Sequence[Event] | None) -> Timeline:
    """Return the timeline. `stamping` is None when nothing is known about it."""
    earlier: dict[str, list[str]] = {}
    for node in certificate.nodes:
        if node.proven != certificate.started:
            earlier.setdefault(node.proven, []).append(node.name)
    proof = [
        *(Event(at, f"proof of {fold(nodes)}, which still holds") for at, nodes in earlier.items()),
        Event(certificate.started, f"measuring begins, level {certificate.level}"),
        Event(certificate.ended, f"measuring ends: {certificate.verdict}"),
    ]
    events = sorted([*(stamping or ()), *proof], key=lambda event: _seconds(event.at) or 0)
    return Timeline(stamping is not None, tuple(events))


def between(one: str, other: str) -> int | None:
    """Return the seconds between two times; None when one of them is not a time."""
    begin, end = _seconds(one), _seconds(other)
    return None if begin is None or end is None else end - begin


def span(seconds: int) -> str:
    """Return a duration in words. Minutes, hours and days are used from two on."""
    for least, unit_s, unit in _SPANS:
        if abs(seconds) >= least:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds} s"


def _seconds(text: str) -> int | None:
    found = _TIME.fullmatch(text)
    try:
        return timegm(tuple(map(int, found.groups()[:6]))) if found else None
    except ValueError:  # for example month 13
        return None


def _rows(timeline: Timeline) -> list[tuple[str, str, str]]:
    befores = ["", *(event.at for event in timeline.events)]
    rows = []
    for event, before in zip(timeline.events, befores, strict=False):
        gap = between(before, event.at)
        rows.append((event.at, "" if gap is None else span(gap), event.what))
    return rows


def html(timeline: Timeline) -> Element:
    """Return the section as elements of the page."""
    rows = [(e("td", at, class_="time"), tree.figure(gap), what) for at, gap, what in _rows(timeline)]
    unknown = None if timeline.stamping_known else e("p", _UNKNOWN)
    return e("section", e("h2", TITLE), unknown, tree.table(_HEADER, rows, "timeline"))


def markdown(timeline: Timeline) -> list[str]:
    """Return the section as lines of Markdown."""
    unknown = [] if timeline.stamping_known else [_UNKNOWN, ""]
    return [f"## {TITLE}", "", *unknown, *table(_HEADER, _rows(timeline))]
