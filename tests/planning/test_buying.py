"""Purchases of machines: their costs, counts, and limits."""

from __future__ import annotations

import re
import typing

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, Pool
from stampworks.declaration.wording import shown
from stampworks.plan import Purchase, fingerprint
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import cost

from tests.planning.clouds import LUSTRE, MACHINES, declared, found, gpu, on_aws, planned


def test_purchase_counts_and_place_does_not() -> None:
    """Clusters in different regions can be siblings; a spot and a reserved cluster cannot."""
    base = fingerprint(on_aws(gpu()))
    assert fingerprint(on_aws(gpu(purchase="spot"))) != base
    elsewhere = {"version": 1, "name": "test", "cloud": "aws", "region": "eu-west-1", "pools": [gpu(zone="eu-west-1b")]}
    assert fingerprint(planned(elsewhere)) == base


def test_a_block_without_a_name_and_spot_without_storage() -> None:
    """The first cannot start, or starts elsewhere; the second is a warning: it works until it does not."""
    for purchase, what in (("block", "a block of capacity"), ("reserved", "reserved capacity")):
        [unnamed] = found(on_aws(gpu(purchase=purchase)), f"purchase.{purchase}")
        assert (unnamed.verdict, unnamed.place, unnamed.severity) == ("fail", "pools[0].purchase", "error")
        assert unnamed.text == f"pool gpu uses {what}, and its name is missing"
        assert not found(on_aws(gpu(purchase=purchase, reservation="cr-1")), f"purchase.{purchase}")
    idle = {"name": "idle", "machine": "p5", "count": 4, "scheduling_only": True}
    [second] = found(on_aws(idle, gpu(purchase="block")), "purchase.block")
    assert second.place == "pools[1].purchase"
    [spot] = found(on_aws(gpu(purchase="spot")), "purchase.spot")
    assert (spot.verdict, spot.severity) == ("fail", "warning")


def test_prices_grow_old() -> None:
    """A price of this quarter passes, an older one warns, and one without a date is unknown."""
    plan = on_aws(gpu())
    price = catalog.price("aws", "p5", "us-east-1", "on-demand")
    assert isinstance(price, catalog.Price)
    assert isinstance(price.as_of, str)
    year, month = map(int, price.as_of.split("-"))

    def verdict(later: int) -> str:
        day = f"{year + (month + later - 1) // 12}-{(month + later - 1) % 12 + 1:02}-01"
        findings = [each for each in planning.rules(plan, None, day) if each.id == "price.age"]
        [finding] = [each for each in findings if each.subject == "p5 (on-demand)"]
        assert finding.severity == "warning"
        return finding.verdict

    assert [verdict(later) for later in (0, 3, 4, 16)] == ["pass", "pass", "fail", "fail"]
    assert {unsaid.verdict for unsaid in found(plan, "price.age")} == {"unknown"}


def test_prices_of_the_head_and_of_storage_grow_old_too() -> None:
    """Every summed price has an age, which is reported once for all its users."""
    twice = ({"name": name, "machine": "m7i", "count": 1, "zone": "us-east-1a"} for name in ("cpu", "more"))
    bought = gpu(purchase="reserved", reservation="cr-1")
    plan = on_aws(bought, *twice, storage=[{**LUSTRE, "mbps_per_tib": 125}])
    findings = [each for each in planning.rules(plan, None, "2036-01-01") if each.id == "price.age"]
    assert [(each.subject, each.place, each.outcome) for each in findings] == [
        ("m7i (on-demand)", "", "warn"),
        ("fsx-lustre PERSISTENT_2 SSD", "storage[0]", "warn"),
    ]
    assert findings[1].text.startswith("the price of fsx-lustre PERSISTENT_2 SSD is of ")


def test_a_price_that_nobody_knows_anywhere() -> None:
    """Clouds without regions name none."""
    fields = {"cloud": "hosts", "pools": [{"name": "gpu", "machine": "dgx-h100", "count": 2}]}
    weka = {"name": "data", "kind": "weka", "capacity": 1000, "mount": "/data"}
    plan = planned({"version": 1, "name": "test", **fields, "storage": [weka]})
    assert [each.why for each in cost(plan).charges if each.what == "storage data"] == ["no price of it is known"]


