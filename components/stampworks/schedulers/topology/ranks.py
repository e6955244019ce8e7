"""The order of ranks that suits the network, in the formats of launchers, and settings of NCCL.

A ring over all ranks crosses the boundary of a domain as often as its neighbours are on different sides. In rank order
that happens once for each domain, on every level. Rank i of a node uses rail i, so that each rail carries its own ring.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from stampworks.schedulers.topology.model import NODE, Topology, TopologyError

Slots = Mapping[str, int]
"""Number of ranks on each node, in rank order."""


def order(topology: Topology, nodes: Iterable[str] | None = None) -> tuple[str, ...]:
    """Nodes in rank order: all of them, or those of a job."""
    wanted = None if nodes is None else set(nodes)
    return tuple(place.node for place in topology.places if wanted is None or place.node in wanted)


def crossings(topology: Topology, nodes: Sequence[str]) -> tuple[int, ...]:
    """Return how often a ring over the nodes in this order leaves a domain, for each level."""
    domains = {place.node: place.domains for place in topology.placed}
    ring = [domains[node] for node in nodes if node in domains]
    pairs = [(one, ring[index - 1]) for index, one in enumerate(ring)]
    return tuple(sum(a[level] != b[level] for a, b in pairs) for level in range(len(topology.levels)))


def rail_of(rank: int, ranks: int, rails: int) -> int:
    """Return the rail of a node's rank: its own, a shared one, or the first of several."""
    return rank * rails // ranks


def slurm_hostfile(slots: Slots) -> str:
    """A line for each task, for SLURM_HOSTFILE and `srun --distribution=arbitrary`."""
    return "".join(f"{node}\n" * count for node, count in slots.items())


def read_slurm_hostfile(text: str) -> dict[str, int]:
    """Return the ranks per node. Raise TopologyError for a line out of rank order."""
    found: dict[str, int] = {}
    last = ""
    for number, line in _lines(text):
        node = _node(line, number)
        if node in found and node != last:
            raise TopologyError(f"line {number}: node {node!r} comes back after {last!r}: not in rank order")
        found[node], last = found.get(node, 0) + 1, node
    return found


def mpi_hostfile(slots: Slots) -> str:
    """Return a file for `mpirun --hostfile`, which fills nodes from the top."""
    return "".join(f"{node} slots={count}\n" for node, count in slots.items())


def read_mpi_hostfile(text: str) -> dict[str, int]:
    """Return the slots per node. Raise TopologyError for an invalid line."""
    found: dict[str, int] = {}
    for number, line in _lines(text):
        match = re.fullmatch(r"(\S+) slots=([0-9]{1,4})", line)
        if not match or match[1] in found:
            raise TopologyError(f"line {number}: not one node with its slots")
        found[_node(match[1], number)] = int(match[2])
    return found


def rankfile(slots: Slots, cores: Mapping[str, int]) -> str:
    """Return a file for Open MPI's `mpirun --rankfile`: each rank with its part of the node's cores.

    Open MPI binds a rank to the slots that it is given, and counts logical cores socket by socket (Open MPI 5.0.8, its
    documentation of mapping and binding, 8.8 Rankfiles, read 2026-11-22): equal parts in rank order keep sockets apart.
    """
    parts = [(node, _part(rank, count, cores[node])) for node, count in slots.items() for rank in range(count)]
    return "".join(f"rank {rank}={node} slot={part}\n" for rank, (node, part) in enumerate(parts))


def _part(rank: int, ranks: int, cores: int) -> str:
    """Return the cores of a node's rank; ranks share cores if there are too few."""
    first, last = rank * cores // ranks, (rank + 1) * cores // ranks - 1
    return f"{first}-{last}" if last > first else str(first)


def read_rankfile(text: str) -> dict[str, int]:
    """Return the ranks per node. Raise TopologyError for an invalid line."""
    found: dict[str, int] = {}
    first = 0
    for expected, (number, line) in enumerate(_lines(text)):
        match = re.fullmatch(r"rank ([0-9]{1,9})=(\S+) slot=([0-9]{1,4})(?:-[0-9]{1,4})?", line)
        if not match or int(match[1]) != expected:
            raise TopologyError(f"line {number}: not rank {expected} with its node and slots")
        node, core = _node(match[2], number), int(match[3])
        again = node in found and node == next(reversed(found)) and core >= first
        if not again and (node in found or core):
            raise TopologyError(f"line {number}: not in rank order")
        found[node], first = found.get(node, 0) + 1, core
    return found


def nccl(rails: Sequence[str], devices: Sequence[str] = ()) -> dict[str, str]:
    """Return NCCL's view of rails, which meet only at a spine, and of the order of their devices. rails are network
    interfaces; devices are the verbs' names, if rails use RDMA."""
    if not rails:
        return {}
    crossing = {"NCCL_CROSS_NIC": "0"} if len(rails) > 1 else {}
    # the sign of equality: mlx5_1 would stand for mlx5_10 as well
    return {**crossing, **({"NCCL_IB_HCA": f"={','.join(devices)}"} if devices else {})}


def environment(variables: Mapping[str, str]) -> str:
    """Return variables as lines that `read_environment` reads."""
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def read_environment(text: str) -> dict[str, str]:
    """Return the variables of the lines. Raise TopologyError for an invalid line."""
    found: dict[str, str] = {}
    for number, line in _lines(text):
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise TopologyError(f"line {number}: not NAME=value")
        found[name] = value
    return found


def _lines(text: str) -> Iterable[tuple[int, str]]:
    rows = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    return ((number, line) for number, line in rows if line)


def _node(name: str, number: int) -> str:
    if not NODE.fullmatch(name):
        raise TopologyError(f"line {number}: {name!r} is no node")
    return name
