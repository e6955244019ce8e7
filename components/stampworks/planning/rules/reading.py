"""Facts about an account as rules read them: an unknown fact ends the work of a rule, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from stampworks.plan import Group, Plan, declared_pools
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.days import days_between
from stampworks.planning.rules.findings import Facts, Finding

if TYPE_CHECKING:
    from stampworks.plan.host_facts import HostsSurvey
    from stampworks.planning.rules.account import Account

DAYS_MAX: Final = 7
"""Maximum age of facts, in days. A week is about as long as a change waits for its review. Later, facts say little:
others in an account start and stop nodes every day, and reservations end."""
READ = "`stampworks facts -s STACK` reads the account"
AGAIN = "resolve that; then `stampworks facts -s STACK` reads the account again"
"""Hint when the account was read, but one of its facts could not be."""


class UnknownFact(Exception):  # noqa: N818  # not an error: it ends the work of a rule
    """A fact is unknown; carries the reason, and a hint how to learn it."""

    def __init__(self, why: str, hint: str = READ) -> None:
        super().__init__(why)
        self.hint = hint


def of_this(plan: Plan, facts: Facts) -> Facts:
    """Return the facts without an account, or answers of hosts, that were read for another plan, or too long ago."""
    if facts.hosts is None:
        facts = replace(facts, hosts_why="they were never asked")
    elif why := _hosts_mismatch(facts.hosts, plan, facts.as_of):
        facts = replace(facts, hosts=None, hosts_why=why)
    if facts.account is None:
        return replace(facts, account_why="it was never read")
    why = _mismatch(facts.account, plan) or _too_old(facts.account, facts.as_of)
    return replace(facts, account=None, account_why=why) if why else facts


def _hosts_mismatch(survey: HostsSurvey, plan: Plan, as_of: str | None) -> str:
    """Return why the answers of hosts do not apply; empty when they do."""
    if survey.cluster != plan.name:
        return f"those of cluster {survey.cluster} were asked"
    return _out_of_date("the survey was made", survey.at, survey.at, as_of)


def _mismatch(account: Account, plan: Plan) -> str:
    """Return why an account's facts do not apply to this cluster; empty when they do."""
    for what, read, asked in (
        ("cloud", account.cloud, plan.cloud),
        ("region", account.region, plan.region),
        ("cluster", account.cluster, plan.name),
    ):
        if read != asked:
            return f"it was read for {what} {read}"
    return ""


def _too_old(account: Account, as_of: str | None) -> str:
    """Return why an account's facts do not apply today; empty when they do."""
    at, last = min(each.at for each in account.readings), max(each.at for each in account.readings)
    return _out_of_date("it was read", at, last, as_of)


def _out_of_date(read: str, first: str, last: str, as_of: str | None) -> str:
    if as_of is None:
        return "no date of today was given"
    if days_between(last, as_of) < -1:  # clocks of two places may differ by a day
        return f"{read} on {last[:10]}, which has not come yet"
    days = days_between(first, as_of)
    return f"{read} on {first[:10]}, {days} days ago, and is out of date after {DAYS_MAX}" if days > DAYS_MAX else ""


def known(facts: Facts, fact: str) -> Any:
    """Return a fact about the account; raise UnknownFact when it is unknown."""
    if facts.account is None:
        raise UnknownFact(facts.account_why)
    value = getattr(facts.account, fact)
    if value is None:
        raise UnknownFact(facts.account.why(fact), AGAIN)
    return value


def account(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The account was read within the last week, from the cloud itself; all other rules about accounts rely on it."""
    if not can_be_read(plan):
        return
    if facts.account is None:
        text = f"limits and capacity of the account in {plan.region} are unknown: {facts.account_why}"
        yield Finding("account", "unknown", text, READ)
        return
    days = min(each.at for each in facts.account.readings)[:10]
    text = f"account {facts.account.account} in {plan.region}, as it was on {days}"
    if facts.account.elsewhere:
        text += f" at {facts.account.elsewhere}, which is not the cloud's own endpoint"
        variable = CLOUDS[plan.cloud].account.endpoint_variable
        hint = f"unset {variable}, and {READ}, unless that is where the cluster is to be"
        yield Finding("account", "fail", text, hint, severity="warning")
        return
    yield Finding("account", "pass", text, "")


def can_be_read(plan: Plan) -> bool:
    """Whether `stampworks facts` can read accounts of the plan's cloud."""
    return CLOUDS[plan.cloud].launches is not None


def judged_groups(plan: Plan, facts: Facts) -> Iterator[tuple[str, Group]]:
    """Yield the groups that a cloud starts; none without an account."""
    return launched(plan) if facts.account else iter(())


def launched(plan: Plan) -> Iterator[tuple[str, Group]]:
    """Yield the groups that a cloud starts and that run jobs or serve them, each with its place in the declaration."""
    yield from (("", group) for group in (plan.controller, *plan.login) if group.launch)
    for index, pool in enumerate(declared_pools(plan.groups)):
        if pool.launch and pool.role == "worker":
            yield f"pools[{index}]", pool


def instance_type(group: Group) -> str:
    """Return the cloud's name for a group's machine."""
    assert group.launch is not None  # noqa: S101  # only groups that a cloud starts
    return group.launch.instance_type
