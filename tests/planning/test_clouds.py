"""Plans for clouds that nothing can be stamped on yet: each decides what is its own, and unknown stays unknown."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType
from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.catalog import UNKNOWN
from stampworks.declaration import DeclarationError, Pool, load_value
from stampworks.plan import Plan, Purchase, fingerprint, from_json, to_json
from stampworks.planning import Facts, Finding
from stampworks.planning.changes import Side, review
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import cost
from stampworks.schedulers import topology
from stampworks.schedulers.topology import slurm
from stampworks.views.plan import plan_text

from tests.planning.places import REGIONS

MACHINES = [machine for machine in catalog.machines().values() if machine.accelerators]


def count(machine: catalog.Machine) -> int:
    """As many as can be declared: 16 where they are joined, or nobody says that they are not."""
    joined = machine.nvlink_nodes if isinstance(machine.nvlink_nodes, int) else 1
    return 16 if machine.nics != 0 or joined >= 16 else joined


def declared(machine: catalog.Machine, **fields: Any) -> dict[str, Any]:
    region = {"region": REGIONS[machine.cloud]} if CLOUDS[machine.cloud].regions else {}
    pools = [{"name": "gpu", "machine": machine.name, "count": count(machine)}]
    return {"version": 1, "name": "test", "cloud": machine.cloud, "pools": pools, **region, **fields}


def planned(data: dict[str, Any]) -> Plan:
    return planning.plan(load_value(data, "test"))


HOSTS = {"name": "gpu"}


def on_aws(*pools: dict[str, Any], **fields: Any) -> Plan:
    return planned({"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools, **fields})


def gpu(**fields: Any) -> dict[str, Any]:
    return {"name": "gpu", "machine": "p5", "count": 16, "zone": "us-east-1a", **fields}


def found(plan: Plan, rule: str, facts: Facts | None = None) -> list[Finding]:
    return [finding for finding in planning.rules(plan, facts) if finding.id == rule]


def refusal(**fields: Any) -> str:
    with pytest.raises(DeclarationError) as error:
        on_aws(fields.pop("pool", gpu()), **fields)
    return str(error.value)


def test_every_cloud_has_a_machine_for_the_controller() -> None:
    """That the catalog has."""
    assert all(choices.controller_machine in catalog.machines() for choices in CLOUDS.values())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_machine_can_be_planned(machine: catalog.Machine) -> None:
    """With all that is known of it; the plan survives being written, and what is not known is said."""
    plan = planned(declared(machine))
    assert from_json(Plan, to_json(plan)) == plan
    [pool] = plan.pools
    nics = None if machine.nics is catalog.UNKNOWN else machine.nics
    assert (pool.count, pool.machine.name, pool.rails) == (count(machine), machine.name, nics)
    known = not isinstance(machine.nic_rate_gbps, catalog.Unknown)
    if not machine.simulated and nics:
        rails = plan.fabric.rails
        assert len(rails) == (nics if known or plan.pools[0].nodes else 0)
        assert {rail.rate_mbps for rail in rails} <= {1000 * int(str(machine.nic_rate_gbps)) if known else 0}


@pytest.mark.parametrize("cloud", [name for name, choices in CLOUDS.items() if choices.subnets])
def test_subnets_lie_apart_and_have_room(cloud: str) -> None:
    """In the cluster's range, each with what the cloud keeps and what is needed."""
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
    """And no role on the head; a cloud that runs none is refused at the declared field."""
    managed = {"scheduler": {"accounting": True, "database": "managed"}}
    plan = on_aws(gpu(), **managed)
    subnets = {each.name: each for each in plan.network.subnets}
    assert [*subnets] == ["nodes", "storage", "database", "egress"]
    assert (subnets["database"].needed, subnets["database"].public) == (1, False)
    assert "database" not in dict(plan.release.packages)
    with pytest.raises(DeclarationError, match="nothing on google runs a database for the accounting"):
        planned(declared(catalog.machines()["a3-ultragpu-8g"]) | managed)


@pytest.mark.parametrize(
    ("cidr", "more", "left", "enough"),
    [
        ("10.40.0.0/27", {}, "/29 for each of storage, egress", "10.40.0.0/26"),
        ("10.40.0.0/26", {"database": "managed"}, "/29 for each of storage, database", "10.40.0.0/25"),
        ("10.40.0.0/27", {"database": "managed"}, "/30 for each of storage, database", "10.40.0.0/25"),
    ],
)
def test_subnets_that_share_a_range_are_not_too_small(cidr: str, more: dict[str, str], left: str, enough: str) -> None:
    """AWS takes none smaller than a /28, and would say so in the middle of an `up`."""
    scheduler = {"accounting": True, **more}
    with pytest.raises(DeclarationError) as refused:
        on_aws(gpu(count=2), network={"cidr": cidr}, scheduler=scheduler)
    assert (
        f"network.cidr: {cidr} is too small: it leaves a {left}, and the cloud has no subnet smaller than a /28\n"
        f"  hint: the smallest range that would do is a {enough[-3:]}, for example {enough}\n" in str(refused.value)
    )
    on_aws(gpu(count=2), network={"cidr": enough}, scheduler=scheduler)


def test_what_a_node_takes_of_its_subnet() -> None:
    """An EFA-only interface takes no address, Google's rails each have a subnet with one a node."""
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
        ("nodes", 17),  # with the head
        ("storage", 0),
        ("nic1", 16),  # the second gVNIC is in another network of Google's
    ]
    assert "subnet nic1 is full" not in found(google, "addresses.room")[0].text
    assert "17 needed now, 1 address a node" in found(google, "addresses.room")[0].text
    assert {subnet.reserved for subnet in rails} == {4}


@pytest.mark.parametrize("machine", ["a3-ultragpu-8g", "a3-megagpu-8g", "p5", "BM.GPU.H100.8", "ND96isr_H100_v5"])
def test_each_subnet_has_its_own_terms(machine: str) -> None:
    """What is needed of a subnet is the sum that is given as its reason, and nothing of another one."""
    plan = planned(declared(catalog.machines()[machine]))
    why = {each.path: each.why for each in plan.reasons}
    for subnet in plan.network.subnets:
        said = why.get(f"network.subnets.{subnet.name}.needed", " = 0")
        terms = re.findall(r"(\d+) x (\d+) \(\w+\)", said)
        assert sum(int(count) * int(each) for count, each in terms) == subnet.needed, said
        assert said.endswith(f" = {subnet.needed}")


