"""Reservations of a pool: type, zone, number, time, and other users of the reservation."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.plan import ENDS_SOON_DAYS
from stampworks.planning import Facts
from stampworks.planning.rules.days import days_between
from stampworks.planning.rules.reading import READ

from tests.planning.accounts import ARN, BLOCK, RESERVED, TODAY, UNSAID, WHY, account, plan_of, reservation, said


def test_an_end_that_nobody_has_read() -> None:
    """Before the facts are read, the plan says that the end is unknown."""
    [one] = [each for each in planning.rules(plan_of(pool=BLOCK), None, TODAY) if each.id == "purchase.reservation"]
    assert (one.outcome, one.place, one.hint) == ("unknown", "pools[0].reservation", READ)
    assert one.text == "whether cr-1 of pool gpu has room for it, and when it ends: it was never read"


WRONG: list[tuple[dict[str, str], dict[str, Any], str, str, str]] = [
    (
        RESERVED,
        {"instance_type": "p5en.48xlarge"},
        "machine",
        "cr-1 is for p5en.48xlarge, and pool gpu is made of p5.48xlarge",
        "declare the reserved machine, or name another reservation",
    ),
    (
        RESERVED,
        {"zone": "us-east-1b"},
        "zone",
        "cr-1 is in us-east-1b, and pool gpu in us-east-1a",
        "write zone: us-east-1b",
    ),
    (
        {**RESERVED, "zone": UNSAID},
        {"zone": "us-east-1d"},
        "zone",
        "cr-1 is in us-east-1d, and pool gpu in whichever zone the cloud chooses",
        "write zone: us-east-1d",
    ),
    (
        RESERVED,
        {"total": 12},
        "count",
        "cr-1 is for 12 nodes, and pool gpu has 16",
        "write count: 12, or reserve 4 more",
    ),
    (
        RESERVED,
        {"available": 3, "ours": 8},
        "count",
        "cr-1 has 11 of 16 nodes left, and pool gpu has 16",
        "stop other machines in it, or write count: 11",
    ),
    (
        RESERVED,
        {"state": "cancelled"},
        "reservation",
        "cr-1 of pool gpu is cancelled: no node starts in it",
        "buy another one, and write its id",
    ),
    (
        RESERVED,
        {"block": True},
        "purchase",
        "cr-1 is a capacity block, but pool gpu declares purchase: reserved",
        "write purchase: block",
    ),
    (
        BLOCK,
        {"block": False},
        "purchase",
        "cr-1 is a reservation, not a capacity block, but pool gpu declares purchase: block",
        "write purchase: reserved",
    ),
    (
        RESERVED,
        {"placement_group": "arn:aws:ec2:us-east-1:1:near"},
        "reservation",
        "cr-1 was made in the placement group arn:aws:ec2:us-east-1:1:near, and pool gpu starts in none",
        "reserve without a placement group",
    ),
    (
        BLOCK,
        {"block": True, "state": "scheduled", "available": 0, "begins": "2026-12-01", "ends": "2026-12-08"},
        "reservation",
        "cr-1 of pool gpu is scheduled, and begins on 2026-12-01: until then no node starts in it",
        "run `pulumi up` when it has begun",
    ),
    (
        BLOCK,
        {"block": True, "state": "expired", "ends": "2026-11-20"},
        "reservation",
        "cr-1 of pool gpu is expired, and ended on 2026-11-20: no node starts in it",
        "buy another one, and write its id",
    ),
    (
        BLOCK,
        {"block": True, "ends": "2026-11-21"},
        "reservation",
        "cr-1 of pool gpu ended on 2026-11-21",
        "buy another one, and write its id",
    ),
]


@pytest.mark.parametrize(("pool", "fields", "place", "text", "hint"), WRONG, ids=lambda each: str(each)[:40])
def test_reservation_differs_from_the_declaration(
    pool: dict[str, str], fields: dict[str, Any], place: str, text: str, hint: str
) -> None:
    """Type, zone, number, purchase and time are reported at their fields."""
    found = said("purchase.reservation", plan_of(pool=pool), reservations=[reservation(**fields)])
    assert found == [("gpu", "fail", f"pools[0].{place}", text, hint)]


def test_a_zone_that_nobody_has_written() -> None:
    """An existing subnet has a zone; without rights to read it, the zone is unknown."""
    plan, bought = plan_of(pool={**RESERVED, "zone": UNSAID}), [reservation(zone="us-east-1d")]
    subnet = {"name": "nodes", "free": 9, "public": False}
    there, elsewhere = ([{**subnet, "zone": zone}] for zone in ("us-east-1d", "us-east-1a"))
    assert said("purchase.reservation", plan, subnets=there, reservations=bought) == []
    [told] = said("purchase.reservation", plan, subnets=elsewhere, reservations=bought)
    assert told[3:] == ("cr-1 is in us-east-1d, and pool gpu in us-east-1a", "write zone: us-east-1d")
    [unread] = said("purchase.reservation", plan, unknown={"subnets": WHY}, reservations=bought)
    assert (unread[1], unread[3]) == ("unknown", f"whether cr-1 of pool gpu has room for it, and when it ends: {WHY}")


def test_all_that_is_wrong_with_a_reservation() -> None:
    one = reservation(instance_type="p5en.48xlarge", zone="us-east-1b", state="expired", block=True)
    found = said("purchase.reservation", plan_of(pool=RESERVED), reservations=[one])
    assert [each[2] for each in found] == [
        f"pools[0].{each}" for each in ("machine", "zone", "purchase", "reservation")
    ]


@pytest.mark.parametrize(("ends", "outcome"), [("2026-11-24", "warn"), ("2026-11-22", "warn"), ("2026-11-25", "pass")])
def test_a_block_that_ends_soon(ends: str, outcome: str) -> None:
    """The date is shown, even if it is far."""
    plan = plan_of(pool=BLOCK)
    facts = Facts(account=account(reservations=[reservation(block=True, ends=ends)]))
    [one] = [each for each in planning.rules(plan, facts, TODAY) if each.id == "purchase.reservation"]
    assert one.outcome == outcome
    assert ends in one.text
    assert (days_between(TODAY, ends) <= ENDS_SOON_DAYS) == (outcome == "warn")


def test_a_reservation_that_is_not_there() -> None:
    found = said("purchase.reservation", plan_of(pool=RESERVED), reservations=[reservation("cr-2")])
    assert found == [
        (
            "gpu",
            "fail",
            "pools[0].reservation",
            "us-east-1 has no reservation cr-1 for this account",
            "write one that exists; the console of EC2 lists them",
        )
    ]


def test_a_way_to_buy_that_is_tried_later() -> None:
    """A way to buy that would fail is a warning at its field: the first way may suffice."""
    ways = [{"purchase": "reserved", "reservation": "cr-1"}]
    plan = plan_of(pool={"count_min": 2, "fallbacks": ways})
    found = said("purchase.reservation", plan, reservations=[reservation(block=True, zone="us-east-1b")])
    assert [each[:3] for each in found] == [
        ("gpu", "warn", "pools[0].zone"),
        ("gpu", "warn", "pools[0].fallbacks[0].purchase"),
    ]
    assert said("purchase.reservation", plan, reservations=[reservation()]) == []


def pools(*declared: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": f"gpu{number}", "machine": "p5", "zone": "us-east-1a", **each}
        for number, each in enumerate(declared, start=1)
    ]


def test_pools_that_share_a_reservation() -> None:
    """No pool has it alone, and running instances count for all of them."""
    plan = plan_of(pools=pools({"count": 12, **RESERVED}, {"count": 12, **RESERVED}, {"count": 12}))
    both = "12 (gpu1) + 12 (gpu2) = 24 start in it"
    assert said("purchase.reservation", plan, reservations=[reservation(total=16)]) == [
        (name, "fail", place, f"cr-1 is for 16 nodes, and {both}", "take nodes out, or reserve 8 more")
        for name, place in (("gpu1", "pools[0].count"), ("gpu2", "pools[1].count"))
    ]
    busy = reservation(total=24, available=11, ours=12)
    assert [each[3:] for each in said("purchase.reservation", plan, reservations=[busy])] == [
        (f"cr-1 has 23 of 24 nodes left, and {both}", "stop other machines in it, or take nodes out")
    ] * 2
    fine = reservation(total=24, available=12, ours=12)
    assert said("purchase.reservation", plan, reservations=[fine]) == []


def test_a_pool_in_a_part_of_what_another_one_has() -> None:
    """A group has the room of its reservations, less the nodes that start in one of them."""
    groups = [{"name": ARN, "reservations": ["cr-1", "cr-2"]}]
    plan = plan_of(pools=pools({"count": 8, **RESERVED}, {"count": 10, "purchase": "reserved", "reservation": ARN}))
    halves = [reservation("cr-1", total=8), reservation("cr-2", total=8)]
    [told] = said("purchase.reservation", plan, reservations=halves, reservation_groups=groups)
    assert told[0::3] == ("gpu2", f"{ARN} is for 16 nodes, and 8 (gpu1) + 10 (gpu2) = 18 start in it")
    unread = said("purchase.reservation", plan, unknown={"reservation_groups": WHY}, reservations=halves)
    assert [each[:2] for each in unread] == [("gpu1", "unknown"), ("gpu2", "unknown")]


def test_a_way_that_is_tried_later_takes_what_starts_with_the_work() -> None:
    """It serves elastic nodes, because permanent nodes are bought first."""
    elastic = {"count": 16, "count_min": 4, "fallbacks": [RESERVED]}
    plan = plan_of(pools=pools(elastic, {"count": 4, **RESERVED}))
    assert said("purchase.reservation", plan, reservations=[reservation(total=16)]) == []
    assert said("purchase.reservation", plan, reservations=[reservation(total=15)]) == [
        (
            "gpu1",
            "warn",
            "pools[0].fallbacks[0].reservation",
            "cr-1 is for 15 nodes, and 4 (gpu2) + 12 (gpu1 reserved cr-1) = 16 start in it",
            "take this way out, or reserve 1 more",
        )
    ]
    assert said("purchase.reservation", plan_of(pools=pools(elastic)), reservations=[reservation(total=12)]) == []
    again = {**elastic, **RESERVED, "fallbacks": [{"purchase": "reserved", "reservation": ARN}]}
    groups = [{"name": ARN, "reservations": ["cr-1"]}]
    facts: dict[str, Any] = {"reservations": [reservation()], "reservation_groups": groups}
    assert said("purchase.reservation", plan_of(pools=pools(again)), **facts) == []


def test_a_group_of_reservations() -> None:
    """Together they are large enough, or not."""
    plan = plan_of(pool={"purchase": "reserved", "reservation": ARN})
    groups = [{"name": ARN, "reservations": ["cr-1", "cr-2"]}]
    both = [reservation("cr-1", total=8), reservation("cr-2", total=8), reservation("cr-3", total=8)]
    assert said("purchase.reservation", plan, reservations=both, reservation_groups=groups) == []
    [small] = said("purchase.reservation", plan, reservations=both[1:], reservation_groups=groups)
    assert small[3] == f"{ARN} is for 8 nodes, and pool gpu has 16"


@pytest.mark.parametrize("inside", [None, []])
def test_a_group_of_reservations_that_is_not_there(inside: list[str] | None) -> None:
    """An empty group is refused as well; findings about other reservations stay."""
    plan = plan_of(pools=pools({"count": 8, **RESERVED}, {"count": 8, "purchase": "reserved", "reservation": ARN}))
    groups = [{"name": ARN, "reservations": inside}]
    facts: dict[str, Any] = {"reservations": [reservation()], "reservation_groups": groups}
    assert said("purchase.reservation", plan, **facts) == [
        (
            "gpu2",
            "fail",
            "pools[1].reservation",
            f"us-east-1 has no resource group {ARN} with reservations for this account",
            "write one that exists; the console of Resource Groups lists them",
        )
    ]


def test_a_group_of_reservations_that_was_declared_later() -> None:
    """Facts have only the groups that the declaration had then."""
    plan = plan_of(pool={"purchase": "reserved", "reservation": ARN})
    [told] = said("purchase.reservation", plan, reservations=[reservation()])
    assert told[1] == "unknown"
    assert told[3].endswith(": it was declared after the account was read")
    assert told[4] == READ


def test_a_reservation_that_will_be_too_small() -> None:
    """Its size is known before it begins; its free count is ignored until then."""
    coming = reservation(state="scheduled", total=12, available=0)
    texts = [each[3] for each in said("purchase.reservation", plan_of(pool=RESERVED), reservations=[coming])]
    assert texts[1:] == ["cr-1 is for 12 nodes, and pool gpu has 16"]
