"""Whether a plan can exist in an account, as far as that was read: each no with field, numbers and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, Lock, LockedImage, Source, load_value
from stampworks.plan import ENDS_SOON_DAYS, Plan
from stampworks.planning import Facts
from stampworks.planning.account import DAYS_MAX, FACTS, account_of, days_between
from stampworks.planning.preflight import READ

from tests.planning.accounts import SERVICES, STANDARD, TODAY, P, account, limits, offered, reservation, written

LUSTRE = {
    "name": "data",
    "kind": "fsx-lustre",
    "tier": "PERSISTENT_2 SSD",
    "capacity": 9600,
    "mbps_per_tib": 500,
    "mount": "/d",
}
UNSAID = "unsaid"
IMAGE = "/aws/service/debian/release/13/latest/amd64"


def plan_of(**fields: Any) -> Plan:
    return planning.plan(declared(**fields))


def declared(*, lock: bool = False, made_with: str = "", **fields: Any) -> Source:
    pool = {"name": "gpu", "machine": "p5", "count": 16, "zone": "us-east-1a", **fields.pop("pool", {})}
    pool = {name: value for name, value in pool.items() if value != UNSAID}
    data = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": [pool], **fields}
    found = Lock("us-east-1", {IMAGE: LockedImage("ami-1", "debian", "2026-11-02")}, made_with) if lock else Lock()
    return load_value(data, "test", lock=found)


def said(
    rule: str, plan: Plan, unknown: dict[str, str] | None = None, at: str = TODAY, **facts: Any
) -> list[tuple[Any, ...]]:
    """What is not fine about one rule: subject, outcome, place, text, hint."""
    found = planning.rules(plan, Facts(account=account(unknown, at, **facts)), TODAY)
    return [
        (each.subject, each.outcome, each.place, each.text, each.hint)
        for each in found
        if each.id == rule and each.outcome != "pass"
    ]


def outcomes(plan: Plan, **facts: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in planning.rules(plan, Facts(account=account(**facts)), TODAY):
        found.setdefault(each.id, set()).add(each.outcome)
    return found


JUDGED = ("account", "placement.offers", "quota", "machine.interfaces")


def test_an_account_with_room() -> None:
    """Each rule says that it looked, and that it is fine."""
    found = outcomes(plan_of(storage=[LUSTRE], network={"egress": "none"}))
    assert {name: found[name] for name in (*JUDGED, "network.endpoints")} == {
        name: {"pass"} for name in (*JUDGED, "network.endpoints")
    }


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (None, "nobody has read it"),
        (Facts(account=account(at="2026-11-14")), "it was read on 2026-11-14, 8 days ago, and after 7 it says little"),
        (Facts(account=account_of({**written(), "region": "us-west-2"})), "it was read for region us-west-2"),
        (Facts(account=account_of({**written(), "cluster": "other"})), "it was read for cluster other"),
    ],
)
def test_an_account_that_says_nothing(facts: Facts | None, why: str) -> None:
    """Nothing follows from it, neither yes nor no, and one line says so."""
    findings = planning.rules(plan_of(), facts, TODAY)
    [one] = [each for each in findings if each.id == "account"]
    assert (one.outcome, one.hint) == ("unknown", READ)
    assert one.text == f"whether the account has and allows what this takes in us-east-1: {why}"
    assert {each.outcome for each in findings if each.id == "quota"} == {"unknown"}
    assert not [each for each in findings if each.id in ("placement.offers", "machine.interfaces")]


def test_an_end_that_nobody_has_read() -> None:
    """Before anybody has, the plan says that it does not know when the nodes go."""
    [one] = [each for each in planning.rules(plan_of(pool=BLOCK), None, TODAY) if each.id == "purchase.reservation"]
    assert (one.outcome, one.place, one.hint) == ("unknown", "pools[0].reservation", READ)
    assert one.text == "whether cr-1 of pool gpu has room for it, and when it ends: nobody has read it"


def test_an_account_that_is_still_new_enough() -> None:
    at = "2026-11-15"
    assert days_between(at, TODAY) == DAYS_MAX
    assert said("account", plan_of(), at=at) == []
    undated = planning.rules(plan_of(), Facts(account=account()), None)
    assert [each.outcome for each in undated if each.id == "account"] == ["unknown"]


@pytest.mark.parametrize(
    ("earlier", "later", "days"),
    [
        ("2026-11-22", "2026-11-22", 0),
        ("2026-12-31", "2027-01-01", 1),
        ("2028-02-28", "2028-03-01", 2),
        ("2027-02-28T23:59Z", "2027-03-01", 1),
        ("2026-11-22", "2026-11-15", -7),
        ("2000-01-01", "2100-01-01", 36525),
    ],
)
def test_days(earlier: str, later: str, days: int) -> None:
    assert days_between(earlier, later) == days


def test_a_region_without_the_machine() -> None:
    offers = [offered("m7i.2xlarge", "us-east-1a"), offered("p5.48xlarge")]
    assert said("placement.offers", plan_of(), offers=offers) == [
        (
            "gpu",
            "fail",
            "pools[0].machine",
            "us-east-1 has no p5.48xlarge for gpu",
            "take another region, or another machine",
        )
    ]


def test_a_zone_without_the_machine() -> None:
    """Those that have it are named; the head goes where the nodes are."""
    offers = [offered("m7i.2xlarge", "us-east-1b"), offered("p5.48xlarge", "us-east-1b", "us-east-1d")]
    assert said("placement.offers", plan_of(), offers=offers) == [
        (
            "head",
            "fail",
            "pools[0].zone",
            "us-east-1a has no m7i.2xlarge for head; in us-east-1 it is in us-east-1b",
            "write zone: us-east-1b",
        ),
        (
            "gpu",
            "fail",
            "pools[0].zone",
            "us-east-1a has no p5.48xlarge for gpu; in us-east-1 it is in us-east-1b, us-east-1d",
            "write zone: us-east-1b",
        ),
    ]


def test_one_zone_for_all_that_have_to_be_in_it() -> None:
    """The head is in it, too, and what was bought is where it is: no rule proposes what another one refuses."""
    offers = [offered("m7i.2xlarge", "us-east-1b", "us-east-1d"), offered("p5.48xlarge", "us-east-1b", "us-east-1d")]
    assert {each[4] for each in said("placement.offers", plan_of(), offers=offers)} == {
        "write one of the zones us-east-1b, us-east-1d"
    }
    facts: dict[str, Any] = {"offers": offers, "reservations": [reservation(zone="us-east-1d")]}
    for rule in ("placement.offers", "purchase.reservation"):
        assert {each[4] for each in said(rule, plan_of(pool=RESERVED), **facts)} == {"write zone: us-east-1d"}
    apart = [offered("m7i.2xlarge", "us-east-1a"), offered("p5.48xlarge", "us-east-1b")]
    assert [each[4] for each in said("placement.offers", plan_of(), offers=apart)] == [
        "no zone has all of them: take another region or machine"
    ]


RESERVED = {"purchase": "reserved", "reservation": "cr-1"}
BLOCK = {"purchase": "block", "reservation": "cr-1"}
ARN = "arn:aws:resource-groups:us-east-1:123456789012:group/ours"
WRONG: list[tuple[dict[str, str], dict[str, Any], str, str, str]] = [
    (
        RESERVED,
        {"instance_type": "p5en.48xlarge"},
        "machine",
        "cr-1 is for p5en.48xlarge, and pool gpu is made of p5.48xlarge",
        "take the machine that was reserved, or name another reservation",
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
        "stop what else runs in it, or write count: 11",
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
        "cr-1 is a capacity block, and pool gpu is to be bought as reserved",
        "write purchase: block",
    ),
    (
        BLOCK,
        {"block": False},
        "purchase",
        "cr-1 is no capacity block, and pool gpu is to be bought as block",
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
def test_what_was_bought_is_not_what_is_declared(
    pool: dict[str, str], fields: dict[str, Any], place: str, text: str, hint: str
) -> None:
    """Type, zone, number, way, time: each at its own field."""
    found = said("purchase.reservation", plan_of(pool=pool), reservations=[reservation(**fields)])
    assert found == [("gpu", "fail", f"pools[0].{place}", text, hint)]


def test_a_zone_that_nobody_has_written() -> None:
    """A subnet that is there has one, whoever chose it; where nobody may look, nobody knows."""
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
    """The day is said, also when it is far."""
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
            "write one that there is, as the console of EC2 lists them",
        )
    ]


def test_a_way_to_buy_that_is_tried_later() -> None:
    """That it would not work is a warning, at the field of that way; the first one may well be enough."""
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
    """None of them has it alone, and what runs in it is of all of them."""
    plan = plan_of(pools=pools({"count": 12, **RESERVED}, {"count": 12, **RESERVED}, {"count": 12}))
    both = "12 (gpu1) + 12 (gpu2) = 24 start in it"
    assert said("purchase.reservation", plan, reservations=[reservation(total=16)]) == [
        (name, "fail", place, f"cr-1 is for 16 nodes, and {both}", "take nodes out, or reserve 8 more")
        for name, place in (("gpu1", "pools[0].count"), ("gpu2", "pools[1].count"))
    ]
    busy = reservation(total=24, available=11, ours=12)
    assert [each[3:] for each in said("purchase.reservation", plan, reservations=[busy])] == [
        (f"cr-1 has 23 of 24 nodes left, and {both}", "stop what else runs in it, or take nodes out")
    ] * 2
    fine = reservation(total=24, available=12, ours=12)
    assert said("purchase.reservation", plan, reservations=[fine]) == []


def test_a_pool_in_a_part_of_what_another_one_has() -> None:
    """A group has its reservations' room, and less where somebody starts in one of them."""
    groups = [{"name": ARN, "reservations": ["cr-1", "cr-2"]}]
    plan = plan_of(pools=pools({"count": 8, **RESERVED}, {"count": 10, "purchase": "reserved", "reservation": ARN}))
    halves = [reservation("cr-1", total=8), reservation("cr-2", total=8)]
    [told] = said("purchase.reservation", plan, reservations=halves, reservation_groups=groups)
    assert told[0::3] == ("gpu2", f"{ARN} is for 16 nodes, and 8 (gpu1) + 10 (gpu2) = 18 start in it")
    unread = said("purchase.reservation", plan, unknown={"reservation_groups": WHY}, reservations=halves)
    assert [each[:2] for each in unread] == [("gpu1", "unknown"), ("gpu2", "unknown")]


