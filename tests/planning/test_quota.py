"""Room in an account's limits for a plan beside everything that already runs."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning

from tests.planning.accounts import LUSTRE, RESERVED, STANDARD, TODAY, P, limits, plan_of, reservation, said


def test_a_limit_that_is_too_low() -> None:
    """Use by others and reservations count against it; this cluster's own machines do not."""
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


def test_own_reservation_is_within_the_limit() -> None:
    """The account's own reservation counts from its creation."""
    own, shared = reservation(), reservation(own=False)
    facts: dict[str, Any] = {"machine_limits": [{"name": P, "value": 3072.0}, *limits(STANDARD)]}
    assert not [each for each in said("quota", plan_of(pool=RESERVED), reservations=[own], **facts) if each[0] == P]
    [told] = [each for each in said("quota", plan_of(pool=RESERVED), reservations=[shared], **facts) if each[0] == P]
    assert (told[1], told[4]) == ("unknown", "ask the account that shares it")
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
def test_nodes_outside_a_reservation_count(fields: dict[str, Any], beside: int, taken: int) -> None:
    """Only nodes with a place in the reservation are within the limit."""
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
    """Limits include other ways to buy; too low a limit is a warning at that way."""
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
    """Neither the catalog nor the account has the limit: each purchase is reported, and none passes."""
    spot_p6 = {"machine": "p6-b200", "count_min": 4, "fallbacks": [{"purchase": "spot"}]}
    assert ("gpu spot", "unknown") in [each[:2] for each in said("quota", plan_of(pool=spot_p6))]
    unlisted = said("quota", plan_of(pool=LATER), reservations=[reservation()], machine_limits=limits(P, STANDARD, IPS))
    assert [each[:3] for each in unlisted] == [("gpu spot", "unknown", "pools[0].fallbacks[0]")]
    findings = planning.rules(plan_of(pool=LATER), None, TODAY)
    unread = {each.subject for each in findings if each.id == "quota" and each.outcome == "unknown"}
    assert unread == {STANDARD, P, "gpu spot", "gpu on-demand"}


def test_a_limit_that_nobody_lists() -> None:
    """The limit is unknown, neither absent nor zero."""
    [finding] = [each for each in said("quota", plan_of(), machine_limits=limits(STANDARD)) if each[0] == P]
    assert (finding[1], finding[3].rpartition(": ")[2]) == ("unknown", "the account lists no such limit")
    assert finding[4] == "see the limit in the console of Service Quotas"


def test_other_limits() -> None:
    """The limits of networks, gateways and file systems are checked."""
    facts: dict[str, Any] = {
        "network_limits": [
            {"name": "VPCs per Region", "value": 5.0},
            {"name": "NAT gateways per Availability Zone", "value": 5.0},
            {"name": "Network interfaces per Region", "value": 5000.0},
        ],
        "machine_limits": [*limits(P, STANDARD), {"name": "EC2-VPC Elastic IPs", "value": 5.0}],
        "storage_limits": [{"name": "Lustre Persistent_2 storage capacity", "value": 100_800.0}],
        "networks": 5,
        "gateways": 7,
        "addresses": 5,
        "interfaces": 4600,
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
            "Network interfaces per Region",
            "fail",
            "network",
            "Network interfaces per Region in us-east-1: 529 needed; the limit is 5000, and 4600 are taken",
            "ask the cloud for 129 more",
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
    """The limit is fixed for every account, and no API reports it: each pool with placement needs a group."""
    full: dict[str, Any] = {"placement_groups": 500}
    assert [each[1:] for each in said("quota", plan_of(), **full)] == [
        (
            "fail",
            "network",
            "Placement groups per Region in us-east-1: 1 needed; the limit is 500, and 500 are taken",
            "delete unused ones",
        )
    ]
    assert said("quota", plan_of(pool=RESERVED), reservations=[reservation()], **full) == []
    assert said("quota", plan_of(), placement_groups=499) == []
