"""The fabric of a plan: rails, leaves and NVLink domains, and expected rates."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType
from typing import Any

import pytest
from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.declaration import DeclarationError
from stampworks.plan import Plan
from stampworks.planning import Finding
from stampworks.planning.cost import cost
from stampworks.schedulers import topology
from stampworks.schedulers.topology import slurm
from stampworks.views.plan import plan_text

from tests.planning.clouds import declared, found, gpu, on_aws, planned, refusal

HOSTS = {"name": "gpu"}


def test_a_kind_of_fabric_without_any_nic_on_one() -> None:
    """The missing part is named, and no other kind is offered."""
    with pytest.raises(DeclarationError, match="no pool's machine has a NIC on the fabric, and efa needs one\n"):
        on_aws({"name": "gpu", "machine": "m7i", "count": 2}, fabric={"kind": "efa"})


def test_blocks_are_leaves_or_nvlink_domains() -> None:
    """On clouds that hide their leaves, only nodes that share NVLink form a block."""
    assert "a p5 shares its NVLink with no other node" in refusal(scheduler={"topology": "block"})
    racks = on_aws({"name": "gpu", "machine": "p6e-gb200", "count": 36}, scheduler={"topology": "block"})
    domain = catalog.machines()["p6e-gb200"].nvlink_nodes
    assert racks.scheduler.block_nodes == domain
    text = refusal(pool={"name": "gpu", "machine": "p6e-gb200", "count": 35}, scheduler={"topology": "block"})
    assert "35 nodes fill" in text


@pytest.mark.parametrize(
    ("others", "verdict"), [({"zone": "us-east-1b"}, "fail"), ({}, "unknown"), ({"zone": "us-east-1a"}, "pass")]
)
def test_a_fabric_ends_with_its_zone(others: dict[str, Any], verdict: str) -> None:
    """Pools in different zones fail, and pools without a zone are unknown; the head is in the zone of the first
    pool."""
    plan = on_aws(gpu(), {"name": "more", "machine": "p5", "count": 2, **others})
    [finding] = found(plan, "placement.zones")
    assert (finding.verdict, finding.severity) == (verdict, "error")
    assert plan.controller.zone == "us-east-1a"


def test_pools_with_different_nics() -> None:
    """A warning says so, because a job over both would be slow."""
    [finding] = found(on_aws(gpu(), {"name": "old", "machine": "p4d", "count": 2}), "fabric.mixed")
    assert (finding.verdict, finding.severity) == ("fail", "warning")
    assert "gpu has 32 x 100 Gb/s of efa, old has 4 x 100 Gb/s of efa" in finding.text
    assert not found(on_aws(gpu(), gpu(name="more")), "fabric.mixed")


def test_expectations_come_from_the_links_of_the_machine() -> None:
    """NVLink limits a single node, and NICs limit several, each with a floor; a missing fact removes the
    expectation."""
    numbers = {each.name: each.value for each in on_aws(gpu()).expectations}
    assert numbers["gpu.node.allreduce_busbw_gbs_max"] == 495
    assert numbers["gpu.allreduce_busbw_gbs_max"] == 419.1
    assert numbers["gpu.allreduce_busbw_gbs_min"] == 200
    single = {each.name for each in on_aws(gpu(count=1)).expectations}
    assert "gpu.allreduce_busbw_gbs_max" not in single


@pytest.mark.parametrize("nodes", [1, 2, 3, 100])
def test_nodes_of_one_accelerator_reach_what_their_nics_carry(nodes: int) -> None:
    """NVLink has no peer, so that a node alone has nothing to reach, and several have 100 Gb/s each."""
    plan = on_aws({"name": "gpu", "machine": "p5.4xlarge", "count": nodes})
    reached = {each.name: (each.value, each.why) for each in plan.expectations if "busbw" in each.name}
    names = ("allreduce", "allgather", "reducescatter", "alltoall")
    assert set(reached) == {f"gpu.{name}_busbw_gbs_{end}" for name in names for end in ("min", "max") if nodes > 1}
    assert {value for name, (value, _) in reached.items() if name.endswith("max")} <= {12.38}
    assert {value for name, (value, _) in reached.items() if name.endswith("min")} <= {6.25, 4.375}
    assert not any("NVLink" in why for _, why in reached.values())
    assert not [reason for reason in plan.reasons if "busbw" in reason.path]


@pytest.mark.parametrize(("nodes", "layout"), [(1, "fsdp"), (2, "ddp"), (2, "fsdp"), (100, "fsdp"), (100, "ddp")])
def test_a_model_is_trained_on_nodes_of_one_accelerator(nodes: int, layout: str) -> None:
    """All traffic of ranks uses the NICs: on many nodes it takes longer than the compute."""
    shape = {"layers": 16, "hidden": 2048, "heads": 32, "vocabulary": 128256, "sequence": 2048}
    plan = on_aws(
        {"name": "gpu", "machine": "p5.4xlarge", "count": nodes},
        training={"layout": layout, "batch": 200, "model": {"tokens": "1T", **shape}},
    )
    [fastest] = [each for each in plan.expectations if each.name == "training.gpu.step_seconds_min"]
    said = {1: "a single rank sends nothing", 2: "which hides behind it", 100: "at 12.3"}
    assert said[nodes] in fastest.why
    if nodes == 1:
        [fit] = found(plan, "memory.fit")
        assert fit.text.startswith("fsdp on 1 rank of gpu, 200 samples at once, a rank needs ")


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
    """RoCE is routed IP, so a port has an address; InfiniBand ports have none."""
    pools = [HOSTS | {"machine": "mi300x", "count": 2}, HOSTS | {"name": "ib", "machine": "dgx-h100", "count": 2}]
    plan = planned(declared(catalog.machines()["mi300x"], pools=pools))
    roce, infiniband = plan.pools
    assert all(rail.cidr for rail in plan.fabric.rails)
    assert all(
        IPv4Address(address) in IPv4Network(rail.cidr)
        for rail, address in zip(plan.fabric.rails, roce.nodes[1].rail_addresses, strict=True)
    )
    assert infiniband.nodes[1].rail_addresses == ("",) * 8


def test_hosts_have_leaves_as_their_switches_join_them() -> None:
    """By default a leaf uses half of the ports of the switch generation of its NICs."""
    plan = planned(declared(catalog.machines()["dgx-h100"]))
    assert plan.fabric.leaf_nodes == 32
    assert planned(declared(catalog.machines()["dgx-b300"])).fabric.leaf_nodes == 72


def of_hosts(machine: str, nodes: int, **fields: Any) -> Plan:
    """Return a plan on premises with this many machines, and addresses for a thousand."""
    declaration = declared(catalog.machines()[machine], network={"cidr": "10.0.0.0/12"}, **fields)
    declaration["pools"][0]["count"] = nodes
    return planned(declaration)


def test_expectations_count_the_trunks_of_leaves() -> None:
    """At 4:1 most of an all-to-all leaves its leaf at a quarter of the NICs' rate; the floor is lower."""
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
    """Fabrics that `stampworks fabric` would refuse are refused, and a trunk has whole links."""
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
    """With racks of 18, a leaf takes one and a block is one; a leaf that would split them is refused."""
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


