"""Costs of a cluster beside its nodes, and costs outside of the sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stampworks import planning
from stampworks.declaration import load_stack, load_value
from stampworks.plan import Plan
from stampworks.planning.cost import MONTH_HOURS, cost

ROOT = Path(__file__).parents[2]


def planned(cloud: str, machine: str, pool: dict[str, Any] | None = None, **fields: Any) -> Plan:
    pools = [{"name": "gpu", "machine": machine, "count": 2, **(pool or {})}]
    return planning.plan(load_value({"version": 1, "name": "test", "cloud": cloud, "pools": pools, **fields}, "test"))


def on_aws(pool: dict[str, Any], region: str = "us-east-1", **fields: Any) -> Plan:
    return planned("aws", "p5", {"zone": f"{region}a", **pool}, region=region, **fields)


def priced(plan: Plan) -> dict[str, tuple[str, float | None]]:
    return {each.what: (each.basis, each.usd_per_hour) for each in cost(plan).charges}


def test_costs_beside_nodes() -> None:
    """Disks cost by their size, and egress and endpoints by the hour."""
    found = priced(on_aws({"count": 2}))
    basis = "1 x 200 GiB (head) + 2 x 200 GiB (gpu) + 1 x 100 GiB (head-state)"
    assert found["disks"] == (basis, round(700 * 0.08 / MONTH_HOURS, 6))
    assert found["NAT gateway"] == ("1 x NAT gateway", 0.045)
    assert found["public address"] == ("1 x public address, of the NAT gateway", 0.005)
    assert "endpoints" not in found  # the one to S3 is a route, and free
    alone = priced(on_aws({"count": 2}, network={"cidr": "10.0.0.0/16", "egress": "none"}))
    services = "ec2, ec2messages, ecr.api, ecr.dkr, fsx, logs, ssm, ssmmessages, sts"
    assert alone["endpoints"] == (f"9 x endpoint: {services}", 0.09)
    assert not {"NAT gateway", "public address"} & {*alone}


def test_disks_come_and_go_with_their_nodes() -> None:
    """Disks of an elastic pool cost as nodes run; a volume's costs always."""
    [disks] = [each for each in cost(on_aws({"count": 4, "count_min": 1})).charges if each.what == "disks"]
    assert disks.basis == "1 x 200 GiB (head) + 1 to 4 x 200 GiB (gpu) + 1 x 100 GiB (head-state)"
    assert (disks.usd_per_hour_min, disks.usd_per_hour) == tuple(
        round(gib * 0.08 / MONTH_HOURS, 6) for gib in (500, 1100)
    )


def test_a_part_without_a_price_makes_the_sum_unknown() -> None:
    """Prices of other regions are not used."""
    plan = on_aws({"count": 2}, region="eu-north-1")
    [gateway] = [each for each in cost(plan).charges if each.what == "NAT gateway"]
    assert (gateway.usd_per_hour, gateway.why) == (None, "no price of a NAT gateway in eu-north-1 is known")
    assert cost(plan).usd_per_hour is None


def test_storage_is_priced_in_its_region_or_not_at_all() -> None:
    """A capacity is multiplied by the price of the plan's own region."""
    storage = [{"name": "data", "mount": "/data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 4800}]
    here, elsewhere = (
        next(each for each in cost(on_aws({}, region=region, storage=storage)).charges if each.what == "storage data")
        for region in ("us-east-1", "eu-north-1")
    )
    assert (here.basis, here.usd_per_hour) == ("4800 GiB of fsx-lustre SCRATCH_2", round(4800 * 0.14 / MONTH_HOURS, 6))
    assert (elsewhere.usd_per_hour, elsewhere.why) == (None, "no price of it in eu-north-1 is known")


def test_a_managed_database_is_named_without_a_price() -> None:
    """The catalog has no price, and the sum says so."""
    found = cost(on_aws({"count": 2}, scheduler={"accounting": True, "database": "managed"}))
    [database] = [each for each in found.charges if each.what == "database of the accounting"]
    assert (database.usd_per_hour, database.why) == (None, "no price of a managed database in us-east-1 is known")
    assert found.usd_per_hour is None


def test_the_page_says_what_the_first_cluster_costs() -> None:
    """Readers need it before they create anything."""
    usd = cost(planning.plan(load_stack("aws-dev-g6", ROOT / "stacks"))).usd_per_hour
    assert usd is not None
    assert f"`aws-dev-g6` is {usd:.2f} USD an hour" in (ROOT / "docs" / "start" / "aws.md").read_text()


def test_items_outside_of_a_sum() -> None:
    """Items that are billed by use are listed beside the total."""
    last = "traffic to other zones and to the internet, requests, and logs"
    plan = on_aws({"count": 2})
    assert cost(plan).usd_per_hour is not None
    assert cost(plan).uncounted == ("each GB that passes through the NAT gateway", last)
    alone = cost(on_aws({"count": 2}, network={"cidr": "10.0.0.0/16", "egress": "none"})).uncounted
    assert alone == ("each GB that passes through the endpoints", last)
    kubernetes = cost(on_aws({"count": 2}, scheduler={"kind": "kubernetes"})).uncounted
    assert "the control plane of Kubernetes" in kubernetes
    google = cost(planned("google", "a3-ultragpu-8g", region="us-central1")).uncounted
    assert google == ("other billed items, such as disks and traffic",)
    assert cost(planned("hosts", "dgx-h100")).uncounted == ()
