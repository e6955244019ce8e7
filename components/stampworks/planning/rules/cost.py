"""Cost: the age of prices, the budget, and its mail addresses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stampworks import catalog
from stampworks.plan import Plan
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import MONTH_HOURS, NoPrice, by_use, cost, price_of, price_of_storage
from stampworks.planning.rules.findings import Finding, Verdict
from stampworks.planning.rules.pools import running

PRICE_MONTHS_MAX = 3


def prices(plan: Plan, today: str | None) -> Iterator[Finding]:
    """A price is not older than a quarter. Prices of accelerators have moved by half within one."""
    judged = set()
    for what, place, price in _priced(plan):
        if isinstance(price, NoPrice) or what in judged:
            continue  # the cost already reports a missing price
        judged.add(what)
        verdict, text, hint = _age(what, price.as_of, today)
        yield Finding("price.age", verdict, text, hint, place, "warning", what)


def _priced(plan: Plan) -> Iterator[tuple[str, str, catalog.Price | catalog.StoragePrice | NoPrice]]:
    """Yield each machine and storage with its place in the declaration and its price."""
    places = {pool.name: f"{where}.machine" for where, pool in running(plan)}
    for group in plan.running:
        place = places.get(group.name, "")
        yield f"{group.machine.name} ({group.purchase})", place, price_of(plan, group)
    for index, one in enumerate(plan.storage):
        yield " ".join(filter(None, (one.kind, one.tier))), f"storage[{index}]", price_of_storage(plan, one)


def _age(what: str, as_of: str | catalog.Unknown, today: str | None) -> tuple[Verdict, str, str]:
    """Judge a price by its date: verdict, text and hint."""
    if isinstance(as_of, catalog.Unknown):
        return "unknown", f"the price of {what} has no date", "ask the cloud"
    text = f"the price of {what} is of {as_of}"
    if today is None:
        return "unknown", f"{text}, and no date of today was given", ""
    if _months(as_of, today) <= PRICE_MONTHS_MAX:
        return "pass", text, ""
    return "fail", f"{text}: more than {PRICE_MONTHS_MAX} months before {today}", "ask the cloud, and renew the catalog"


def _months(earlier: str, later: str) -> int:
    """Return the months between two dates like 2026-11-22."""
    (year, month), (now, this) = (map(int, text.split("-")[:2]) for text in (earlier, later))
    return (now - year) * 12 + this - month


def budget(plan: Plan) -> Iterator[Finding]:
    """A month of the declared cluster costs no more than the budget."""
    limit, charges = plan.budget.monthly_usd, [each for each in cost(plan).charges if each.sold]
    if not limit or not charges:
        return
    least = MONTH_HOURS * sum(each.usd_per_hour_min or 0 for each in charges)
    most = MONTH_HOURS * sum(each.usd_per_hour or 0 for each in charges)
    unpriced = [each.what for each in charges if each.usd_per_hour is None]
    range_ = f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    used = by_use(plan)
    left_out = [f"{', '.join(unpriced)}, whose prices are unknown"] if unpriced else []
    left_out += [f"storage and traffic of {', '.join(used)}, billed by use"] if used else []
    without = f" without {', and '.join(left_out)}" if left_out else ""
    text = f"a month of {MONTH_HOURS} hours costs {range_} USD{without}; the budget is {limit:,} USD"
    place, more = "budget.monthly_usd", f"write {math.ceil(most)} or more, or take nodes out"
    if least > limit:
        yield Finding("cost.budget", "fail", text, more, place)
    elif unpriced:
        yield Finding("cost.budget", "unknown", text, "ask the cloud what it costs, and renew the catalog", place)
    elif most > limit:
        text += ", which is spent before the end of the month if all nodes run"
        yield Finding("cost.budget", "fail", text, more, place, "warning")
    elif used:
        yield Finding("cost.budget", "unknown", text, "estimate it from the data that you expect there", place)
    else:
        yield Finding("cost.budget", "pass", text, "", place)


def told(plan: Plan) -> Iterator[Finding]:
    """The declared addresses can get mail: there is a budget, or a capacity block that ends."""
    in_block = any(offer.purchase == "block" for pool in plan.pools for offer in pool.offers)
    if plan.budget.notify and CLOUDS[plan.cloud].told and not plan.budget.monthly_usd and not in_block:
        text = "no mail is ever sent: there is no budget and no block of capacity that ends"
        hint = "write budget.monthly_usd, or take notify out"
        yield Finding("cost.notify", "fail", text, hint, "budget.notify", "warning")
