"""The subnets of a cloud's network, with the addresses that nodes, pods and file systems need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.declaration import AbsentError, Declaration
from stampworks.declaration import Storage as DeclaredStorage
from stampworks.plan import Group, Subnet, traits_of
from stampworks.planning.build import addresses, existing
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.ports import (
    CONTROL,
    NODES,
    STORAGE,
    has_own_subnet,
    node_addresses,
    on_nics_apart,
    on_rail,
    rails_met,
    rdma_only,
    taken_of,
)
from stampworks.planning.build.storage import subnet_addresses
from stampworks.planning.clouds.choices import Choices, Subnets
from stampworks.text.names import fold


def cut(
    cidr: str,
    declaration: Declaration,
    groups: Sequence[Group],
    machines: Sequence[catalog.Machine],
    choices: Choices,
    notes: Notes,
) -> tuple[Subnet, ...]:
    """Cut a range into the subnets of a cloud that numbers ports itself."""
    if choices.subnets is None:
        return ()
    needs, small, less = _cloud_needs(declaration, groups, choices)
    if declaration.network.existing.vpc and choices.existing:
        return _existing_subnets(cidr, declaration, groups, needs, choices.subnets, notes)
    rails = [rail for rail in range(rails_met(declaration, machines)) if has_own_subnet(rail, machines)]
    needs += [(f"rail{rail}", on_rail(groups, rail)) for rail in rails]
    cut_ = addresses.subnets(cidr, needs, small, choices.subnets, notes, less)
    unsaid = [each.kind for each in declaration.storage if _storage_addresses(each, choices.subnets) is UNKNOWN]
    subnets = tuple(replace(each, needed=None) if unsaid and each.name == STORAGE else each for each in cut_)
    if unsaid:
        notes.reason(f"network.subnets.{STORAGE}.needed", f"unknown: not published for {', '.join(unsaid)}")
    _say_needs(groups, subnets, _has_card_addresses(declaration), notes)
    if choices.subnets.nic_networks and rails:
        notes.reason("network.subnets.networks", _networks(rails, machines, len(cut_), choices.subnets))
    return subnets


def _networks(rails: Sequence[int], machines: Sequence[catalog.Machine], count: int, rules: Subnets) -> str:
    """Return how many networks the subnets are in; that of file systems is in the network of nodes."""
    rdma = [rail for rail in rails if rules.rdma_network and rdma_only(rail, machines)]
    apart = f", and {fold([f'rail{rail}' for rail in rdma])} share one for RDMA, in one zone" if rdma else ""
    return f"{count - 1 - len(rdma) + bool(rdma)} networks: every NIC is in another one{apart}"


def _existing_subnets(
    cidr: str,
    declaration: Declaration,
    groups: Sequence[Group],
    needs: Sequence[tuple[str, int]],
    rules: Subnets,
    notes: Notes,
) -> tuple[Subnet, ...]:
    """Return the subnets of an existing network, with their needs."""
    existing.check_ranges(declaration, cidr, notes)
    found = existing.subnets(declaration, needs, rules, notes)
    _say_needs(groups, found, _has_card_addresses(declaration), notes)
    return found


def _has_card_addresses(declaration: Declaration) -> bool:
    try:
        return declaration.network.card_addresses
    except AbsentError:
        return False


def _say_needs(groups: Sequence[Group], subnets: Sequence[Subnet], card_addresses: bool, notes: Notes) -> None:
    """Give each number its arithmetic as a reason."""
    there = [group for group in groups if group.role != "scheduling only"]
    taken = [(group, subnet.name, each) for group in there for subnet, each in taken_of(subnets, group, card_addresses)]
    for subnet in subnets:
        parts = [(group, each) for group, name, each in taken if name == subnet.name]
        terms = [f"{group.count} x {each} ({group.name})" for group, each in parts]
        if terms and subnet.needed is not None:
            of_nodes = sum(group.count * each for group, each in parts)
            pods = [f"{subnet.needed - of_nodes} of Kubernetes"] if subnet.needed > of_nodes else []
            notes.reason(f"network.subnets.{subnet.name}.needed", " + ".join([*terms, *pods]) + f" = {subnet.needed}")


def _cloud_needs(
    declaration: Declaration, groups: Sequence[Group], choices: Choices
) -> tuple[list[tuple[str, int]], tuple[str, int] | None, Callable[[int], str]]:
    """Return the needs of a cloud's subnets, of a small one of fixed size, and a function that suggests lower needs."""
    there = [group for group in groups if group.role != "scheduling only"]
    count = sum(group.count for group in there)
    apart = on_nics_apart(there) if choices.subnets and choices.subnets.nic_networks else []
    cards = _has_card_addresses(declaration)
    own = sum(group.count * node_addresses(group.machine.name, cards) for group in there)
    own -= sum(need for _, need in apart)
    of_storage = [_storage_addresses(each, choices.subnets) for each in declaration.storage] if choices.subnets else []
    storage_ = sum(each for each in of_storage if isinstance(each, int))
    pods, per_node = choices.pods, declaration.scheduler.pods_per_node
    if not traits_of(declaration.scheduler.kind).runs_pods or pods is None or pods.own_range:
        return [(NODES, own), (STORAGE, storage_), *apart], None, lambda _: ""
    count += pods.surge * len(there)
    own += pods.surge * sum(node_addresses(group.machine.name, cards) for group in there) + pods.apart
    needed = own + count * pods.node_addresses(per_node)
    small = (CONTROL, pods.control) if pods.control else None
    return [(NODES, needed), (STORAGE, storage_), *apart], small, lambda room: pods.fewer(per_node, count, room - own)


def _storage_addresses(declared: DeclaredStorage, rules: Subnets) -> int | catalog.Unknown:
    """Count the addresses of a file system; 0 when its declaration is wrong, so that planning can continue."""
    try:
        return subnet_addresses(declared, rules.reserved)
    except AbsentError:
        return 0