@pytest.mark.parametrize(("purchase", "machine"), [("block", "p5"), ("spot", "p6-b200")])
def test_limits_that_nobody_knows(purchase: str, machine: str) -> None:
    """Blocks have their own limits, and the limit of P6 spot nodes is undocumented."""
    plan = on_aws(gpu(purchase=purchase, machine=machine), storage=[{**LUSTRE, "mbps_per_tib": 500}])
    verdicts = {each.subject: each.verdict for each in found(plan, "quota")}
    assert verdicts["gpu"] == "unknown"
    assert "Running On-Demand P instances" not in verdicts


@pytest.mark.parametrize("reservation", ["$(id)", "cr-1\n", "a b", "\x1b[2J", "-rf", "a" * 1000])
def test_a_reservation_is_a_plain_name(reservation: str) -> None:
    """Any other text is refused."""
    with pytest.raises(DeclarationError, match=r"pools\[0\].reservation: .* is not a reservation") as error:
        on_aws(gpu(purchase="block", reservation=reservation))
    assert all(line.isprintable() for line in str(error.value).split("\n"))


@pytest.mark.parametrize(
    "reservation",
    [
        "mine",
        "lr-0123456789abcdef0",
        "arn:aws:ec2:us-east-1:123456789012:capacity-reservation/cr-0123456789abcdef0",
        "arn:aws:resource-groups:us-east-1:12345:group/ours",
    ],
)
def test_a_reservation_is_called_as_its_cloud_does(reservation: str) -> None:
    """AWS would refuse to start any node in it, after all other resources exist."""
    later = [{"purchase": "reserved", "reservation": reservation}]
    with pytest.raises(DeclarationError) as error:
        on_aws(gpu(purchase="block", reservation=reservation), gpu(name="more", count_min=1, fallbacks=later))
    paths = ["pools[0].reservation", "pools[1].fallbacks[0].reservation"]
    assert [each.path for each in error.value.problems] == paths
    assert {each.message for each in error.value.problems} == {
        f"{shown(reservation)} is not the name of a reservation of aws"
    }
    assert error.value.problems[0].hint.startswith(
        "write the id of a reservation or a block, for example cr-0123456789abcdef0"
    )


def test_ways_to_buy_agree() -> None:
    """Three rooms list them and may not import each other: prices include the term of a reservation."""
    planned = {*typing.get_args(Purchase)}
    assert {*typing.get_args(Pool.model_fields["purchase"].annotation)} == {"", *planned}
    priced = {re.sub("-[13]y$", "", way) for way in typing.get_args(catalog.Purchase)}
    assert {*priced, "owned"} == planned
    assert {way for choices in CLOUDS.values() for way in choices.purchases} == planned


@pytest.mark.parametrize(
    ("machine", "count", "verdict", "hint"),
    [
        ("ct5p-hightpu-4t", 5, "fail", "write count: 2 or 8, or make pools of such numbers"),
        ("ct5p-hightpu-4t", 8, "pass", ""),
        ("ct5p-hightpu-4t", 48, "unknown", "ask the cloud for this one"),
        ("ct6e-standard-4t", 3, "fail", "write count: 2 or 4, or make pools of such numbers"),
        ("ct6e-standard-4t", 64, "pass", ""),
        ("p6e-gb200", 10, "fail", "write count: 9 or 18, or make pools of such numbers"),
        ("p6e-gb200", 27, "pass", ""),
        ("p6e-gb200", 5, "fail", "write count: 9, or make pools of such numbers"),
        ("ND128isr_GB300_v6", 20, "unknown", "ask azure, or write a multiple of 18"),
    ],
)
def test_some_machines_come_in_certain_numbers(machine: str, count: int, verdict: str, hint: str) -> None:
    """TPU slices and racks come in fixed numbers; without documentation the number is unknown."""
    pools = [{"name": "gpu", "machine": machine, "count": count}]
    plan = planned(declared(catalog.machines()[machine], pools=pools))
    shape = next(each for each in found(plan, "machine.shape") if each.place == "pools[0].count")
    assert (shape.verdict, shape.hint) == (verdict, hint)
    assert f"{count} nodes of {machine} in pool gpu" in shape.text


