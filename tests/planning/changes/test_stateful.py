"""Effects of other addresses or zones on resources with data, and of the order of pools and storage."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.changes.review import DeclaredChange, Review
from stampworks.declaration import load_value
from stampworks.plan import fingerprint
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.changes.stateful import moves_network
from stampworks.state.facts import known_facts, today
from stampworks.views.review import review_json, review_markdown

from tests.planning.places import REGIONS

DECLARED: dict[str, Any] = yaml.safe_load("""\
version: 1
name: big
cloud: aws
region: us-east-2
network: {cidr: 10.40.0.0/16}
pools:
  - {name: gpu, machine: p5, count: 16, zone: us-east-2a}
  - {name: cpu, machine: m7i, count: 4, zone: us-east-2a}
storage:
  - {name: fast, kind: fsx-lustre, tier: PERSISTENT_2 SSD, capacity: 9600, mbps_per_tib: 125, mount: /fast}
  - {name: home, kind: efs, tier: regional, mount: /efs}
  - {name: bucket, kind: s3, tier: standard, mount: /bucket}
""")
OTHER_RANGE = {"network": {"cidr": "10.50.0.0/16"}}


def unprotected() -> dict[str, Any]:
    data = copy.deepcopy(DECLARED)
    for storage in data["storage"]:
        storage["protect"] = False
    return {**data, "scheduler": {"protect": False}}


def in_zone(zone: str, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "pools": [{**pool, "zone": zone} for pool in data["pools"]]}


def side(name: str, data: dict[str, Any]) -> ReviewedStack:
    plan = planning.plan(load_value(data, "test"))
    return ReviewedStack(name, plan, planning.rules(plan, known_facts(), today()), {})


def reviewed(base: dict[str, Any], head: dict[str, Any]) -> Review:
    return review("big", side("a", base), side("b", head))


def one(found: Review, written: str) -> DeclaredChange:
    return next(each for each in found.changes if each.written == written)


def test_another_range_would_lose_what_is_protected() -> None:
    """File systems are in its subnets; an object store is in none."""
    found = reviewed(DECLARED, DECLARED | OTHER_RANGE)
    change = one(found, "network.cidr")
    assert (found.verdict, change.policy, found.order) == ("fail", "refuse", ())
    assert change.why == (
        "protected resources would be replaced by empty ones (fast, home): write protect: false at fast, "
        "protect: false at "
        "home, and stamp that first"
    )


def test_another_range_loses_what_is_not() -> None:
    """The head's volume is attached again, because it is in no subnet."""
    found = reviewed(unprotected(), unprotected() | OTHER_RANGE)
    assert (found.verdict, one(found, "network.cidr").loses) == ("pass", ("fast", "home"))
    assert "21 nodes restart. Data is lost: fast, home." in review_markdown(found)
    assert "21 nodes restart; with all it holds: fast, home" in review_markdown(found)
    assert json.loads(review_json(found))["changes"][0]["loses"] == ["fast", "home"]
    assert [(each.stage, each.text) for each in found.order][:5] == [
        ("network", "is replaced, with its subnets"),
        ("storage", "fast is replaced with all it holds"),
        ("storage", "home is replaced with all it holds"),
        ("nodes", "head is taken down and made again, but for queue and accounting"),
        ("nodes", "gpu-[001-016] are taken down and made again"),
    ]


def test_another_zone_would_lose_what_is_protected() -> None:
    """The head follows the first pool; its volume and a file system in a single zone cannot."""
    found = reviewed(DECLARED, in_zone("us-east-2b", DECLARED))
    change = one(found, "pools[gpu].zone")
    assert (found.verdict, change.policy, one(found, "pools[cpu].zone").policy) == ("fail", "refuse", "replace")
    assert "(queue and accounting, fast): write scheduler.protect: false, protect: false at fast" in change.why


@pytest.mark.parametrize("head", [DECLARED | OTHER_RANGE, in_zone("us-east-2b", DECLARED)])
def test_a_managed_database_is_where_it_is(head: dict[str, Any]) -> None:
    """The database depends on zone and network, and blocks a change of both while it is protected."""
    managed = {"scheduler": {"accounting": True, "database": "managed"}}
    found = reviewed(DECLARED | managed, head | managed)
    change = next(each for each in found.changes if each.policy == "refuse")
    assert "the managed database" in change.why