def test_a_way_that_is_tried_later_takes_what_starts_with_the_work() -> None:
    """Beside what is there first: nodes that always run are bought otherwise."""
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
    """Or has nothing in it; what is beside it is as fine as it was."""
    plan = plan_of(pools=pools({"count": 8, **RESERVED}, {"count": 8, "purchase": "reserved", "reservation": ARN}))
    groups = [{"name": ARN, "reservations": inside}]
    facts: dict[str, Any] = {"reservations": [reservation()], "reservation_groups": groups}
    assert said("purchase.reservation", plan, **facts) == [
        (
            "gpu2",
            "fail",
            "pools[1].reservation",
            f"us-east-1 has no group {ARN} with reservations for this account",
            "write one that there is, as the console of Resource Groups lists them",
        )
    ]


def test_a_group_of_reservations_that_was_declared_later() -> None:
    """Only those are asked for that the declaration had."""
    plan = plan_of(pool={"purchase": "reserved", "reservation": ARN})
    [told] = said("purchase.reservation", plan, reservations=[reservation()])
    assert told[1] == "unknown"
    assert told[3].endswith(": it was not declared yet when the account was read")
    assert told[4] == READ


def test_a_reservation_that_will_be_too_small() -> None:
    """Before it begins it is known for how many it is; that nothing of it is free yet says nothing."""
    coming = reservation(state="scheduled", total=12, available=0)
    texts = [each[3] for each in said("purchase.reservation", plan_of(pool=RESERVED), reservations=[coming])]
    assert texts[1:] == ["cr-1 is for 12 nodes, and pool gpu has 16"]


