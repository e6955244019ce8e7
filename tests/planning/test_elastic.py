"""Pools that grow and shrink automatically: limits count the maximum, and the number of running nodes is no part of the
plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.changes.review import Review
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, fingerprint
from stampworks.planning import Facts, Finding
from stampworks.planning.changes.review import ReviewedStack
from stampworks.planning.changes.review import review as reviewed
from stampworks.planning.cost import MONTH_HOURS, cost
from stampworks.views.plan import plan_text
from stampworks.views.review import review_data, review_markdown

from tests.planning.accounts import TODAY, account

FAMILY = "Running On-Demand P instances"


def planned(pool: dict[str, Any], **fields: Any) -> Plan:
    pools = [{"name": "gpu", "machine": "p5", "count": 16, **pool}]
    data = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools, **fields}
    return planning.plan(load_value(data, "test"))


def elastic(count_min: int = 4, **pool: Any) -> Plan:
    return planned({"count_min": count_min, **pool})


def refusal(pool: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(DeclarationError) as error:
        planned(pool, **fields)
    return str(error.value)


def found(plan: Plan, rule: str) -> list[Finding]:
    return [finding for finding in planning.rules(plan, None) if finding.id == rule]


def review(base: Plan, head: Plan) -> Review:
    return reviewed("test", ReviewedStack("base", base), ReviewedStack("head", head))


def charge(plan: Plan) -> tuple[float | None, float | None]:
    [found] = [each for each in cost(plan).charges if each.what == "pool gpu"]
    return found.usd_per_hour_min, found.usd_per_hour


def test_everything_is_counted_for_all_nodes() -> None:
    """Addresses, limits and expected rates include all nodes, as for a permanent pool."""
    one, other = elastic(), planned({})
    assert (one.pools[0].count_min, one.pools[0].count, other.pools[0].count_min) == (4, 16, 16)
    assert one.network == other.network
    assert (one.expectations, one.fabric, one.scheduler) == (other.expectations, other.fabric, other.scheduler)
    assert found(one, "quota") == found(other, "quota")
    [why] = [each.why for each in one.reasons if each.path == "groups.gpu.count"]
    assert why == "4 to 16 nodes run: addresses, limits and what they can reach are counted for 16"


def test_all_of_them_is_what_nothing_says() -> None:
    """Declaring explicitly that all nodes always run changes nothing."""
    assert planned({"count_min": 16}) == planned({}) == planned({"count_min": None})
    assert fingerprint(elastic()) != fingerprint(planned({}))


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            {"count_min": 17},
            "pools[0].count_min: 17 nodes always run by count_min, but the pool has only 16\n"
            "  hint: write 16 or less, or a larger count",
        ),
        ({"count_min": -1}, "pools[0].count_min: must be from 0 to 4096, not -1"),
        ({"count_min": "four"}, "pools[0].count_min: must be a whole number"),
        (
            {"count_min": 4, "scheduling_only": True},
            "pools[0].count_min: a pool for scheduling only has no nodes that run\n"
            "  hint: take it out, or take scheduling_only out of the pool",
        ),
    ],
)
def test_refused_elastic_pools(pool: dict[str, Any], said: str) -> None:
    """Each problem has a hint."""
    assert said in refusal(pool)


def test_how_long_nodes_wait_for_work() -> None:
    """The time is ten minutes, or as declared, and changes in place; without elastic nodes it has no effect."""
    longer = planned({"count_min": 4}, scheduler={"idle_minutes": 525_600})
    assert (elastic().scheduler.idle_minutes, longer.scheduler.idle_minutes) == (10, 525_600)
    assert fingerprint(longer) != fingerprint(elastic())
    [change] = (it := review(elastic(), longer)).changes
    assert (change.written, change.policy) == ("scheduler.idle_minutes", "in place")
    assert (it.join, it.leave, it.restart) == ((), (), ())
    said = (
        "scheduler.idle_minutes: it is for nodes that start with the work, and all nodes of this cluster always run\n"
        "  hint: write how many nodes of a pool always run, as count_min: 0, or take it out"
    )
    for pool in ({}, {"count_min": 16}):
        assert said in refusal(pool, scheduler={"idle_minutes": 10})
    assert "scheduler.idle_minutes: must be from 1 to 525600, not 0" in refusal({}, scheduler={"idle_minutes": 0})


@pytest.mark.parametrize(("cloud", "machine"), [("local", "sim-h100"), ("hosts", "dgx-h100")])
def test_where_nothing_starts_nodes(cloud: str, machine: str) -> None:
    """Hosts cannot be started, and the local cloud has no component that starts nodes."""
    place = {"cloud": cloud, "region": "here"}
    assert refusal({"machine": machine, "count_min": 4}, **place).startswith(
        f"test: pools[0].count_min: nodes cannot be started and stopped for jobs on {cloud} yet\n"
        "  hint: take it out: all nodes of pool gpu run"
    )
    assert planned({"machine": machine, "count_min": 16}, **place).pools[0].count_min == 16


def test_cost_of_elastic_pools() -> None:
    """The range reaches from the permanent nodes to all of them; a block is paid completely."""
    least, most = charge(elastic())
    assert most == charge(planned({}))[1]
    assert least == pytest.approx((most or 0) / 4)
    assert charge(elastic(0))[0] == 0
    assert len({*charge(elastic(purchase="block", reservation="cr-1"))}) == 1
    assert charge(elastic(purchase="reserved")) == (None, None)


@pytest.mark.parametrize("purchase", ["block", "reserved"])
def test_capacity_that_was_bought_before(purchase: str) -> None:
    """It is paid even without running nodes, which is a warning."""
    [finding] = found(elastic(purchase=purchase, reservation="cr-1"), "elastic.purchase")
    assert (finding.outcome, finding.place, finding.subject) == ("warn", "pools[0].count_min", "gpu")
    assert finding.text == (
        f"4 to 16 nodes of pool gpu run, but {purchase} capacity of all 16 is paid for whether they run or not"
    )
    assert not found(elastic(purchase="spot"), "elastic.purchase")
    assert not found(planned({"purchase": purchase, "reservation": "cr-1"}), "elastic.purchase")
    later = elastic(purchase=purchase, reservation="cr-1", fallbacks=[{"purchase": "spot"}])
    assert not found(later, "elastic.purchase")  # fallbacks are for elastic nodes


@pytest.mark.parametrize(("count_min", "outcome"), [(0, "unknown"), (1, "unknown"), (2, "pass"), (15, "pass")])
def test_extent_of_the_first_proof(count_min: int, outcome: str) -> None:
    """The proof covers the running nodes; a fabric needs two."""
    [finding] = found(elastic(count_min), "elastic.proof")
    assert finding.outcome == outcome
    assert f"the first proof measures {count_min or 'none'}" in finding.text
    assert not found(planned({}), "elastic.proof")
    assert not found(planned({"count_min": count_min}, proof={"level": "none"}), "elastic.proof")


def test_nodes_that_could_not_configure_themselves() -> None:
    """Such nodes would cost money without taking a job; pools of permanent nodes need no ability."""
    some, all_ = elastic(4), planned({})
    bare = [replace(plan, release=replace(plan.release, boot=())) for plan in (some, all_)]
    [finding] = found(bare[0], "elastic.boot")
    assert (finding.outcome, finding.place) == ("fail", "pools[0].count_min")
    assert finding.text == (
        "4 to 16 nodes of pool gpu run, but nodes that start later cannot configure themselves: release 2026.12 "
        "has no Ansible"
    )
    assert not found(bare[1], "elastic.boot")
    assert not found(some, "elastic.boot")


def test_nodes_that_come_and_go_mount_lustre() -> None:
    """The release needs the client and the software with which nodes configure themselves."""
    data = {"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}
    fields = {"release": "2026.11-ubuntu", "scheduler": {"accounting": True}, "storage": [data]}
    plan = planned({"count_min": 4, "zone": "us-east-1a"}, **fields)
    assert not found(plan, "elastic.boot")
    assert [finding.verdict for finding in found(plan, "release.client")] == ["pass"]


def test_nodes_without_a_fabric_are_proven_one_by_one() -> None:
    """A single permanent node suffices then."""
    [finding] = found(elastic(1, machine="m7i"), "elastic.proof")
    assert finding.outcome == "pass"


def four_nodes() -> float:
    """Return their costs an hour, with their disks."""
    disk = catalog.part_price("aws", "disk", "us-east-1")
    assert isinstance(disk, catalog.PartPrice)
    return (charge(elastic())[1] or 0) / 4 + 4 * 200 * disk.usd / MONTH_HOURS


def test_more_nodes_that_always_run() -> None:
    """The change is in place: nodes start, none restarts, and only the minimum cost changes."""
    [change] = (it := review(elastic(4), elastic(8))).changes
    assert (change.written, change.policy, change.difference.a, change.difference.b) == (
        *("pools[gpu].count_min", "in place"),
        *(4, 8),
    )
    assert ([(each.group, each.count) for each in it.join], it.leave, it.restart) == ([("gpu", 4)], (), ())
    assert it.usd_per_hour == 0
    more = four_nodes()
    assert it.usd_per_hour_min == pytest.approx(more, abs=1e-5)
    page = review_markdown(it)
    assert f"No node restarts, 4 nodes join. Cost: +0.00 to {more:+,.2f} USD an hour." in page
    assert "| `pools[gpu].count_min` | `4` | `8` | in place | jobs go on |" in page


def test_more_nodes_that_may_run() -> None:
    """No node starts because of this change."""
    it = review(elastic(4), elastic(4, count=20))
    assert [(each.written, each.policy) for each in it.changes] == [("pools[gpu].count", "in place")]
    assert (it.join, it.leave) == ((), ())
    assert it.usd_per_hour_min == 0
    assert it.usd_per_hour == pytest.approx(four_nodes(), abs=1e-5)


def test_fewer_nodes_that_may_run() -> None:
    """At most this many nodes leave: the number of running nodes is unknown."""
    it = review(elastic(4), elastic(4, count=12))
    assert (it.join, [(each.group, each.count) for each in it.leave]) == ((), [("gpu", 4)])


def test_a_pool_that_becomes_elastic() -> None:
    """A move in either direction is a single change, because the count stays."""
    for base, head in ((planned({}), elastic()), (elastic(), planned({}))):
        assert [each.written for each in review(base, head).changes] == ["pools[gpu].count_min"]
    both = review(planned({}), elastic(count=20)).changes
    assert [each.written for each in both] == ["pools[gpu].count", "pools[gpu].count_min"]


def test_a_pool_whose_nodes_all_run_has_one_count() -> None:
    """The minimum count is derived."""
    it = review(planned({}), planned({"count": 20}))
    assert [each.written for each in it.changes] == ["pools[gpu].count"]
    assert not [each for each in it.following if "count_min" in each.path]


def test_a_cluster_that_grew_by_itself_gives_an_empty_review() -> None:
    """The number of running nodes appears only in facts, so that the plan is the same."""
    plan = elastic()
    shrunk, grown = (
        Facts(account=account(node_addresses=nodes, machine_limits=[{"name": FAMILY, "value": 10_000.0}]))
        for nodes in (8, 20)
    )
    base, head = (
        ReviewedStack(name, plan, planning.rules(plan, facts, TODAY)) for name, facts in (("a", shrunk), ("b", grown))
    )
    it = reviewed("test", base, head)
    assert it.verdict == "pass"
    assert (it.changes, it.following, it.restart, it.join, it.leave, it.order, it.rules) == ((),) * 7
    data = review_data(it)
    assert (data["headline"], data["unknown"], data["expectations"]) == ("Nothing changes.", [], [])
    assert data["cost"]["difference_usd_per_hour_min"] == data["cost"]["difference_usd_per_hour"] == 0


def test_a_new_cluster_starts_with_the_nodes_that_always_run() -> None:
    """The order of operations mentions permanent nodes."""
    it = reviewed("test", ReviewedStack("base", None), ReviewedStack("head", elastic()))
    assert [(each.group, each.count) for each in it.join] == [("head", 1), ("gpu", 4)]
    assert "nodes: `gpu-[001-004]` start" in review_markdown(it)


def test_how_it_is_read() -> None:
    """Both numbers appear wherever nodes are counted."""
    plan = elastic()
    text = plan_text(plan, cost(plan), ())
    assert text.startswith("cluster test on aws us-east-1: 4 to 16 x p5\n")
    assert "  gpu    gpu-[001-016], 4 to 16 run  p5 " in text
    least, most = charge(plan)
    assert f"  pool gpu        {least:,.2f} to {most:,.2f}\n      4 to 16 x p5, on-demand in us-east-1; " in text


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (elastic(4), ["gpu-[005-016] end when their jobs have ended, and start when jobs need them from then on"]),
        (elastic(15), ["gpu-016 ends when its jobs have ended, and starts when jobs need them from then on"]),
        (
            elastic(2, count=6),
            [
                "gpu-[007-016] take no new jobs, and go when their jobs have ended, now",
                "gpu-[003-006] end when their jobs have ended, and start when jobs need them from then on",
            ],
        ),
    ],
    ids=["more of them", "one", "fewer in all, too"],
)
def test_nodes_that_become_elastic_are_named(after: Plan, said: list[str]) -> None:
    """These nodes end with that `up`, as docs/how-to/aws-repair-nodes.md says, so the reviewer must see it."""
    assert [each.text for each in review(planned({}), after).order if each.stage == "nodes"] == said