def test_another_zone_moves_the_head() -> None:
    """The head is counted, has its step, and its loss is listed."""
    found = reviewed(unprotected(), in_zone("us-east-2b", unprotected()))
    assert (found.verdict, one(found, "pools[gpu].zone").loses) == ("pass", ("queue and accounting", "fast"))
    assert (one(found, "pools[gpu].zone").restarts, one(found, "pools[cpu].zone").restarts) == (17, 4)
    assert "21 nodes restart. Data is lost: queue and accounting, fast." in review_markdown(found)
    said = [each.text for each in found.order]
    assert "queue and accounting is replaced with all it holds" in said
    assert "head is taken down and made again" in said


def test_the_zone_of_another_pool_moves_nobody_else() -> None:
    """Nodes in the zone of the first pool stay there."""
    data = copy.deepcopy(DECLARED)
    data["pools"][1]["zone"] = "us-east-2b"
    found = reviewed(DECLARED, data)
    assert [(each.written, each.policy, each.restarts) for each in found.changes] == [("pools[cpu].zone", "replace", 4)]


NO_EGRESS = {"network": {"cidr": "10.40.0.0/16", "egress": "none"}}
WITHOUT_STORAGE = {**unprotected(), "storage": []}


@pytest.mark.parametrize("back", [False, True])
def test_another_way_out_moves_the_subnet_of_storage(back: bool) -> None:
    """Subnets of a network cannot overlap, so that the network is recreated; its content is refused or lost."""
    sides = (DECLARED, DECLARED | NO_EGRESS)
    change = one(reviewed(*(reversed(sides) if back else sides)), "network.egress")
    assert (change.policy, change.why.partition(": ")[0]) == (
        "refuse",
        "protected resources would be replaced by empty ones (fast, home)",
    )
    sides = (WITHOUT_STORAGE, WITHOUT_STORAGE | NO_EGRESS)
    found = reviewed(*(reversed(sides) if back else sides))
    change = one(found, "network.egress")
    assert (change.policy, change.loses, change.restarts) == ("replace", (), 21)
    assert change.why == "its subnets get other ranges: the network is created again, with all nodes"
    assert change.needs_approval
    assert ("network", "is replaced, with its subnets") in [(each.stage, each.text) for each in found.order]


def test_another_way_out_of_an_existing_network_moves_nothing() -> None:
    data = existing()
    found = reviewed(data, {**data, "network": {**data["network"], "egress": "none"}})
    assert [(each.written, each.policy) for each in found.changes] == [("network.egress", "in place")]


def existing() -> dict[str, Any]:
    """Return a declaration with a network of the account's owners."""
    subnets = [
        {"purpose": purpose, "zone": "us-east-2a", "id": f"subnet-0123456789abcdef{number}", "cidr": cidr}
        for number, (purpose, cidr) in enumerate({"nodes": "10.40.0.0/20", "storage": "10.40.16.0/24"}.items())
    ]
    groups = {each: f"sg-0123456789abcdef{number}" for number, each in enumerate(("nodes", "storage"))}
    network = {"vpc": "vpc-0123456789abcdef0", "subnets": subnets, "security_groups": groups}
    return {**WITHOUT_STORAGE, "network": {"cidr": "10.40.0.0/16", "existing": network}}


def test_another_zone_makes_the_network_anew() -> None:
    """A subnet stays in its zone, and its range is taken until it goes."""
    found = reviewed(unprotected(), in_zone("us-east-2b", unprotected()))
    assert (found.order[0].stage, found.order[0].text) == ("network", "is replaced, with its subnets")


DATABASE = {"scheduler": {"accounting": True, "database": "managed"}}


@pytest.mark.parametrize(
    "head",
    [
        DECLARED | OTHER_RANGE,
        DECLARED | NO_EGRESS,
        DECLARED | DATABASE,
        DECLARED | {"scheduler": {"kind": "kubernetes"}},
        in_zone("us-east-2b", DECLARED),
        DECLARED | NO_EGRESS | DATABASE,
    ],
)
def test_no_subnet_moves_without_a_yes(head: dict[str, Any]) -> None:
    """Each move of a subnet is refused while it contains protected resources, and names the lost ones."""
    assert ranges(DECLARED) != ranges(head) or head["pools"] != DECLARED["pools"]
    assert "refuse" in {each.policy for each in reviewed(DECLARED, head).changes}


def ranges(data: dict[str, Any]) -> dict[str, str]:
    return {one.name: one.cidr for one in planning.plan(load_value(data, "test")).network.subnets}