def test_a_limit_that_is_too_low() -> None:
    """What others run and what is reserved is gone; what this cluster runs is its own."""
    facts: dict[str, Any] = {
        "machine_limits": [{"name": P, "value": 4000.0}, {"name": STANDARD, "value": 64.0}],
        "running": [
            {"instance_type": "p5.48xlarge", "spot": False, "count": 2},
            {"instance_type": "p5.48xlarge", "spot": True, "count": 50},
        ],
        "reservations": [
            reservation(total=3),
            reservation("cr-2", total=9, own=False),
            reservation("cr-3", total=9, state="expired"),
        ],
        "node_addresses": 16,
    }
    [finding] = [each for each in said("quota", plan_of(), **facts) if each[0] == P]
    assert finding == (
        P,
        "fail",
        "pools",
        f"{P} in us-east-1: 16 x 192 (gpu) = 3072 needed; the limit is 4000, and 960 are taken",
        "ask the cloud for 32 more, or take nodes out",
    )
    facts["machine_limits"][0]["value"] = 4032.0
    assert not [each for each in said("quota", plan_of(), **facts) if each[0] == P]


def test_what_is_reserved_is_within_the_limit_already() -> None:
    """It was counted when it was reserved, if it is the account's own."""
    own, shared = reservation(), reservation(own=False)
    facts: dict[str, Any] = {"machine_limits": [{"name": P, "value": 3072.0}, *limits(STANDARD)]}
    assert not [each for each in said("quota", plan_of(pool=RESERVED), reservations=[own], **facts) if each[0] == P]
    [told] = [each for each in said("quota", plan_of(pool=RESERVED), reservations=[shared], **facts) if each[0] == P]
    assert (told[1], told[4]) == ("unknown", "ask whoever shares it")
    assert "whose limit cr-1 counts against, which is shared with this account" in told[3]


