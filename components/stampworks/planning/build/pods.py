"""Plan the addresses of pods and services by the rule of the cloud, and the number of nodes that they allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network

from stampworks.declaration import Declaration
from stampworks.declaration.ranges import PRIVATE_RANGES
from stampworks.declaration.sibling import free_range
from stampworks.declaration.wording import alternatives
from stampworks.plan import Group, Network, traits_of
from stampworks.plan import Pods as Planned
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.ports import CONTROL, NODES, node_addresses
from stampworks.planning.clouds.choices import Choices, PodAddressing
from stampworks.text.amounts import counted

SERVICES_SHORTEST_PREFIX = 12
"""Prefix length of the largest range for services that Kubernetes allows: kube-apiserver, options/validation.go, read
2026-11-22."""
SERVICES_PREFIX = 16
"""Prefix length of a usual range."""


def build(
    declaration: Declaration, network: Network, groups: Sequence[Group], choices: Choices, notes: Notes
) -> Planned | None:
    """Return the addresses of pods; None when the scheduler is not Kubernetes, or when they are unknown."""
    rules, per_node = choices.pods, declaration.scheduler.pods_per_node
    if not traits_of(declaration.scheduler.kind).runs_pods:
        return None
    if rules is None:
        what = f"source of the addresses of pods and services on {declaration.cloud}"
        notes.reason("network.pods", f"unknown: {what} is not documented")
        return None
    there = [group for group in groups if group.role != "scheduling only"]
    if rules.own_range and any(group.role == "worker" for group in groups):
        there = list(groups)  # the component that assigns ranges does not know which nodes are simulated
    takes = rules.node_addresses(per_node)
    notes.reason("network.pods.way", f"{rules.way}: {rules.why}")
    notes.reason("network.pods.node_addresses", f"{takes} for {per_node} pods at most: {rules.node_why}")
    notes.step(_check_apart, declaration, network, rules, notes)
    notes.step(_check_services, declaration, network, rules, notes)
    count = _nodes_of_pod_range if rules.own_range else _nodes_of_subnet
    return Planned(
        way=rules.way,
        subnet="" if rules.own_range else NODES,
        cidr=declaration.network.pods_cidr if rules.own_range else "",
        per_node=per_node,
        node_addresses=takes,
        nodes_max=count(declaration, network, there, rules, notes),
        services_cidr=declaration.network.services_cidr,
    )


def _nodes_of_pod_range(
    declaration: Declaration, network: Network, there: Sequence[Group], rules: PodAddressing, notes: Notes
) -> int:
    """Return the number of nodes for which a separate pod range has addresses."""
    range_, per_node = IPv4Network(declaration.network.pods_cidr), declaration.scheduler.pods_per_node
    takes, nodes = rules.node_addresses(per_node), sum(group.count for group in there)
    most = range_.num_addresses // takes
    if nodes > most:
        prefix = 32 - (nodes * takes - 1).bit_length()
        others = [other for path, other in _taken(declaration, network, rules) if path != "network.pods_cidr"]
        enough = _free(range_, prefix, others)
        larger = f"the smallest range that suffices is a /{prefix}, for example {enough}"
        other = larger if enough else "declare a second cluster for some of the nodes"
        fewer = rules.fewer(per_node, nodes, range_.num_addresses)
        notes.problem(
            "network.pods_cidr",
            f"{range_} is too small: {takes} addresses a node ({rules.node_why}) are enough for "
            f"{counted(most, 'node')}, and with the head there are {nodes}",
            alternatives([other, fewer] if fewer else [other]),
        )
    notes.reason(
        "network.pods.nodes_max",
        f"{range_.num_addresses} addresses of {range_} / {takes} a node; {nodes} nodes with the head need "
        f"{nodes * takes}, and the range cannot grow later",
    )
    return most


def _nodes_of_subnet(
    declaration: Declaration, network: Network, there: Sequence[Group], rules: PodAddressing, notes: Notes
) -> int:
    """Return the number of nodes when pods use the nodes' subnet, which planning has made large enough."""
    if "pods_cidr" in declaration.network.given():
        notes.problem(
            "network.pods_cidr",
            f"pods on {declaration.cloud} take addresses of the subnet of nodes, not of a range of their own",
            "take it out; scheduler.pods_per_node decides how many a node takes",
        )
    takes = rules.node_addresses(declaration.scheduler.pods_per_node)
    each = takes + max(node_addresses(group.machine.name, declaration.network.card_addresses) for group in there)
    nodes = sum(group.count for group in there)
    subnet = next((subnet for subnet in network.subnets if subnet.name == NODES), None)
    more = subnet.room // each if subnet and subnet.room else 0
    if rules.control:
        where = "in another zone than the nodes, of whose subnet it takes as many"
        notes.reason(f"network.subnets.{CONTROL}.needed", f"{rules.control} for the control plane, {where}")
    notes.reason(
        "network.pods.nodes_max",
        f"{nodes} nodes with the head, and {more} more of {each} addresses each in what is left of subnet {NODES}; "
        f"{rules.lost} of its addresses are lost at its ends, {rules.control} are the control plane's, and each group "
        f"has {rules.surge} nodes more while it is replaced. Reserve prefixes in it: single addresses break them up",
    )
    return nodes + more