def test_a_subnet_that_takes_the_range_of_another_one_waits_for_no_deletion() -> None:
    """The subnet of a database takes the place of the egress subnet, which is deleted later."""
    before, after = (planning.plan(load_value(DECLARED | each, "test")) for each in ({}, NO_EGRESS | DATABASE))
    assert {*ranges(DECLARED).values()} == {*ranges(DECLARED | NO_EGRESS | DATABASE).values()}
    assert moves_network(before, after)


def test_a_storage_that_goes_is_data_lost() -> None:
    """The loss is in the first line and in the order of operations."""
    head = unprotected()
    head["storage"] = head["storage"][:1]
    found = reviewed(unprotected(), head)
    assert "No node restarts. Data is lost: home, bucket." in review_markdown(found)
    assert "| in place | is removed, and its data is lost |" in review_markdown(found)
    assert [each.text for each in found.order if each.stage == "removal"] == [
        "storage home, and all it holds is lost",
        "storage bucket, and all it holds is lost",
    ]


def test_a_stack_that_goes_is_data_lost() -> None:
    """The loss includes the queue."""
    found = review("big", side("a", unprotected()), ReviewedStack("b", None))
    assert "Data is lost: queue and accounting, fast, home, bucket." in review_markdown(found)


@pytest.mark.parametrize("cloud", ["aws", "azure", "google", "oracle"])
def test_the_order_of_pools_says_nothing_where_a_cloud_hands_out_addresses(cloud: str) -> None:
    """The review is empty, all findings stay, and the fingerprint is equal."""
    machine = {"aws": "p5", "azure": "nd-h100-v5", "google": "a3-high", "oracle": "BM.GPU.H100.8"}[cloud]
    names = ("gpu", "cpu", "more")
    data: dict[str, Any] = {"version": 1, "name": "big", "cloud": cloud, "region": REGIONS[cloud]}
    data["pools"] = [{"name": name, "machine": machine, "count": 2 + index} for index, name in enumerate(names)]
    sides = side("a", data), side("b", {**data, "pools": data["pools"][::-1]})
    found = review("big", *sides)
    assert (found.changes, found.following, found.rules, found.order, found.expectations) == ((), (), (), (), ())
    plans = [each.plan for each in sides if each.plan]
    assert plans[0] != plans[1]
    assert fingerprint(plans[0]) == fingerprint(plans[1])


def test_an_order_of_pools_that_moves_the_head_says_something() -> None:
    """The head is in the zone of the first pool."""
    data = unprotected()
    data["pools"][1]["zone"] = "us-east-2b"
    found = reviewed(data, {**data, "pools": data["pools"][::-1]})
    [change] = found.changes
    assert (change.written, change.policy, change.restarts) == ("pools", "replace", 1)
    assert change.loses == ("queue and accounting", "fast")


def test_only_the_first_storage_says_something() -> None:
    """The first storage contains the runs' folders; the order of the others does not matter."""
    fast, home, bucket = DECLARED["storage"]
    plans = [
        {**DECLARED, "storage": each} for each in ([fast, home, bucket], [fast, bucket, home], [home, fast, bucket])
    ]
    assert reviewed(plans[0], plans[1]).changes == ()
    assert [each.written for each in reviewed(plans[0], plans[2]).changes] == ["storage"]
    prints = [fingerprint(plan) for each in plans if (plan := side("a", each).plan)]
    assert prints[0] == prints[1] != prints[2]


def test_a_kubernetes_keeps_no_queue() -> None:
    """The cloud keeps its state, and none of the toolkit's volumes; subnets and ranges have different names."""
    data = {**DECLARED, "scheduler": {"kind": "kubernetes"}}
    plan = side("a", data).plan
    assert plan
    assert not plan.controller.volumes
    assert [subnet.name for subnet in plan.network.subnets if not subnet.name.startswith("rail")] == [
        "nodes",
        "storage",
        "egress",
        "control-plane",
    ]
    why = one(reviewed(data, in_zone("us-east-2b", data)), "pools[gpu].zone").why
    assert why.startswith("protected resources would be replaced by empty ones (the server of Kubernetes, fast): ")
    assert "queue" not in review_markdown(reviewed(data, in_zone("us-east-2b", data)))


def test_mounts_follow_their_storage() -> None:
    """Software that nodes get for it is no declared change, and no node restarts."""
    less = {**unprotected(), "storage": unprotected()["storage"][:1]}
    found = reviewed(less, unprotected())
    assert [(each.written, each.policy) for each in found.changes] == [
        ("storage[home]", "in place"),
        ("storage[bucket]", "in place"),
    ]