@pytest.mark.parametrize(
    ("fields", "beside", "taken"),
    [
        ({"total": 12}, 768, 2304),
        ({"instance_type": "p5en.48xlarge"}, 3072, 3072),
        ({"state": "expired"}, 3072, 0),
    ],
    ids=["too small", "another type", "ended"],
)
def test_what_does_not_start_in_a_reservation_counts(fields: dict[str, Any], beside: int, taken: int) -> None:
    """Only nodes that have their place in it are within the limit already."""
    facts: dict[str, Any] = {"machine_limits": [{"name": P, "value": 100.0}, *limits(STANDARD)]}
    plan = plan_of(pool=RESERVED)
    [told] = [each for each in said("quota", plan, reservations=[reservation(**fields)], **facts) if each[0] == P]
    counted = f", {beside} of it beside what gpu has reserved" if beside < 3072 else ""
    assert told[3] == (
        f"{P} in us-east-1: 16 x 192 (gpu) = 3072 needed{counted}; the limit is 100, and {taken} are taken"
    )


def test_spot_has_limits_of_its_own() -> None:
    limit = "All P5 Spot Instance Requests"
    facts: dict[str, Any] = {"machine_limits": [{"name": limit, "value": 1000.0}, *limits(STANDARD)]}
    [finding] = [each for each in said("quota", plan_of(pool={"purchase": "spot"}), **facts) if each[0] == limit]
    assert finding[1:4] == (
        "fail",
        "pools",
        f"{limit} in us-east-1: 16 x 192 (gpu) = 3072 needed; the limit is 1000, and 0 are taken",
    )
    unsaid = said("quota", plan_of(pool={"purchase": "spot", "machine": "p6-b200"}))
    assert ("gpu", "unknown") in [each[:2] for each in unsaid]


SPOT_P5, IPS = "All P5 Spot Instance Requests", "EC2-VPC Elastic IPs"
LATER = {"count_min": 4, "fallbacks": [{"purchase": "spot"}, {"purchase": "on-demand"}], **RESERVED}


def test_ways_that_are_tried_later_have_limits_too() -> None:
    """Of another name, or of the same beside what always runs; too little is a warning at the way."""
    short: dict[str, Any] = {
        "machine_limits": [{"name": P, "value": 5000.0}, {"name": SPOT_P5, "value": 2000.0}, *limits(STANDARD, IPS)],
        "running": [{"instance_type": "p5.48xlarge", "spot": True, "count": 1}],
        "reservations": [reservation()],
    }
    assert said("quota", plan_of(pool=LATER), **short) == [
        (
            "gpu spot",
            "warn",
            "pools[0].fallbacks[0]",
            f"{SPOT_P5} in us-east-1: 12 x 192 (gpu spot) = 2304 needed; the limit is 2000, and 192 are taken",
            "ask the cloud for 496 more, or take this way out",
        ),
        (
            "gpu on-demand",
            "warn",
            "pools[0].fallbacks[1]",
            f"{P} in us-east-1: 4 x 192 (gpu) + 12 x 192 (gpu on-demand) = 3072 needed, 2304 of it beside what gpu has "
            "reserved; the limit is 5000, and 3072 are taken",
            "ask the cloud for 376 more, or take this way out",
        ),
    ]
    enough = {**short, "machine_limits": [*limits(P, STANDARD, IPS), {"name": SPOT_P5, "value": 2496.0}]}
    assert said("quota", plan_of(pool=LATER), **enough) == []


