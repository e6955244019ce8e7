"""Training runs of the cluster: their losses, their failures, and the use of their time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.plan import Plan
from stampworks.qualification import Certificate
from stampworks.views.report import changes, timeline, tree
from stampworks.views.report.changes import FigureChange
from stampworks.views.report.markdown import items, plain, table
from stampworks.views.report.marks import figures, number, simulated_mark, tick_label, ticks
from stampworks.views.report.record import Checkpoint, Interval, Record, RecordedFailure, TrainingPoint
from stampworks.views.report.tree import e

TITLE = "Training"
_SIMULATED = (
    "The nodes are simulated and share the processors of one machine: what was lost and saved is real, and the speed "
    "says nothing about accelerators."
)
_EXPLAINED = "A dashed line with a triangle is a failure; a square below the curve is a checkpoint."
_LAST_TWO = "The latest run and the previous one"
_BINS = ("use of time", "time", "part", "meaning")
_FAILURES = (
    *("when", "what", "where", "after step", "steps lost", "time lost", "restart", "to next step", "state from"),
    "message",
)
_CHECKPOINTS = ("when", "step", "training waited", "until it was safe", "size")
_ATTEMPTS = ("attempt", "job", "nodes", "began", "lasted", "ended")
_LOSSES = ("step", "loss", "tokens/s")
_FEW = 10
"""Rows of a table about frequent events. The JSON has more."""
_WIDTH, _HEIGHT = 478.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 462.0, 12.0, 180.0
_BAR = 150.0
_CURVES = {
    "loss": "loss",
    "tokens_per_s": "tokens/s",
    "share_of_peak": "share of the accelerators' peak, %,",
    "memory": "memory of the first accelerator, GiB,",
}
_STATES = {"open": "open: it is running, or was killed", "": "unknown"}


@dataclass(frozen=True)
class Left:
    """A run: its record, or the reason why it cannot be shown."""

    name: str
    record: Record | None
    why: str = ""


@dataclass(frozen=True)
class TrainingReport:
    """The runs that the report shows."""

    why: str
    """Reason why no run is known; empty if there are runs."""
    simulated: bool
    runs: tuple[Left, ...]
    """Runs, the latest first."""
    changes: tuple[FigureChange, ...] = ()
    """Figures of the latest run beside those of the one before."""


UNKNOWN = (
    "Training runs are unknown: a certificate does not have them. The report of a stack does, or that of a record."
)
_NONE = "No run has left a record yet: stampworks submit training NAME."


def of(certificate: Certificate, plan: Plan | None, runs: Sequence[Left] | str) -> TrainingReport:
    """Return the section for these runs, or for the reason why none are known."""
    pools = [pool.machine.simulated for pool in plan.pools] if plan else []
    simulated = any(pools or [each.simulated for each in certificate.measured])
    if isinstance(runs, str):
        return TrainingReport(runs, simulated, ())
    return TrainingReport("" if runs else _NONE, simulated, tuple(runs), tuple(_changes(runs, simulated)))


def _changes(runs: Sequence[Left], simulated: bool) -> Iterator[FigureChange]:
    """Yield the figures that both of the latest two runs have."""
    known = [each.record for each in runs if each.record]
    if len(known) < 2:
        return
    now, then = (dict(_figures(each)) for each in known[:2])
    for (name, unit), value in now.items():
        before = then[name, unit]
        if value is not None and before is not None:
            yield FigureChange(name, unit, before, value, simulated and name == "throughput")


def _figures(run: Record) -> Iterator[tuple[tuple[str, str], float | None]]:
    account = run.account
    yield ("goodput", "%"), _percent(account.goodput)
    yield ("throughput", "tokens/s"), account.tokens_per_s
    yield ("share of peak", "%"), _percent(account.share_of_peak)
    yield ("cost for a million tokens", ""), account.cost_per_million_tokens
    yield ("last loss", ""), next((point.loss for point in reversed(run.curve) if point.loss is not None), None)
    yield ("steps", ""), account.step
    yield ("wall time", "s"), account.wall_s
    yield ("failures", ""), run.counts.failures


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _sides(training: TrainingReport) -> tuple[str, str, str, str]:
    now, then = [each.name for each in training.runs if each.record][:2]
    return "figure", f"run {then}", f"run {now}", "change"


def _span(seconds: float) -> str:
    return number(seconds, "s") if seconds < 120 else timeline.span(round(seconds))


def _part(share: float | None) -> str:
    """Format a share in tenths of a percent: the last points matter most."""
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _count(value: int) -> str:
    return f"{value:,}"


def _facts(run: Record) -> list[tuple[str, str]]:
    account, counts = run.account, run.counts
    lost = f", {_count(account.steps_lost)} lost and done again" if account.steps_lost else ""
    planned = dict(run.settings).get("steps", "")
    world = next((str(each.world) for each in reversed(run.generations) if each.world), "unknown")
    device = " ".join(filter(None, (run.device, f"({run.backend})" if run.backend else "")))
    facts = [
        ("State", _STATES.get(run.state, run.state)),
        ("Time", f"{run.begun}, {_span(account.wall_s)} until its {'last event' if run.state == 'open' else 'end'}"),
        ("Steps", f"{_count(account.step)}{f' of {planned}' if planned else ''}{lost}"),
        ("Goodput", f"{_part(account.goodput)}: productive over wall time"),
        ("Throughput", number(account.tokens_per_s, "tokens/s")),
        ("Tokens", _count(account.tokens)),
        ("Share of peak", _share_of_peak(run)),
        ("Cost", f"{number(account.cost_per_million_tokens)} for a million tokens, in the currency of the price"),
        ("Ranks", f"{world} on {device}" if device else world),
        ("Happened", f"failures {counts.failures}, checkpoints {counts.checkpoints}, attempts {counts.attempts}"),
        ("Interval", f"a checkpoint {_every(run.interval)}" if run.interval else ""),
        ("Settings", ", ".join(f"{name} {value}" for name, value in run.settings)),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run.versions)),
        ("Weights", run.digest),
    ]
    return [(name, value) for name, value in facts if value]


def _every(interval: Interval) -> str:
    every = "on request" if interval.seconds is None else f"every {_span(interval.seconds)}"
    return f"{every}: {interval.why}"


def _share_of_peak(run: Record) -> str:
    account = run.account
    share = "unknown" if account.share_of_peak is None else f"{100 * account.share_of_peak:.3g} %"
    each = "" if account.flops_per_token is None else f"; {number(account.flops_per_token / 1e9)} GFLOP a token"
    return f"{share}{each} ({account.flops_formula})"


def _bins(run: Record) -> list[tuple[str, str, str, str]]:
    wall = run.account.wall_s
    rows = [(each.name, each.seconds, each.meaning) for each in run.bins]
    rows.append(("all of it", wall, "wall time"))
    return [(name, _span(took), _part(took / wall if wall else None), meaning) for name, took, meaning in rows]


def _failure(failure: RecordedFailure) -> tuple[str, ...]:
    where = " ".join(filter(None, (failure.node, "" if failure.rank is None else f"rank {failure.rank}")))
    until = "never" if failure.until_step_s is None else _span(failure.until_step_s)
    return (
        *(_span(failure.at), failure.kind, where or "-", str(failure.step), str(failure.lost_steps)),
        *(_span(failure.lost_s), _span(failure.restart_s), until, failure.source or "-", failure.text or "-"),
    )


def _checkpoint(each: Checkpoint) -> tuple[str, ...]:
    waited = "unknown" if each.blocked_s is None else _span(each.blocked_s)
    took = "unknown" if each.seconds is None else _span(each.seconds)
    size = "unknown" if each.bytes is None else number(each.bytes / 1e6, "MB")
    return _span(each.at), "unknown" if each.step is None else str(each.step), waited, took, size


def _attempts(run: Record) -> list[tuple[str, ...]]:
    return [
        (str(each.number), each.job or "-", str(each.nodes), _span(each.at), _span(each.seconds), each.end or "open")
        for each in run.attempts[-_FEW:]
    ]


def _tables(run: Record) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Return the events of the run, the latest of each kind."""
    found: list[tuple[str, Sequence[str], list[tuple[str, ...]]]] = [
        (_titled("Failures", run.counts.failures), _FAILURES, [_failure(each) for each in run.failures[-_FEW:]]),
        (
            _titled("Checkpoints", run.counts.checkpoints),
            _CHECKPOINTS,
            [_checkpoint(each) for each in run.checkpoints[-_FEW:]],
        ),
        (_titled("Attempts", run.counts.attempts), _ATTEMPTS, _attempts(run)),
    ]
    return [each for each in found if each[2]]


