"""Addresses for pods and services of a Kubernetes: each cloud's rule, with numbers worked out by hand."""

from __future__ import annotations

import itertools
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.declaration.ranges import PRIVATE_RANGES
from stampworks.plan import Plan, Pods, fingerprint, from_json, to_json
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import cost
from stampworks.planning.explained import explain
from stampworks.views.plan import plan_text

from tests.planning.places import REGIONS

GPUS = {
    "local": "sim-h100",
    "hosts": "dgx-h100",
    "aws": "p5",
    "azure": "ND96isr_H100_v5",
    "google": "a3-ultragpu-8g",
    "oracle": "BM.GPU.H100.8",
    "coreweave": "gd-8xh100ib-i128",
}


def declared(cloud: str, count: int = 16, scheduler: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    region = {"region": REGIONS[cloud]} if CLOUDS[cloud].regions else {}
    machine = GPUS.get(cloud) or next(row.name for row in catalog.machines().values() if row.cloud == cloud)
    return {
        "version": 1,
        "name": "test",
        "cloud": cloud,
        "pools": [{"name": "gpu", "machine": machine, "count": count}],
        "scheduler": {"kind": "kubernetes", **(scheduler or {})},
        **region,
        **fields,
    }


def planned(cloud: str, count: int = 16, scheduler: dict[str, Any] | None = None, **fields: Any) -> Plan:
    return planning.plan(load_value(declared(cloud, count, scheduler, **fields), "test"))


def pods_of(*arguments: Any, **fields: Any) -> Pods:
    pods = planned(*arguments, **fields).network.pods
    assert pods
    return pods


def refusal(*arguments: Any, **fields: Any) -> list[str]:
    """Return each problem with its hint, on a line."""
    with pytest.raises(DeclarationError) as error:
        planned(*arguments, **fields)
    return [f"{each.path}: {each.message} => {each.hint}" for each in error.value.problems]


def found(plan: Plan, rule: str) -> list[str]:
    return [f"{each.verdict}: {each.text}" for each in planning.rules(plan, None) if each.id == rule]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_kubernetes_can_be_planned_everywhere(cloud: str) -> None:
    """The plan can be written and read, and shows the sources of addresses, or that they are unknown."""
    plan = planned(cloud, 1)
    assert from_json(Plan, to_json(plan)) == plan
    pods, text = plan.network.pods, plan_text(plan, cost(plan), planning.rules(plan, None))
    assert (pods is None) == (CLOUDS[cloud].pods is None)
    if pods is None:
        assert "\nPods and services: the source of their addresses is unknown\n" in text
        assert found(plan, "addresses.pods")[0].startswith(f"unknown: the source of pod addresses on {cloud} ")
        assert any(each.path == "network.pods" and each.why.startswith("unknown: ") for each in plan.reasons)
    else:
        assert f"\nPods and services ({pods.way})\n" in text
    assert "slurm" not in " ".join([*dict(plan.release.versions), *dict(plan.release.packages)])


@pytest.mark.parametrize(
    ("cloud", "node_addresses", "nodes_max"),
    [
        ("local", 256, 4096),  # 2^20 addresses of a /12 / 256
        ("hosts", 256, 4096),
        ("azure", 256, 4096),
        ("google", 256, 4096),  # 2 x 110 = 220, and the next power of two
        ("oracle", 128, 8192),  # a /25
    ],
)
def test_a_range_of_their_own(cloud: str, node_addresses: int, nodes_max: int) -> None:
    """Addresses of a node, and the number of nodes for which a range is enough."""
    plan = planned(cloud)
    pods = plan.network.pods
    assert pods
    assert (pods.subnet, pods.cidr, pods.services_cidr) == ("", "10.240.0.0/12", "172.20.0.0/16")
    assert (pods.per_node, pods.node_addresses, pods.nodes_max) == (110, node_addresses, nodes_max)
    [text] = found(plan, "addresses.pods")
    assert text == (
        f"pass: the pods of {nodes_max} nodes have addresses, then 10.240.0.0/12 is full: {node_addresses} a node, 17 "
        "nodes with the head now"
    )


def test_the_range_of_pods_is_full_first() -> None:
    """32768 - 5 - 17 nodes would have an address, 4096 - 17 have pods."""
    plan = planned("azure")
    [finding] = [each for each in planning.rules(plan, None) if each.id == "addresses.room"]
    assert finding.text == "pool gpu can grow by 4079 nodes, then 10.240.0.0/12, the range of pods, is full"
    assert finding.place == "network.pods_cidr"


def test_prefixes_of_the_subnet_of_nodes() -> None:
    """On AWS 110 pods take 7 prefixes of 16 besides the node's address; the ends of the subnet hold no prefix. During a
    replacement each of two groups has two additional nodes, and the control plane of EKS takes 16 addresses. Two nodes
    run the cluster's own pods."""
    plan = planned("aws")
    pods, [nodes, *_] = plan.network.pods, plan.network.subnets
    assert pods
    assert (pods.subnet, pods.cidr, pods.node_addresses) == ("nodes", "", 112)
    assert (nodes.size, nodes.needed) == (32768, (18 + 4) * (1 + 112) + 16 + 16)
    assert pods.nodes_max == 18 + (32768 - 5 - 32 - 22 * 113) // 113 == 285
    [text] = found(plan, "addresses.room")
    assert text.startswith("pass: pool gpu can grow by 267 nodes, then subnet nodes is full: 32768 addresses, 5 kept")
    assert text.endswith("2518 needed now, 113 addresses a node")
    assert not found(plan, "addresses.pods")


def test_the_control_plane_of_aws_has_a_subnet_in_another_zone() -> None:
    """It lies at the end of storage's half, so that the nodes' subnet keeps its size."""
    subnets = {each.name: each for each in planned("aws").network.subnets}
    assert {name: each.cidr for name, each in subnets.items()} == {
        "nodes": "10.77.0.0/17",
        "storage": "10.77.128.0/19",
        "egress": "10.77.160.0/19",
        "control-plane": "10.77.255.224/27",
    }
    assert (subnets["control-plane"].needed, subnets["control-plane"].room) == (16, 32 - 5 - 16)
    slurm = planning.plan(load_value({**declared("aws"), "scheduler": {"kind": "slurm"}}, "test"))
    assert [(each.name, each.cidr) for each in slurm.network.subnets] == [
        ("nodes", "10.77.0.0/17"),
        ("storage", "10.77.128.0/18"),
        ("egress", "10.77.192.0/18"),
    ]


def test_one_interface_holds_the_prefixes_of_a_node() -> None:
    """A node takes at most 7 prefixes besides its address, of the 15 that the smallest instance of the catalog
    supports."""
    pods = CLOUDS["aws"].pods
    assert pods
    assert 1 + pods.node_addresses(110) // 16 <= 15


@pytest.mark.parametrize("per_node", [16, 17, 33, 49, 65, 81, 110])
def test_prefixes_are_whole(per_node: int) -> None:
    """A subnet has as many whole prefixes as its nodes take, for any number of nodes."""
    for nodes in range(2, 80):
        size = IPv4Network(f"10.0.0.0/{_smallest(nodes, per_node)}").num_addresses // 2
        most = nodes + 4  # two groups, each with two more while it is replaced
        others = size // 16 - most * -(-per_node // 16)  # reserve the five of AWS, the nodes' own and EKS's
        assert others >= 2
        assert others * 16 - 5 >= most + 16


def _smallest(nodes: int, per_node: int) -> int:
    """The prefix of the smallest network of AWS for so many nodes, as a refusal names it."""
    try:
        planned("aws", nodes - 1, {"pods_per_node": per_node}, network={"cidr": "10.0.0.0/28"})
    except DeclarationError as error:
        return int(error.problems[0].hint.split("is a /")[1].split(",")[0])
    raise AssertionError("a /28 is enough")


@pytest.mark.parametrize(
    ("per_node", "node_addresses"), [(16, 32), (17, 64), (32, 64), (33, 128), (64, 128), (65, 256)]
)
def test_google_gives_twice_as_many(per_node: int, node_addresses: int) -> None:
    """The table of its documentation, at both ends of each line."""
    assert pods_of("google", 16, {"pods_per_node": per_node}).node_addresses == node_addresses


@pytest.mark.parametrize("cloud", [name for name, choices in CLOUDS.items() if choices.pods])
def test_node_has_addresses_for_all_pods(cloud: str) -> None:
    """This holds for every number of pods that can be declared."""
    pods = CLOUDS[cloud].pods
    assert pods
    assert all(pods.node_addresses(count) >= count for count in range(16, 111))


def test_nics_of_the_fabric_take_what_they_took() -> None:
    """This holds with and without pods: EFA-only interfaces and InfiniBand take no address, and Google's rails one
    each."""
    for cloud in ("aws", "azure", "google", "oracle"):
        kubernetes, slurm = (
            planned(cloud),
            planning.plan(load_value({**declared(cloud), "scheduler": {"kind": "slurm"}}, "test")),
        )
        assert slurm.network.pods is None
        more = {"nodes": 18 * 112 + 1 + 4 * 113 + 16 + 16} if cloud == "aws" else {}  # two in the place of a head
        taken = {each.name: (each.needed or 0) + more.get(each.name, 0) for each in slurm.network.subnets}
        taken |= {"control-plane": 16} if cloud == "aws" else {}
        assert {each.name: each.needed for each in kubernetes.network.subnets} == taken


def test_nodes_for_scheduling_only_take_some_beside_others() -> None:
    """The controller that gives nodes their ranges treats them as real; without other nodes none are needed."""
    more = {"name": "more", "machine": "sim-h100", "count": 61, "scheduling_only": True}
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}, more]
    assert pods_of("local", pools=pools, network={"pods_cidr": "10.240.0.0/18"}).nodes_max == 64
    assert (
        "for 32 nodes, and with the head there are 64"
        in refusal("local", pools=pools, network={"pods_cidr": "10.240.0.0/19"})[0]
    )
    assert pods_of("local", pools=[more], network={"pods_cidr": "10.240.0.0/22"}).nodes_max == 4