def test_a_way_whose_limit_nobody_knows() -> None:
    """Neither the catalog nor the account: it is said of each way, and is no pass."""
    spot_p6 = {"machine": "p6-b200", "count_min": 4, "fallbacks": [{"purchase": "spot"}]}
    assert ("gpu spot", "unknown") in [each[:2] for each in said("quota", plan_of(pool=spot_p6))]
    unlisted = said("quota", plan_of(pool=LATER), reservations=[reservation()], machine_limits=limits(P, STANDARD, IPS))
    assert [each[:3] for each in unlisted] == [("gpu spot", "unknown", "pools[0].fallbacks[0]")]
    findings = planning.rules(plan_of(pool=LATER), None, TODAY)
    unread = {each.subject for each in findings if each.id == "quota" and each.outcome == "unknown"}
    assert unread == {STANDARD, P, "gpu spot", "gpu on-demand"}


def test_a_limit_that_nobody_lists() -> None:
    """It is not read as none, and not as zero."""
    [finding] = [each for each in said("quota", plan_of(), machine_limits=limits(STANDARD)) if each[0] == P]
    assert (finding[1], finding[3].rpartition(": ")[2]) == ("unknown", "the account lists no such limit")
    assert finding[4] == "look the limit up in the console of Service Quotas"


def test_other_limits() -> None:
    """One network more, a way out of it, and what its file systems hold."""
    facts: dict[str, Any] = {
        "network_limits": [
            {"name": "VPCs per Region", "value": 5.0},
            {"name": "NAT gateways per Availability Zone", "value": 5.0},
        ],
        "machine_limits": [*limits(P, STANDARD), {"name": "EC2-VPC Elastic IPs", "value": 5.0}],
        "storage_limits": [{"name": "Lustre Persistent_2 storage capacity", "value": 100_800.0}],
        "networks": 5,
        "gateways": 7,
        "addresses": 5,
        "file_systems": [{"kind": "PERSISTENT_2", "gib": 96_000}, {"kind": "SCRATCH_2", "gib": 96_000}],
    }
    assert said("quota", plan_of(storage=[LUSTRE]), **facts) == [
        (
            "VPCs per Region",
            "fail",
            "network",
            "VPCs per Region in us-east-1: 1 needed; the limit is 5, and 5 are taken",
            "ask the cloud for 1 more",
        ),
        (
            "NAT gateways per Availability Zone",
            "unknown",
            "network",
            "NAT gateways per Availability Zone in us-east-1: 1 needed; the limit is 5, and 7 are taken in all zones",
            "look up how many of them are in us-east-1a: no others count",
        ),
        (
            "EC2-VPC Elastic IPs",
            "fail",
            "network",
            "EC2-VPC Elastic IPs in us-east-1: 1 needed; the limit is 5, and 5 are taken",
            "ask the cloud for 1 more",
        ),
        (
            "Lustre Persistent_2 storage capacity",
            "fail",
            "storage",
            "Lustre Persistent_2 storage capacity in us-east-1: 9600 needed; the limit is 100800, and 96000 are taken",
            "ask the cloud for 4800 more",
        ),
    ]


def test_so_many_placement_groups() -> None:
    """A limit that is the same for every account, which none tells: one for each pool that is to be near itself."""
    full: dict[str, Any] = {"placement_groups": 500}
    assert [each[1:] for each in said("quota", plan_of(), **full)] == [
        (
            "fail",
            "network",
            "Placement groups per Region in us-east-1: 1 needed; the limit is 500, and 500 are taken",
            "delete those that nobody uses",
        )
    ]
    assert said("quota", plan_of(pool=RESERVED), reservations=[reservation()], **full) == []
    assert said("quota", plan_of(), placement_groups=499) == []