def test_a_pool_that_takes_nothing_of_a_rails_subnet() -> None:
    """Its growth fills the subnet of nodes only, whatever the rails of another pool take."""
    pools = [{"name": name, "machine": name, "count": 2} for name in ("a2-highgpu-8g", "a3-highgpu-8g")]
    plan = planned({"version": 1, "name": "test", "cloud": "google", "region": "a-region", "pools": pools})
    assert [each.subject for each in found(plan, "addresses.room")] == ["a2-highgpu-8g", "a3-highgpu-8g"]
    assert "then subnet nodes is full" in found(plan, "addresses.room")[0].text


def test_a_range_that_is_too_small() -> None:
    """The smallest that would do is named, with the cloud's own rule."""
    text = refusal(network={"cidr": "10.0.0.0/27"})
    assert "network.cidr: 10.0.0.0/27 is too small: cut into 2 subnets (nodes, storage) it leaves 11 addresses" in text
    assert "nodes needs 17; AWS keeps the first four addresses of a subnet and the last one" in text
    assert "hint: the smallest range that would do is a /26, for example 10.0.0.0/26" in text
    assert on_aws(gpu(), network={"cidr": "10.0.0.0/26"}).network.subnets[0].room == 10


def test_more_than_a_network_of_the_cloud_holds() -> None:
    """No range helps then."""
    pools = [{"name": f"p{number}", "machine": "p5", "count": 4096} for number in range(16)]
    with pytest.raises(DeclarationError, match="the cloud has no network larger than a /16"):
        on_aws(*pools)


def test_what_a_cloud_needs_and_does_not_let_choose() -> None:
    """All of it at once, each where it is written."""
    data = {
        "version": 1,
        "name": "test",
        "cloud": "aws",
        "pools": [gpu(purchase="owned", reservation="cr-1")],
        "fabric": {"kind": "infiniband", "rail_rate_mbps": 400, "oversubscription": 2, "leaf_nodes": 4},
    }
    with pytest.raises(DeclarationError) as error:
        planned(data)
    said = {problem.path: problem.message for problem in error.value.problems}
    assert said == {
        "region": "is missing: on aws a cluster is in one region",
        "pools[0].purchase": "machines of aws are not bought as owned",
        "pools[0].reservation": "pool gpu is owned, which takes no capacity that was bought before",
        "fabric.kind": "the NICs of p5 speak efa, not infiniband",
        "fabric.rail_rate_mbps": "the rails of p5 have the rate of its NICs, 100 Gb/s",
        "fabric.leaf_nodes": "the fabric is aws's own, and nobody chooses that",
        "fabric.oversubscription": "the fabric is aws's own, and nobody chooses that",
    }


def test_a_kind_of_fabric_without_any_nic_on_one() -> None:
    """What is missing is said, and not another kind."""
    with pytest.raises(DeclarationError, match="no pool's machine has a NIC on the fabric, and efa needs one\n"):
        on_aws({"name": "gpu", "machine": "m7i", "count": 2}, fabric={"kind": "efa"})


def test_blocks_are_leaves_or_nvlink_domains() -> None:
    """Where the cloud keeps its leaves to itself, only nodes that share NVLink are a block."""
    assert "a p5 shares its NVLink with no other node" in refusal(scheduler={"topology": "block"})
    racks = on_aws({"name": "gpu", "machine": "p6e-gb200", "count": 36}, scheduler={"topology": "block"})
    domain = catalog.machines()["p6e-gb200"].nvlink_nodes
    assert racks.scheduler.block_nodes == domain
    text = refusal(pool={"name": "gpu", "machine": "p6e-gb200", "count": 35}, scheduler={"topology": "block"})
    assert "35 nodes fill" in text


def test_purchase_counts_and_place_does_not() -> None:
    """Two clusters in two regions can be siblings; one of spot machines and one of reserved ones cannot."""
    base = fingerprint(on_aws(gpu()))
    assert fingerprint(on_aws(gpu(purchase="spot"))) != base
    elsewhere = {"version": 1, "name": "test", "cloud": "aws", "region": "eu-west-1", "pools": [gpu(zone="eu-west-1b")]}
    assert fingerprint(planned(elsewhere)) == base


@pytest.mark.parametrize(
    ("others", "verdict"), [({"zone": "us-east-1b"}, "fail"), ({}, "unknown"), ({"zone": "us-east-1a"}, "pass")]
)
def test_a_fabric_ends_with_its_zone(others: dict[str, Any], verdict: str) -> None:
    """Pools apart fail, a pool that names none cannot be judged; the head stands where the first pool does."""
    plan = on_aws(gpu(), {"name": "more", "machine": "p5", "count": 2, **others})
    [finding] = found(plan, "placement.zones")
    assert (finding.verdict, finding.severity) == (verdict, "error")
    assert plan.controller.zone == "us-east-1a"


def test_nodes_share_a_subnet_and_it_is_in_one_zone() -> None:
    """Also those of a pool that is on no fabric; where all pools are in one zone, nothing is said."""
    cpu = {"name": "cpu", "machine": "m7i", "count": 2, "zone": "us-east-1b"}
    [finding] = found(on_aws(gpu(), cpu), "placement.subnet")
    assert (finding.verdict, finding.place) == ("fail", "pools[1].zone")
    assert finding.text == (
        "pool cpu is to be in us-east-1b, and the subnet of nodes is in us-east-1a, as the first pool is: no subnet is "
        "in two zones"
    )
    assert not found(on_aws(gpu(), {**cpu, "zone": "us-east-1a"}), "placement.subnet")


def test_a_block_without_a_name_and_spot_without_storage() -> None:
    """The first cannot start, or starts elsewhere; the second is a warning: it works until it does not."""
    for purchase, what in (("block", "a block of capacity"), ("reserved", "capacity that was reserved")):
        [unnamed] = found(on_aws(gpu(purchase=purchase)), f"purchase.{purchase}")
        assert (unnamed.verdict, unnamed.place, unnamed.severity) == ("fail", "pools[0].purchase", "error")
        assert unnamed.text == f"pool gpu is to start in {what}, and which one is not written"
        assert not found(on_aws(gpu(purchase=purchase, reservation="cr-1")), f"purchase.{purchase}")
    idle = {"name": "idle", "machine": "p5", "count": 4, "scheduling_only": True}
    [second] = found(on_aws(idle, gpu(purchase="block")), "purchase.block")
    assert second.place == "pools[1].purchase"
    [spot] = found(on_aws(gpu(purchase="spot")), "purchase.spot")
    assert (spot.verdict, spot.severity) == ("fail", "warning")