def test_a_range_that_is_too_small() -> None:
    """The error names the smallest sufficient range, or fewer pods if that helps."""
    assert refusal("azure", network={"pods_cidr": "10.240.0.0/20"}) == [
        "network.pods_cidr: 10.240.0.0/20 is too small: 256 addresses a node (a /24, for any number of pods) are "
        "enough for 16 nodes, and with the head there are 17 => the smallest range that suffices is a /19, for example "
        "10.240.0.0/19"
    ]
    assert refusal("google", network={"pods_cidr": "10.240.0.0/20"}) == [
        "network.pods_cidr: 10.240.0.0/20 is too small: 256 addresses a node (a range of twice as many addresses as "
        "pods at least, in whole powers of two) are enough for 16 nodes, and with the head there are 17 => the "
        "smallest range that suffices is a /19, for example 10.240.0.0/19 or write scheduler.pods_per_node: 64"
    ]
    assert pods_of("azure", network={"pods_cidr": "10.240.0.0/19"}).nodes_max == 32
    fewer = pods_of("google", 16, {"pods_per_node": 64}, network={"pods_cidr": "10.240.0.0/20"})
    assert fewer.nodes_max == 32


def test_a_cluster_that_no_network_of_aws_holds() -> None:
    """Fewer pods would fit: (32768 - 5 - 32 - 518) / 518 = 62.2, three prefixes."""
    [said] = refusal("aws", 512)
    assert said.startswith("pools: nodes needs 58566 addresses, and 2 subnets of that size are a /15")
    assert said.endswith("=> write scheduler.pods_per_node: 48 or declare a second cluster for some of the nodes")
    assert pods_of("aws", 512, {"pods_per_node": 48}).nodes_max >= 513