def test_real_machines_have_the_spines_of_their_switches() -> None:
    """Spines are never declared."""
    with pytest.raises(DeclarationError, match=r"fabric.spine_leaves: dgx-h100 is no simulated machine, and has the"):
        of_hosts("dgx-h100", 4, fabric={"spine_leaves": 4})


def test_three_tiers_have_spines_as_a_level() -> None:
    """Groups match `stampworks fabric`; leaves that share all spines form no such level."""
    placed = topology.of_plan(of_hosts("dgx-h100", 2047))
    assert placed.levels == ("spine", "leaf")
    assert [len(nodes) for nodes in placed.domains(0).values()] == [1024, 1023]
    assert len(placed.domains(1)) == 64
    assert topology.of_plan(of_hosts("dgx-h100", 127)).levels == ("leaf",)


def test_no_rail_joins_infiniband_with_ethernet() -> None:
    """The mix is an error; NICs of the same kind with different rates are a warning."""
    pools = [{"name": name, "machine": name, "count": 2} for name in ("dgx-h100", "dgx-a100", "mi300x")]

    def mixed(*of: dict[str, Any]) -> Finding:
        declaration = {"version": 1, "name": "test", "cloud": "hosts", "pools": of}
        [finding] = found(planned(declaration), "fabric.mixed")
        return finding

    assert mixed(*pools[:2]).severity == "warning"
    both = mixed(*pools)
    assert (both.verdict, both.severity, both.hint) == ("fail", "error", "declare clusters of their own")
    assert "no rail joins InfiniBand with roce" in both.text