def test_pools_with_different_nics() -> None:
    """They are told, for a job over both would crawl."""
    [finding] = found(on_aws(gpu(), {"name": "old", "machine": "p4d", "count": 2}), "fabric.mixed")
    assert (finding.verdict, finding.severity) == ("fail", "warning")
    assert "gpu has 32 x 100 Gb/s of efa, old has 4 x 100 Gb/s of efa" in finding.text
    assert not found(on_aws(gpu(), gpu(name="more")), "fabric.mixed")


def test_expectations_come_from_the_links_of_the_machine() -> None:
    """One node by NVLink, all of them by their NICs, both with a floor; nothing where a fact is missing."""
    numbers = {each.name: each.value for each in on_aws(gpu()).expectations}
    assert numbers["gpu.node.allreduce_busbw_gbs_max"] == 495
    assert numbers["gpu.allreduce_busbw_gbs_max"] == 419.1
    assert numbers["gpu.allreduce_busbw_gbs_min"] == 200
    single = {each.name for each in on_aws(gpu(count=1)).expectations}
    assert "gpu.allreduce_busbw_gbs_max" not in single


def test_a_cluster_of_hosts_is_numbered_and_designed() -> None:
    """Machines that are there already have names, addresses and leaves, as on the local cloud."""
    plan = planned(declared(catalog.machines()["dgx-h100"], fabric={"oversubscription": 2, "leaf_nodes": 8}))
    [pool] = plan.pools
    assert (pool.nodes[0].name, pool.nodes[8].leaf, len(pool.nodes[0].rail_addresses)) == ("gpu-001", "leaf1-2", 8)
    assert (plan.fabric.kind, plan.fabric.rails[0].rate_mbps) == ("infiniband", 400_000)
    assert plan.fabric.rails[0].trunks[0].rate_mbps == 8 * 400_000 // 2


def test_an_infiniband_port_takes_no_address_of_a_cluster_of_hosts() -> None:
    """The subnet manager numbers it: 300 nodes have room in a range that eight rails would have filled."""
    plan = planned(declared(catalog.machines()["dgx-h100"], pools=[HOSTS | {"machine": "dgx-h100", "count": 300}]))
    [pool] = plan.pools
    assert [rail.cidr for rail in plan.fabric.rails] == [""] * 8
    assert pool.nodes[299].rail_addresses == ("",) * 8
    assert plan.network.management_cidr == "10.77.0.0/17"
    assert [(each.name, each.cidr, each.needed) for each in plan.network.subnets] == [("nic1", "10.77.128.0/17", 300)]
    assert "fabric.rails.cidr" in {reason.path for reason in plan.reasons}
    lines = [line.split() for line in plan_text(plan, cost(plan), ()).splitlines()]
    assert ["nic1", "10.77.128.0/17", "-", "numbered", "as", "management"] in lines
    assert ["rail7", "-", "400", "Gb/s", "none"] in lines


def test_a_port_of_roce_takes_an_address_of_its_rail() -> None:
    """It is routed IP; a node with InfiniBand beside it has none there."""
    pools = [HOSTS | {"machine": "mi300x", "count": 2}, HOSTS | {"name": "ib", "machine": "dgx-h100", "count": 2}]
    plan = planned(declared(catalog.machines()["mi300x"], pools=pools))
    roce, infiniband = plan.pools
    assert all(rail.cidr for rail in plan.fabric.rails)
    assert all(
        IPv4Address(address) in IPv4Network(rail.cidr)
        for rail, address in zip(plan.fabric.rails, roce.nodes[1].rail_addresses, strict=True)
    )
    assert infiniband.nodes[1].rail_addresses == ("",) * 8


