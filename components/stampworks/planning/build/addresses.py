"""Cut a range of addresses so that growth never moves an address.

Where a cloud assigns addresses, the range is cut into equal subnets, and the cloud does the rest. Elsewhere it is cut
into equal networks: management first, then one for each additional NIC and each rail whose ports take addresses. Each
network is cut into 16 equal slots. Slot 0 belongs to the infrastructure. Each pool has the next slot in declared order,
the same in every network. The k-th node of a pool has the k-th address after the start of its slot, so that gpu-001
ends in .1. The address at the start of a slot belongs to the slot before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from stampworks.declaration.wording import alternatives
from stampworks.plan import Subnet
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Subnets

SLOTS = 16
POOLS_MAX = SLOTS - 1
MANAGEMENT = "management"
GATEWAY, HEAD = 1, 2
"""The first two addresses of slot 0."""


@dataclass(frozen=True)
class AddressMap:
    """The networks into which a cluster's range is cut."""

    networks: Mapping[str, IPv4Network]
    """Networks by name, all of one size; management is one of them."""

    @property
    def slot_size(self) -> int:
        """Addresses of a slot. A group of nodes takes whole slots."""
        return self.networks[MANAGEMENT].num_addresses // SLOTS

    def capacity(self, slot: int) -> int:
        """Return the addresses of a slot for nodes. The last slot has 2 fewer: it has no successor, and contains the
        broadcast address."""
        return self.slot_size - 2 if slot == SLOTS - 1 else self.slot_size

    def address(self, network: str, slot: int, number: int) -> str:
        """Return the address of the number-th member of a slot, counted from 1."""
        if not 1 <= number <= self.capacity(slot):
            raise ValueError(f"slot {slot} has {self.capacity(slot)} addresses, not {number}")
        return str(self.networks[network][slot * self.slot_size + number])


def cut(cidr: str, others: Sequence[str], members: Sequence[tuple[str, int]], notes: Notes) -> AddressMap:
    """Cut the range into management and these other networks; each member is a name and a number of addresses.

    The first member is the head.
    """
    names = [MANAGEMENT, *others]
    if len(members) > SLOTS:
        notes.problem(
            f"pools[{POOLS_MAX}]",
            f"a cluster has at most {POOLS_MAX} pools: a network has {SLOTS} slots, the head takes one, each pool one",
            "put nodes of one machine into one pool, or declare a second cluster",
        )
        members = members[:SLOTS]
    range_ = IPv4Network(cidr)
    parts = _power_of_two(len(names))
    slot = max(_slot_size(index, count) for index, (_, count) in enumerate(members))
    prefix = 32 - (parts * SLOTS * slot).bit_length() + 1
    if prefix < range_.prefixlen:
        message = _too_small(range_, parts, members)
        notes.problem("network.cidr", message, _large_enough(range_, prefix, names, parts))
        range_ = range_.supernet(new_prefix=prefix)
    subnets = range_.subnets(prefixlen_diff=parts.bit_length() - 1)
    address_map = AddressMap({name: next(subnets) for name in names})
    _say_why(cidr, parts, address_map, notes)
    return address_map