def test_nodes_that_are_far_from_each_other() -> None:
    """As far as those say that run; a job over all of them goes as far."""

    def spread(group: str, nodes: int, *switches: int) -> dict[str, Any]:
        return {"group": group, "nodes": nodes, "switches": list(switches)}

    near: dict[str, Any] = {"spreads": [spread("gpu", 16, 1, 2, 4), spread("head", 2, 2, 2, 2)]}
    assert said("placement.near", plan_of(), **near) == []
    assert "pass" in outcomes(plan_of(), **near)["placement.near"]
    text = "the 16 nodes of gpu that run are below 4, 3, 2 switches, from the nearest layer up"
    assert [each[:4] for each in said("placement.near", plan_of(), spreads=[spread("gpu", 16, 2, 3, 4)])] == [
        ("gpu", "warn", "pools[0]", f"{text}: a job over all of them passes the top of the network")
    ]
    assert "placement.near" not in outcomes(plan_of(), spreads=[spread("gpu", 1, 1, 1, 1), spread("gpu", 3)])


def test_a_machine_that_takes_fewer_interfaces() -> None:
    """The cloud would refuse to start it; one that takes more has a slower fabric than it could have."""
    head = {"instance_type": "m7i.2xlarge", "vcpus": 8, "cards": 1, "fabric_interfaces": 0}
    p5 = {"instance_type": "p5.48xlarge", "vcpus": 192, "cards": 32, "fabric_interfaces": 16}
    [fewer] = said("machine.interfaces", plan_of(), described=[head, p5])
    assert fewer[:4] == (
        "gpu",
        "fail",
        "pools[0].machine",
        "p5.48xlarge of gpu is to have 32 interfaces of the fabric on 32 cards, and takes 16 on 32",
    )
    [more] = said("machine.interfaces", plan_of(), described=[head, {**p5, "fabric_interfaces": 64}])
    assert more[1] == "warn"


PRIVATE = {"egress": "none"}


def test_a_service_that_has_no_endpoint() -> None:
    """In the region, or in the zone; what is only a route is in no zone. All in one line, which names a better zone."""
    all_but = [
        {"name": name, "zones": ["us-east-1b"] if name == "logs" else ["us-east-1a"] if name != "s3" else []}
        for name in ("ec2", "ec2messages", "ecr.api", "ecr.dkr", "logs", "s3", "ssm", "ssmmessages", "sts")
    ]
    text = "fsx, logs have no endpoint in us-east-1a of us-east-1, and a private subnet reaches them in no other way"
    assert said("network.endpoints", plan_of(network=PRIVATE), services=all_but) == [
        ("", "fail", "network.egress", text, "write egress: nat")
    ]
    elsewhere = [{"name": name, "zones": ["us-east-1b", "us-east-1c"]} for name in SERVICES]
    facts: dict[str, Any] = {"services": elsewhere, "offers": [offered("m7i.2xlarge", "us-east-1a", "us-east-1b")]}
    facts["offers"].append(offered("p5.48xlarge", "us-east-1a", "us-east-1b"))
    [told] = said("network.endpoints", plan_of(network=PRIVATE), **facts)
    assert told[4] == "write zone: us-east-1b, or egress: nat"
    [told] = said("network.endpoints", plan_of(network=PRIVATE), unknown={"offers": WHY}, services=elsewhere)
    assert told[4] == "write egress: nat"


SUBNETS = [
    {"name": "nodes", "zone": "us-east-1a", "free": 100, "public": False},
    {"name": "storage", "zone": "us-east-1a", "free": 100, "public": False},
]


def test_an_endpoint_that_is_missing() -> None:
    """Once the network is there; before, there are none and nothing is wrong."""
    there = ["ec2", "ec2messages", "ecr.api", "ecr.dkr", "fsx", "logs", "s3", "ssmmessages", "sts"]
    assert said("network.endpoints", plan_of(network=PRIVATE), subnets=SUBNETS, endpoints=there) == [
        (
            "",
            "warn",
            "network.egress",
            "ssm has no endpoint any more in the network that is there: what needs it fails",
            "`pulumi up --refresh` makes it again",
        )
    ]


def test_a_subnet_that_is_full() -> None:
    """Of 17 nodes with the head, those that run have their addresses."""
    few = [{**SUBNETS[0], "free": 8}]
    assert said("addresses.free", plan_of(), subnets=few, node_addresses=9, ways_out=["nat"]) == []
    assert said("addresses.free", plan_of(), subnets=few, node_addresses=8, ways_out=["nat"]) == [
        (
            "",
            "fail",
            "network.cidr",
            "subnet nodes has 8 addresses free, and nodes may still take 9",
            "take out of it what is not this cluster's, or take nodes out",
        )
    ]