def _titled(what: str, count: int) -> str:
    return what if count <= _FEW else f"{what}: the last {_FEW} of {count}"


def _said(run: Record) -> list[str]:
    notices = [f"{_span(each.at)}: {each.text}" for each in run.notices[-_FEW:]]
    return [*run.remarks[:_FEW], *notices]


def html(training: TrainingReport) -> Element:
    """Return the section as elements of the page."""
    section = e("section", e("h2", TITLE), e("p", training.why) if training.why else None)
    if training.simulated and training.runs:
        tree.into(section, [e("p", simulated_mark(True), " ", _SIMULATED)])
    if training.changes:
        tree.into(section, [e("h3", _LAST_TWO), changes.html(_sides(training), training.changes)])
    for left in training.runs:
        tree.into(section, _run(left, training.simulated))
    return section


def _run(left: Left, simulated: bool) -> Iterator[Element]:
    yield e("h3", f"Run {left.name}")
    if left.record is None:
        yield e("p", left.why, class_="note")
        return
    run = left.record
    facts = _facts(run)
    marked = [simulated_mark(simulated and name == "Throughput") for name, _ in facts]
    yield e("dl", *(
        part
        for (name, value), mark in zip(facts, marked, strict=True)
        for part in (e("dt", name), e("dd", value, " " if mark is not None else None, mark))
    ))  # fmt: skip
    charts = [_chart(run, what) for what in _CURVES]
    if drawn := [chart for chart in charts if chart is not None]:
        yield figures(drawn)
        yield e("p", _EXPLAINED, class_="legend")
    wall = run.account.wall_s
    shares = [each.seconds / wall if wall else 0.0 for each in run.bins]
    rows = [
        (e("th", name), tree.figure(took), tree.figure(part), e("td", _bar(share)), meaning)
        for (name, took, part, meaning), share in zip(_bins(run), [*shares, 1.0], strict=True)
    ]
    yield tree.table((*_BINS[:3], "", _BINS[3]), rows, "bins")
    for title, header, lines in _tables(run):
        yield e("h4", title)
        yield tree.table(header, lines)
    if said := _said(run):
        yield e("ul", *(e("li", line) for line in said))


