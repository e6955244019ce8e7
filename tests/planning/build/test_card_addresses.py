"""Nodes with an address on each network card: a subnet accepts only as many as fit."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Group, Plan


def on_aws(machine: str, count: int, cidr: str = "10.0.0.0/23", cards: bool = True, **fields: Any) -> Plan:
    """A /23 has a /24 for nodes, and another for the rest."""
    pools = [{"name": "gpu", "machine": machine, "count": count, "zone": "us-east-1a"}]
    network = {"cidr": cidr, "card_addresses": cards}
    data = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "network": network, "pools": pools}
    return planning.plan(load_value({**data, **fields}, "test"))


def nics(plan: Plan) -> list[tuple[int, int, bool, bool]]:
    pool: Group = plan.pools[0]
    assert pool.launch is not None
    return [(each.card, each.device, each.fabric, each.address) for each in pool.launch.interfaces]


# 256 addresses, without the five that AWS reserves and the head's: 250.
@pytest.mark.parametrize(
    ("machine", "each", "most"),
    [("p4d", 4, 62), ("p5", 32, 7), ("p5en", 16, 15), ("p6-b200", 8, 31), ("p6-b300", 17, 14), ("p6e-gb200", 5, 50)],
)
def test_a_subnet_takes_as_many_nodes_as_it_has_addresses(machine: str, each: int, most: int) -> None:
    """Card 0 of p6-b300 and p6e-gb200 is not on the fabric, and still has an address."""
    plan = on_aws(machine, most)
    [nodes] = [subnet for subnet in plan.network.subnets if subnet.name == "nodes"]
    assert (nodes.size, nodes.needed) == (256, 1 + most * each)
    assert len([one for one in nics(plan) if one[3]]) == each
    [why] = [reason.why for reason in plan.reasons if reason.path == "network.subnets.nodes.needed"]
    assert why == f"1 x 1 (head) + {most} x {each} (gpu) = {1 + most * each}"
    with pytest.raises(DeclarationError) as error:
        on_aws(machine, most + 1)
    assert [problem.path for problem in error.value.problems] == ["network.cidr"]
    room = [finding.text for finding in planning.rules(plan, None) if finding.id == "addresses.room"]
    assert room[0].startswith("pool gpu can grow by 0 nodes, then subnet nodes is full: 256 addresses, 5 kept by ")
    assert f"{each} addresses a node" in room[0]


def test_without_them_a_node_takes_one() -> None:
    plan = on_aws("p5", 250, cards=False)
    assert nics(plan)[:3] == [(0, 0, False, True), (0, 1, True, False), (1, 0, True, False)]
    assert len(nics(plan)) == 33
    alone = [(card, 0, True, False) for card in (1, 5, 9, 13)]
    assert nics(on_aws("p6e-gb200", 2, cards=False))[1:] == alone
    with pytest.raises(DeclarationError):
        on_aws("p5", 251, cards=False)


def test_the_first_card_is_the_nodes_own() -> None:
    """The first interface cannot be EFA-only, so that it carries EFA if its card can."""
    assert nics(on_aws("p4d", 2)) == [(0, 0, True, True), *((card, 1, True, True) for card in (1, 2, 3))]
    assert nics(on_aws("p6-b300", 2))[:2] == [(0, 0, False, True), (1, 1, True, True)]
    assert nics(on_aws("p6e-gb200", 2))[1:] == [(card, 1, True, True) for card in (1, 5, 9, 13)]


def test_it_is_refused_where_nothing_is_said_of_nics() -> None:
    pool = {"name": "gpu", "machine": "ND96isr_H100_v5", "count": 2}
    data = {"version": 1, "name": "test", "cloud": "azure", "region": "eastus", "pools": [pool]}
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value({**data, "network": {"card_addresses": True}}, "test"))
    assert [(each.path, each.message, each.hint) for each in error.value.problems] == [
        ("network.card_addresses", "the NICs of nodes of azure cannot be chosen", "take it out")
    ]
