"""Subnets of a plan: needed addresses, addresses that the cloud reserves, and room for growth."""

from __future__ import annotations

import itertools
import re
from ipaddress import IPv4Network

import pytest
from stampworks import catalog, planning
from stampworks.catalog import UNKNOWN
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, from_json, to_json
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text

from tests.planning.clouds import LUSTRE, MACHINES, declared, found, gpu, on_aws, planned, refusal

AMLFS = {"name": "scratch", "kind": "azure-managed-lustre", "tier": "AMLFS-Durable-Premium", "mount": "/scratch"}


@pytest.mark.parametrize("cloud", [name for name, choices in CLOUDS.items() if choices.subnets])
def test_subnets_lie_apart_and_have_room(cloud: str) -> None:
    """Subnets lie in the cluster's range, each with the cloud's reserved and the needed addresses."""
    for machine in (each for each in MACHINES if each.cloud == cloud):
        plan = planned(declared(machine))
        networks = [IPv4Network(subnet.cidr) for subnet in plan.network.subnets]
        assert all(network.subnet_of(IPv4Network(plan.network.cidr)) for network in networks)
        assert not any(a.overlaps(b) for a, b in itertools.combinations(networks, 2))
        assert all(subnet.room is None or subnet.room >= 0 for subnet in plan.network.subnets)
        with_addresses = [rail for rail in plan.fabric.rails if rail.cidr]
        nic = catalog.nic_of(machine)
        assert len(with_addresses) == (len(plan.fabric.rails) if nic and nic.own_subnet else 0)


def test_a_managed_database_has_a_subnet_in_another_zone() -> None:
    """The head runs no database then; on other clouds the field is refused."""
    managed = {"scheduler": {"accounting": True, "database": "managed"}}
    plan = on_aws(gpu(), **managed)
    subnets = {each.name: each for each in plan.network.subnets}
    assert [*subnets] == ["nodes", "storage", "database", "egress"]
    assert (subnets["database"].needed, subnets["database"].public) == (1, False)
    assert "database" not in dict(plan.release.packages)
    with pytest.raises(DeclarationError, match="google has no managed database for the accounting here"):
        planned(declared(catalog.machines()["a3-ultragpu-8g"]) | managed)


def test_certificates_of_a_database_need_egress() -> None:
    managed = {"scheduler": {"accounting": True, "database": "managed"}}
    assert not found(on_aws(gpu(), **managed), "scheduler.database")
    assert not found(on_aws(gpu(), network={"egress": "none"}), "scheduler.database")
    [finding] = found(on_aws(gpu(), network={"egress": "none"}, **managed), "scheduler.database")
    assert (finding.outcome, finding.place) == ("unknown", "scheduler.database")
    assert (finding.text, finding.hint) == (
        "whether slurmdbd can verify its database: the certificates of the authority are published where no node "
        "can fetch them",
        "have a role of your own write /etc/slurm/database-authorities.pem, or write egress: nat",
    )


@pytest.mark.parametrize(
    ("cidr", "more", "left", "enough"),
    [
        ("10.40.0.0/27", {}, "/29 for each of storage, egress", "10.40.0.0/26"),
        ("10.40.0.0/26", {"database": "managed"}, "/29 for each of storage, database", "10.40.0.0/25"),
        ("10.40.0.0/27", {"database": "managed"}, "/30 for each of storage, database", "10.40.0.0/25"),
    ],
)
def test_subnets_that_share_a_range_are_not_too_small(cidr: str, more: dict[str, str], left: str, enough: str) -> None:
    """AWS refuses subnets smaller than a /28 in the middle of an `up`."""
    scheduler = {"accounting": True, **more}
    with pytest.raises(DeclarationError) as refused:
        on_aws(gpu(count=2), network={"cidr": cidr}, scheduler=scheduler)
    assert (
        f"network.cidr: {cidr} is too small: it leaves a {left}, and the cloud has no subnet smaller than a /28\n"
        f"  hint: the smallest range that suffices is a {enough[-3:]}, for example {enough}\n" in str(refused.value)
    )
    on_aws(gpu(count=2), network={"cidr": enough}, scheduler=scheduler)


