"""Who is in the cluster: machines, names, leaves and addresses of all nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.declaration import AbsentError, Declaration, Pool
from stampworks.declaration import Network as Declared
from stampworks.declaration import Storage as DeclaredStorage
from stampworks.declaration.wording import alternatives, did_you_mean, only, shown
from stampworks.text.names import fold
from stampworks.plan import (
    CONTROLLER,
    LOGIN,
    STATE_DIRECTORY,
    Group,
    Leaf,
    Machine,
    Network,
    Node,
    Offer,
    Plan,
    Subnet,
    Volume,
    traits_of,
)
from stampworks.planning.build import addresses
from stampworks.planning.build.addresses import AddressMap
from stampworks.planning.clouds.choices import Choices, Subnets
from stampworks.planning.fat_tree.tree import FabricError, NoFatTreeError, design
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.storage import subnet_addresses

STATE = Volume("state", STATE_DIRECTORY)
"""What the scheduler knows and nothing else does."""
SIMULATED_LEAF_NODES = 2
REAL_LEAF_NODES = 32
"""Where no switch of the catalog takes the NICs: half of the ports of one with 64; the other half are uplinks."""
NUMBERED_RESERVED = 2
"""Addresses of a network that no port has: the first and the last one."""
ZONE_OF_REGION = "-?[a-z]|-[a-z0-9-]*[a-z0-9]"
"""How the name of a zone goes on behind its region's: us-east-1a, us-east1-b, us-east-1-bos-1a."""
NODES, STORAGE, CONTROL = "nodes", "storage", "control-plane"
"""Subnets: where nodes are; and where file systems are, with what else is not a node, as a way out."""


@dataclass(frozen=True)
class Layout:
    network: Network
    rail_cidrs: tuple[str, ...]
    """One for each rail; empty where its ports have no address in the cluster's range."""
    groups: tuple[Group, ...]
    leaves: tuple[Leaf, ...]


def lay_out(declaration: Declaration, choices: Choices, notes: Notes) -> Layout:
    """Places every node. Nothing of a pool depends on the size of another one, so that growth moves nobody."""
    _check_place(declaration, choices, notes)
    machines = [catalog.machines()[pool.machine] for pool in declaration.pools]
    if choices.numbers_ports:
        return _numbered(declaration, machines, choices, notes)
    return _on_a_cloud(declaration, machines, choices, notes)


