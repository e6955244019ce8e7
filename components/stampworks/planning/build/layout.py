"""Place all nodes: their names, leaves and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stampworks import catalog
from stampworks.declaration import AbsentError, Declaration
from stampworks.declaration import Network as Declared
from stampworks.plan import CONTROLLER, Group, Leaf, Network, Node, Subnet
from stampworks.planning.build import addresses, hosts, subnets
from stampworks.planning.build.addresses import AddressMap
from stampworks.planning.build.groups import controller_group, login_groups, node_names, pool_group
from stampworks.planning.build.leaves import leaf_size, leaves_of
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.ports import NODES, on_nics_apart, rail_addresses, rails_met, rails_of
from stampworks.planning.build.refusals import refuse
from stampworks.planning.clouds.choices import Choices
from stampworks.text.names import fold

NUMBERED_RESERVED = 2
"""The first and the last address of a network, which no port gets."""


@dataclass(frozen=True)
class ClusterLayout:
    """The network and groups of a cluster with all their names and addresses."""

    network: Network
    rail_cidrs: tuple[str, ...]
    """Addresses, one for each rail; empty if its ports have none in the cluster's range."""
    groups: tuple[Group, ...]
    leaves: tuple[Leaf, ...]


def lay_out(declaration: Declaration, choices: Choices, notes: Notes) -> ClusterLayout:
    """Place every node. A pool's layout does not depend on the size of other pools, so that growth moves no node."""
    refuse(declaration, choices, notes)
    machines = [catalog.machines()[pool.machine] for pool in declaration.pools]
    if choices.numbers_ports and not hosts.listed(declaration):
        return _numbered(declaration, machines, choices, notes)
    return _on_a_cloud(declaration, machines, choices, notes)


def _numbered(
    declaration: Declaration, machines: Sequence[catalog.Machine], choices: Choices, notes: Notes
) -> ClusterLayout:
    """Give every node a name, and an address to every port that takes one."""
    login = declaration.scheduler.login_nodes
    who = "the head with the gateway and the login nodes" if login else "the head with the gateway"
    members = [(who, addresses.HEAD + login)]
    members += [(f"pool {pool.name}", 0 if pool.scheduling_only else pool.count) for pool in declaration.pools]
    pools = [pool_group(declaration, index, machine, choices) for index, machine in enumerate(machines)]
    there = [pool for pool in pools if pool.role != "scheduling only"]
    apart = on_nics_apart(there)
    rails = [f"rail{rail}" for rail in range(rails_met(declaration, machines))]
    with_addresses = [rail for group in there if rail_addresses(group.machine.name) for rail in rails_of(group)]
    networks = [*(name for name, _ in apart), *(rail for rail in rails if rail in with_addresses)]
    cidr = _range(declaration)
    address_map = addresses.cut(cidr, networks, members, notes)
    if unnumbered := [rail for rail in rails if rail not in with_addresses]:
        notes.reason(
            "fabric.rails.cidr", f"none for {fold(unnumbered)}: the network that joins their ports numbers them"
        )
    found = {name: str(part) for name, part in address_map.networks.items()}
    network = Network(
        cidr=cidr,
        management_cidr=found[addresses.MANAGEMENT],
        gateway=address_map.address(addresses.MANAGEMENT, 0, addresses.GATEWAY),
        subnets=tuple(Subnet(name, found[name], NUMBERED_RESERVED, need, public=False) for name, need in apart),
    )
    head = controller_group(declaration, choices, notes)
    head = replace(head, nodes=(_node(CONTROLLER, address_map, 0, addresses.HEAD, head, ""),))
    logins = [
        replace(
            group,
            nodes=tuple(
                _node(name, address_map, 0, number, group, "")
                for number, name in enumerate(node_names(group), addresses.HEAD + 1)
            ),
        )
        for group in login_groups(declaration, head, notes)
    ]
    leaf_nodes = leaf_size(declaration)
    pools = [
        replace(pool, nodes=_nodes(pool, slot, address_map, leaf_nodes, notes))
        for slot, pool in enumerate(pools[: addresses.POOLS_MAX], 1)
    ]
    return ClusterLayout(
        network, tuple(found.get(rail, "") for rail in rails), (head, *pools, *logins), leaves_of(pools)
    )