@pytest.mark.parametrize("gpus", [16, 1_000, 16_000])
def test_resources_grow_with_pools(gpus: int) -> None:
    """As many groups and subnets for 16 GPUs as for 16,000."""
    plan = on_aws(gpu(count=gpus // 8))
    assert (len(plan.groups), len(plan.network.subnets), len(plan.fabric.rails)) == (2, 3, 32)
    assert len(plan.pools[0].nodes) == gpus // 8


def test_unknown_facts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the catalog lacks makes what follows from it missing, never zero."""
    odd = dataclasses.replace(catalog.machines()["p5"], name="odd", nic_rate_gbps=catalog.UNKNOWN)
    table = {**catalog.machines(), "odd": odd}
    monkeypatch.setattr(catalog, "machines", lambda: table)
    plan = on_aws(gpu(machine="odd"))
    assert plan.fabric.rails == ()
    assert {each.name for each in plan.expectations if each.name.startswith("gpu.all")} == set()
    [finding] = found(plan, "machine.facts")
    assert "does not know of odd: rate of a NIC" in finding.text


LUSTRE = {"name": "scratch", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "capacity": 9600, "mount": "/fsx"}


BUCKET = {"name": "corpus", "kind": "s3", "mount": "/corpus"}


def test_a_bucket_holds_no_runs() -> None:
    """It is refused as the first storage where another one could hold them, and warned of where none could."""
    lustre = {**LUSTRE, "mbps_per_tib": 500}
    text = "runs have their folders on the first storage, and corpus is a bucket: it appends to no file"
    assert not found(on_aws(gpu(), storage=[lustre, BUCKET]), "storage.runs")
    assert not found(on_aws(gpu()), "storage.runs")
    for storage, outcome, hint in (
        ([BUCKET, lustre], "fail", "declare scratch before it"),
        ([BUCKET], "warn", "declare a file system before it; without one `submit` refuses every run"),
    ):
        [finding] = found(on_aws(gpu(), storage=storage), "storage.runs")
        assert (finding.outcome, finding.place, finding.text, finding.hint) == (outcome, "storage[0]", text, hint)


def test_a_file_system_with_its_throughput() -> None:
    """What it delivers is expected, and whether the fleet can write down its memory in time."""
    plan = on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500}])
    numbers = {each.name: each.value for each in plan.expectations}
    assert (numbers["scratch.write_gbs"], numbers["scratch.gpu.client_gbs"]) == (4.8, 12.5)
    assert not found(plan, "storage.zone")


@pytest.mark.parametrize(
    ("capacity", "outcome", "lost"),
    [(2400, "warn", "11.3% to 28.4%"), (9600, "unknown", "5.7% to 14.2%"), (24000, "pass", "3.6% to 9.0%")],
)
def test_what_a_fleet_loses_to_its_storage(capacity: int, outcome: str, lost: str) -> None:
    """At the best interval between checkpoints, by how often fleets fail that were published; a tenth is too much."""
    storage = {**LUSTRE, "mbps_per_tib": 500, "capacity": capacity}
    [fleet] = found(on_aws(gpu(), storage=[storage]), "storage.fleet")
    assert (fleet.outcome, fleet.place) == (outcome, "storage[0]")
    assert fleet.text.startswith("how long 128 accelerators write down their memory to scratch: ")
    assert f"at the best interval that takes, with work done again, {lost} of the time" in fleet.text
    assert fleet.text.endswith("10% is too much")


def test_a_fleet_is_no_faster_than_its_nodes() -> None:
    """Two nodes write at 25 GB/s over TCP, whatever the storage has: 1,374 GB in 55 s."""
    storage = {**LUSTRE, "mbps_per_tib": 1000, "capacity": 96000}
    [fleet] = found(on_aws(gpu(count=2), storage=[storage]), "storage.fleet")
    assert "to scratch: 54.98 s, 1374 GB written at 25 GB/s: 2 x 12.5 GB/s, what a client of Amazon" in fleet.text


def test_what_is_reached_over_efa_by_machines_without() -> None:
    """Those of a pool go over TCP, and where all do nothing is as declared."""
    fast = {**LUSTRE, "mbps_per_tib": 1000, "efa": True}
    assert not found(on_aws(gpu(), storage=[fast]), "storage.efa")
    [none] = found(on_aws(gpu(machine="trn2"), storage=[fast]), "storage.efa")
    assert (none.outcome, none.place, none.subject) == ("fail", "storage[0].efa", "scratch")
    assert none.text == "scratch is to be reached over EFA, which trn2 of pool gpu cannot: over TCP a node reaches less"
    plan = on_aws(gpu(), gpu(name="cpu", machine="m7i"), storage=[fast])
    [some] = found(plan, "storage.efa")
    assert (some.outcome, "m7i of pool cpu cannot" in some.text) == ("warn", True)
    numbers = {each.name: each.value for each in plan.expectations}
    assert (numbers["scratch.gpu.client_gbs"], numbers["scratch.cpu.client_gbs"]) == (87.5, 12.5)


def test_how_many_nics_reach_a_file_system_over_efa() -> None:
    """As AWS gives them by machine, and fewer where all nodes together would have more than a file system takes."""

    def given(*pools: dict[str, Any], **storage: Any) -> list[int]:
        fast = {**LUSTRE, "mbps_per_tib": 1000, "efa": True, **storage}
        plan = on_aws(*pools, storage=[fast], network={"cidr": "10.0.0.0/16"})
        return [group.storage_interfaces for group in plan.groups]

    assert given(gpu(count=2)) == [0, 8]
    assert given(gpu(machine="p4d", count=2)) == [0, 2]
    assert given(gpu(machine="g6", count=2), gpu(name="cpu", machine="m7i", count=1)) == [0, 1, 0]
    assert given(gpu(count=128)) == [0, 8]
    assert given(gpu(count=129)) == [0, 7]
    assert given(gpu(count=100), gpu(name="more", machine="p4d", count=300)) == [0, 2, 2]
    assert given(gpu(count=2), efa=False) == [0, 0]
    plan = on_aws(gpu(count=129), storage=[{**LUSTRE, "mbps_per_tib": 1000, "efa": True}])
    [why] = [each.why for each in plan.reasons if each.path == "groups.gpu.storage_interfaces"]
    assert why == "1024 connections that fsx-lustre takes for 129 nodes, instead of 8 each"


def test_more_nodes_than_a_file_system_takes_over_efa() -> None:
    """It is said, and none of them reaches it so."""
    fast = {**LUSTRE, "mbps_per_tib": 1000, "efa": True}
    plan = on_aws(gpu(count=1025), storage=[fast], network={"cidr": "10.0.0.0/16"})
    [many] = found(plan, "storage.efa")
    assert (many.outcome, many.text) == (
        "warn",
        "scratch takes 1,024 nodes over EFA, and there are 1,025: all reach it over TCP",
    )
    assert [group.storage_interfaces for group in plan.groups] == [0, 0]


def test_a_fleet_of_which_nobody_can_tell() -> None:
    """What is missing is named, and nothing that the question does not need."""
    [fleet] = found(on_aws(gpu(), storage=[{"name": "data", "kind": "s3", "mount": "/data"}]), "storage.fleet")
    assert fleet.outcome == "unknown"
    assert fleet.text.endswith(
        "to data: write throughput of Amazon S3: not published apart from reads, or not known to the catalog"
    )


def test_a_file_system_that_cannot_be() -> None:
    """Each option where it is written, with the nearest that would do."""
    wrong = [{**LUSTRE, "mbps_per_tib": 300}, {**LUSTRE, "name": "b", "mount": "/b", "mbps_per_tib": 500}]
    wrong[1]["capacity"] = 9700
    text = refusal(storage=[*wrong, {"name": "shared", "kind": "directory", "mount": "/shared", "capacity": 5}])
    assert "storage[0].mbps_per_tib: " in text
    assert "storage[1].capacity: " in text
    assert "9600" in text
    assert "storage[2].kind: nodes on aws share no machine that a directory could be on" in text
    assert "storage[2].capacity: a directory has none: it is on whatever disk is there" in text


def test_a_file_system_of_another_cloud() -> None:
    """It is named, as is an unknown one."""
    text = refusal(storage=[{"name": "a", "kind": "azure-managed-lustre", "mount": "/a", "capacity": 16384}])
    assert "storage[0]" in text
    with pytest.raises(
        DeclarationError, match="no file system is called 'fsx-lustr'\n  hint: did you mean 'fsx-lustre'"
    ):
        on_aws(gpu(), storage=[{"name": "a", "kind": "fsx-lustr", "mount": "/a"}])
    with pytest.raises(DeclarationError, match="hint: there are fsx-lustre, efs, fsx-openzfs, s3 on aws; azure-"):
        on_aws(gpu(), storage=[{"name": "a", "kind": "zzz", "mount": "/a"}])


def test_storage_apart_from_the_pools() -> None:
    """It stands in one zone, and pools in two."""
    pools = (gpu(), gpu(name="more", zone="us-east-1b"))
    [zone] = found(on_aws(*pools, storage=[{**LUSTRE, "mbps_per_tib": 500}]), "storage.zone")
    assert (zone.verdict, zone.severity) == ("fail", "warning")


def test_each_option_of_a_file_system_counts() -> None:
    """Siblings have the same file systems."""
    one = on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500}])
    assert fingerprint(on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 250}])) != fingerprint(one)
    assert fingerprint(on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500, "capacity": 12000}])) != fingerprint(one)


@pytest.mark.parametrize("tier", ["$(id)", "PERSISTENT_2 SSD\n", "persistent_2 ssd", "\x1b[2J", "a" * 1000])
def test_a_tier_is_one_of_its_kind(tier: str) -> None:
    """Nothing else gets into a plan, and whoever nearly knew it is told all of them."""
    wrong = "is not a tier|FSx for Lustre has no tier 'persistent_2 ssd'"
    with pytest.raises(DeclarationError, match=rf"storage\[0\].tier: .*({wrong})") as error:
        on_aws(gpu(), storage=[{**LUSTRE, "tier": tier}])
    assert all(line.isprintable() for line in str(error.value).split("\n"))


def test_the_local_cloud_has_directories_only() -> None:
    """Its nodes share the disk of this machine."""
    with pytest.raises(DeclarationError, match="the nodes of local share the disk of one machine"):
        planned(declared(catalog.machines()["sim-h100"], storage=[{"name": "a", "kind": "nfs", "mount": "/a"}]))


def test_hosts_have_leaves_as_their_switches_join_them() -> None:
    """Without a word, a leaf takes half of the ports of the switch that the NICs are built with."""
    plan = planned(declared(catalog.machines()["dgx-h100"]))
    assert plan.fabric.leaf_nodes == 32
    assert planned(declared(catalog.machines()["dgx-b300"])).fabric.leaf_nodes == 72


def of_hosts(machine: str, nodes: int, **fields: Any) -> Plan:
    """So many of a machine on premises, with addresses for a thousand."""
    declaration = declared(catalog.machines()[machine], network={"cidr": "10.0.0.0/12"}, **fields)
    declaration["pools"][0]["count"] = nodes
    return planned(declaration)


def test_expectations_count_the_trunks_of_leaves() -> None:
    """At 4:1 nearly all of an all-to-all leaves its leaf over a quarter of the NICs' rate; the floor stays below."""
    found = {
        thin: {
            each.name: each.value for each in of_hosts("dgx-h100", 1020, fabric={"oversubscription": thin}).expectations
        }
        for thin in (1, 2, 4)
    }
    assert found[1]["gpu.alltoall_busbw_gbs_max"] == 49.54
    assert 24 < found[2]["gpu.alltoall_busbw_gbs_max"] < 27
    assert 12 < found[4]["gpu.alltoall_busbw_gbs_max"] < 13.4
    assert found[4]["gpu.alltoall_busbw_gbs_min"] < 0.4 * 13.4
    assert all(each["gpu.allreduce_busbw_gbs_min"] == 200 for each in found.values())
    assert all(each["gpu.node.alltoall_busbw_gbs_max"] == 445.5 for each in found.values())


def test_leaves_and_trunks_of_hosts_are_those_of_their_switches() -> None:
    """What `stampworks fabric` would refuse is refused, and a trunk has whole links."""
    plan = of_hosts("dgx-h100", 1020, fabric={"oversubscription": 4})
    assert plan.fabric.leaf_nodes == 48
    assert {trunk.rate_mbps for rail in plan.fabric.rails for trunk in rail.trunks} == {12 * 400_000}
    [why] = [reason.why for reason in plan.reasons if reason.path == "fabric.trunks"]
    assert why.startswith("12 uplinks of a leaf with 48 nodes at 4:1 x 400000 Mb/s = 4800000 Mb/s")
    with pytest.raises(DeclarationError) as error:
        of_hosts("dgx-h100", 1020, fabric={"leaf_nodes": 64})
    assert "fabric.leaf_nodes: a unit of 64 nodes takes 64 ports of each leaf, and 64 uplinks" in str(error.value)
    assert "  hint: write 32 or less, or take it out" in str(error.value)


def test_nvlink_domains_are_a_level_within_leaves() -> None:
    """Racks of 18: a leaf takes one, a block is one, and a leaf that would tear them is refused."""
    plan = of_hosts("dgx-gb200", 36, scheduler={"topology": "block"})
    assert (plan.fabric.leaf_nodes, plan.scheduler.block_nodes) == (18, 18)
    placed = topology.of_plan(plan)
    assert placed.levels == ("leaf", "nvlink")
    assert placed.domains(1) == {
        f"nvlink1-{rack + 1}": [f"gpu-{18 * rack + node:03d}" for node in range(1, 19)] for rack in range(2)
    }
    assert slurm.block(placed).endswith("BlockSizes=18\n")
    with pytest.raises(DeclarationError, match="leaves of 20 nodes tear the NVLink domains of pool gpu"):
        of_hosts("dgx-gb200", 36, fabric={"leaf_nodes": 20})


def test_three_tiers_have_spines_as_a_level() -> None:
    """As `stampworks fabric` groups them; where all leaves share their spines there is no such level."""
    placed = topology.of_plan(of_hosts("dgx-h100", 2047))
    assert placed.levels == ("spine", "leaf")
    assert [len(nodes) for nodes in placed.domains(0).values()] == [1024, 1023]
    assert len(placed.domains(1)) == 64
    assert topology.of_plan(of_hosts("dgx-h100", 127)).levels == ("leaf",)


def test_no_rail_joins_infiniband_with_ethernet() -> None:
    """An error; NICs of one kind and different rates are a warning."""
    pools = [{"name": name, "machine": name, "count": 2} for name in ("dgx-h100", "dgx-a100", "mi300x")]

    def mixed(*of: dict[str, Any]) -> Finding:
        declaration = {"version": 1, "name": "test", "cloud": "hosts", "pools": of}
        [finding] = found(planned(declaration), "fabric.mixed")
        return finding

    assert mixed(*pools[:2]).severity == "warning"
    both = mixed(*pools)
    assert (both.verdict, both.severity, both.hint) == ("fail", "error", "declare clusters of their own")
    assert "no rail joins InfiniBand with roce" in both.text


def test_a_checkpoint_takes_as_long_as_its_storage_lets_it() -> None:
    """What the storage of the checkpoints delivers bounds how fast they are written, and how often."""
    model = {"parameters": 70 * 10**9, "tokens": 10**12, "layers": 80, "hidden": 8192, "heads": 64, "sequence": 8192}
    model |= {"vocabulary": 128256, "kv_heads": 8, "ffn": 28672}
    storage = [{**LUSTRE, "mbps_per_tib": 500}]
    plan = on_aws(gpu(), storage=storage, training={"model": model})
    numbers = {each.name: each for each in plan.expectations}
    written = numbers["training.gpu.checkpoint_seconds_min"]
    assert written.value == pytest.approx(numbers["training.checkpoint_gb"].value / 4.8, rel=0.01)
    assert "4.8 GB/s" in written.why
    unknown = {"name": "other", "kind": "vast", "mount": "/other"}
    faster = on_aws(gpu(), storage=[unknown], training={"model": model})
    assert {each.name: each.value for each in faster.expectations}[written.name] < written.value


def test_what_a_file_system_costs() -> None:
    """By capacity where that is all that is billed; unknown where something else is, or nobody has a price."""
    cheap = {**LUSTRE, "tier": "SCRATCH_2", "capacity": 1200}
    charges = {each.what: each for each in cost(on_aws(gpu(), storage=[cheap])).charges}
    found = charges["storage scratch"]
    assert found.usd_per_hour == pytest.approx(1200 * 0.14 / 730, rel=1e-3)
    dear = cost(on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 125, "metadata_iops": 12000}])).charges
    assert [each.usd_per_hour for each in dear if each.what == "storage scratch"] == [None]