def test_machines_whose_nics_nobody_describes() -> None:
    """Several of them can be planned; rails and their consequences are unknown, not absent."""
    plan = planned(declared(catalog.machines()["together-h100"]))
    [finding] = found(plan, "fabric.nics")
    assert (plan.pools[0].count, finding.verdict, finding.subject) == (16, "unknown", "gpu")
    assert finding.text == ("whether 16 x together-h100 of pool gpu can train together: their NICs are not published")
    assert (plan.pools[0].rails, plan.fabric.kind, plan.fabric.rails) == (None, "unknown", ())
    assert plan.fabric.met_by(plan.pools[0]) == ()
    why = {each.path: each.why for each in plan.reasons}
    assert why["fabric.rails"] == "none: the NICs of together-h100 are not published"
    assert why["gpu.allreduce_busbw_gbs"] == "unknown: the catalog does not know the NICs of together-h100"
    assert not any(each.name.startswith("gpu.allreduce") for each in plan.expectations)
    assert "together-h100: cores, memory, NICs; results that" in found(plan, "machine.facts")[0].text
    with pytest.raises(DeclarationError, match="the protocol of the NICs of together-h100 is unknown, not infiniband"):
        planned(declared(catalog.machines()["together-h100"], fabric={"kind": "infiniband"}))


def test_pools_whose_nics_nobody_describes() -> None:
    """Two single-node pools may or may not have a fabric; a single node needs none."""
    pools = [{"name": name, "machine": f"together-{name}", "count": 1} for name in ("h100", "b200")]
    declaration = {"version": 1, "name": "test", "cloud": "together"}
    [finding] = found(planned({**declaration, "pools": pools}), "fabric.mixed")
    assert finding.verdict == "unknown"
    assert finding.text == "whether jobs can share b200, h100: the NICs of b200, h100 are not published"
    assert not found(planned({**declaration, "pools": pools[:1]}), "fabric.mixed")


def test_a_pool_with_unknown_nics_beside_one_with_rails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rails belong to the other pool; the plan does not place this pool on them."""
    machine = dataclasses.replace(catalog.machines()["gd-8xh100ib-i128"], name="odd", nic=UNKNOWN, nics=UNKNOWN)
    machines = MappingProxyType({**catalog.machines(), "odd": machine})
    monkeypatch.setattr(catalog, "machines", lambda: machines)
    pools = [{"name": name, "machine": name, "count": 2} for name in ("odd", "gd-8xh200ib-i128")]
    plan = planned({"version": 1, "name": "test", "cloud": "coreweave", "pools": pools})
    odd, known = plan.pools
    assert (odd.rails, plan.fabric.met_by(odd), len(plan.fabric.met_by(known))) == (None, (), 8)
    [why] = [each.why for each in plan.reasons if each.path == "fabric.rails"]
    assert why.endswith("has that many NICs on the fabric, and the number of NICs of odd is not published")


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
    """Only pools on a rail count; a pool for scheduling only has no rails and no address."""
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
