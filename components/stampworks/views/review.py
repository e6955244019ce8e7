"""A review as a comment on a pull request, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stampworks.changes.acceptance import VARIABLE
from stampworks.changes.charges import Charge, Cost
from stampworks.changes.review import DeclaredChange, Policy, Reach, Review, Ruling, Sibling
from stampworks.plan import to_dict
from stampworks.text.amounts import counted
from stampworks.text.names import fold
from stampworks.text.printable import printable
from stampworks.views.comparison import sentences, shown, summary
from stampworks.views.existing import UNTOUCHED
from stampworks.views.money import uncounted, usd
from stampworks.views.quoted import prose, quoted

OF_TRAINING = "training."
ROWS_MAX = 40
"""Rows of each table: a comment holds 65,536 characters."""
FOLLOWING_MAX = 16
LINES_MAX = 16
"""Changes of a preview. The review has all of them."""
MARKS = {"pass": "\N{WHITE HEAVY CHECK MARK}", "fail": "\N{CROSS MARK}", "unknown": "\N{BLACK QUESTION MARK ORNAMENT}"}
DOES = {
    "in place": "jobs go on",
    "roll": "nodes in waves",
    "replace": "removed, created again",
    "refuse": "data or state would be lost",
    "create": "made",
    "destroy": "taken down",
    None: "effect unknown",
}
GOES = {"groups": "is removed when its jobs have ended", "storage": "is removed, and its data is lost"}
POLICIES: tuple[Policy | None, ...] = ("refuse", None, "replace", "destroy", "roll", "create", "in place")
"""Policies, the most severe first."""


def review_markdown(review: Review) -> str:
    """Return the page in Markdown. Text of the change is only text there. The page ends with a newline."""
    sections = [
        [f"### {MARKS[review.verdict]} Review of stack {quoted(review.stack)}: {review.verdict}"],
        [f"**{prose(review.unstamped)}.**"] if review.unstamped else [],
        [f"**{_headline(review)}**", "", f"From {quoted(review.base)} to {quoted(review.head)}."],
        _changes(review),
        _approval(review),
        _following(review),
        _order(review),
        *(_expectations(title, found) for title, found in _tables(review.expectations)),
        _cost(review),
        _existing(review.existing),
        _rules(review.rules),
        _siblings(review),
        _unknown(review.unknown),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def review_lines(review: Review) -> list[str]:
    """Return the changes and their effect in words, a line each, for a terminal."""
    lines = [_told(each) for each in _sorted(review.changes)]
    more = [f"{len(lines) - LINES_MAX} more"] if len(lines) > LINES_MAX else []
    nodes = [_node_counts(review)] if review.restart or review.join or review.leave else []
    return [printable(line) for line in [*lines[:LINES_MAX], *more, *nodes]]


def _told(each: DeclaredChange) -> str:
    last, a, b = each.difference.way[-1], each.difference.a, each.difference.b
    if last.key:
        return f"{each.written}: {'new' if a is None else 'removed'}{summary(a or b)}"
    policy = "effect unknown" if each.policy is None else each.policy
    return f"{each.written}: {_text(each, a)} to {_text(each, b)} ({policy})"


def _existing(parts: Sequence[tuple[str, str]]) -> list[str]:
    if not parts:
        return []
    return [f"**{UNTOUCHED}**", "", *(f"- {prose(part)}: {quoted(id_)}" for part, id_ in parts)]


def unreadable_markdown(side: str, problems: Sequence[Mapping[str, Any]]) -> str:
    """Return the page for a side that does not load: each problem with its place and its hint."""
    rows = [(quoted(_place(each)), prose(_what(each)), prose(_first_line(each["hint"]))) for each in problems]
    lines = [
        f"### {MARKS['fail']} No review: {prose(side)} does not load",
        "",
        *_table(("where", "problem", "remedy"), rows),
    ]
    return "\n".join(lines) + "\n"


def _place(problem: Mapping[str, Any]) -> str:
    place = (problem["file"], problem["line"], problem["column"])
    return ":".join(str(each) for each in place if each)


def _what(problem: Mapping[str, Any]) -> str:
    return f"{problem['path']}: {problem['message']}" if problem["path"] else str(problem["message"])


def _first_line(hint: str | None) -> str:
    return (hint or "").partition("\n")[0]


def unreadable_json(side: str, problems: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON for a side that does not load: no verdict, and an error with side and places."""
    return json.dumps({"verdict": None, "error": {"side": side, "problems": [*problems]}}, indent=2) + "\n"


