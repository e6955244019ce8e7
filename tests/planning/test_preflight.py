"""Whether a plan can exist in an account, as far as that was read: each no with field, numbers and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError
from stampworks.plan import Plan
from stampworks.planning import Facts
from stampworks.planning.rules.account import FACTS, account_of
from stampworks.planning.rules.days import days_between
from stampworks.planning.rules.reading import AGAIN, DAYS_MAX, READ

from tests.planning.accounts import (
    ARN,
    IMAGE,
    LUSTRE,
    RESERVED,
    SERVICES,
    TODAY,
    WHY,
    account,
    declared,
    judged,
    offered,
    plan_of,
    reservation,
    said,
    written,
)
from tests.planning.test_terms import OF_OWNERS


def outcomes(plan: Plan, **facts: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in planning.rules(plan, Facts(account=account(**facts)), TODAY):
        found.setdefault(each.id, set()).add(each.outcome)
    return found


RELEASE = catalog.newest_release()
JUDGED = ("account", "placement.offers", "quota", "machine.interfaces")


def test_an_account_with_room() -> None:
    """Each rule passes explicitly."""
    found = outcomes(plan_of(storage=[LUSTRE], network={"egress": "none"}))
    assert {name: found[name] for name in (*JUDGED, "network.endpoints")} == {
        name: {"pass"} for name in (*JUDGED, "network.endpoints")
    }


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (None, "it was never read"),
        (Facts(account=account(at="2026-11-14")), "it was read on 2026-11-14, 8 days ago, and is out of date after 7"),
        (Facts(account=account(at="2026-11-24")), "it was read on 2026-11-24, which has not come yet"),
        (Facts(account=account_of({**written(), "region": "us-west-2"})), "it was read for region us-west-2"),
        (Facts(account=account_of({**written(), "cluster": "other"})), "it was read for cluster other"),
    ],
)
def test_an_account_that_says_nothing(facts: Facts | None, why: str) -> None:
    """All rules are unknown, and a single line gives the reason."""
    findings = planning.rules(plan_of(), facts, TODAY)
    [one] = [each for each in findings if each.id == "account"]
    assert (one.outcome, one.hint) == ("unknown", READ)
    assert one.text == f"limits and capacity of the account in us-east-1 are unknown: {why}"
    assert {each.outcome for each in findings if each.id == "quota"} == {"unknown"}
    assert not [each for each in findings if each.id in ("placement.offers", "machine.interfaces")]


def test_an_account_that_is_still_new_enough() -> None:
    at = "2026-11-15"
    assert days_between(at, TODAY) == DAYS_MAX
    assert said("account", plan_of(), at=at) == []
    assert said("account", plan_of(), at="2026-11-23") == []  # in a time zone in which the day begins earlier
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
    """Zones with the machine are named; the head is in the zone of the nodes."""
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
    """The head is in the same zone, and reservations cannot move: no rule proposes a zone that another rule refuses."""
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


def test_nodes_that_are_far_from_each_other() -> None:
    """The distance is that of running nodes, and a job over all of them spans it."""

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
    """The cloud would refuse to start it. A machine that supports more interfaces has a slower fabric than possible."""
    head = {"instance_type": "m7i.2xlarge", "vcpus": 8, "cards": 1, "fabric_interfaces": 0}
    p5 = {"instance_type": "p5.48xlarge", "vcpus": 192, "cards": 32, "fabric_interfaces": 16}
    [fewer] = said("machine.interfaces", plan_of(), described=[head, p5])
    assert fewer[:4] == (
        "gpu",
        "fail",
        "pools[0].machine",
        "p5.48xlarge of gpu needs 32 interfaces of the fabric on 32 cards, and takes 16 on 32",
    )
    [more] = said("machine.interfaces", plan_of(), described=[head, {**p5, "fabric_interfaces": 64}])
    assert more[1] == "warn"


def test_facts_of_something_else_than_the_cloud() -> None:
    """A simulated AWS has the same account as the real one, with facts of a test."""
    assert said("account", plan_of(), elsewhere="http://127.0.0.1:5000") == [
        (
            "",
            "warn",
            "",
            "account 123456789012 in us-east-1, as it was on 2026-11-22 at http://127.0.0.1:5000, which is not "
            "the cloud's own endpoint",
            "unset AWS_ENDPOINT_URL, and `stampworks facts -s STACK` reads the account, unless that is where the "
            "cluster is to be",
        )
    ]


PRIVATE = {"egress": "none"}


def test_a_service_that_has_no_endpoint() -> None:
    """The service lacks an endpoint in the region or zone; gateway endpoints have no zone. A single line lists all,
    with a better zone."""
    all_but = [
        {"name": name, "zones": ["us-east-1b"] if name == "logs" else ["us-east-1a"] if name != "s3" else []}
        for name in ("ec2", "ec2messages", "ecr.api", "ecr.dkr", "logs", "s3", "ssm", "ssmmessages", "sts")
    ]
    text = "fsx, logs have no endpoint in us-east-1a of us-east-1, and a private subnet has no other way to them"
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
    facts["services"] = [one for one in elsewhere if one["name"] != "s3"]  # a route is missing in every zone
    [told] = said("network.endpoints", plan_of(network=PRIVATE), **facts)
    assert told[4] == "write egress: nat"


@pytest.mark.parametrize("egress", ["nat", "none"])
def test_empty_list_of_services_is_unknown(egress: str) -> None:
    """A simulated AWS lists no services: neither a zone nor another egress follows from that."""
    [told] = said("network.endpoints", plan_of(network={"egress": egress}), services=[])
    assert told[1] == "unknown"
    assert told[3].endswith(": the answer lists none of them for us-east-1")
    assert told[4] == "resolve that; then `stampworks facts -s STACK` reads the account again"


SUBNETS = [
    {"name": "nodes", "zone": "us-east-1a", "free": 100, "public": False},
    {"name": "storage", "zone": "us-east-1a", "free": 100, "public": False},
]


def test_an_endpoint_that_is_missing() -> None:
    """Endpoints count once the network exists; before, none is missing."""
    there = ["ec2", "ec2messages", "ecr.api", "ecr.dkr", "fsx", "logs", "s3", "ssmmessages", "sts"]
    assert said("network.endpoints", plan_of(network=PRIVATE), subnets=SUBNETS, endpoints=there) == [
        (
            "",
            "warn",
            "network.egress",
            "ssm has no endpoint any more in the existing network: programs that need it fail",
            "`pulumi up --refresh` makes it again",
        )
    ]


def test_a_subnet_that_is_full() -> None:
    """Running nodes, of 17 with the head, already have their addresses."""
    few = [{**SUBNETS[0], "free": 8}]
    assert said("addresses.free", plan_of(), subnets=few, node_addresses=9, ways_out=["nat"]) == []
    assert said("addresses.free", plan_of(), subnets=few, node_addresses=8, ways_out=["nat"]) == [
        (
            "",
            "fail",
            "network.cidr",
            "subnet nodes has 8 addresses free, and nodes may still take 9",
            "remove resources of others from it, or take nodes out",
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
    """The plan counts the addresses; those of running nodes and pods are not needed again."""
    plan, held = plan_of(pool={"count": 7}, **fields), 33
    room: dict[str, Any] = {"node_addresses": held, "ways_out": ["nat"]}
    enough, few = ([{**SUBNETS[0], "free": need - held - short}] for short in (0, 1))
    assert said("addresses.free", plan, subnets=enough, **room) == []
    [told] = said("addresses.free", plan, subnets=few, **room)
    assert told[3] == f"subnet nodes has {need - held - 1} addresses free, and nodes may still take {need - held}"


def test_several_interfaces_with_a_public_address() -> None:
    """AWS refuses such nodes, and a node with a single interface would be public. An `up` corrects the subnet, and so
    may begin."""
    public = [{**SUBNETS[0], "public": True}]
    assert said("network.public", plan_of(), subnets=public, ways_out=["nat"]) == [
        (
            "nodes",
            "warn",
            "network",
            "subnet nodes gives public addresses, and machines with several interfaces, such as gpu, do "
            "not start in it",
            "`pulumi up --refresh` disables public addresses, which no node of a cluster has",
        )
    ]


def test_a_network_without_its_way_out() -> None:
    assert said("network.egress", plan_of(), subnets=SUBNETS, ways_out=["gateway"]) == [
        (
            "",
            "warn",
            "network.egress",
            "no route leads from the private subnets to the internet: nodes that start get no packages",
            "`pulumi up --refresh` makes it again",
        )
    ]
    assert said("network.egress", plan_of(network=PRIVATE), subnets=SUBNETS) == []


def image(**fields: Any) -> dict[str, Any]:
    known = {"id": "ami-1", "name": "debian", "created": "2026-11-02", "architecture": "x86_64"}
    return {**known, "state": "available", "deprecated": "", **fields}


def test_an_image_that_is_gone() -> None:
    """A deprecated image warns; a newer one is no fault."""
    plan, hint = plan_of(lock=True), "`stampworks lock -s STACK` looks up the newest one"
    named = "ami-1, which head, gpu boot,"
    assert said("image.there", plan) == [
        ("ami-1", "fail", "region", f"{named} is gone in us-east-1: no node starts any more", hint)
    ]
    assert said("image.there", plan, images=[image(state="disabled")]) == [
        ("ami-1", "fail", "region", f"{named} is disabled in us-east-1: no node starts any more", hint)
    ]
    assert said("image.there", plan, images=[image(deprecated="2026-11-01")]) == [
        ("ami-1", "warn", "region", f"{named} is deprecated since 2026-11-01, and may be removed without notice", hint)
    ]
    newest = [{"parameter": IMAGE, "image": "ami-2"}]
    assert said("image.there", plan, images=[image()], newest=newest) == []


def test_an_image_of_ones_own_that_is_gone() -> None:
    """No distribution's image replaces it, and none is newer."""
    plan = plan_of(lock=True, made_with=RELEASE)
    [told] = said("image.there", plan)
    assert told[4] == "make an image that has the release, and lock that, as docs/how-to/aws-images.md says"
    facts = Facts(account=account(images=[image()], newest=[{"parameter": IMAGE, "image": "ami-2"}]))
    [fine] = [each for each in planning.rules(plan, facts, TODAY) if each.id == "image.there"]
    assert (fine.outcome, fine.text) == ("pass", "ami-1, which head, gpu boot, is there")