@pytest.mark.parametrize(
    ("fields", "need"),
    [
        ({"network": {"card_addresses": True}}, 1 + 7 * 32),
        ({"scheduler": {"kind": "kubernetes", "pods_per_node": 110}}, (2 + 7) * (1 + 112)),
    ],
    ids=["each card has one", "pods have prefixes"],
)
def test_a_node_takes_more_than_one_address(fields: dict[str, Any], need: int) -> None:
    """As many as the plan has counted; what those that run have, and the pods on them, is not needed again."""
    plan, held = plan_of(pool={"count": 7}, **fields), 33
    room: dict[str, Any] = {"node_addresses": held, "ways_out": ["nat"]}
    enough, few = ([{**SUBNETS[0], "free": need - held - short}] for short in (0, 1))
    assert said("addresses.free", plan, subnets=enough, **room) == []
    [told] = said("addresses.free", plan, subnets=few, **room)
    assert told[3] == f"subnet nodes has {need - held - 1} addresses free, and nodes may still take {need - held}"


def test_several_interfaces_with_a_public_address() -> None:
    """AWS starts no such node; one with a single interface would be public. An `up` mends it, and so may begin."""
    public = [{**SUBNETS[0], "public": True}]
    assert said("network.public", plan_of(), subnets=public, ways_out=["nat"]) == [
        (
            "nodes",
            "warn",
            "network",
            "subnet nodes gives public addresses, and what has several interfaces, as gpu, does not start in it",
            "`pulumi up --refresh` takes that from the subnet: no node of a cluster is public",
        )
    ]


def test_a_network_without_its_way_out() -> None:
    assert said("network.egress", plan_of(), subnets=SUBNETS, ways_out=["gateway"]) == [
        (
            "",
            "warn",
            "network.egress",
            "no route leads from the private subnets to the world: nodes that start get no packages",
            "`pulumi up --refresh` makes it again",
        )
    ]
    assert said("network.egress", plan_of(network=PRIVATE), subnets=SUBNETS) == []


def image(**fields: Any) -> dict[str, Any]:
    known = {"id": "ami-1", "name": "debian", "created": "2026-11-02", "architecture": "x86_64"}
    return {**known, "state": "available", "deprecated": "", **fields}


def test_an_image_that_is_gone() -> None:
    """Or about to be; that a newer one is there is no fault."""
    plan, hint = plan_of(lock=True), "`stampworks lock -s STACK` looks up the newest one"
    named = "ami-1, which head, gpu boot,"
    assert said("image.there", plan) == [
        ("ami-1", "fail", "region", f"{named} is gone in us-east-1: no node starts any more", hint)
    ]
    assert said("image.there", plan, images=[image(state="disabled")]) == [
        ("ami-1", "fail", "region", f"{named} is disabled in us-east-1: no node starts any more", hint)
    ]
    assert said("image.there", plan, images=[image(deprecated="2026-11-01")]) == [
        ("ami-1", "warn", "region", f"{named} is deprecated since 2026-11-01, and goes without a word", hint)
    ]
    newest = [{"parameter": IMAGE, "image": "ami-2"}]
    assert said("image.there", plan, images=[image()], newest=newest) == []


def test_an_image_of_ones_own_that_is_gone() -> None:
    """No distribution's takes its place, and none is newer."""
    plan = plan_of(lock=True, made_with="2026.11")
    [told] = said("image.there", plan)
    assert told[4] == "make an image that has the release, and lock that, as docs/aws.md says"
    facts = Facts(account=account(images=[image()], newest=[{"parameter": IMAGE, "image": "ami-2"}]))
    [fine] = [each for each in planning.rules(plan, facts, TODAY) if each.id == "image.there"]
    assert (fine.outcome, fine.text) == ("pass", "ami-1, which head, gpu boot, is there")


def test_a_lock_that_has_not_every_image() -> None:
    """Those whose is missing are named: it was made for other machines."""
    plan = plan_of(lock=True, pool={"machine": "p6e-gb200", "count": 18})
    [told] = said("image.locked", plan)
    assert told[3].startswith("which image nodes of gpu boot in us-east-1 was not looked up")
    assert told[4].startswith("`stampworks lock -s STACK` looks it up")
    [told] = said("image.locked", plan_of(lock=True, made_with="2026.11", pool={"machine": "p6e-gb200", "count": 18}))
    assert told[4].startswith("make an image that has the release")