def review_json(review: Review) -> str:
    """Return the whole review as JSON. Unknown values are null."""
    return json.dumps(review_data(review), indent=2) + "\n"


def review_data(review: Review) -> dict[str, Any]:
    """Return the review as plain data, the form of `--json`."""
    return {
        "verdict": review.verdict,
        "headline": _headline(review),
        "stack": review.stack,
        "base": review.base,
        "head": review.head,
        "kind": review.kind,
        "effects": list(review.effects),
        "id": review.id or None,
        "changes": [_change_data(each) for each in review.changes],
        "follows": [each.path for each in review.following],
        "nodes": {
            "restart": [dataclasses.asdict(each) for each in review.restart],
            "join": [dataclasses.asdict(each) for each in review.join],
            "leave": [dataclasses.asdict(each) for each in review.leave],
        },
        "order": [dataclasses.asdict(each) for each in review.order],
        "existing": [{"part": part, "id": id_} for part, id_ in review.existing],
        "cost": {
            "before_usd_per_hour_min": review.before.usd_per_hour_min,
            "before_usd_per_hour": review.before.usd_per_hour,
            "after_usd_per_hour_min": review.after.usd_per_hour_min,
            "after_usd_per_hour": review.after.usd_per_hour,
            "difference_usd_per_hour_min": review.usd_per_hour_min,
            "difference_usd_per_hour": review.usd_per_hour,
            "known_difference_usd_per_hour_min": review.known_usd_per_hour_min,
            "known_difference_usd_per_hour": review.known_usd_per_hour,
            "unpriced": list(review.unpriced),
            "before": [dataclasses.asdict(each) for each in review.before.charges],
            "after": [dataclasses.asdict(each) for each in review.after.charges],
            "not_counted_before": list(review.before.uncounted),
            "not_counted_after": list(review.after.uncounted),
        },
        "expectations": [dataclasses.asdict(each) for each in review.expectations],
        "rules": [dataclasses.asdict(each) for each in review.rules],
        "siblings": [dataclasses.asdict(each) for each in review.siblings],
        "unstamped": review.unstamped or None,
        "unknown": list(review.unknown),
    }


def _change_data(each: DeclaredChange) -> dict[str, Any]:
    of = each.difference
    return {
        "path": of.path,
        "written": each.written,
        "field": each.field or None,
        "policy": each.policy,
        "before": _data(of.a),
        "after": _data(of.b),
        "restarts": each.restarts,
        "why": each.why,
        "loses": list(each.loses),
        "text": sentences([of], "base", "head")[0],
    }


def _data(value: Any) -> Any:
    """Return a value as data; a group without its nodes, which are under `nodes`."""
    if not dataclasses.is_dataclass(value):
        return value
    return {name: each for name, each in to_dict(value).items() if name != "nodes"}


def _headline(review: Review) -> str:
    """Return the summary for readers who stop there."""
    if not review.changes:
        nothing = "Nothing changes." if review.verdict != "unknown" else "No known changes."
        return " ".join([nothing, *_other_stacks(review.siblings)])
    said = [_counts(review.changes) if review.kind == "changed" else f"The stack is {_KINDS[review.kind]}."]
    if review.kind == "changed" or review.join:
        said.append(_node_counts(review))
    lost = dict.fromkeys(name for each in review.changes for name in each.loses)
    said += [f"Data is lost: {prose(', '.join(lost))}."] if lost else []
    said.append(_cost_words(review))
    asked = [_EFFECT_WORDS[effect] for effect in review.effects if effect in _EFFECT_WORDS]
    said += [f"Needs approval: {', '.join(asked)}."] if asked and review.kind == "changed" else []
    broken = [each for each in review.rules if each.after == "fail"]
    said += [f"{counted(len(broken), 'rule')} broken."] if broken else []
    said += [f"{counted(len(review.unknown), 'effect')} unknown."] if review.unknown else []
    return " ".join([*said, *_other_stacks(review.siblings)])


def _other_stacks(siblings: Sequence[Sibling]) -> list[str]:
    broken = [each.stack for each in siblings if each.broken]
    failed = [each.stack for each in siblings if each.verdict == "fail" and not each.broken]
    return [
        *([f"Stacks that do not load any more: {prose(', '.join(broken))}."] if broken else []),
        *([f"Stacks whose own review fails: {prose(', '.join(failed))}."] if failed else []),
    ]