def test_more_than_all_private_addresses() -> None:
    """No range suffices."""
    pools = [{"name": f"p{number}", "machine": "ND96isr_H100_v5", "count": 4096} for number in range(16)]
    [said] = [each for each in refusal("azure", pools=pools) if each.startswith("network.pods_cidr: ")]
    assert said.endswith("with the head there are 65537 => declare a second cluster for some of the nodes")


@pytest.mark.parametrize(
    ("cloud", "network", "said"),
    [
        (
            "azure",
            {"cidr": "10.240.0.0/16"},
            "network.pods_cidr: 10.240.0.0/12 meets 10.240.0.0/16, which is network.cidr: an address would be in two "
            "places => write another one, for example 10.0.0.0/12",
        ),
        (
            "google",
            {"cidr": "172.16.0.0/12"},
            "network.services_cidr: 172.20.0.0/16 meets 172.16.0.0/12, which is network.cidr: an address would be in "
            "two places => write another one, for example 10.0.0.0/16",
        ),
        (
            "local",
            {"services_cidr": "10.241.0.0/16"},
            "network.services_cidr: 10.241.0.0/16 meets 10.240.0.0/12, which is network.pods_cidr: an address would be "
            "in two places => write another one, for example 10.0.0.0/16",
        ),
        (
            "azure",
            {"services_cidr": "172.30.0.0/16"},
            "network.services_cidr: 172.30.0.0/16 meets 172.30.0.0/16, which is azure's own: an address would be in "
            "two places => write another one, for example 10.0.0.0/16",
        ),
        (
            "azure",
            {"cidr": "172.31.0.0/20"},
            "network.cidr: 172.31.0.0/20 meets 172.31.0.0/16, which is azure's own: an address would be in two places "
            "=> write another one, for example 10.0.0.0/20",
        ),
        (
            "aws",
            {"services_cidr": "172.20.0.0/25"},
            "network.services_cidr: 172.20.0.0/25 is smaller than a Kubernetes of aws takes for services, which is a "
            "/24 => write a larger one, for example 172.20.0.0/24",
        ),
        (
            "oracle",
            {"pods_cidr": "192.168.0.0/16", "services_cidr": "10.128.0.0/9"},
            "network.services_cidr: 10.128.0.0/9 is larger than Kubernetes takes for services, which is a /12 => write "
            "a part of it, for example 10.128.0.0/16",
        ),
        (
            "aws",
            {"pods_cidr": "10.240.0.0/12"},
            "network.pods_cidr: pods on aws take addresses of the subnet of nodes, not of a range of their own "
            "=> take it out; scheduler.pods_per_node decides how many a node takes",
        ),
    ],
)
def test_ranges_that_cannot_be(cloud: str, network: dict[str, str], said: str) -> None:
    """The problem has position, reason and a valid range."""
    assert refusal(cloud, network=network) == [said]