WHY = "ec2:Something: not permitted (UnauthorizedOperation)"


HANGS_ON = [
    ("offers", "placement.offers"),
    ("reservations", "purchase.reservation"),
    ("reservation_groups", "purchase.reservation"),
    ("reservation_groups", "quota"),
    ("machine_limits", "quota"),
    ("running", "quota"),
    ("described", "machine.interfaces"),
    ("described", "quota"),
    ("networks", "quota"),
    ("network_limits", "quota"),
    ("storage_limits", "quota"),
    ("gateways", "quota"),
    ("addresses", "quota"),
    ("file_systems", "quota"),
    ("services", "network.endpoints"),
    ("endpoints", "network.endpoints"),
    ("subnets", "addresses.free"),
    ("node_addresses", "addresses.free"),
    ("ways_out", "addresses.free"),
    ("placement_groups", "quota"),
    ("spreads", "placement.near"),
    ("images", "image.there"),
    ("newest", "image.there"),
]


@pytest.mark.parametrize(("fact", "rule"), HANGS_ON)
def test_what_is_unknown_is_no_pass(fact: str, rule: str) -> None:
    """With one fact missing, what hangs on it is unknown, says why, and where to read it."""
    later = [{"purchase": "spot"}, {"purchase": "reserved", "reservation": ARN}]
    plan = plan_of(pool={**RESERVED, "count_min": 4, "fallbacks": later}, lock=True, storage=[LUSTRE])
    fine: dict[str, Any] = {
        "reservations": [reservation()],
        "reservation_groups": [{"name": ARN, "reservations": ["cr-1"]}],
        "images": [image()],
        "newest": [{"parameter": IMAGE, "image": "ami-1"}],
    }
    unread = said(rule, plan, unknown={fact: WHY}, **fine)
    assert unread
    assert {each[1] for each in unread} == {"unknown"}
    assert all(WHY in each[3] and each[4] == READ for each in unread)
    assert said(rule, plan, **fine) == []


def test_every_fact_is_asked_for_by_a_rule() -> None:
    assert {fact for fact, _ in HANGS_ON} == {*FACTS}


@pytest.mark.parametrize(
    ("change", "said_"),
    [
        ({"version": 1}, "its version is not 2"),
        ({"offers": None}, "offers is either known, or there is a reason why not"),
        ({"readings": []}, "it does not say when offers was read"),
        ({"node_addresses": "many"}, "Account.node_addresses: expected int, got 'many'"),
        ({"nonsense": 1}, "nonsense"),
        ({"reservations": [reservation(ends="soon")]}, "invalid literal"),
        ({"network_limits": [{"name": "x", "value": float("inf")}]}, "a limit is a number"),
    ],
)
def test_what_holds_no_facts(change: dict[str, Any], said_: str) -> None:
    """Whoever edits the file is told, and nothing is planned with half of it."""
    with pytest.raises(ValueError, match=said_):
        account_of({**written(), **change})


def test_a_fact_that_is_known_and_unknown() -> None:
    data = written({"offers": WHY})
    with pytest.raises(ValueError, match="offers is either known"):
        account_of({**data, "offers": []})


def test_what_facts_refuse_is_said_with_all_else() -> None:
    """A block that has ended, an endpoint that is missing, an image that is gone, and a size that no file system has:
    each at its field and with its remedy."""
    block = {"purchase": "block", "reservation": "cr-1"}
    source = declared(
        pool=block, storage=[{**LUSTRE, "capacity": 1300}], network=PRIVATE, lock=True, made_with="2026.11"
    )
    facts = account(
        reservations=[reservation(block=True, ends="2026-11-21")],
        services=[{"name": name, "zones": ["us-east-1a"]} for name in SERVICES if name != "fsx"],
        offers=[offered("m7i.2xlarge", "us-east-1a")],
    )
    with pytest.raises(DeclarationError) as error:
        planning.judged(source, Facts(account=facts), TODAY)
    assert {each.path for each in error.value.problems} == {
        *("network.egress", "pools[0].machine", "pools[0].reservation", "region", "storage[0].capacity")
    }
    assert all(each.hint for each in error.value.problems)
