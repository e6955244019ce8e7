"""Existing parts of an account: problems are errors at their fields with facts, and unknown without."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, existing_parts, fingerprint
from stampworks.planning import Facts
from stampworks.planning.cost import cost

from tests.planning.accounts import KNOWN, TODAY, account, plan_of

VPC, OTHER_VPC = "vpc-0000000000000001a", "vpc-0000000000000001b"
NODES, STORAGE, DATABASE, OTHER = (f"subnet-0000000000000000{n}" for n in "1234")
SG_NODES, SG_STORAGE = "sg-00000000000000001", "sg-00000000000000002"
WORLD = "0.0.0.0/0"
EXISTING: dict[str, Any] = {
    "vpc": VPC,
    "subnets": [
        {"purpose": "nodes", "zone": "us-east-1a", "id": NODES, "cidr": "10.20.0.0/24"},
        {"purpose": "nodes", "zone": "us-east-1b", "id": OTHER, "cidr": "10.20.1.0/24"},
        {"purpose": "storage", "zone": "us-east-1a", "id": STORAGE, "cidr": "10.20.2.0/24"},
        {"purpose": "database", "zone": "us-east-1b", "id": DATABASE, "cidr": "10.20.3.0/28"},
    ],
    "security_groups": {"nodes": SG_NODES, "storage": SG_STORAGE},
}
EFS = {"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}
NETWORK = {"cidr": "10.20.0.0/16", "existing": EXISTING}


def opening(inward: bool, peer: str) -> dict[str, Any]:
    return {"inward": inward, "peer": peer}


def owned_subnet(id_: str, cidr: str, **fields: Any) -> dict[str, Any]:
    one = {"id": id_, "network": VPC, "zone": "us-east-1a", "cidr": cidr, "free": 200, "public": False}
    return {**one, "ways_out": ["nat"], "routed": ["s3"], **fields}


def owned_group(id_: str, *peers: str, **fields: Any) -> dict[str, Any]:
    openings = [opening(inward, peer) for inward in (True, False) for peer in peers]
    return {"id": id_, "network": VPC, "openings": [*openings, opening(False, WORLD)], **fields}


SOUND: dict[str, Any] = {
    "owned_networks": [{"id": VPC, "ranges": ["10.20.0.0/16"], "names": True}],
    "owned_subnets": [owned_subnet(NODES, "10.20.0.0/24"), owned_subnet(STORAGE, "10.20.2.0/24")],
    "owned_groups": [
        owned_group(SG_NODES, SG_NODES, SG_STORAGE),
        owned_group(SG_STORAGE, SG_NODES, SG_STORAGE),
    ],
    "endpoints": [one["name"] for one in KNOWN["services"]],
}


def plan(**network: Any) -> Plan:
    return plan_of(pool={"count": 4}, network={**NETWORK, **network}, storage=[EFS])


def findings(of: Plan, **facts: Any) -> list[tuple[str, str, str, str, str]]:
    """Findings of the rules of existing parts: id, outcome, place, text, hint."""
    found = planning.rules(of, Facts(account=account(**{**SOUND, **facts})), TODAY)
    return [
        (each.id, each.outcome, each.place, each.text, each.hint) for each in found if each.id.startswith("existing.")
    ]


def without(key: str, index: int, **fields: Any) -> dict[str, Any]:
    """Return the valid facts with one of them changed."""
    facts = copy.deepcopy(SOUND[key])
    facts[index] |= fields
    return {key: facts}


WRONG = {
    "another account's network": (
        {"owned_networks": []},
        ("existing.network", "network.existing.vpc", f"the account has no {VPC} in us-east-1"),
    ),
    "another range": (
        without("owned_networks", 0, ranges=["10.30.0.0/16"]),
        ("existing.network", "network.cidr", f"{VPC} has 10.30.0.0/16, and not 10.20.0.0/16"),
    ),
    "no private names": (
        without("owned_networks", 0, names=False),
        (
            "existing.network",
            "network.existing.vpc",
            f"{VPC} resolves no private names, by which nodes find file systems and endpoints",
        ),
    ),
    "a subnet of another zone": (
        without("owned_subnets", 0, zone="us-east-1c"),
        ("existing.subnets", "network.existing.subnets[0].zone", f"{NODES} is in us-east-1c, and not us-east-1a"),
    ),
    "a subnet of another network": (
        without("owned_subnets", 1, network=OTHER_VPC),
        ("existing.subnets", "network.existing.subnets[2].id", f"{STORAGE} is in {OTHER_VPC}, and not {VPC}"),
    ),
    "a subnet of another range": (
        without("owned_subnets", 1, cidr="10.20.9.0/24"),
        ("existing.subnets", "network.existing.subnets[2].cidr", f"{STORAGE} is 10.20.9.0/24, and not 10.20.2.0/24"),
    ),
    "a subnet that is gone": (
        {"owned_subnets": [SOUND["owned_subnets"][0]]},
        ("existing.subnets", "network.existing.subnets[2].id", f"the account has no {STORAGE} in us-east-1"),
    ),
    "no way out": (
        without("owned_subnets", 0, ways_out=[]),
        ("existing.egress", "network.egress", f"{NODES} has no route to the world: nodes get no packages"),
    ),
    "an internet gateway for private addresses": (
        without("owned_subnets", 0, ways_out=["gateway"]),
        (
            "existing.egress",
            "network.egress",
            f"{NODES} has no route to the world but an internet gateway, which serves public addresses only: nodes get "
            "no packages",
        ),
    ),
    "too few addresses": (
        without("owned_subnets", 0, free=4),
        (
            "existing.room",
            "network.existing.subnets[0].id",
            f"{NODES} has 4 addresses free, and nodes may still take 5",
        ),
    ),
    "public addresses": (
        without("owned_subnets", 0, public=True),
        (
            "existing.public",
            "network.existing.subnets[0].id",
            f"{NODES} gives public addresses, and what has several interfaces, as gpu, does not start in it",
        ),
    ),
    "a group of another network": (
        without("owned_groups", 1, network=OTHER_VPC),
        (
            "existing.groups",
            "network.existing.security_groups.storage",
            f"{SG_STORAGE} is in {OTHER_VPC}, and not in {VPC}",
        ),
    ),
    "a group without EFA's rule": (  # a range is enough for everything else
        without(
            "owned_groups",
            0,
            openings=[opening(True, "10.20.0.0/16"), opening(True, SG_NODES), opening(False, WORLD)],
        ),
        (
            "existing.efa",
            "network.existing.security_groups.nodes",
            f"{SG_NODES} has no rule for all traffic to itself, by its own id: EFA carries nothing",
        ),
    ),
    "a group that keeps nodes from file systems": (
        without("owned_groups", 1, openings=[opening(True, SG_STORAGE), opening(False, WORLD)]),
        (
            "existing.groups",
            "network.existing.security_groups.storage",
            f"{SG_STORAGE} lets not all traffic through from {SG_NODES} of nodes",
        ),
    ),
    "a group that keeps nodes from the world": (
        without(
            "owned_groups",
            0,
            openings=[opening(inward, peer) for inward in (True, False) for peer in (SG_NODES, SG_STORAGE)],
        ),
        (
            "existing.groups",
            "network.existing.security_groups.nodes",
            f"{SG_NODES} lets nodes reach nothing outside of the network, and packages and images come from there",
        ),
    ),
}


def test_sound_parts_pass() -> None:
    found = findings(plan())
    assert {outcome for _, outcome, *_ in found} == {"pass"}
    ids = {"network", "subnets", "groups", "efa", "room", "egress"}
    assert {id_ for id_, *_ in found} == {f"existing.{each}" for each in ids}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_part_is_an_error_at_its_field(wrong: str) -> None:
    facts, (id_, place, text) = WRONG[wrong]
    failed = [each for each in findings(plan(), **facts) if each[1] != "pass"]
    assert [(each[0], each[1], each[2], each[3]) for each in failed] == [(id_, "fail", place, text)]
    assert failed[0][4], "a hint"


def test_nothing_is_known_without_facts() -> None:
    """Each rule is unknown for the same fields, and none passes."""
    found = [each for each in planning.rules(plan(), None, TODAY) if each.id.startswith("existing.")]
    assert [each.outcome for each in found] == ["unknown"] * 5
    assert {each.id for each in found} == {
        f"existing.{each}" for each in ("network", "subnets", "groups", "room", "egress")
    }


def test_endpoints_in_the_place_of_a_way_out() -> None:
    """A gateway endpoint counts if the subnet of nodes routes to it."""
    of = plan(egress="none")
    assert {each[1] for each in findings(of)} == {"pass"}
    [failed] = [each for each in findings(of, **without("owned_subnets", 0, routed=[])) if each[1] == "fail"]
    assert failed[0] == "existing.egress"
    assert failed[3] == f"{VPC} has no endpoint that {NODES} reaches for s3"
    [failed] = [each for each in findings(of, endpoints=["s3"]) if each[1] == "fail"]
    assert "for ec2, ec2messages," in failed[3]


def test_nodes_that_run_have_their_addresses() -> None:
    """Addresses of running nodes and file systems are not needed again."""
    facts = {
        "owned_subnets": [owned_subnet(NODES, "10.20.0.0/24", free=0), owned_subnet(STORAGE, "10.20.2.0/24", free=0)]
    }
    assert {each[1] for each in findings(plan(), node_addresses=5, **facts)} == {"pass"}


def test_the_plan_takes_the_subnets_of_its_zone() -> None:
    of = plan()
    assert existing_parts(of) == [
        ("network", VPC),
        ("subnet nodes", NODES),
        ("subnet storage", STORAGE),
        ("security group nodes", SG_NODES),
        ("security group storage", SG_STORAGE),
    ]
    database = plan_of(network=NETWORK, storage=[EFS], scheduler={"database": "managed", "accounting": True})
    assert ("subnet database", DATABASE) in existing_parts(database)


def test_costs_of_network_owners_are_not_counted() -> None:
    counted = {each.what for each in cost(plan()).charges}
    assert not counted & {"NAT gateway", "public address", "endpoints"}
    assert "the owners' bill for the existing network" in cost(plan()).uncounted


def test_another_network_is_the_same_cluster_once_more() -> None:
    moved = copy.deepcopy(EXISTING) | {"vpc": OTHER_VPC}
    assert fingerprint(plan(existing=moved)) == fingerprint(plan())


def refused(**changes: Any) -> list[tuple[str, str]]:
    """Return the problems of a declaration with a changed network: path and message."""
    data: dict[str, Any] = {
        "version": 1,
        "name": "test",
        "cloud": "aws",
        "region": "us-east-1",
        "network": copy.deepcopy(NETWORK),
        "pools": [{"name": "gpu", "machine": "p5", "count": 4, "zone": "us-east-1a"}],
    }
    for path, value in changes.items():
        *way, last = path.split("__")
        inner: Any = data
        for step in way:
            inner = inner[int(step) if step.isdecimal() else step]
        inner[int(last) if last.isdecimal() else last] = value
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value(data, "test"))
    return [(each.path, each.message) for each in error.value.problems]


NET = "network__existing"
POOL = {"name": "gpu", "machine": "p5", "count": 4}


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({f"{NET}__vpc": "ours"}, "network.existing.vpc", "'ours' is no id of vpc-..."),
        ({f"{NET}__vpc": ""}, "network.existing", "which network it is about is not written"),
        ({f"{NET}__subnets__0__id": VPC}, "network.existing.subnets[0].id", f"'{VPC}' is no id of subnet-..."),
        (
            {f"{NET}__subnets__0__cidr": "10.21.0.0/24"},
            "network.existing.subnets[0].cidr",
            "10.21.0.0/24 is not in 10.20.0.0/16, which network.cidr says the whole network has",
        ),
        (
            {f"{NET}__subnets__0__zone": "us-east-1c"},
            "network.existing.subnets",
            "there is no subnet for nodes in us-east-1a",
        ),
        (
            {f"{NET}__subnets__1__zone": "us-east-1a"},
            "network.existing.subnets[1]",
            f"{OTHER} is a second subnet for nodes in us-east-1a",
        ),
        ({"pools__0": POOL}, "pools[0].zone", "an existing subnet is in one zone, and no zone is written"),
        (
            {"pools__0__count": 300},
            "network.existing.subnets[0].cidr",
            f"{NODES} has 251 addresses, and nodes needs 301; AWS keeps the first four addresses of a subnet and the "
            "last one",
        ),
        (
            {f"{NET}__security_groups": {"nodes": SG_NODES}},
            "network.existing.security_groups",
            "there is a group of nodes, and none of storage: one has rules about the other",
        ),
        (
            {f"{NET}__security_groups": {}, "network__egress": "none"},
            "network.existing",
            "the endpoints of services belong to the network, and let in groups that their owners know",
        ),
        (
            {"scheduler": {"kind": "kubernetes"}},
            "network.existing",
            "EKS gets a network of its own here",
        ),
    ],
)
def test_a_network_that_cannot_be(changes: dict[str, Any], path: str, message: str) -> None:
    assert (path, message) in refused(**changes)


@pytest.mark.parametrize(("cloud", "machine"), [("google", "a3-highgpu-8g"), ("local", "sim-h100")])
def test_other_clouds_use_no_existing_network(cloud: str, machine: str) -> None:
    found = refused(cloud=cloud, region="us-central1", pools__0=POOL | {"machine": machine})
    assert ("network.existing", f"clusters on {cloud} use no network that exists already") in found