def test_all_of_private_space_is_the_clusters() -> None:
    """An answer exists even if no other range of a size is free."""
    said = refusal("azure", network={"cidr": "10.0.0.0/8", "services_cidr": "10.1.0.0/16"})
    assert said[0].startswith("network.pods_cidr: 10.240.0.0/12 meets 10.0.0.0/8, which is network.cidr")
    assert said[0].endswith("=> write a smaller one, or another network.cidr")


def test_slurm_minds_no_pods() -> None:
    """Ranges without a use in Slurm may have any value, and change nothing."""
    slurm = {"kind": "slurm", "pods_per_node": 20}
    ranges = {"pods_cidr": "10.77.0.0/16", "services_cidr": "10.77.0.0/16"}
    plan = planned("local", network=ranges, scheduler=slurm)
    assert plan == planned("local", scheduler={"kind": "slurm"})
    assert not found(plan, "addresses.pods")


def test_blocks_may_be_smaller_to_kubernetes() -> None:
    """Limits of slurmctld are no errors to others."""
    plan = planned("local", 7, {"topology": "block"}, fabric={"leaf_nodes": 4})
    assert (plan.scheduler.topology, plan.scheduler.block_nodes) == ("block", 4)


def test_siblings_have_other_ranges() -> None:
    """Ranges are part of the identity; the pods of a node are not."""
    base = fingerprint(planned("azure"))
    assert fingerprint(planned("azure", network={"pods_cidr": "10.128.0.0/10"})) == base
    assert fingerprint(planned("azure", network={"services_cidr": "172.24.0.0/16"})) == base
    assert fingerprint(planned("azure", scheduler={"pods_per_node": 32})) != base


@pytest.mark.parametrize(
    ("change", "field", "policy"),
    [
        ({"network": {"pods_cidr": "10.128.0.0/10"}}, "network.pods_cidr", "refuse"),
        ({"network": {"services_cidr": "172.24.0.0/16"}}, "network.services_cidr", "refuse"),
        ({"scheduler": {"kind": "slurm"}}, "scheduler.kind", "refuse"),
        ({"scheduler": {"kind": "kubernetes", "pods_per_node": 32}}, "scheduler.pods_per_node", "roll"),
    ],
)
def test_effects_of_changes(change: dict[str, Any], field: str, policy: str) -> None:
    """No cloud changes the ranges of a Kubernetes later; derived values are not declared changes."""
    a, b = _side("a", declared("google")), _side("b", {**declared("google"), **change})
    for made in (review("test", a, b), review("test", b, a)):
        assert [(each.field, each.policy) for each in made.changes] == [(field, policy)]
        assert (made.verdict == "fail") == (policy == "refuse")