@pytest.mark.parametrize(
    ("change", "policy"),
    [
        ({"capacity": 12000}, "in place"),
        ({"capacity": 4800}, "refuse"),
        ({"tier": "PERSISTENT_1 SSD", "mbps_per_tib": 200}, "refuse"),
    ],
)
def test_what_a_change_of_a_file_system_does(change: dict[str, Any], policy: str) -> None:
    """Its vendor's rule counts: one that would be made anew, or cannot be, is refused, for it holds data."""
    base, head = (on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500, **more}]) for more in ({}, change))
    found = review("test", Side("a", base), Side("b", head))
    assert policy in {each.policy for each in found.changes}
    assert all(each.why for each in found.changes if each.policy == "refuse" and each.field.startswith("storage"))


def test_prices_grow_old() -> None:
    """One of this quarter passes, an older one warns, and without a day or a date nobody can tell."""
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
    """All that is added up has an age, which is said once for what is sold to several."""
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
    """Where there are no regions, none is named."""
    fields = {"cloud": "hosts", "pools": [{"name": "gpu", "machine": "dgx-h100", "count": 2}]}
    weka = {"name": "data", "kind": "weka", "capacity": 1000, "mount": "/data"}
    plan = planned({"version": 1, "name": "test", **fields, "storage": [weka]})
    assert [each.why for each in cost(plan).charges if each.what == "storage data"] == ["no price of it is known"]