_EFFECT_WORDS = {"data": "data is lost", "replace": "parts are removed and created again"}
_KINDS = {"created": "new", "destroyed": "gone"}


def _counts(changes: Sequence[DeclaredChange]) -> str:
    policies = [each.policy for each in changes]
    counts = [f"{policies.count(each)} {_POLICY_WORDS.get(each, each)}" for each in POLICIES if each in policies]
    if len(counts) == 1:
        how = counts[0].partition(" ")[2]
        return (
            f"{counted(len(changes), 'change')}, {how}." if len(changes) == 1 else f"{len(changes)} changes, all {how}."
        )
    return f"{len(changes)} changes: {', '.join(counts)}."


_POLICY_WORDS = {"refuse": "refused", "roll": "by rolling", "replace": "by replacement", None: "of unknown effect"}


def _node_counts(review: Review) -> str:
    counts = [
        _nodes(sum(each.count for each in nodes), verb)
        for verb, nodes in (("restart", review.restart), ("join", review.join), ("leave", review.leave))
        if nodes
    ]
    if not review.restart:
        counts.insert(0, "no node restarts")
    text = ", ".join(counts)
    return f"{text[0].upper()}{text[1:]}."


def _cost_words(review: Review) -> str:
    charges = (*review.before.charges, *review.after.charges)
    if charges and not any(each.sold for each in charges):
        return "Cost: not priced."
    least, most = review.usd_per_hour_min, review.usd_per_hour
    if least is None or most is None:
        known = usd(review.known_usd_per_hour_min, review.known_usd_per_hour, "+")
        without = f"without {prose(', '.join(review.unpriced))}, whose prices are not all known"
        return f"Cost: {known} USD an hour {without}." if review.known_usd_per_hour else "Cost: unknown."
    if least or most:
        return f"Cost: {usd(least, most, '+')} USD an hour."
    same = review.before.uncounted == review.after.uncounted
    return "Cost: the same." if same else "Cost: the same, without uncounted items."


def _nodes(count: int, verb: str) -> str:
    return f"{counted(count, 'node')} {verb}{'s' if count == 1 else ''}"


def _changes(review: Review) -> list[str]:
    rows = [
        (quoted(each.written), _side(each, each.difference.a), _side(each, each.difference.b), *_effect(each))
        for each in _sorted(review.changes)
    ]
    return _table(("change", "before", "after", "how", "effect"), rows) if rows else []


def _sorted(changes: Sequence[DeclaredChange]) -> list[DeclaredChange]:
    return sorted(changes, key=lambda each: POLICIES.index(each.policy))


def _approval(review: Review) -> list[str]:
    """Say how a user approves the change, if an `up` requires it."""
    if not review.id:
        return []
    carried = f"`{VARIABLE}={review.id} pulumi up` carries out this change and no other"
    return [f"An `up` of {quoted(review.stack)} refuses this without an approval: {carried}."]


def _side(each: DeclaredChange, value: Any) -> str:
    last = each.difference.way[-1]
    if last.key:
        return "-" if value is None else quoted(summary(value).removeprefix(", ") or "there")
    return quoted(_text(each, value))


def _text(each: DeclaredChange, value: Any) -> str:
    field = each.difference.way[-1].field
    return ", ".join(value) if field == "order" else shown(value, field, each.difference.unit)


def _effect(each: DeclaredChange) -> tuple[str, str]:
    if each.why:
        does = prose(each.why)
    elif each.difference.way[-1].key and each.policy == "in place":
        does = "comes" if each.difference.a is None else GOES.get(each.difference.way[0].field, "goes")
    else:
        does = DOES[each.policy] + (f"; {_nodes(each.restarts, 'restart')}" if each.restarts else "")
        does += f"; with all it holds: {prose(', '.join(each.loses))}" if each.loses else ""
    return each.policy or "unknown", does


def _following(review: Review) -> list[str]:
    lines = sentences([each for each in review.following if each.way[0].field != "expectations"], "base", "head")
    if not lines:
        return []
    more = [f"- and {len(lines) - FOLLOWING_MAX} more in the JSON"] if len(lines) > FOLLOWING_MAX else []
    items = [f"- {prose(line)}" for line in lines[:FOLLOWING_MAX]]
    return _folded(f"Consequences ({len(lines)})", [*items, *more])