def _check_apart(declaration: Declaration, network: Network, rules: PodAddressing, notes: Notes) -> None:
    """Refuse overlapping ranges: an address would be in two places."""
    taken = list(_taken(declaration, network, rules))
    for index, (path, range_) in enumerate(taken):
        met = next(((name, other) for name, other in taken[:index] if other.overlaps(range_)), None)
        if met is None or not path.startswith("network."):
            continue
        name, other = met
        found = _free(range_, range_.prefixlen, [one for name, one in taken if name != path])
        notes.problem(
            path,
            f"{range_} meets {other}, which is {name}: an address would be in two places",
            f"write another one, for example {found}" if found else f"write a smaller one, or another {name}",
        )


def _taken(declaration: Declaration, network: Network, rules: PodAddressing) -> Iterator[tuple[str, IPv4Network]]:
    """Yield every range with its place in the declaration, fixed ranges first."""
    yield from ((f"{declaration.cloud}'s own", IPv4Network(range_)) for range_ in rules.kept)
    if network.cidr:  # the planned cluster has a default range when the declared one is wrong
        yield "network.cidr", IPv4Network(declaration.network.cidr)
    if rules.own_range:
        yield "network.pods_cidr", IPv4Network(declaration.network.pods_cidr)
    yield "network.services_cidr", IPv4Network(declaration.network.services_cidr)


def _check_services(declaration: Declaration, network: Network, rules: PodAddressing, notes: Notes) -> None:
    """Refuse a service range that is too large or too small."""
    path, range_ = "network.services_cidr", IPv4Network(declaration.network.services_cidr)
    if range_.prefixlen < SERVICES_SHORTEST_PREFIX:
        notes.problem(
            path,
            f"{range_} is larger than Kubernetes takes for services, which is a /{SERVICES_SHORTEST_PREFIX}",
            f"write a part of it, for example {next(range_.subnets(new_prefix=SERVICES_PREFIX))}",
        )
    if range_.prefixlen > rules.services_longest_prefix:
        least = rules.services_longest_prefix
        found = _free(range_, least, [other for name, other in _taken(declaration, network, rules) if name != path])
        notes.problem(
            path,
            f"{range_} is smaller than a Kubernetes of {declaration.cloud} takes for services, which is a /{least}",
            f"write a larger one, for example {found}",
        )


def _free(near: IPv4Network, prefix: int, taken: Iterable[IPv4Network]) -> str | None:
    """Return a private range of this size that overlaps none of these: the surrounding one, or the first free one."""
    others = list(taken)
    around = IPv4Network((near.network_address, prefix), strict=False)
    firsts = (IPv4Network((each.network_address, prefix)) for each in PRIVATE_RANGES if prefix >= each.prefixlen)
    for range_ in (around, *firsts):
        if any(map(range_.subnet_of, PRIVATE_RANGES)) and not any(map(range_.overlaps, others)):
            return str(range_)
        if range_ != around and (found := free_range(str(range_), map(str, others))):
            return found
    return None