def subnets(
    cidr: str,
    needs: Sequence[tuple[str, int]],
    small: tuple[str, int] | None,
    rules: Subnets,
    notes: Notes,
    less: Callable[[int], str],
) -> tuple[Subnet, ...]:
    """Cut equal subnets; each need is a name and a number of addresses.

    Growth of one subnet moves no other. A small subnet of fixed size takes the end of the last one, which is then half
    as large. If no network of the cloud is large enough, `less` suggests how to fit into a subnet of so many addresses.
    """
    range_, parts = IPv4Network(cidr), _power_of_two(len(needs))
    if range_.prefixlen < rules.shortest_prefix:
        notes.problem(
            "network.cidr",
            f"{range_} is larger than a network of this cloud can be, which is a /{rules.shortest_prefix}",
            f"write a part of it, for example {next(range_.subnets(new_prefix=rules.shortest_prefix))}",
        )
        return ()
    name, most = max(needs, key=lambda need: need[1])
    size = max(_subnet_size(most, rules), 2 * _subnet_size(small[1], rules) if small else 0)
    prefix = 33 - (parts * size).bit_length()
    if prefix < rules.shortest_prefix:
        room = (1 << (32 - rules.shortest_prefix)) // parts - rules.reserved
        notes.problem(
            "pools",
            f"{name} needs {most} addresses, and {parts} subnets of that size are a /{prefix}: the cloud has no "
            f"network larger than a /{rules.shortest_prefix}",
            alternatives([each for each in (less(room), "declare a second cluster for some of the nodes") if each]),
        )
        return ()
    if prefix < range_.prefixlen:
        room = range_.num_addresses // parts - rules.reserved
        example = range_.supernet(new_prefix=prefix)
        if not example.is_private:
            example = IPv4Network(("10.0.0.0", prefix), strict=False)
        notes.problem(
            "network.cidr",
            f"{range_} is too small: cut into {parts} subnets ({', '.join(each for each, _ in needs)}) it leaves "
            f"{max(room, 0)} addresses in each, and {name} needs {most}; {rules.reserved_why}",
            f"the smallest range that suffices is a /{prefix}, for example {example}",
        )
        range_ = example
    end = f"; {small[0]} is the end of the last one" if small else ""
    notes.reason(
        "network.subnets",
        f"{cidr} is cut into {parts} equal parts, of which {len(needs)} are used "
        f"({', '.join(each for each, _ in needs)}), so that growth of one moves no other{end}; {rules.reserved_why}",
    )
    cut_ = [each for each, _ in zip(range_.subnets(prefixlen_diff=parts.bit_length() - 1), needs, strict=False)]
    found = [
        Subnet(each, str(part), rules.reserved, need, public=False)
        for (each, need), part in zip(needs, cut_, strict=True)
    ]
    if small:
        size = _subnet_size(small[1], rules)
        part = IPv4Network((int(cut_[-1].broadcast_address) + 1 - size, 33 - size.bit_length()))
        found[-1] = replace(found[-1], cidr=str(next(cut_[-1].subnets())))
        found.append(Subnet(small[0], str(part), rules.reserved, small[1], public=False))
    return tuple(found)


def _subnet_size(need: int, rules: Subnets) -> int:
    return max(_power_of_two(need + rules.reserved), 1 << (32 - rules.longest_prefix))


def _slot_size(slot: int, count: int) -> int:
    return _power_of_two(max(1, count + 2 if slot == SLOTS - 1 else count))


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()


def _too_small(range_: IPv4Network, parts: int, members: Sequence[tuple[str, int]]) -> str:
    size = range_.num_addresses / parts / SLOTS
    needs = [
        f"{name} needs {count}" + (" (the last slot has 2 less)" if slot == SLOTS - 1 else "")
        for slot, (name, count) in enumerate(members)
        if count > (size - 2 if slot == SLOTS - 1 else size)
    ]
    return f"{range_} is too small: a slot of it has {size:g} {_addresses(size)}, and {', '.join(needs)}"


def _large_enough(range_: IPv4Network, prefix: int, names: Sequence[str], parts: int) -> str:
    example = range_.supernet(new_prefix=prefix)
    if not example.is_private:  # the supernet of a small private range may be public
        example = IPv4Network(("10.77.0.0", prefix), strict=False)
    size = range_.num_addresses / parts / SLOTS
    return (
        f"the smallest range that suffices is a /{prefix}, for example {example}\n"
        f"{range_.num_addresses} addresses / {parts} networks ({_shown(names, parts)}) / {SLOTS} slots (the head, then "
        f"each pool) = {size:g} {_addresses(size)} a slot"
    )


def _addresses(count: float) -> str:
    return "address" if count == 1 else "addresses"


def _shown(names: Sequence[str], parts: int) -> str:
    spare = parts - len(names)
    return ", ".join([*names, *([f"{spare} spare"] if spare else [])])


def _say_why(cidr: str, parts: int, address_map: AddressMap, notes: Notes) -> None:
    notes.reason(
        "network",
        f"{cidr} is cut into {parts} equal networks ({_shown([*address_map.networks], parts)}), each into {SLOTS} "
        f"slots of {address_map.slot_size} addresses: slot 0 for gateway and head, the next ones for the pools as "
        "declared",
    )