def _side(name: str, data: dict[str, Any]) -> ReviewedStack:
    plan = planning.plan(load_value(data, "test"))
    written = {f"{section}.{name}" for section in ("network", "scheduler") for name in data.get(section, {})}
    return ReviewedStack(name, plan, planning.rules(plan, None), {}, frozenset(written))


def test_explained() -> None:
    """Each value has its reason and the field that decides it."""
    source = load_value(declared("google"), "test")
    plan = planning.plan(source)
    takes = explain(plan, source, "network.pods.node_addresses")
    assert (takes.value, takes.field) == (256, "")
    assert takes.reasons[0].why.startswith("256 for 110 pods at most: a range of twice as many addresses")
    assert explain(plan, source, "network.pods.cidr").field == "network.pods_cidr"
    assert explain(plan, source, "network.pods.per_node").field == "scheduler.pods_per_node"
    most = explain(plan, source, "network.pods.nodes_max").reasons[0].why
    assert most == (
        "1048576 addresses of 10.240.0.0/12 / 256 a node; 17 nodes with the head need 4352, and the range cannot grow "
        "later"
    )


@pytest.mark.parametrize("cloud", [name for name, choices in CLOUDS.items() if choices.pods and choices.pods.own_range])
@pytest.mark.parametrize("prefix", [16, 18, 20])
def test_the_last_node_that_fits(cloud: str, prefix: int) -> None:
    """The range holds exactly this many nodes with the head; the range of the hint suffices."""
    network, pods = {"pods_cidr": f"192.168.0.0/{prefix}"}, CLOUDS[cloud].pods
    assert pods
    most = 2 ** (32 - prefix) // pods.node_addresses(110)
    assert pods_of(cloud, most - 1, network=network).nodes_max == most
    [said] = refusal(cloud, most, network=network)
    assert said.startswith("network.pods_cidr: 192.168.0.0/")
    assert f" is a /{prefix - 1}, for example " in said
    example = said.split("for example ")[1].split(" ")[0]
    assert pods_of(cloud, most, network={"pods_cidr": example}).nodes_max == 2 * most


def ranges() -> st.SearchStrategy[str]:
    """Draw private ranges of any size."""

    def cut(private: IPv4Network, prefix: int, place: int) -> str:
        size = 1 << (32 - prefix)
        start = int(private.network_address) + place % max(1, private.num_addresses // size) * size
        return str(IPv4Network((start, prefix)))

    return st.sampled_from(PRIVATE_RANGES).flatmap(
        lambda private: st.builds(cut, st.just(private), st.integers(private.prefixlen, 28), st.integers(0, 2**20))
    )


@settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    cloud=st.sampled_from([name for name, choices in CLOUDS.items() if choices.pods]),
    network=st.fixed_dictionaries({}, optional={name: ranges() for name in ("cidr", "pods_cidr", "services_cidr")}),
    count=st.integers(1, 4096),
    per_node=st.integers(16, 110),
)
def test_no_two_ranges_meet(cloud: str, network: dict[str, str], count: int, per_node: int) -> None:
    """Subnets, rails, pods and services do not overlap, and every node has its addresses; otherwise the problem has a
    hint."""
    try:
        plan = planned(cloud, count, {"pods_per_node": per_node}, network=network)
    except DeclarationError as error:
        assert all(each.message and each.hint for each in error.problems)  # noqa: PT017
        return
    pods, taken = plan.network.pods, [subnet.cidr for subnet in plan.network.subnets]
    assert pods
    if not taken:
        taken = [plan.network.management_cidr, *(rail.cidr for rail in plan.fabric.rails)]
    taken += [cidr for cidr in (pods.cidr, pods.services_cidr) if cidr]
    networks = [IPv4Network(cidr) for cidr in taken]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(networks, 2))
    assert pods.nodes_max >= count + 1
    if pods.cidr:
        assert IPv4Network(pods.cidr).num_addresses >= (count + 1) * pods.node_addresses