@pytest.mark.parametrize(("purchase", "verdicts"), [("on-demand", ["pass", "fail"]), ("block", ["pass"])])
def test_an_ultraserver_is_sold_in_blocks_only(purchase: str, verdicts: list[str]) -> None:
    """All other purchases of the cloud are refused."""
    pool = {"name": "gpu", "machine": "p6e-gb200", "count": 18, "purchase": purchase}
    pool |= {"reservation": "cr-0123456789abcdef0"} if purchase == "block" else {}
    plan = planned(declared(catalog.machines()["p6e-gb200"], pools=[pool]))
    findings = found(plan, "machine.shape")
    assert [each.verdict for each in findings] == verdicts
    assert [each.hint for each in findings[1:]] == ["write purchase: block"] * (len(verdicts) - 1)


def test_machines_in_any_number_say_nothing_of_it() -> None:
    """A note appears neither for them nor for whole racks."""
    assert found(on_aws(gpu(count=3)), "machine.shape") == []
    azure = catalog.machines()["ND128isr_GB300_v6"]
    whole = planned(declared(azure, pools=[{"name": "gpu", "machine": azure.name, "count": 36}]))
    assert found(whole, "machine.shape") == []


@pytest.mark.parametrize(
    ("machine", "count", "verdicts"),
    [
        ("ND96isr_H100_v5", 100, []),
        ("ND96isr_H100_v5", 101, ["unknown"]),
        ("ND96isr_H100_v5", 300, ["unknown"]),
        ("ND96isr_H100_v5", 301, ["fail"]),
        ("ND96isr_H100_v5", 1001, ["fail"]),
        ("a3-megagpu-8g", 2000, []),
        ("a3-megagpu-8g", 2001, ["fail"]),
        ("p5", 1000, []),
        ("p5", 1001, ["unknown"]),
        ("dgx-h100", 1001, []),
    ],
)
def test_a_group_takes_so_many_nodes(machine: str, count: int, verdicts: list[str]) -> None:
    """The cloud's limit applies; a fabric may lower it, and without a documented group it is unknown."""
    row = catalog.machines()[machine]
    pools = [{"name": "gpu", "machine": machine, "count": count}]
    cidr = {"cidr": "10.0.0.0/16" if row.cloud == "aws" else "10.0.0.0/10"}
    findings = found(planned(declared(row, pools=pools, network=cidr)), "group.size")
    assert [each.verdict for each in findings] == verdicts
    assert all(f"{count} nodes of pool gpu" in each.text and each.hint for each in findings)


def test_azure_reserves_no_machines_with_infiniband() -> None:
    pools = [{"name": "gpu", "machine": "ND96isr_H100_v5", "count": 2, "purchase": "reserved", "reservation": "x"}]
    with pytest.raises(DeclarationError) as refused:
        planned(declared(catalog.machines()["ND96isr_H100_v5"], pools=pools))
    assert [(each.path, each.message, each.hint) for each in refused.value.problems] == [
        (
            "pools[0].purchase",
            "pool gpu cannot be reserved: Azure reserves no capacity for machines that share a placement group",
            "there are on-demand and spot",
        )
    ]


@pytest.mark.parametrize(
    ("cidr", "refused"), [("172.16.0.0/16", True), ("172.16.0.0/12", True), ("10.0.0.0/16", False)]
)
def test_azure_uses_a_range_for_infiniband(cidr: str, refused: bool) -> None:
    machine, told = catalog.machines()["ND96isr_H100_v5"], []
    try:
        planned(declared(machine, network={"cidr": cidr}))
    except DeclarationError as error:
        told = [f"{each.path}: {each.message}" for each in error.problems]
    assert told == (
        ["network.cidr: overlaps 172.16.0.0/16: Azure uses it for RDMA on machines with InfiniBand"] if refused else []
    )


@pytest.mark.parametrize(
    ("cloud", "head", "purchase"), [("nebius", "cpu-d3", "on-demand"), ("lambda", "server", "owned")]
)
def test_the_head_where_machines_are_rented(cloud: str, head: str, purchase: str) -> None:
    """The head is a machine that is sold there, or the user's own: then no price is missing."""
    machine = next(each for each in MACHINES if each.cloud == cloud)
    plan = planned(declared(machine))
    assert (plan.controller.machine.name, plan.controller.purchase) == (head, purchase)
    charge = next(each for each in cost(plan).charges if each.what == "head")
    assert charge.sold is (purchase != "owned")
