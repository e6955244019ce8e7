"""The rails of nodes, and the addresses that their NICs take from each subnet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.plan import Group, Plan, Subnet

NODES, STORAGE, CONTROL = "nodes", "storage", "control-plane"
"""Subnets: of nodes; of file systems and of everything else that is not a node; of a control plane."""


def taken_of(subnets: Sequence[Subnet], group: Group, card_addresses: bool) -> Iterator[tuple[Subnet, int]]:
    """Yield the subnets of a group's nodes, with the addresses that a node takes from each, without its pods."""
    machine = group.machine.name
    apart = {*nics_apart(machine)} & {subnet.name for subnet in subnets}
    rails = rails_of(group) if rail_addresses(machine) else []
    for subnet in subnets:
        if subnet.name == NODES:
            yield subnet, node_addresses(machine, card_addresses) - len(apart)
        elif subnet.name in apart:
            yield subnet, 1
        elif subnet.name in rails:
            yield subnet, rail_addresses(machine)


def taken_by(plan: Plan, group: Group) -> Iterator[tuple[Subnet, int]]:
    """Yield the same for a plan, including the addresses of pods."""
    pods = plan.network.pods
    for subnet, each in taken_of(plan.network.subnets, group, plan.network.card_addresses):
        yield subnet, each + (pods.node_addresses if pods and pods.subnet == subnet.name else 0)


def rails_of(group: Group) -> list[str]:
    """Return the subnet names of a group's rails."""
    return [f"rail{rail}" for rail in range(group.rails or 0)]


def rails_met(declaration: Declaration, machines: Sequence[catalog.Machine]) -> int:
    """Return the number of rails, which is that of the machine with the most NICs."""
    real = (machine for pool, machine in zip(declaration.pools, machines, strict=True) if not pool.scheduling_only)
    return max(map(catalog.known_nics, real), default=0)


def nics_apart(machine: str) -> tuple[str, ...]:
    """Return the subnets of additional NICs that are not on a rail, if each has its own."""
    others = catalog.machines()[machine].other_nics
    return () if isinstance(others, catalog.Unknown) else tuple(f"nic{number}" for number in range(1, others))


def on_nics_apart(groups: Sequence[Group]) -> list[tuple[str, int]]:
    """Return the number of nodes for each subnet of NICs that are not rails."""
    needs: Counter[str] = Counter()
    for group in groups:
        needs.update(dict.fromkeys(nics_apart(group.machine.name), group.count))
    return sorted(needs.items())


def node_addresses(machine: str, card_addresses: bool) -> int:
    """Count the addresses of a node besides its rails, most of them from the subnet of nodes; at least one NIC has
    one."""
    row = catalog.machines()[machine]
    if card_addresses:  # the first card always has an address
        return len({0, *catalog.fabric_cards(row)})
    nic = catalog.nic_of(row)
    others = 1 if isinstance(row.other_nics, catalog.Unknown) else row.other_nics
    in_it = catalog.known_nics(row) * nic.addresses if nic and not nic.own_subnet else 0
    return max(1, others + in_it)


def has_own_subnet(rail: int, machines: Sequence[catalog.Machine]) -> bool:
    """Whether the NICs of a rail need a subnet apart from the other rails."""
    return any(rail < catalog.known_nics(row) and (nic := catalog.nic_of(row)) and nic.own_subnet for row in machines)


def rdma_only(rail: int, machines: Sequence[catalog.Machine]) -> bool:
    """Whether all NICs of a rail do RDMA and nothing else."""
    nics = [catalog.nic_of(row) for row in machines if rail < catalog.known_nics(row)]
    return all(nic is not None and nic.rdma_only for nic in nics)


def on_rail(groups: Sequence[Group], rail: int) -> int:
    """Return the number of addresses that all groups take from the subnet of a rail."""
    there = [group for group in groups if rail < (group.rails or 0)]
    return sum(group.count * rail_addresses(group.machine.name) for group in there)


def rail_addresses(machine: str) -> int:
    """Count the addresses of a node on the subnet of each of its rails."""
    nic = catalog.nic_of(catalog.machines()[machine])
    return nic.addresses if nic and nic.own_subnet else 0