def test_machines_whose_nics_nobody_describes() -> None:
    """Several of them can be planned; nothing is said of rails, and what follows from them is unknown, not none."""
    plan = planned(declared(catalog.machines()["together-h100"]))
    [finding] = found(plan, "fabric.nics")
    assert (plan.pools[0].count, finding.verdict, finding.subject) == (16, "unknown", "gpu")
    assert finding.text == (
        "whether 16 x together-h100 of pool gpu can train together: nobody says what NICs they have"
    )
    assert (plan.pools[0].rails, plan.fabric.kind, plan.fabric.rails) == (None, "unknown", ())
    assert plan.fabric.met_by(plan.pools[0]) == ()
    why = {each.path: each.why for each in plan.reasons}
    assert why["fabric.rails"] == "none: nobody says what NICs together-h100 has"
    assert why["gpu.allreduce_busbw_gbs"] == "unknown: the catalog does not know what NICs together-h100 has"
    assert not any(each.name.startswith("gpu.allreduce") for each in plan.expectations)
    assert "together-h100: cores, memory, NICs; what follows" in found(plan, "machine.facts")[0].text
    with pytest.raises(DeclarationError, match="what the NICs of together-h100 speak is unknown, not infiniband"):
        planned(declared(catalog.machines()["together-h100"], fabric={"kind": "infiniband"}))


def test_pools_whose_nics_nobody_describes() -> None:
    """Two pools of one node each may or may not have a fabric; one of a single node needs none."""
    pools = [{"name": name, "machine": f"together-{name}", "count": 1} for name in ("h100", "b200")]
    declaration = {"version": 1, "name": "test", "cloud": "together"}
    [finding] = found(planned({**declaration, "pools": pools}), "fabric.mixed")
    assert finding.verdict == "unknown"
    assert finding.text == "whether jobs can share b200, h100: nobody says what NICs b200, h100 have"
    assert not found(planned({**declaration, "pools": pools[:1]}), "fabric.mixed")


