"""Rights that an `up` needs, with the statement that is missing, and launches that were tried."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stampworks.plan import Plan
from stampworks.plan.rights import Right
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Facts, Finding, Severity
from stampworks.planning.rules.reading import AGAIN, READ, UnknownFact, known
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from stampworks.planning.rules.account import JudgedRight

_NAMED_MAX = 3
_UP, _LAUNCH = "rights.up", "rights.launch"
_DENIED = {
    "": ("none of its policies allows that", "add to its policies: {}"),
    "statement": ("a statement of its policies denies that", "remove that from the statement that denies it"),
    "boundary": ("its permissions boundary does not allow that", "ask its owners to add to the boundary: {}"),
    "organisation": (
        "a policy of the account's organisation denies that",
        "ask the administrators of the organisation",
    ),
}


def rights(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The user or role that runs an `up` has every right that the resources of the plan need."""
    own = CLOUDS[plan.cloud].account
    if not (needed := own.rights(plan)):
        return
    deployer = facts.account.deployer if facts.account else "the caller of an `up`"
    try:
        judged = {(one.action, one.resource, one.given): one for one in known(facts, "rights")}
    except UnknownFact as unread:
        text = f"whether {deployer} has the rights that the stack needs: {unread}"
        yield Finding(_UP, "unknown", text, unread.hint)
        return
    if own.unlimited(deployer):
        text = f"{deployer} has all rights, and no policy limits a mistake"
        yield Finding(_UP, "fail", text, "read the account as the user or role that runs `up`", severity="warning")
        return
    found = list(_judged(plan, facts, needed, judged))
    yield from found
    if not found:
        yield Finding(_UP, "pass", f"{deployer} has all {len(needed)} rights that an `up` needs", "")


def _judged(
    plan: Plan, facts: Facts, needed: Sequence[Right], judged: Mapping[tuple[Any, ...], JudgedRight]
) -> Iterator[Finding]:
    """Yield missing rights, a finding for each statement, and unknown ones."""
    lacking: dict[tuple[Any, ...], list[Right]] = {}
    unsure: dict[str, list[Right]] = {}
    for right in needed:
        one = judged.get((right.action, right.resource, right.given))
        if one is None:
            unsure.setdefault("", []).append(right)
        elif one.decision == "denied":
            lacking.setdefault((right.resource, right.given, one.why, right.once), []).append(right)
        elif one.decision == "depends":
            unsure.setdefault(one.why, []).append(right)
    for (_, _, why, once), denied in lacking.items():
        yield _lacks(plan, facts, denied, why, once)
    for why, some in unsure.items():
        yield _unsure(facts, some, why)


def _lacks(plan: Plan, facts: Facts, denied: Sequence[Right], why: str, once: bool) -> Finding:
    account, resource = facts.account, denied[0].resource
    assert account is not None  # noqa: S101  # the caller has looked
    where = resource.replace("{account}", account.account)
    because, hint = _DENIED[why]
    text = f"{account.deployer} may not {_listed(denied)} on {where}: {because}"
    statement = json.dumps(CLOUDS[plan.cloud].account.statement(denied, account.account))
    severity: Severity = "error"
    if once:
        text, severity = f"{text}; only the first cluster in an account needs that", "warning"
    return Finding(_UP, "fail", text, hint.format(statement), severity=severity, subject=resource)


def _unsure(facts: Facts, rights: Sequence[Right], why: str) -> Finding:
    deployer = facts.account.deployer if facts.account else ""
    if why:
        text = f"whether {deployer} may {_listed(rights)}: that depends on {why}"
        return Finding(_UP, "unknown", text, "ask the owner of its policies", subject=why)
    text = f"whether {deployer} may {_listed(rights)}: the stack did not need that when the account was read"
    return Finding(_UP, "unknown", text, READ)


def _listed(rights: Sequence[Right]) -> str:
    """Return the actions, or the first of many: the statement has them all."""
    actions = sorted({right.action for right in rights})
    if len(actions) <= _NAMED_MAX:
        return ", ".join(actions)
    return f"{', '.join(actions[:_NAMED_MAX])} and {counted(len(actions) - _NAMED_MAX, 'other action')}"


def launches(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The cloud accepts the launch of a node of each group, as far as a dry run can tell."""
    if facts.account is None or not CLOUDS[plan.cloud].account.rights(plan):
        return
    try:
        tried = {one.group: one for one in known(facts, "launches")}
    except UnknownFact as unread:
        yield Finding(_LAUNCH, "unknown", f"whether launches would be accepted: {unread}", unread.hint)
        return
    for group in plan.groups:
        one = tried.get(group.name)
        if group.launch is None:
            continue
        if one is None:
            text = f"whether a launch of {group.name} would be accepted: it was not declared when the account was read"
            yield Finding(_LAUNCH, "unknown", text, f"{READ}, and tries it again", subject=group.name)
        elif one.outcome == "accepted":
            yield Finding(_LAUNCH, "pass", f"a launch of {group.name} would be accepted", "", subject=group.name)
        elif one.outcome == "refused":
            text = f"a launch of {group.name} would be refused: {one.why}"
            yield Finding(_LAUNCH, "fail", text, AGAIN, subject=group.name)
        else:
            text = f"whether a launch of {group.name} would be accepted was not tried: {one.why}"
            yield Finding(_LAUNCH, "unknown", text, f"{READ}, and tries it again", subject=group.name)