def test_addresses_of_a_node() -> None:
    """An EFA-only interface takes no address; Google's rails have a subnet each, with an address for each node."""
    plan = on_aws(gpu())
    nodes, storage, egress = plan.network.subnets
    assert (nodes.name, nodes.reserved, nodes.needed, nodes.size) == ("nodes", 5, 17, 32768)
    assert (storage.name, storage.public, egress.name, egress.public) == ("storage", False, "egress", True)
    assert found(plan, "addresses.room")[0].text == (
        "pool gpu can grow by 32746 nodes, then subnet nodes is full: 32768 addresses, 5 kept by the cloud, 17 needed "
        "now, 1 address a node"
    )
    google = planned(declared(catalog.machines()["a3-ultragpu-8g"]))
    rails = [subnet for subnet in google.network.subnets if subnet.name.startswith("rail")]
    assert [subnet.needed for subnet in rails] == [16] * 8
    assert [(each.name, each.needed) for each in google.network.subnets if each not in rails] == [
        ("nodes", 17),  # including the head
        ("storage", 0),
        ("nic1", 16),  # the second gVNIC is in another network of Google's
    ]
    assert "subnet nic1 is full" not in found(google, "addresses.room")[0].text
    assert "17 needed now, 1 address a node" in found(google, "addresses.room")[0].text
    assert {subnet.reserved for subnet in rails} == {4}


@pytest.mark.parametrize("machine", ["a3-ultragpu-8g", "a3-megagpu-8g", "p5", "BM.GPU.H100.8", "ND96isr_H100_v5"])
def test_each_subnet_has_its_own_terms(machine: str) -> None:
    """The need of a subnet is the sum in its reason, without those of other subnets."""
    plan = planned(declared(catalog.machines()[machine]))
    why = {each.path: each.why for each in plan.reasons}
    for subnet in plan.network.subnets:
        said = why.get(f"network.subnets.{subnet.name}.needed", " = 0")
        terms = re.findall(r"(\d+) x (\d+) \(\w+\)", said)
        assert sum(int(count) * int(each) for count, each in terms) == subnet.needed, said
        assert said.endswith(f" = {subnet.needed}")


def test_a_pool_that_takes_nothing_of_a_rails_subnet() -> None:
    """Its growth fills only the subnet of nodes, whatever the rails of another pool take."""
    pools = [{"name": name, "machine": name, "count": 2} for name in ("a2-highgpu-8g", "a3-highgpu-8g")]
    plan = planned({"version": 1, "name": "test", "cloud": "google", "region": "a-region", "pools": pools})
    assert [each.subject for each in found(plan, "addresses.room")] == ["a2-highgpu-8g", "a3-highgpu-8g"]
    assert "then subnet nodes is full" in found(plan, "addresses.room")[0].text


def test_a_range_that_is_too_small() -> None:
    """The smallest that would do is named, with the cloud's own rule."""
    text = refusal(network={"cidr": "10.0.0.0/27"})
    assert "network.cidr: 10.0.0.0/27 is too small: cut into 2 subnets (nodes, storage) it leaves 11 addresses" in text
    assert "nodes needs 17; AWS keeps the first four addresses of a subnet and the last one" in text
    assert "hint: the smallest range that suffices is a /26, for example 10.0.0.0/26" in text
    assert on_aws(gpu(), network={"cidr": "10.0.0.0/26"}).network.subnets[0].room == 10


def test_more_than_a_network_of_the_cloud_holds() -> None:
    """No range suffices."""
    pools = [{"name": f"p{number}", "machine": "p5", "count": 4096} for number in range(16)]
    with pytest.raises(DeclarationError, match="the cloud has no network larger than a /16"):
        on_aws(*pools)


def test_nodes_share_a_subnet_and_it_is_in_one_zone() -> None:
    """This includes a pool on no fabric; without a second zone no finding appears."""
    cpu = {"name": "cpu", "machine": "m7i", "count": 2, "zone": "us-east-1b"}
    [finding] = found(on_aws(gpu(), cpu), "placement.subnet")
    assert (finding.verdict, finding.place) == ("fail", "pools[1].zone")
    assert finding.text == (
        "pool cpu is declared in us-east-1b, but the subnet of nodes is in us-east-1a, the zone of the first "
        "pool, and a subnet is in one zone"
    )
    assert not found(on_aws(gpu(), {**cpu, "zone": "us-east-1a"}), "placement.subnet")