def test_a_pool_with_unknown_nics_beside_one_with_rails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rails are those of the other pool; it is not said to be on them."""
    machine = dataclasses.replace(catalog.machines()["gd-8xh100ib-i128"], name="odd", nic=UNKNOWN, nics=UNKNOWN)
    machines = MappingProxyType({**catalog.machines(), "odd": machine})
    monkeypatch.setattr(catalog, "machines", lambda: machines)
    pools = [{"name": name, "machine": name, "count": 2} for name in ("odd", "gd-8xh200ib-i128")]
    plan = planned({"version": 1, "name": "test", "cloud": "coreweave", "pools": pools})
    odd, known = plan.pools
    assert (odd.rails, plan.fabric.met_by(odd), len(plan.fabric.met_by(known))) == (None, (), 8)
    [why] = [each.why for each in plan.reasons if each.path == "fabric.rails"]
    assert why.endswith("has that many NICs on the fabric, and nobody says how many odd has")


def test_accelerators_that_are_joined_without_a_nic() -> None:
    """TPUs train together as far as their own links reach, and no farther."""
    machine = catalog.machines()["ct5lp-hightpu-4t"]
    assert isinstance(machine.nvlink_nodes, int)
    plan = planned(
        {**declared(machine), "pools": [{"name": "a", "machine": machine.name, "count": machine.nvlink_nodes}]}
    )
    assert not found(plan, "fabric.nics")
    too_many = [{"name": "a", "machine": machine.name, "count": machine.nvlink_nodes + 1}]
    with pytest.raises(DeclarationError, match=f"write count: {machine.nvlink_nodes} or less"):
        planned({**declared(machine), "pools": too_many})


def test_rails_go_at_the_pace_of_the_slowest_nic_on_them() -> None:
    """Of the pools that are on a rail; one for scheduling only is on none and takes no address."""
    plan = on_aws({"name": "idle", "machine": "p5en", "count": 4, "scheduling_only": True}, gpu(machine="p4d", count=4))
    assert [rail.rate_mbps for rail in plan.fabric.rails] == [100_000] * 4
    assert plan.network.subnets[0].needed == 5
    hosts = declared(catalog.machines()["dgx-h100"])
    hosts["pools"] = [
        {"name": "old", "machine": "dgx-a100", "count": 2},
        {"name": "new", "machine": "dgx-b300", "count": 2},
    ]
    rails = planned(hosts).fabric.rails
    assert {rail.rate_mbps for rail in rails} == {200_000}


def test_a_range_that_no_network_of_the_cloud_is_as_large_as() -> None:
    """It is refused with a part that can be."""
    text = refusal(network={"cidr": "10.0.0.0/8"})
    assert "10.0.0.0/8 is larger than a network of this cloud can be, which is a /16" in text
    assert "write a part of it, for example 10.0.0.0/16" in text


@pytest.mark.parametrize(("purchase", "machine"), [("block", "p5"), ("spot", "p6-b200")])
def test_limits_that_nobody_knows(purchase: str, machine: str) -> None:
    """Blocks have limits of their own, and what P6 counts against as spot nobody found."""
    plan = on_aws(gpu(purchase=purchase, machine=machine), storage=[{**LUSTRE, "mbps_per_tib": 500}])
    verdicts = {each.subject: each.verdict for each in found(plan, "quota")}
    assert verdicts["gpu"] == "unknown"
    assert "Running On-Demand P instances" not in verdicts


def test_a_zone_that_is_missing_is_none() -> None:
    """Whether the storage is near cannot be told then."""
    pools = (gpu(), {"name": "more", "machine": "p5", "count": 2})
    [finding] = found(on_aws(*pools, storage=[{**LUSTRE, "mbps_per_tib": 500}]), "storage.zone")
    assert finding.verdict == "unknown"


def test_a_file_system_over_efa() -> None:
    """What it needs beside that is chosen by the cloud where nobody says it."""
    plan = on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500, "efa": True, "capacity": 19200}])
    assert {each.name for each in plan.expectations} >= {"scratch.write_gbs"}


@pytest.mark.parametrize("reservation", ["$(id)", "cr-1\n", "a b", "\x1b[2J", "-rf", "a" * 1000])
def test_a_reservation_is_a_plain_name(reservation: str) -> None:
    """Whatever else is written there gets into no plan."""
    with pytest.raises(DeclarationError, match=r"pools\[0\].reservation: .* is not a reservation") as error:
        on_aws(gpu(purchase="block", reservation=reservation))
    assert all(line.isprintable() for line in str(error.value).split("\n"))


@pytest.mark.parametrize(
    ("cloud", "region", "message", "hint"),
    [
        ("aws", "us-east-11", "catalog/regions.yaml has no region 'us-east-11' of aws (botocore 1.44.5, "
         "data/partitions.json, read 2026-11-22)", "did you mean 'us-east-1'?"),
        ("aws", "mars-1", "catalog/regions.yaml has no region 'mars-1' of aws (botocore 1.44.5, "
         "data/partitions.json, read 2026-11-22)", "there are af-south-1, ap-east-1, "),
        ("oracle", "us-ashborn-1", "catalog/regions.yaml has no region 'us-ashborn-1' of oracle (oci 2.189.0, "
         "regions_definitions.py, read 2026-11-22)", "did you mean 'us-ashburn-1'?"),
    ],
)  # fmt: skip
def test_a_region_is_one_of_the_cloud(cloud: str, region: str, message: str, hint: str) -> None:
    """Where its regions are listed, with the list's name, for a region may be newer than that."""
    machine = next(row for row in MACHINES if row.cloud == cloud)
    with pytest.raises(DeclarationError) as error:
        planned(declared(machine, region=region))
    [problem] = error.value.problems
    assert (problem.path, problem.message) == ("region", message)
    assert problem.hint.startswith(hint)
    assert not found(planned(declared(machine)), "placement.region")


@pytest.mark.parametrize("cloud", ["azure", "google", "coreweave"])
def test_a_region_of_a_cloud_whose_regions_nobody_lists(cloud: str) -> None:
    """It may be one; nobody can tell."""
    machine = next(row for row in MACHINES if row.cloud == cloud)
    [finding] = found(planned(declared(machine, region="mars-1")), "placement.region")
    text = f"whether {cloud} has a region mars-1: the catalog has no list of its regions"
    assert (finding.verdict, finding.text) == ("unknown", text)


@pytest.mark.parametrize(
    ("cloud", "machine", "region", "zone"),
    [
        ("aws", "p5", "us-east-2", "eu-west-1a"),
        ("google", "a3-megagpu-8g", "us-east4", "us-east1-a"),
        ("google", "a3-megagpu-8g", "us-east4", "us-east4"),
    ],
)
def test_a_zone_is_one_of_the_region(cloud: str, machine: str, region: str, zone: str) -> None:
    """Where its name says which region it is of."""
    pool = {"name": "gpu", "machine": machine, "count": 2, "zone": zone}
    data = {"version": 1, "name": "test", "cloud": cloud, "region": region, "pools": [pool]}
    with pytest.raises(DeclarationError, match=rf"pools\[0\].zone: {zone} is no zone of {region}, where the"):
        planning.plan(load_value(data, "test"))


def test_how_far_a_pool_grows_where_the_plan_numbers_nodes() -> None:
    """As far as is planned without a problem, and not one node further; the last slot has less."""
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


def test_ways_to_buy_agree() -> None:
    """Three rooms say them, none of which may import another: prices tell for how long something is reserved."""
    planned = {*typing.get_args(Purchase)}
    assert {*typing.get_args(Pool.model_fields["purchase"].annotation)} == {"", *planned}
    priced = {re.sub("-[13]y$", "", way) for way in typing.get_args(catalog.Purchase)}
    assert {*priced, "owned"} == planned
    assert {way for choices in CLOUDS.values() for way in choices.purchases} == planned