def test_a_lock_that_has_not_every_image() -> None:
    """Missing images are named: the lock was made for other machines."""
    plan = plan_of(lock=True, pool={"machine": "p6e-gb200", "count": 18})
    [told] = said("image.locked", plan)
    assert told[3].startswith("the image of nodes of gpu in us-east-1 is not locked")
    assert told[4].startswith("`stampworks lock -s STACK` looks it up")
    [told] = said("image.locked", plan_of(lock=True, made_with=RELEASE, pool={"machine": "p6e-gb200", "count": 18}))
    assert told[4].startswith("make an image that has the release")


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
    ("interfaces", "quota"),
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
    ("rights", "rights.up"),
    ("launches", "rights.launch"),
]


@pytest.mark.parametrize(("fact", "rule"), HANGS_ON)
def test_unknown_facts_are_no_pass(fact: str, rule: str) -> None:
    """A missing fact makes its rules unknown, with the reason and a way to read it."""
    later = [{"purchase": "spot"}, {"purchase": "reserved", "reservation": ARN}]
    plan = plan_of(pool={**RESERVED, "count_min": 4, "fallbacks": later}, lock=True, storage=[LUSTRE])
    fine: dict[str, Any] = {
        "reservations": [reservation()],
        "reservation_groups": [{"name": ARN, "reservations": ["cr-1"]}],
        "images": [image()],
        "newest": [{"parameter": IMAGE, "image": "ami-1"}],
        "rights": judged(plan),
        "launches": [{"group": group.name, "outcome": "accepted", "why": ""} for group in plan.groups],
    }
    unread = said(rule, plan, unknown={fact: WHY}, **fine)
    assert unread
    assert {each[1] for each in unread} == {"unknown"}
    assert all(WHY in each[3] and each[4] == AGAIN for each in unread)
    assert said(rule, plan, **fine) == []