def test_a_range_that_no_network_of_the_cloud_is_as_large_as() -> None:
    """The problem suggests a valid part of the range."""
    text = refusal(network={"cidr": "10.0.0.0/8"})
    assert "10.0.0.0/8 is larger than a network of this cloud can be, which is a /16" in text
    assert "write a part of it, for example 10.0.0.0/16" in text


def test_how_far_a_pool_grows_where_the_plan_numbers_nodes() -> None:
    """The plan works for exactly this many nodes; the last slot holds fewer."""
    pools = [{"name": f"p{index}", "machine": "dgx-h100", "count": 1} for index in range(15)]
    cidr = {"cidr": "10.0.0.0/21"}  # 2 networks of 1024 addresses, 16 slots of 64
    data = {"version": 1, "name": "test", "cloud": "hosts", "network": cidr, "pools": pools}
    told = [each.text for each in found(planning.plan(load_value(data, "test")), "addresses.room")]
    assert [text.split(",")[0] for text in told[:1] + told[-1:]] == [
        "pool p0 can grow by 63 nodes",
        "pool p14 can grow by 61 nodes",
    ]
    for index, most in ((0, 64), (14, 62)):
        for count in (most, most + 1):
            grown = [{**pool, "count": count if pool["name"] == f"p{index}" else 1} for pool in pools]
            if count == most:
                planning.plan(load_value({**data, "pools": grown}, "test"))
            else:
                with pytest.raises(DeclarationError, match="too small"):
                    planning.plan(load_value({**data, "pools": grown}, "test"))


def on_azure(capacity: int, cidr: str, rate: int = 500) -> Plan:
    pool = {"name": "gpu", "machine": "ND96isr_H100_v5", "count": 4}
    storage = [AMLFS | {"mbps_per_tib": rate, "capacity": capacity}]
    places = {"cloud": "azure", "region": "eastus", "network": {"cidr": cidr}}
    return planned({"version": 1, "name": "test", "pools": [pool], "storage": storage, **places})


@pytest.mark.parametrize(("capacity", "cidr", "smaller"), [(16384, "/26", "/27"), (131072, "/23", "/24")])
def test_a_subnet_has_room_for_its_file_system(capacity: int, cidr: str, smaller: str) -> None:
    """The vendor's table decides: the largest insufficient range is refused with a sufficient one."""
    plan = on_azure(capacity, f"10.20.0.0{cidr}")
    needed = {each.name: each.needed for each in plan.network.subnets}
    assert needed["storage"] == {16384: 27, 131072: 251}[capacity]
    with pytest.raises(DeclarationError) as refused:
        on_azure(capacity, f"10.20.0.0{smaller}")
    assert f"in each, and storage needs {needed['storage']}; Azure keeps" in str(refused.value)
    assert f"the smallest range that suffices is a {cidr}" in str(refused.value)


def test_addresses_of_a_file_system_are_unknown() -> None:
    """The need is unknown, not zero, and a rule says so for a small subnet."""
    storage = [LUSTRE | {"mbps_per_tib": 500}]
    for cidr, findings in (("10.0.0.0/23", 1), ("10.0.0.0/16", 0)):
        plan = on_aws(gpu(), storage=storage, network={"cidr": cidr})
        subnet = plan.network.subnets[1]
        assert (subnet.name, subnet.needed, subnet.room) == ("storage", None, None)
        assert [each.verdict for each in found(plan, "addresses.storage")] == ["unknown"] * findings
        row = next(line for line in plan_text(plan, cost(plan), ()).splitlines() if line.startswith("  storage "))
        assert row.split()[-2:] == ["unknown", "unknown"]
        assert from_json(Plan, to_json(plan)) == plan
    assert on_aws(gpu()).network.subnets[1].needed == 0


def test_addresses_of_a_file_system_by_its_capacity() -> None:
    """Each end of each row is tested; above the last row the need is unknown."""
    azure = catalog.file_system_subnets()["azure-managed-lustre"]
    assert [azure.addresses(tib * 1024, 5) for tib in (4, 16, 20, 40, 44, 92, 96, 196, 200, 400)] == [
        each for size in (32, 64, 128, 256, 512) for each in (size - 5, size - 5)
    ]
    assert azure.addresses(404 * 1024, 5) is UNKNOWN
    assert catalog.file_system_subnets()["oracle-managed-lustre"].addresses(31_200, 3) == 19  # 60 a 100 TB
