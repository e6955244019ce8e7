"""Who is in the cluster: machines, names, leaves and addresses of all nodes."""

from __future__ import annotations

from dataclasses import dataclass

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.plan import STATE_DIRECTORY, Group, Leaf, Machine, Network, Node, Role, Volume
from stampworks.planning import addresses
from stampworks.planning.addresses import AddressMap
from stampworks.planning.clouds.choices import Choices
from stampworks.planning.notes import Notes

CONTROLLER = "head"
STATE = Volume("state", STATE_DIRECTORY)
"""What the scheduler knows and nothing else does: the queue and the accounting."""


@dataclass(frozen=True)
class Layout:
    address_map: AddressMap
    network: Network
    groups: tuple[Group, ...]
    leaves: tuple[Leaf, ...]


def lay_out(declaration: Declaration, choices: Choices, notes: Notes) -> Layout:
    """Places every node. Nothing of a pool depends on the size of another one, so that growth moves nobody."""
    machines = [catalog.machines()[pool.machine] for pool in declaration.pools]
    members = [("the head with the gateway", addresses.HEAD)]
    members += [(f"pool {pool.name}", 0 if pool.scheduling_only else pool.count) for pool in declaration.pools]
    real = [machine for pool, machine in zip(declaration.pools, machines, strict=True) if not pool.scheduling_only]
    rails = max(machine.nics for machine in real)
    address_map = addresses.cut(declaration.network.cidr, rails, members, notes)
    network = Network(
        cidr=declaration.network.cidr,
        management_cidr=str(address_map.networks[0]),
        gateway=address_map.address(0, 0, addresses.GATEWAY),
    )
    head = _controller(choices, address_map, notes)
    pools = [
        _pool(declaration, index, machine, address_map, notes)
        for index, machine in enumerate(machines[: addresses.POOLS_MAX])
    ]
    return Layout(address_map, network, (head, *pools), _leaves(pools))


def machine_facts(row: catalog.Machine, path: str, notes: Notes) -> Machine:
    """What a plan needs to know of a machine; a problem for each fact that the catalog does not know."""

    def known(what: str, fact: int | catalog.Unknown) -> int:
        if isinstance(fact, int):
            return fact
        notes.problem(path, f"the catalog does not know the {what} of {row.name}, and a plan needs it", _LOOK_IT_UP)
        return 0

    memory_gib = catalog.accelerators()[row.accelerator].memory_gib if row.accelerator else 0
    return Machine(
        name=row.name,
        simulated=row.simulated,
        accelerator=row.accelerator,
        accelerators=row.accelerators,
        accelerator_memory_gib=known("accelerator memory", memory_gib),
        cores=known("cores", row.cores),
        memory_mib=known("memory", row.memory_mib),
    )


_LOOK_IT_UP = "look it up and write it into catalog/machines.yaml, or choose another machine"


def _controller(choices: Choices, address_map: AddressMap, notes: Notes) -> Group:
    row = catalog.machines()[choices.controller_machine]
    notes.reason(f"groups.{CONTROLLER}.machine", choices.controller_why)
    node = Node(
        name=CONTROLLER,
        address=address_map.address(0, 0, addresses.HEAD),
        rail_addresses=address_map.rail_addresses(row.nics, 0, addresses.HEAD),
        leaf="",
    )
    notes.reason(
        f"groups.{CONTROLLER}.volumes",
        "queue and accounting lie apart from the controller's disk, so that a new disk loses neither",
    )
    machine = machine_facts(row, "cloud", notes)
    return Group(name=CONTROLLER, role="controller", machine=machine, count=1, nodes=(node,), volumes=(STATE,))


def _pool(declaration: Declaration, index: int, row: catalog.Machine, address_map: AddressMap, notes: Notes) -> Group:
    pool, slot = declaration.pools[index], index + 1
    leaf_nodes, real = declaration.fabric.leaf_nodes, not pool.scheduling_only
    nodes = tuple(
        Node(
            name=f"{pool.name}-{number:03d}",
            address=address_map.address(0, slot, number) if real else "",
            rail_addresses=address_map.rail_addresses(row.nics, slot, number) if real else (),
            leaf=f"leaf{slot}-{(number - 1) // leaf_nodes + 1}" if row.nics else "",
        )
        for number in range(1, pool.count + 1)
    )
    if real:
        notes.reason(
            f"groups.{pool.name}.addresses",
            f"slot {slot} of every network: the k-th node has the k-th of its {address_map.capacity(slot)} addresses, "
            "so that growth moves no address of this pool or another",
        )
    else:
        notes.reason(
            f"groups.{pool.name}",
            "scheduling only: its nodes stand in the scheduler's files and nowhere else, so they take no address, no "
            "rail and no memory, and a job that wants to run on one is cancelled",
        )
    machine = machine_facts(row, f"pools[{index}].machine", notes)
    role: Role = "worker" if real else "scheduling only"
    return Group(name=pool.name, role=role, machine=machine, count=pool.count, nodes=nodes, volumes=())


def _leaves(pools: list[Group]) -> tuple[Leaf, ...]:
    """Where nodes are plugged in: what is for scheduling only is in no fabric."""
    leaves: dict[str, list[str]] = {}
    for node in (node for pool in pools if pool.role == "worker" for node in pool.nodes if node.leaf):
        leaves.setdefault(node.leaf, []).append(node.name)
    return tuple(Leaf(name, tuple(nodes)) for name, nodes in leaves.items())