def _check_place(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    notes.step(_check_name, declaration, choices, notes)
    notes.step(_check_region, declaration, choices, notes)
    for index, pool in enumerate(declaration.pools):
        path = f"pools[{index}]"
        notes.step(_check_zone, path, pool, declaration, choices, notes)
        notes.step(_check_purchase, path, pool, declaration.cloud, choices, notes)
        notes.step(_check_elastic, path, pool, declaration, choices, notes)
        notes.step(_check_fallbacks, path, pool, declaration.cloud, choices, notes)
        notes.step(_check_reservation, path, pool, declaration.cloud, choices, notes)


def _check_name(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    if why := choices.name_refused(declaration.name):
        notes.problem("name", why, "write a name that begins with something else")


def _check_region(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    if choices.regions and not declaration.region:
        notes.problem(
            "region",
            f"is missing: on {declaration.cloud} a cluster is in one region",
            "write it as the cloud does, like region: us-east-1",
        )
    listed = catalog.regions().get(declaration.cloud)
    if declaration.region and listed and declaration.region not in listed.names:
        notes.problem(
            "region",
            f"catalog/regions.yaml has no region {shown(declaration.region)} of {declaration.cloud} ({listed.source}, "
            f"read {listed.read})",
            did_you_mean(declaration.region, listed.names),
        )


def _check_zone(path: str, pool: Pool, declaration: Declaration, choices: Choices, notes: Notes) -> None:
    region, zone, listed = declaration.region, pool.zone, catalog.regions().get(declaration.cloud)
    if not choices.zones_begin_with_region or not zone or not region or (listed and region not in listed.names):
        return  # of a wrong region no zone is right
    if not zone.startswith(region) or not re.fullmatch(ZONE_OF_REGION, zone.removeprefix(region)):
        notes.problem(
            f"{path}.zone",
            f"{zone} is no zone of {region}, where the cluster is: the name of a zone begins with that",
            "write a zone of the region, or the region that the zone is in",
        )


def _check_purchase(path: str, pool: Pool, cloud: str, choices: Choices, notes: Notes) -> None:
    if pool.purchase and pool.purchase not in choices.purchases:
        what = f"machines of {cloud} are not bought as {pool.purchase}"
        notes.problem(f"{path}.purchase", what, only(choices.purchases))


def _check_fallbacks(path: str, pool: Pool, cloud: str, choices: Choices, notes: Notes) -> None:
    if pool.fallbacks and choices.launches is None:
        what = f"nothing on {cloud} starts nodes by itself yet"
        notes.problem(f"{path}.fallbacks", what, "take them out")
        return
    known = {(pool.purchase or choices.purchases[0], pool.reservation): "the pool itself is"}
    for index, each in enumerate(pool.fallbacks):
        way = (each.purchase, each.reservation)
        if way in known:
            what = "nodes would be asked for twice in the same way"
            notes.problem(f"{path}.fallbacks[{index}]", what, f"take it out: {known[way]} bought so")
        known.setdefault(way, f"fallbacks[{index}] is")
        if each.purchase not in choices.purchases:
            what = f"machines of {cloud} are not bought as {each.purchase}"
            notes.problem(f"{path}.fallbacks[{index}].purchase", what, only(choices.purchases))


def _check_elastic(path: str, pool: Pool, declaration: Declaration, choices: Choices, notes: Notes) -> None:
    managed = choices.runs(declaration.scheduler.kind)
    if (choices.numbers_ports or managed) and pool.count_min not in (None, pool.count):
        where = managed.what if managed else declaration.cloud
        notes.problem(
            f"{path}.count_min",
            f"nothing on {where} starts or stops nodes by itself yet",
            f"take it out: all nodes of pool {pool.name} run",
        )


def _check_reservation(path: str, pool: Pool, cloud: str, choices: Choices, notes: Notes) -> None:
    named = {f"{path}.fallbacks[{index}]": each.reservation for index, each in enumerate(pool.fallbacks)}
    for where, name in {path: pool.reservation, **named}.items():
        if name and choices.reservation and not re.fullmatch(choices.reservation, name):
            what = f"{cloud} calls no reservation {shown(name)}"
            notes.problem(f"{where}.reservation", what, choices.reservation_hint)
    if pool.reservation and pool.purchase not in ("reserved", "block"):
        bought = pool.purchase or choices.purchases[0]
        before = [f"write purchase: {form}" for form in choices.purchases if form in ("reserved", "block")]
        notes.problem(
            f"{path}.reservation",
            f"pool {pool.name} is {bought}, which takes no capacity that was bought before",
            alternatives([*before, "take the reservation out"]),
        )


def _numbered(declaration: Declaration, machines: Sequence[catalog.Machine], choices: Choices, notes: Notes) -> Layout:
    """Every node has a name, and every port that takes an address a number."""
    login = declaration.scheduler.login_nodes
    who = "the head with the gateway and the login nodes" if login else "the head with the gateway"
    members = [(who, addresses.HEAD + login)]
    members += [(f"pool {pool.name}", 0 if pool.scheduling_only else pool.count) for pool in declaration.pools]
    pools = [_pool(declaration, index, machine, choices) for index, machine in enumerate(machines)]
    there = [pool for pool in pools if pool.role != "scheduling only"]
    apart = _on_nics_apart(there)
    rails = [f"rail{rail}" for rail in range(_rails(declaration, machines))]
    with_addresses = [rail for group in there if rail_addresses(group.machine.name) for rail in _rails_of(group)]
    networks = [*(name for name, _ in apart), *(rail for rail in rails if rail in with_addresses)]
    cidr = _range(declaration)
    address_map = addresses.cut(cidr, networks, members, notes)
    if unnumbered := [rail for rail in rails if rail not in with_addresses]:
        notes.reason("fabric.rails.cidr", f"none for {fold(unnumbered)}: what joins their ports numbers them itself")
    found = {name: str(part) for name, part in address_map.networks.items()}
    network = Network(
        cidr=cidr,
        management_cidr=found[addresses.MANAGEMENT],
        gateway=address_map.address(addresses.MANAGEMENT, 0, addresses.GATEWAY),
        subnets=tuple(Subnet(name, found[name], NUMBERED_RESERVED, need, public=False) for name, need in apart),
    )
    head = _controller(declaration, choices, notes)
    head = replace(head, nodes=(_node(CONTROLLER, address_map, 0, addresses.HEAD, head, ""),))
    logins = [
        replace(
            group,
            nodes=tuple(
                _node(name, address_map, 0, number, group, "")
                for number, name in enumerate(_names(group), addresses.HEAD + 1)
            ),
        )
        for group in _login(declaration, head, notes)
    ]
    leaf_nodes = leaf_size(declaration)
    pools = [
        replace(pool, nodes=_nodes(pool, slot, address_map, leaf_nodes, notes))
        for slot, pool in enumerate(pools[: addresses.POOLS_MAX], 1)
    ]
    return Layout(network, tuple(found.get(rail, "") for rail in rails), (head, *pools, *logins), _leaves(pools))


def _on_a_cloud(
    declaration: Declaration, machines: Sequence[catalog.Machine], choices: Choices, notes: Notes
) -> Layout:
    """The cloud places nodes and hands out their addresses; where it starts machines for us, they have our names."""
    pools = [_pool(declaration, index, machine, choices) for index, machine in enumerate(machines)]
    head = replace(_controller(declaration, choices, notes), zone=pools[0].zone)
    others = [*pools, *_login(declaration, head, notes)]
    if choices.launches and not choices.runs(declaration.scheduler.kind):
        head = replace(head, nodes=(_unnumbered(CONTROLLER, head),))
        others = [replace(each, nodes=tuple(_unnumbered(name, each) for name in _names(each))) for each in others]
    else:
        why = f"named by {declaration.cloud} when it makes them: a plan knows how many there are"
        notes.reason("groups.nodes", why)
    if head.zone:
        notes.reason(
            f"groups.{CONTROLLER}.zone", "that of the first pool: what passes between zones is slower and paid"
        )
    groups = (head, *others)
    rails = _rails(declaration, machines)
    for group in groups:
        if group.elastic:
            notes.reason(
                f"groups.{group.name}.count",
                f"{group.counts} nodes run: addresses, limits and what they can reach are counted for {group.count}",
            )
    if choices.subnets is None:
        notes.reason("network", f"{declaration.cloud} rents machines with an address each: the cluster has no range")
        return Layout(Network(cidr="", management_cidr="", gateway="", subnets=()), ("",) * rails, groups, ())
    own = [_subnet_of_rail(rail, machines) for rail in range(rails)]
    needs, small, less = _on_nodes(declaration, groups, choices)
    needs += [(f"rail{rail}", _on_rail(groups, rail)) for rail in range(rails) if own[rail]]
    cidr = _range(declaration)
    cut = addresses.subnets(cidr, needs, small, choices.subnets, notes, less)
    unsaid = [each.kind for each in declaration.storage if _on_storage(each, choices.subnets) is UNKNOWN]
    subnets = tuple(replace(each, needed=None) if unsaid and each.name == STORAGE else each for each in cut)
    if unsaid:
        notes.reason(f"network.subnets.{STORAGE}.needed", f"unknown: nobody has published it of {', '.join(unsaid)}")
    _say_needs(groups, subnets, _card_addresses(declaration), notes)
    found = {subnet.name: subnet.cidr for subnet in subnets}
    network = Network(cidr=cidr, management_cidr=found.get(NODES, ""), gateway="", subnets=subnets)
    return Layout(network, tuple(found.get(f"rail{rail}", "") for rail in range(rails)), groups, ())


def _range(declaration: Declaration) -> str:
    """The usual one where it is wrong: nearly all that is planned is the same in any range."""
    try:
        return declaration.network.cidr
    except AbsentError:
        return Declared().cidr


def _card_addresses(declaration: Declaration) -> bool:
    try:
        return declaration.network.card_addresses
    except AbsentError:
        return False


def _say_needs(groups: Sequence[Group], subnets: Sequence[Subnet], card_addresses: bool, notes: Notes) -> None:
    """Each number with its arithmetic."""
    there = [group for group in groups if group.role != "scheduling only"]
    taken = [(group, subnet.name, each) for group in there for subnet, each in taken_of(subnets, group, card_addresses)]
    for subnet in subnets:
        parts = [(group, each) for group, name, each in taken if name == subnet.name]
        terms = [f"{group.count} x {each} ({group.name})" for group, each in parts]
        if terms and subnet.needed is not None:
            of_nodes = sum(group.count * each for group, each in parts)
            pods = [f"{subnet.needed - of_nodes} of Kubernetes"] if subnet.needed > of_nodes else []
            notes.reason(f"network.subnets.{subnet.name}.needed", " + ".join([*terms, *pods]) + f" = {subnet.needed}")


def taken_of(subnets: Sequence[Subnet], group: Group, card_addresses: bool) -> Iterator[tuple[Subnet, int]]:
    """The subnets that a node of a group is in, and what it takes of each, its pods left out."""
    machine = group.machine.name
    apart = {*nics_apart(machine)} & {subnet.name for subnet in subnets}
    rails = _rails_of(group) if rail_addresses(machine) else []
    for subnet in subnets:
        if subnet.name == NODES:
            yield subnet, node_addresses(machine, card_addresses) - len(apart)
        elif subnet.name in apart:
            yield subnet, 1
        elif subnet.name in rails:
            yield subnet, rail_addresses(machine)


def taken_by(plan: Plan, group: Group) -> Iterator[tuple[Subnet, int]]:
    """The same of a plan, with the pods that a node may run."""
    pods = plan.network.pods
    for subnet, each in taken_of(plan.network.subnets, group, plan.network.card_addresses):
        yield subnet, each + (pods.node_addresses if pods and pods.subnet == subnet.name else 0)


def _rails_of(group: Group) -> list[str]:
    return [f"rail{rail}" for rail in range(group.rails or 0)]


def _on_nodes(
    declaration: Declaration, groups: Sequence[Group], choices: Choices
) -> tuple[list[tuple[str, int]], tuple[str, int] | None, Callable[[int], str]]:
    """What is needed of the subnets of every cloud, a small one that never grows, and how it could be less."""
    there = [group for group in groups if group.role != "scheduling only"]
    count = sum(group.count for group in there)
    apart = _on_nics_apart(there) if choices.subnets and choices.subnets.nic_networks else []
    cards = _card_addresses(declaration)
    own = sum(group.count * node_addresses(group.machine.name, cards) for group in there)
    own -= sum(need for _, need in apart)
    of_storage = [_on_storage(each, choices.subnets) for each in declaration.storage] if choices.subnets else []
    storage_ = sum(each for each in of_storage if isinstance(each, int))
    pods, per_node = choices.pods, declaration.scheduler.pods_per_node
    if declaration.scheduler.kind != "kubernetes" or pods is None or pods.own_range:
        return [(NODES, own), (STORAGE, storage_), *apart], None, lambda _: ""
    count += pods.surge * len(there)
    own += pods.surge * sum(node_addresses(group.machine.name, cards) for group in there) + pods.apart
    needed = own + count * pods.node_addresses(per_node)
    small = (CONTROL, pods.control) if pods.control else None
    return [(NODES, needed), (STORAGE, storage_), *apart], small, lambda room: pods.fewer(per_node, count, room - own)


def _on_storage(declared: DeclaredStorage, rules: Subnets) -> int | catalog.Unknown:
    """What a file system takes of its subnet; one of which something is wrong is no reason to place no nodes."""
    try:
        return subnet_addresses(declared, rules.reserved)
    except AbsentError:
        return 0


def _rails(declaration: Declaration, machines: Sequence[catalog.Machine]) -> int:
    """As many as the machine with the most NICs meets."""
    real = (machine for pool, machine in zip(declaration.pools, machines, strict=True) if not pool.scheduling_only)
    return max(map(catalog.known_nics, real), default=0)


def nics_apart(machine: str) -> tuple[str, ...]:
    """The subnets of those NICs beside the first that are on no rail, where each has one of its own."""
    others = catalog.machines()[machine].other_nics
    return () if isinstance(others, catalog.Unknown) else tuple(f"nic{number}" for number in range(1, others))


def _on_nics_apart(groups: Sequence[Group]) -> list[tuple[str, int]]:
    needs: Counter[str] = Counter()
    for group in groups:
        needs.update(dict.fromkeys(nics_apart(group.machine.name), group.count))
    return sorted(needs.items())


def node_addresses(machine: str, card_addresses: bool) -> int:
    """What one node takes beside its rails, most of it of the subnet of nodes: for one NIC at least."""
    row = catalog.machines()[machine]
    if card_addresses:  # and the first card has one, whatever it is on
        return len({0, *catalog.fabric_cards(row)})
    nic = catalog.nic_of(row)
    others = 1 if isinstance(row.other_nics, catalog.Unknown) else row.other_nics
    in_it = catalog.known_nics(row) * nic.addresses if nic and not nic.own_subnet else 0
    return max(1, others + in_it)


def _subnet_of_rail(rail: int, machines: Sequence[catalog.Machine]) -> bool:
    return any(rail < catalog.known_nics(row) and (nic := catalog.nic_of(row)) and nic.own_subnet for row in machines)


def _on_rail(groups: Sequence[Group], rail: int) -> int:
    there = [group for group in groups if rail < (group.rails or 0)]
    return sum(group.count * rail_addresses(group.machine.name) for group in there)


def rail_addresses(machine: str) -> int:
    """What one node takes of the subnet of each of its rails."""
    nic = catalog.nic_of(catalog.machines()[machine])
    return nic.addresses if nic and nic.own_subnet else 0


def machine_facts(row: catalog.Machine) -> Machine:
    """What later steps need to know of a machine."""
    memory_gib = catalog.accelerators()[row.accelerator].memory_gib if row.accelerator else 0
    return Machine(
        name=row.name,
        simulated=row.simulated,
        accelerator=row.accelerator,
        accelerators=row.accelerators,
        accelerator_memory_gib=_known(memory_gib),
        cores=_known(row.cores),
        threads=_known(row.threads),
        memory_mib=_known(row.memory_mib),
    )


def _known(fact: int | catalog.Unknown) -> int | None:
    return None if isinstance(fact, catalog.Unknown) else fact


def _controller(declaration: Declaration, choices: Choices, notes: Notes) -> Group:
    row = catalog.machines()[choices.controller_machine]
    managed = choices.runs(declaration.scheduler.kind)
    notes.reason(f"groups.{CONTROLLER}.machine", choices.controller_why)
    if managed:
        notes.reason(f"groups.{CONTROLLER}.count", managed.system_why)
    else:
        kept = traits_of(declaration.scheduler.kind).keeps
        why = f"apart from the controller's disk, so that a new disk does not lose {kept}"
        notes.reason(f"groups.{CONTROLLER}.volumes", why)
    return Group(
        name=CONTROLLER,
        role="controller",
        machine=machine_facts(row),
        count=managed.system_nodes if managed else 1,
        count_min=managed.system_nodes if managed else 1,
        nodes=(),
        volumes=() if managed else (STATE,),
        rails=_known(row.nics),
        purchase="owned" if row.billing_unit == "none" else choices.purchases[0],
        zone="",
        reservation="",
    )


def _login(declaration: Declaration, head: Group, notes: Notes) -> list[Group]:
    """One group where some are declared: what the head is, without what only the scheduler knows."""
    count = declaration.scheduler.login_nodes
    if not count:
        return []
    notes.reason(f"groups.{LOGIN}.machine", "that of the head: people submit jobs from it, and none runs there")
    return [replace(head, name=LOGIN, role="login", count=count, count_min=count, nodes=(), volumes=())]


def _pool(declaration: Declaration, index: int, row: catalog.Machine, choices: Choices) -> Group:
    pool = declaration.pools[index]
    return Group(
        name=pool.name,
        role="scheduling only" if pool.scheduling_only else "worker",
        machine=machine_facts(row),
        count=pool.count,
        count_min=pool.count if pool.count_min is None else pool.count_min,
        nodes=(),
        volumes=(),
        rails=0 if pool.scheduling_only else _known(row.nics),
        purchase=pool.purchase or choices.purchases[0],
        zone=pool.zone,
        reservation=pool.reservation,
        fallbacks=tuple(Offer(each.purchase, each.reservation, placed_together=False) for each in pool.fallbacks),
    )


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
        return tuple(Node(name, "", (), leaf) for name, leaf in zip(_names(pool), leaves, strict=True))
    return tuple(
        _node(name, address_map, slot, number, pool, leaf)
        for number, (name, leaf) in enumerate(zip(_names(pool), leaves, strict=True), 1)
    )


def _names(pool: Group) -> list[str]:
    return [f"{pool.name}-{number:03d}" for number in range(1, pool.count + 1)]


def _unnumbered(name: str, group: Group) -> Node:
    """A node that gets its addresses when it is there."""
    return Node(name, address="", rail_addresses=("",) * (group.rails or 0), leaf="")


def _node(name: str, address_map: AddressMap, slot: int, number: int, group: Group, leaf: str) -> Node:
    numbered = rail_addresses(group.machine.name)
    on_rails = [address_map.address(rail, slot, number) if numbered else "" for rail in _rails_of(group)]
    return Node(name, address_map.address(addresses.MANAGEMENT, slot, number), tuple(on_rails), leaf)


def joined_nodes(row: catalog.Machine) -> int:
    """How many nodes share links between their accelerators; where nobody says so, each is alone."""
    return row.nvlink_nodes if isinstance(row.nvlink_nodes, int) else 1


def leaf_size(declaration: Declaration) -> int:
    """How many nodes of a pool share a leaf: of several kinds of NICs, as many as the smallest of switches takes."""
    if declaration.fabric.leaf_nodes:
        return declaration.fabric.leaf_nodes
    rows = [catalog.machines()[pool.machine] for pool in declaration.pools if not pool.scheduling_only]
    real = [row for row in rows if catalog.known_nics(row) and not row.simulated]
    return min((unit_of(row, declaration.fabric.oversubscription) for row in real), default=SIMULATED_LEAF_NODES)


def unit_of(row: catalog.Machine, oversubscription: int) -> int:
    """How many nodes of a machine a leaf takes."""
    try:
        return design(row, 1, oversubscription=oversubscription).unit
    except (FabricError, NoFatTreeError):
        return REAL_LEAF_NODES


def _leaves(pools: list[Group]) -> tuple[Leaf, ...]:
    """Where nodes are plugged in: what is for scheduling only is in no fabric."""
    leaves: dict[str, list[str]] = {}
    for node in (node for pool in pools if pool.role == "worker" for node in pool.nodes if node.leaf):
        leaves.setdefault(node.leaf, []).append(node.name)
    return tuple(Leaf(name, tuple(nodes)) for name, nodes in leaves.items())
