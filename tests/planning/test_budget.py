"""Tests of the budget: the costs against it, and the warnings by mail."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning import Finding
from stampworks.planning.cost import MONTH_HOURS, cost
from stampworks.views.plan import plan_text

POOL = {"name": "gpu", "machine": "p5", "count": 4, "zone": "us-east-1a"}


def on_aws(budget: dict[str, Any], **fields: Any) -> Plan:
    data = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": [POOL], **fields}
    return planning.plan(load_value({**data, "budget": budget}, "test"))


def found(plan: Plan, rule: str = "cost.budget") -> list[Finding]:
    return [finding for finding in planning.rules(plan, None) if finding.id == rule]


def month(plan: Plan) -> tuple[float, float]:
    whole = cost(plan)
    assert whole.usd_per_hour is not None
    assert whole.usd_per_hour_min is not None
    return MONTH_HOURS * whole.usd_per_hour_min, MONTH_HOURS * whole.usd_per_hour


def test_without_a_budget_nothing_is_said() -> None:
    assert found(on_aws({})) == []
    assert "Budget:" not in plan_text(on_aws({}), cost(on_aws({})), ())


def test_a_cluster_within_its_budget() -> None:
    _, most = month(on_aws({}))
    [it] = found(on_aws({"monthly_usd": 161_500}))
    assert (it.outcome, it.hint, it.place) == ("pass", "", "budget.monthly_usd")
    assert it.text == f"a month of 730 hours costs {most:,.0f} USD; the budget is 161,500 USD"


def test_a_cluster_beyond_its_budget_is_an_error() -> None:
    """The declaration contradicts itself: the cluster cannot run within the budget."""
    _, most = month(on_aws({}))
    [it] = found(on_aws({"monthly_usd": 100_000}))
    assert it.outcome == "fail"
    assert it.text == f"a month of 730 hours costs {most:,.0f} USD; the budget is 100,000 USD"
    assert it.hint == f"write {int(most) + 1} or more, or take nodes out"
    [after] = found(on_aws({"monthly_usd": int(most) + 1}))
    assert after.outcome == "pass"


def test_nodes_that_need_not_run_only_warn() -> None:
    """The nodes that always run are within it."""
    plan = on_aws({"monthly_usd": 100_000}, pools=[{**POOL, "count_min": 1}])
    least, most = month(plan)
    [it] = found(plan)
    assert it.outcome == "warn"
    assert it.text == (
        f"a month of 730 hours costs {least:,.0f} to {most:,.0f} USD; the budget is 100,000 USD, which is spent "
        "before the end of the month if all nodes run"
    )


@pytest.mark.parametrize(("usd", "outcome"), [(10_000_000, "unknown"), (100_000, "fail")])
def test_unpriced_parts_are_not_free(usd: int, outcome: str) -> None:
    """An exception is a known part that exceeds the budget alone."""
    data = {"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_1", "capacity": 1200, "mount": "/data"}
    [it] = found(on_aws({"monthly_usd": usd}, storage=[data]))
    assert it.outcome == outcome
    assert " USD without storage data, whose prices are unknown; the budget is " in it.text


@pytest.mark.parametrize(("usd", "outcome"), [(10_000_000, "unknown"), (100_000, "fail")])
def test_usage_based_parts_are_not_free(usd: int, outcome: str) -> None:
    """An exception is a known part that exceeds the budget alone."""
    archive = {"name": "archive", "kind": "s3", "mount": "/archive"}
    [it] = found(on_aws({"monthly_usd": usd}, storage=[archive]))
    assert it.outcome == outcome
    assert " USD without storage and traffic of archive, billed by use; the budget is " in it.text


def test_where_nothing_is_sold_no_rule_speaks() -> None:
    plan = planning.plan(
        load_value(
            {
                "version": 1,
                "name": "test",
                "cloud": "local",
                "budget": {"monthly_usd": 1},
                "pools": [{"name": "gpu", "machine": "sim-h100", "count": 2}],
            },
            "test",
        )
    )
    assert found(plan) == []


def test_watched_budgets_are_described() -> None:
    """AWS has budgets; on other clouds a warning says that nothing watches the costs."""
    [why] = [each.why for each in on_aws({"monthly_usd": 5}).reasons if each.path == "budget"]
    assert "AWS Budgets counts what has the tag stampworks:cluster" in why
    pool = {"name": "gpu", "machine": "a3-highgpu-8g", "count": 2}
    data = {"version": 1, "name": "test", "cloud": "google", "region": "us-central1", "pools": [pool]}
    google = planning.plan(load_value({**data, "budget": {"monthly_usd": 5}}, "test"))
    [why] = [each.why for each in google.reasons if each.path == "budget"]
    assert why == "a rule compares the plan with it; on google nothing watches the bill"


BLOCK = {**POOL, "purchase": "block", "reservation": "cr-0fedcba9876543210"}


def test_block_needs_mail_addresses() -> None:
    """The nodes of the block are terminated with their jobs."""
    [it] = found(on_aws({}, pools=[BLOCK]), "purchase.end")
    assert (it.outcome, it.place, it.subject) == ("warn", "budget.notify", "gpu")
    assert it.text == "the nodes of pool gpu end half an hour before their block, and no mail address is declared"
    assert found(on_aws({"notify": ["ops@example.com"]}, pools=[BLOCK]), "purchase.end") == []
    assert found(on_aws({}), "purchase.end") == []


def test_alternative_block_needs_mail_addresses() -> None:
    """Nodes may still be in it."""
    later = [{"purchase": "spot"}, {"purchase": "block", "reservation": "cr-2"}]
    pools = [{**POOL, "count_min": 1, "fallbacks": later}, {**BLOCK, "name": "more"}]
    told = [(each.outcome, each.subject) for each in found(on_aws({}, pools=pools), "purchase.end")]
    assert told == [("warn", "gpu"), ("warn", "more")]
    assert found(on_aws({"notify": ["ops@example.com"]}, pools=pools), "purchase.end") == []


@pytest.mark.parametrize(
    "address",
    [
        "ops",
        "ops@example",
        "@example.com",
        "a b@example.com",
        "ops@example.com\n",
        "ops@-a.com",
        "x@y..com",
        "ops@exämple.com",
    ],
)
def test_refuses_malformed_mail_addresses(address: str) -> None:
    with pytest.raises(DeclarationError, match="is not a mail address") as error:
        on_aws({"notify": ["team.gpu+alarms@mail.example.com", address]})
    assert [(problem.path, problem.hint) for problem in error.value.problems] == [
        ("budget.notify[1]", "write it like ops@example.com")
    ]


def test_a_budget_as_it_is_read() -> None:
    plan = on_aws({"monthly_usd": 161_500, "notify": ["ops@example.com", "team@example.com"]})
    text = plan_text(plan, cost(plan), ())
    assert "\nBudget: 161,500 USD a month; mail to ops@example.com, team@example.com\n" in text
    assert "\nBudget: no limit; mail to ops@example.com\n" in plan_text(
        on_aws({"notify": ["ops@example.com"]}), cost(plan), ()
    )


def test_addresses_without_a_warning() -> None:
    """Mail is about a budget or the end of a block; another finding reports that no mail is sent."""
    asked = {"notify": ["ops@example.com"]}
    [it] = found(on_aws(asked), "cost.notify")
    assert (it.outcome, it.place) == ("warn", "budget.notify")
    assert it.text == ("no mail is ever sent: there is no budget and no block of capacity that ends")
    assert found(on_aws({**asked, "monthly_usd": 161_500}), "cost.notify") == []
    assert found(on_aws(asked, pools=[BLOCK]), "cost.notify") == []
    assert found(on_aws({}), "cost.notify") == []