def _bar(share: float) -> Element:
    """Return a bar as long as its share."""
    whole = e("rect", x=0, y=1, width=_BAR, height=10, class_="field")
    part = e("rect", x=0, y=1, width=f"{_BAR * min(share, 1):.1f}", height=10, class_="bar")
    return e("svg", part, whole, viewBox=f"0 0 {_BAR:.0f} 12", width=f"{_BAR:.0f}", height=12, aria_hidden="true")


def _chart(run: Record, what: str) -> Element | None:
    """Return a chart of a value by step, with failures and checkpoints."""
    factor = {"share_of_peak": _share_of_rate(run), "memory": 1 / (1 << 30)}.get(what, 1.0)
    curve = [(point.step, None if value is None else value * factor) for point, value in _values(run, what)]
    known = [(step, value) for step, value in curve if value is not None]
    if len(known) < 2:
        return None
    title = f"{_CURVES[what]} by step"
    first, last = known[0][0], max(known[-1][0], known[0][0] + 1)
    values = [value for _, value in known] + [0.0] * (what != "loss")  # a rate starts at zero
    scale = ticks(min(values), max(values))
    low, high = scale[0], scale[-1]

    def x(step: float) -> float:
        return _LEFT + (min(max(step, first), last) - first) / (last - first) * (_RIGHT - _LEFT)

    def y(value: float) -> float:
        return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)

    drawing = e(
        "svg",
        e("rect", x=_LEFT, y=_TOP, width=_RIGHT - _LEFT, height=_BOTTOM - _TOP, class_="field"),
        *(part for tick in scale for part in _rule(tick_label(tick, scale), y(tick))),
        *(e("text", _count(step), x=f"{x(step):.1f}", y=_BOTTOM + 26, class_="middle") for step in (first, last)),
        *(_failed(x(failure.step)) for failure in run.failures),
        *(_saved(x(each.step)) for each in run.checkpoints if each.step is not None),
        *(
            e("polyline", points=" ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in line), class_="curve")
            for line in _lines(curve)
        ),
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        width=f"{_WIDTH:.0f}",
        role="img",
        aria_label=f"{title}, from {number(known[0][1])} to {number(known[-1][1])}",
    )
    return e("figure", e("figcaption", title), drawing, class_="chart wide")


def _values(run: Record, what: str) -> Iterator[tuple[TrainingPoint, float | None]]:
    if what == "share_of_peak" and not _share_of_rate(run):
        return
    for point in run.curve:
        value = {"loss": point.loss, "memory": point.memory}.get(what, point.tokens_per_s)
        if value is not None:
            value = None if abs(value) > 1e18 else value if abs(value) > 1e-18 else 0.0
        yield point, value


def _share_of_rate(run: Record) -> float:
    """Return the part of the accelerators' peak, in percent, that a rate of one token a second uses.

    It is 0 if that is unknown, or if other ranks took part in some of the steps.
    """
    share, rate = run.account.share_of_peak, run.account.tokens_per_s
    same = len({each.world for each in run.generations}) == 1
    return 100 * share / rate if share and rate and same else 0.0


def _lines(points: Sequence[tuple[int, float | None]]) -> Iterator[list[tuple[int, float]]]:
    """Yield the lines between missing values."""
    line: list[tuple[int, float]] = []
    for step, value in points:
        if value is not None:
            line.append((step, value))
        elif line:
            yield line
            line = []
    if line:
        yield line


def _rule(label: str, at: float) -> tuple[Element, Element]:
    return (
        e("line", x1=_LEFT, x2=_RIGHT, y1=f"{at:.1f}", y2=f"{at:.1f}", class_="rule"),
        e("text", label, x=_LEFT - 5, y=f"{at:.1f}", class_="row"),
    )


def _failed(at: float) -> Element:
    line = e("line", x1=f"{at:.1f}", x2=f"{at:.1f}", y1=_TOP, y2=_BOTTOM, class_="failed")
    return e("g", line, e("path", d=f"M{at - 4:.1f} {_TOP - 8}h8l-4 7z", class_="failed mark"))


def _saved(at: float) -> Element:
    return e("rect", x=f"{at - 2:.1f}", y=_BOTTOM + 5, width=4, height=4, class_="saved")


def markdown(training: TrainingReport) -> list[str]:
    """Return the section as lines of Markdown."""
    lines = [f"## {TITLE}"]
    if training.why:
        lines += ["", plain(training.why)]
    if training.simulated and training.runs:
        lines += ["", plain(f"(simulated) {_SIMULATED}")]
    if training.changes:
        lines += ["", f"### {_LAST_TWO}", "", *table(_sides(training), changes.rows(training.changes))]
    for left in training.runs:
        lines += ["", f"### Run {plain(left.name)}", "", *_markdown_of(left, training.simulated)]
    return lines


def _markdown_of(left: Left, simulated: bool) -> list[str]:
    if left.record is None:
        return [plain(left.why)]
    run = left.record
    marks = {"Throughput": " (simulated)"} if simulated else {}
    lines = items(f"{name}: {value}{marks.get(name, '')}" for name, value in _facts(run))
    lines += ["", *table(_BINS, _bins(run))]
    if run.curve:
        lines += ["", *table(_LOSSES, [_loss(run.curve[at]) for at in _some(len(run.curve))])]
    for title, header, rows in _tables(run):
        lines += ["", f"#### {plain(title)}", "", *table(header, rows)]
    if said := _said(run):
        lines += ["", *items(said)]
    return lines


def _some(count: int) -> list[int]:
    """Return the first, the last and some between."""
    return sorted({round(part * (count - 1) / (_FEW - 1)) for part in range(_FEW)})


def _loss(point: TrainingPoint) -> tuple[str, ...]:
    return str(point.step), "no number" if point.loss is None else number(point.loss), number(point.tokens_per_s)