def _order(review: Review) -> list[str]:
    if not review.order:
        return []
    steps = [f"{number}. {each.stage}: {prose(each.text)}" for number, each in enumerate(review.order, 1)]
    return ["**Order of operations**", "", *steps]


def _tables(expectations: Sequence[Reach]) -> list[tuple[str, list[Reach]]]:
    """Return the tables: limits that a proof judges by, and predictions of training, which are ranges."""
    felt = [each for each in expectations if _part(each).strip("+-") != "0.0%"]  # omit a change that rounds to nothing
    of_training = [each for each in felt if each.name.startswith(OF_TRAINING)]
    judged = [each for each in felt if each not in of_training]
    return [
        ("expected at most", [each for each in judged if not each.name.endswith("_min")]),
        ("broken below", [each for each in judged if each.name.endswith("_min")]),
        ("training of the declared model", of_training),
    ]


def _expectations(title: str, expectations: Sequence[Reach]) -> list[str]:
    if not expectations:
        return []
    alike: dict[tuple[str, ...], list[str]] = {}
    for each in expectations:
        head, _, tail = each.name.partition(".")
        alike.setdefault((f"{tail} ({each.unit})", *map(_number, (each.before, each.after)), _part(each)), []).append(
            head
        )
    rows = [(quoted(f"{fold(heads)} {what}"), *numbers) for (what, *numbers), heads in alike.items()]
    table = _table((title, "before", "after", "change"), rows)
    return table if len(rows) <= FOLLOWING_MAX else _folded(f"{title[0].upper()}{title[1:]} ({len(rows)})", table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _part(each: Reach) -> str:
    if each.before is None or each.after is None or not each.before:
        return "-"
    return f"{each.after / each.before - 1:+.1%}"


def _cost(review: Review) -> list[str]:
    """Return the charges that change."""
    before, after = ({each.what: each for each in cost.charges} for cost in (review.before, review.after))
    rows = [
        (quoted(what), *map(_charge, (before.get(what), after.get(what))))
        for what in dict.fromkeys((*before, *after))
        if (before.get(what), after.get(what)) != (after.get(what), after.get(what))
        and any(each.sold for each in (before.get(what), after.get(what)) if each)
    ]
    if not rows:
        return []
    rows.append(("all", _sum(review.before), _sum(review.after)))
    left_out = uncounted(review.after if review.kind != "destroyed" else review.before)
    return [
        *_table(("USD an hour", "before", "after"), rows),
        *(["", f"{prose(left_out[0].upper() + left_out[1:])}."] if left_out else []),
    ]


def _charge(each: Charge | None) -> str:
    if each is None:
        return "-"
    return f"{usd(each.usd_per_hour_min, each.usd_per_hour)} ({quoted(each.basis)})"


def _sum(cost: Cost) -> str:
    return usd(cost.usd_per_hour_min, cost.usd_per_hour)


def _rules(rules: Sequence[Ruling]) -> list[str]:
    rows = [(quoted(each.id), each.before or "-", each.after or "-", _says(each)) for each in rules]
    return _table(("rule", "before", "after", "message"), rows) if rows else []


def _says(each: Ruling) -> str:
    if each.after is None:
        return prose(f"resolved; before: {each.text}")
    return prose(f"{each.text}; hint: {each.hint}" if each.hint else each.text)


def _siblings(review: Review) -> list[str]:
    if not review.siblings:
        return []
    rows = [
        (quoted(each.stack), each.verdict, _sibling_changes(each), str(each.restarts) if each.restarts else "none")
        for each in review.siblings
    ]
    return _table(("stack that changes with it", "verdict", "changes", "nodes that restart"), rows)


def _sibling_changes(each: Sibling) -> str:
    return f"does not load: {quoted(each.broken)}" if each.broken else str(each.changes)


def _unknown(unknown: Sequence[str]) -> list[str]:
    if not unknown:
        return []
    more = [f"- and {len(unknown) - ROWS_MAX} more in the JSON"] if len(unknown) > ROWS_MAX else []
    return ["**Unknown**", "", *(f"- {prose(each)}" for each in unknown[:ROWS_MAX]), *more]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [_line(header), _line(["---"] * len(header)), *map(_line, rows[:ROWS_MAX])]
    left = len(rows) - ROWS_MAX
    return [*lines, "", f"... and {left} more in the JSON."] if left > 0 else lines


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell or '-' for cell in cells)} |"


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]