def test_every_fact_is_asked_for_by_a_rule() -> None:
    assert {fact for fact, _ in (*HANGS_ON, *OF_OWNERS)} == {*FACTS}


@pytest.mark.parametrize(
    ("change", "said_"),
    [
        ({"version": 1}, "its version is not 6"),
        ({"offers": None}, "offers has neither a value nor a reason why it is unknown"),
        ({"readings": []}, "it does not say when offers was read"),
        ({"node_addresses": "many"}, "Account.node_addresses: expected int, got 'many'"),
        ({"nonsense": 1}, "nonsense"),
        ({"reservations": [reservation(ends="soon")]}, "invalid literal"),
        ({"network_limits": [{"name": "x", "value": float("inf")}]}, "a limit is a number"),
    ],
)
def test_refuses_malformed_facts(change: dict[str, Any], said_: str) -> None:
    """The error helps the editor of the file, and no plan uses a part of it."""
    with pytest.raises(ValueError, match=said_):
        account_of({**written(), **change})


def test_a_fact_that_is_known_and_unknown() -> None:
    data = written({"offers": WHY})
    with pytest.raises(ValueError, match="offers has neither a value nor a reason"):
        account_of({**data, "offers": []})


def test_findings_from_facts_are_reported_together() -> None:
    """An expired block, a missing endpoint, a deleted image and an impossible size are reported at their fields, each
    with a remedy."""
    block = {"purchase": "block", "reservation": "cr-1"}
    source = declared(pool=block, storage=[{**LUSTRE, "capacity": 1300}], network=PRIVATE, lock=True, made_with=RELEASE)
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