def _on_a_cloud(
    declaration: Declaration, machines: Sequence[catalog.Machine], choices: Choices, notes: Notes
) -> ClusterLayout:
    """Leave places and addresses of nodes to the cloud. Machines that it names for us have our names."""
    pools = [pool_group(declaration, index, machine, choices) for index, machine in enumerate(machines)]
    head = replace(controller_group(declaration, choices, notes), zone=pools[0].zone)
    others = [*pools, *login_groups(declaration, head, notes)]
    existing = hosts.listed(declaration)
    if existing or choices.names_nodes(declaration.scheduler.kind):
        head = replace(head, nodes=(_unnumbered(CONTROLLER, head),))
        others = [replace(each, nodes=tuple(_unnumbered(name, each) for name in node_names(each))) for each in others]
    else:
        why = f"named by {declaration.cloud} when it makes them: a plan knows how many there are"
        notes.reason("groups.nodes", why)
    if head.zone:
        notes.reason(
            f"groups.{CONTROLLER}.zone",
            "the zone of the first pool, for traffic between zones is slower and costs money",
        )
    groups = (head, *others)
    rails = rails_met(declaration, machines)
    for group in groups:
        if group.elastic:
            notes.reason(
                f"groups.{group.name}.count",
                f"{group.counts} nodes run: addresses, limits and what they can reach are counted for {group.count}",
            )
    if choices.subnets is None:
        why = (
            "the machines have addresses already"
            if existing
            else f"{declaration.cloud} rents machines with an address each"
        )
        notes.reason("network", f"{why}: the cluster has no range")
        return ClusterLayout(Network(cidr="", management_cidr="", gateway="", subnets=()), ("",) * rails, groups, ())
    cidr = _range(declaration)
    cut = subnets.cut(cidr, declaration, groups, machines, choices, notes)
    found = {subnet.name: subnet.cidr for subnet in cut}
    network = Network(cidr=cidr, management_cidr=found.get(NODES, ""), gateway="", subnets=cut)
    return ClusterLayout(network, tuple(found.get(f"rail{rail}", "") for rail in range(rails)), groups, ())


def _range(declaration: Declaration) -> str:
    """Return the declared range, or the default when it is wrong: most of a plan is the same in any range."""
    try:
        return declaration.network.cidr
    except AbsentError:
        return Declared().cidr


def _nodes(pool: Group, slot: int, address_map: AddressMap, leaf_nodes: int, notes: Notes) -> tuple[Node, ...]:
    if pool.role == "scheduling only":
        notes.reason(
            f"groups.{pool.name}",
            "scheduling only: its nodes stand in the scheduler's files and nowhere else, so they take no address, no "
            "rail and no memory, and a job that wants to run on one is cancelled",
        )
    else:
        notes.reason(
            f"groups.{pool.name}.addresses",
            f"slot {slot} of every network: the k-th node has the k-th of its {address_map.capacity(slot)} addresses, "
            "so that growth moves no address of this pool or another",
        )
    on_fabric = catalog.known_nics(catalog.machines()[pool.machine.name])
    leaves = [f"leaf{slot}-{number // leaf_nodes + 1}" if on_fabric else "" for number in range(pool.count)]
    if pool.role == "scheduling only":
        return tuple(Node(name, "", (), leaf) for name, leaf in zip(node_names(pool), leaves, strict=True))
    return tuple(
        _node(name, address_map, slot, number, pool, leaf)
        for number, (name, leaf) in enumerate(zip(node_names(pool), leaves, strict=True), 1)
    )


def _unnumbered(name: str, group: Group) -> Node:
    """Return a node that gets its addresses when it starts."""
    return Node(name, address="", rail_addresses=("",) * (group.rails or 0), leaf="")


def _node(name: str, address_map: AddressMap, slot: int, number: int, group: Group, leaf: str) -> Node:
    numbered = rail_addresses(group.machine.name)
    on_rails = [address_map.address(rail, slot, number) if numbered else "" for rail in rails_of(group)]
    return Node(name, address_map.address(addresses.MANAGEMENT, slot, number), tuple(on_rails), leaf)
