"""Review the change from one plan to another: changes, order, costs, expectations and rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.changes.acceptance import change_id
from stampworks.changes.charges import Cost
from stampworks.changes.differences import Difference, PathStep, differences
from stampworks.changes.outcomes import NOT_STAMPED
from stampworks.changes.review import DeclaredChange, Operation, Reach, Review, Ruling, Sibling, Verdict
from stampworks.plan import Group, Plan, Storage, existing_parts
from stampworks.planning.changes import order, stateful
from stampworks.planning.changes.access import access
from stampworks.planning.changes.policies import API, LOGIN, decided_by, declared, of_lock, ruled, spelled
from stampworks.planning.cost import cost
from stampworks.planning.rules.findings import Finding
from stampworks.planning.rules.managed import public
from stampworks.text.amounts import counted

Contents = Mapping[tuple[str, str], str]
"""Digests of the files of each role and check, by kind (roles, checks) and name."""


@dataclass(frozen=True)
class ReviewedStack:
    """A stack before or after a change."""

    name: str
    plan: Plan | None
    """None when the stack does not exist."""
    findings: tuple[Finding, ...] = ()
    contents: Contents | None = None
    """None when unknown: a plan contains no files."""
    written: frozenset[str] | None = None
    """The fields that the user wrote; None when unknown: a plan does not record them."""
    unread: tuple[str, ...] = ()
    """Names in its roles that could not be read, so that no digest covers them."""


def review(
    stack: str, base: ReviewedStack, head: ReviewedStack, siblings: Sequence[Sibling] = (), unknown: Sequence[str] = ()
) -> Review:
    """Review the change from one plan to the other; at least one of them exists."""
    changes, following = _changes(base, head)
    before, after = (_cost(side.plan) for side in (base, head))
    rules = _rules(base.findings, head.findings) if base.plan and head.plan else _only(base.findings, head.findings)
    contents = _unknown_contents(base, head)
    return Review(
        stack=stack,
        base=base.name,
        head=head.name,
        kind="created" if base.plan is None else "destroyed" if head.plan is None else "changed",
        verdict=_verdict(changes, rules, bool(contents), siblings),
        changes=changes,
        following=following,
        restart=order.restarted(changes, base.plan, head.plan) if base.plan and head.plan else (),
        join=order.joining(base.plan, head.plan),
        leave=order.leaving(base.plan, head.plan),
        order=_order(changes, base.plan, head.plan),
        before=before,
        after=after,
        expectations=_expectations(base.plan, head.plan),
        rules=rules,
        siblings=tuple(siblings),
        unstamped=next((each.text for each in head.findings if each.id == NOT_STAMPED), ""),
        unknown=tuple(dict.fromkeys((*contents, *_unknown(changes, base, head, before, after), *unknown))),
        id=_id(changes, base.plan, head.plan),
        existing=tuple(dict.fromkeys(part for side in (base, head) if side.plan for part in existing_parts(side.plan))),
    )


def _id(changes: Sequence[DeclaredChange], a: Plan | None, b: Plan | None) -> str:
    return change_id(a, b) if a and b and any(each.needs_approval for each in changes) else ""


def _changes(base: ReviewedStack, head: ReviewedStack) -> tuple[tuple[DeclaredChange, ...], tuple[Difference, ...]]:
    """Split differences into declared changes and their consequences."""
    a, b = base.plan, head.plan
    if a is None or b is None:
        whole = tuple(_whole_stack(a or b, created=a is None))
        return tuple(_stack_change(each, a) for each in whole), ()
    found = differences(a, b)
    names = {each.way for each in found}
    fields_ = {each: decided_by(each.way, a, b) for each in found}
    written = [each for each in found if fields_[each] and not _derived(fields_[each], base, head)]
    decisions = [*written, *(each for each in found if of_lock(each, names))]
    causes = [each for each in decisions if not _follows(each, names, a, b)]
    if not causes:  # A plan made outside of planning: every difference is a change, and its effect is unknown
        causes = list(found)
    changes: dict[str, DeclaredChange] = {}
    for each in causes:  # one change of the rate affects all rails, and one of the release affects many versions
        named = spelled(fields_[each], each) or each.path
        changes.setdefault(named, ruled(each, fields_[each], named, a, b))
    shown = {each.difference for each in changes.values()}
    return (*changes.values(), *_contents(base, head)), tuple(each for each in found if each not in shown)


def _derived(field: str, *sides: ReviewedStack) -> bool:
    """Whether the field was not written, before or after, so that the value follows from others."""
    return all(side.written is not None and field not in side.written for side in sides)


def _follows(each: Difference, names: Iterable[tuple[PathStep, ...]], a: Plan, b: Plan) -> bool:
    """Whether the difference follows from another change."""
    *above, last = each.way
    if above and above[-1].field == "release" and (last.key or (last.field == "kernel" and not (each.a and each.b))):
        return True  # software that is added or removed with the pool or storage that needs it
    if above and above[-1].field in ("machine", "release"):  # a catalog row: its contents change with its name
        return last.field != "name" and (*above, PathStep("name")) in names
    if last.field == "unavailable_max":  # a share of the pool's nodes
        counts = [{pool.name: pool.count for pool in plan.pools} for plan in (a, b)]
        at_most = [dict(plan.roll.unavailable_max) for plan in (a, b)]
        same = [name for name, count in counts[0].items() if counts[1].get(name) == count]
        return all(at_most[0].get(name) == at_most[1].get(name) for name in same)
    if last.field == "zone" and each.way[0].key == b.controller.name:
        return any(way != each.way and stateful.moves_head(way, a, b) for way in names)
    if last.field == "rate_mbps" and b.fabric.kind != "simulated":  # derived from the NICs of the machines, if any
        return any(way[-1] == PathStep("name") and way[-2:-1] == (PathStep("machine"),) for way in names)
    return each.follows


def _whole_stack(plan: Plan | None, created: bool) -> Iterable[Difference]:
    """Yield the parts of a stack that is created or destroyed, as differences."""
    if plan is None:
        return
    lists: tuple[tuple[tuple[str, ...], Sequence[Any]], ...] = (
        (("groups",), plan.groups),
        (("storage",), plan.storage),
        (("scheduler", "queues"), plan.scheduler.queues),
        (("users",), plan.users),
        (("teams",), plan.teams),
    )
    for names, entries in lists:
        for entry in entries:
            way = (*map(PathStep, names[:-1]), PathStep(names[-1], entry.name))
            yield Difference(way, "difference", None if created else entry, entry if created else None)
    if plan.directory:
        parts = (None, plan.directory) if created else (plan.directory, None)
        yield Difference((PathStep("directory"),), "difference", *parts)
    if created and (ranges := plan.scheduler.api_from):
        yield Difference((PathStep("scheduler"), PathStep("api_from")), "identity", (), ranges)


def _stack_change(each: Difference, base: Plan | None) -> DeclaredChange:
    group = each.b if base is None else each.a
    field = LOGIN if isinstance(group, Group) and group.role == "login" else declared(each.way)
    written = spelled(field, each) or each.path
    if base is None:
        return DeclaredChange(each, field, written, "create", 0, public(each.b) if field == API else access(each))
    if isinstance(each.a, Storage) and each.a.existing:
        why = f"nodes do not mount it any more; {each.a.existing} itself stays as it is"
        return DeclaredChange(each, field, written, "destroy", 0, why)
    if isinstance(each.a, Storage) and each.a.protect:
        return DeclaredChange(
            each, field, written, "refuse", 0, "it is protected: write protect: false and stamp that first"
        )
    head = isinstance(each.a, Group) and each.a.role == "controller"
    if head and base.scheduler.protect:
        kept = base.scheduler.traits.keeps
        why = f"{kept}, and keys, are protected: write scheduler.protect: false and stamp that first"
        return DeclaredChange(each, field, written, "refuse", 0, why)
    loses = (each.a.name,) if isinstance(each.a, Storage) else (base.scheduler.traits.keeps,) if head else ()
    return DeclaredChange(each, field, written, "destroy", 0, loses=loses)


def _contents(base: ReviewedStack, head: ReviewedStack) -> Iterable[DeclaredChange]:
    """Yield roles and checks whose files changed under the same name."""
    one, other = base.contents or {}, head.contents or {}
    for key in one.keys() & other.keys():
        if one[key] != other[key]:
            kind, name = key
            way = (PathStep("extras"), PathStep(kind, name), PathStep("content"))
            what = f"content of the files of extras.{kind}[{name}]"
            of = Difference(way, "difference", one[key], other[key])
            yield DeclaredChange(of, f"extras.{kind}[].path", what, "in place", 0)


def _unknown_contents(base: ReviewedStack, head: ReviewedStack) -> list[str]:
    unread = [
        f"content of {counted(len(side.unread), 'file')} in the roles of {side.name}, such as {side.unread[0]}, which "
        "cannot be read"
        for side in (base, head)
        if side.unread and head.plan
    ]
    if not (base.plan and head.plan):
        return unread
    silent = [side.name for side in (base, head) if side.contents is None]
    extras = [plan.extras for plan in (base.plan, head.plan)]
    own = [role.name for one in extras for role in one.roles] + [check.name for one in extras for check in one.checks]
    plans = [f"whether the files of {name} change: {silent[0]} is a plan, which has none" for name in own if silent]
    return [*plans, *unread]


def _unknown(
    changes: Sequence[DeclaredChange], base: ReviewedStack, head: ReviewedStack, before: Cost, after: Cost
) -> Iterable[str]:
    """Describe what could not be determined about the change. Facts that were unknown before do not count."""
    if not changes:
        return
    yield from (f"effect of a change of {each.difference.path}" for each in changes if each.policy is None)
    earlier = {(each.id, each.text) for each in base.findings if each.verdict == "unknown"}
    found = [each for each in head.findings if each.verdict == "unknown" and (each.id, each.text) not in earlier]
    yield from (f"{each.id}: {each.text}" for each in found)
    paid = {(each.what, each.price) for each in before.charges}
    unpriced = [each for each in after.charges if each.usd_per_hour is None and each.sold]
    yield from (f"costs of {each.what}: {each.why}" for each in unpriced if (each.what, each.price) not in paid)


def _order(changes: Sequence[DeclaredChange], a: Plan | None, b: Plan | None) -> tuple[Operation, ...]:
    if b is None:
        text = "`pulumi destroy` takes it down with its data; removing the file does not stop the stack"
        return (Operation("removal", text),)
    return order.operations(changes, a, b) if a else order.making(b)


def _cost(plan: Plan | None) -> Cost:
    return cost(plan) if plan else Cost(())


def _expectations(a: Plan | None, b: Plan | None) -> tuple[Reach, ...]:
    before, after = ({each.name: each for each in plan.expectations} if plan else {} for plan in (a, b))
    pairs = [(before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after))]
    return tuple(
        Reach(each.name, each.unit, one.value if one else None, other.value if other else None)
        for one, other in pairs
        if (each := other or one) and (one is None or other is None or one.value != other.value)
    )


def _rules(before: Sequence[Finding], after: Sequence[Finding]) -> tuple[Ruling, ...]:
    """Return findings of rules that changed, unless a rule passes on both sides."""
    earlier, later = _numbered(before), _numbered(after)
    found = []
    for key in dict.fromkeys((*earlier, *later)):
        one, other = earlier.get(key), later.get(key)
        same = one and other and (one.outcome, one.text) == (other.outcome, other.text)
        if not same and {each.outcome for each in (one, other) if each} != {"pass"}:
            found.append(_ruling(one, other))
    return tuple(found)


def _only(before: Sequence[Finding], after: Sequence[Finding]) -> tuple[Ruling, ...]:
    """Return the findings of a new stack; a stack that is destroyed breaks no rule."""
    return tuple(_ruling(None, each) for each in after if each.outcome != "pass") if not before else ()


def _numbered(findings: Sequence[Finding]) -> dict[tuple[str, str, int], Finding]:
    """Index findings by id, subject and a sequence number: a rule may report several findings for one subject."""
    numbers: Counter[tuple[str, str]] = Counter()
    found = {}
    for each in findings:
        key = each.id, each.subject
        found[*key, numbers[key]] = each
        numbers[key] += 1
    return found


def _ruling(one: Finding | None, other: Finding | None) -> Ruling:
    said = other or one
    assert said  # noqa: S101  # a rule without findings on both sides is not asked
    before, after = one.outcome if one else None, other.outcome if other else None
    return Ruling(said.id, before, after, said.text, said.hint)


def _verdict(
    changes: Sequence[DeclaredChange], rules: Sequence[Ruling], contents_unknown: bool, siblings: Sequence[Sibling]
) -> Verdict:
    """Judge the change alone, in all stacks: an earlier fault is not a fault of the change."""
    refused = any(each.policy == "refuse" for each in changes)
    if refused or any(each.after == "fail" for each in rules) or any(each.verdict == "fail" for each in siblings):
        return "fail"
    lost = any(each.after == "unknown" and each.before != "unknown" for each in rules)
    return "unknown" if lost or contents_unknown or any(each.policy is None for each in changes) else "pass"