AMLFS = {"name": "scratch", "kind": "azure-managed-lustre", "tier": "AMLFS-Durable-Premium", "mount": "/scratch"}


def on_azure(capacity: int, cidr: str, rate: int = 500) -> Plan:
    pool = {"name": "gpu", "machine": "ND96isr_H100_v5", "count": 4}
    storage = [AMLFS | {"mbps_per_tib": rate, "capacity": capacity}]
    places = {"cloud": "azure", "region": "eastus", "network": {"cidr": cidr}}
    return planned({"version": 1, "name": "test", "pools": [pool], "storage": storage, **places})


@pytest.mark.parametrize(("capacity", "cidr", "smaller"), [(16384, "/26", "/27"), (131072, "/23", "/24")])
def test_a_subnet_has_room_for_its_file_system(capacity: int, cidr: str, smaller: str) -> None:
    """By its vendor's table, the largest that would not do being refused with one that does."""
    plan = on_azure(capacity, f"10.20.0.0{cidr}")
    needed = {each.name: each.needed for each in plan.network.subnets}
    assert needed["storage"] == {16384: 27, 131072: 251}[capacity]
    with pytest.raises(DeclarationError) as refused:
        on_azure(capacity, f"10.20.0.0{smaller}")
    assert f"in each, and storage needs {needed['storage']}; Azure keeps" in str(refused.value)
    assert f"the smallest range that would do is a {cidr}" in str(refused.value)


def test_nobody_says_what_a_file_system_takes_of_its_subnet() -> None:
    """Then it is unknown and not nothing, and a rule says so where the subnet is small."""
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
    """At each end of each row of the table; above it nobody says."""
    azure = catalog.file_system_subnets()["azure-managed-lustre"]
    assert [azure.addresses(tib * 1024, 5) for tib in (4, 16, 20, 40, 44, 92, 96, 196, 200, 400)] == [
        each for size in (32, 64, 128, 256, 512) for each in (size - 5, size - 5)
    ]
    assert azure.addresses(404 * 1024, 5) is UNKNOWN
    assert catalog.file_system_subnets()["oracle-managed-lustre"].addresses(31_200, 3) == 19  # 60 a 100 TB


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
    """Slices of TPUs and racks; where nobody says it of a rack, it is unknown."""
    pools = [{"name": "gpu", "machine": machine, "count": count}]
    plan = planned(declared(catalog.machines()[machine], pools=pools))
    shape = next(each for each in found(plan, "machine.shape") if each.place == "pools[0].count")
    assert (shape.verdict, shape.hint) == (verdict, hint)
    assert f"{count} nodes of {machine} in pool gpu" in shape.text


@pytest.mark.parametrize(("purchase", "verdicts"), [("on-demand", ["pass", "fail"]), ("block", ["pass"])])
def test_an_ultraserver_is_sold_in_blocks_only(purchase: str, verdicts: list[str]) -> None:
    """Whatever else the cloud sells."""
    pool = {"name": "gpu", "machine": "p6e-gb200", "count": 18, "purchase": purchase}
    pool |= {"reservation": "cr-0123456789abcdef0"} if purchase == "block" else {}
    plan = planned(declared(catalog.machines()["p6e-gb200"], pools=[pool]))
    findings = found(plan, "machine.shape")
    assert [each.verdict for each in findings] == verdicts
    assert [each.hint for each in findings[1:]] == ["write purchase: block"] * (len(verdicts) - 1)


def test_machines_in_any_number_say_nothing_of_it() -> None:
    """Neither do whole racks."""
    assert found(on_aws(gpu(count=3)), "machine.shape") == []
    azure = catalog.machines()["ND128isr_GB300_v6"]
    whole = planned(declared(azure, pools=[{"name": "gpu", "machine": azure.name, "count": 36}]))
    assert found(whole, "machine.shape") == []


@pytest.mark.parametrize(
    ("machine", "count", "verdicts"),
    [
        ("ND96isr_H100_v5", 100, []),
        ("ND96isr_H100_v5", 101, ["unknown"]),
        ("ND96isr_H100_v5", 1001, ["fail"]),
        ("a3-megagpu-8g", 2000, []),
        ("a3-megagpu-8g", 2001, ["fail"]),
        ("p5", 1000, []),
        ("p5", 1001, ["unknown"]),
        ("dgx-h100", 1001, []),
    ],
)
def test_a_group_takes_so_many_nodes(machine: str, count: int, verdicts: list[str]) -> None:
    """Where its cloud says how many; on one fabric it may be less, and where nobody made the group there is none."""
    row = catalog.machines()[machine]
    pools = [{"name": "gpu", "machine": machine, "count": count}]
    cidr = {"cidr": "10.0.0.0/16" if row.cloud == "aws" else "10.0.0.0/10"}
    findings = found(planned(declared(row, pools=pools, network=cidr)), "group.size")
    assert [each.verdict for each in findings] == verdicts
    assert all(f"{count} nodes of pool gpu" in each.text and each.hint for each in findings)


@pytest.mark.parametrize(
    ("cloud", "head", "purchase"), [("nebius", "cpu-d3", "on-demand"), ("lambda", "server", "owned")]
)
def test_the_head_where_machines_are_rented(cloud: str, head: str, purchase: str) -> None:
    """What is sold there, or a machine of one's own: it is no unknown price that nobody will ever send."""
    machine = next(each for each in MACHINES if each.cloud == cloud)
    plan = planned(declared(machine))
    assert (plan.controller.machine.name, plan.controller.purchase) == (head, purchase)
    charge = next(each for each in cost(plan).charges if each.what == "head")
    assert charge.sold is (purchase != "owned")


@pytest.mark.parametrize("machine", ["ct5p-hightpu-4t", "trn2", "mi300x", "p6-b300"])
def test_a_release_without_a_driver_says_so(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every real accelerator; with one it passes."""
    plan = planned(declared(catalog.machines()[machine]))
    [finding] = found(plan, "release.accelerator")
    name = plan.pools[0].machine.accelerator
    assert (finding.verdict, finding.place) == ("unknown", "pools[0].machine")
    assert f"have a driver for {name}: release {plan.release.name} has none" in finding.text
    row = catalog.releases()[plan.release.name]
    having = {row.name: dataclasses.replace(row, accelerators=(name,))}
    monkeypatch.setattr(catalog, "releases", lambda: having)
    assert [each.verdict for each in found(planned(declared(catalog.machines()[machine])), "release.accelerator")] == [
        "pass"
    ]
