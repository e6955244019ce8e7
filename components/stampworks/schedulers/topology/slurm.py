"""The topology for Slurm: switches below a root, or blocks.

The written formats can be read back, as can the output of `scontrol show topology`, which shows that Slurm understood
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.schedulers.topology.model import FABRIC, MANAGEMENT, NodeDomains, Topology, TopologyError, parsed
from stampworks.text.names import UNFOLDED_MAX, fold, unfold

CLUSTER = "stampworks"
"""Name of the only topology in topology.yaml, to which partitions could refer."""


@dataclass(frozen=True)
class Blocks:
    """Slurm's view of a topology as blocks: one level, and the number of nodes that are planned together."""

    topology: Topology
    sizes: tuple[int, ...]


def tree(topology: Topology) -> str:
    """topology.conf for topology/tree: the innermost switches first, the root last."""
    return "".join(
        f"SwitchName={name} {'Nodes' if leaf else 'Switches'}={fold(below, ',')}\n"
        for name, below, leaf in _switches(topology)
    )


def tree_yaml(topology: Topology) -> str:
    """The same for a topology.yaml, as JSON, which is YAML, too."""
    switches = [
        {"switch": name, "nodes" if leaf else "children": fold(below, ",")} for name, below, leaf in _switches(topology)
    ]
    return _yaml({"tree": {"switches": switches}})


def _switches(topology: Topology) -> Iterator[tuple[str, list[str], bool]]:
    """Yield each switch with its children, and whether these are nodes."""
    inner = len(topology.levels) - 1
    for level in range(inner, -1, -1):
        for name, below in topology.children(level).items():
            yield name, below, level == inner
    roots = list(topology.domains(0)) if topology.placed else []
    if topology.unplaced:  # Slurm gives no job to a node that it finds on no switch
        yield MANAGEMENT, list(topology.unplaced), True
        roots.append(MANAGEMENT)
    if roots:  # nor a job to nodes without a common switch
        yield FABRIC, roots, False


def block(topology: Topology, sizes: Sequence[int] = ()) -> str:
    """topology.conf for topology/block: the domains of the innermost level. A node that is in none gets no job."""
    rows = [f"BlockName={name} Nodes={fold(nodes, ',')}\n" for name, nodes in _blocks(topology).items()]
    return "".join([*rows, f"BlockSizes={','.join(map(str, sizes or block_sizes(topology)))}\n"]) if rows else ""


def block_yaml(topology: Topology, sizes: Sequence[int] = ()) -> str:
    """The same for a topology.yaml."""
    blocks = [{"block": name, "nodes": fold(nodes, ",")} for name, nodes in _blocks(topology).items()]
    return _yaml({"block": {"block_sizes": list(sizes or block_sizes(topology)), "blocks": blocks}})


def _blocks(topology: Topology) -> dict[str, list[str]]:
    return topology.domains(len(topology.levels) - 1) if topology.placed else {}


def block_sizes(topology: Topology) -> tuple[int, ...]:
    """Return the number of nodes in the smallest block, and in each outer level whose domains have equal numbers of
    blocks that are powers of two.

    Slurm joins consecutive blocks, so that it does not support levels of other sizes.
    """
    if not topology.placed:
        return ()
    base = min(map(len, _blocks(topology).values()))
    sizes = [base]
    for level in range(len(topology.levels) - 2, -1, -1):
        counts = [len(each.domains(len(each.levels) - 1)) for each in _parts(topology, level)]
        even = len(counts) > 1 and len(set(counts)) == 1
        if even and counts[0].bit_count() == 1 and base * counts[0] > sizes[-1]:
            sizes.append(base * counts[0])
    return tuple(sizes)


def _parts(topology: Topology, level: int) -> list[Topology]:
    groups: dict[str, list[NodeDomains]] = {}
    for place in topology.placed:
        groups.setdefault(place.domains[level], []).append(place)
    return [Topology(topology.levels, tuple(places)) for places in groups.values()]


def _yaml(kind: dict[str, Any]) -> str:
    return json.dumps([{"topology": CLUSTER, "cluster_default": True, **kind}], indent=2) + "\n"


def read_tree(text: str, levels: Sequence[str]) -> Topology:
    """Read the output of `tree`, or the tree that Slurm has read. Slurm knows no names of levels."""
    children: dict[str, list[str]] = {}
    leaves: set[str] = set()
    for number, row in _rows(text):
        name, switches, nodes = row.get("switchname"), row.get("switches"), row.get("nodes")
        if not name or (switches is None and nodes is None):
            raise TopologyError(f"line {number}: neither a switch with switches nor one with nodes")
        _add(children, name, _names(switches or nodes or "", number), number)
        if switches is None:  # Slurm also says which nodes are below the others
            leaves.add(name)
    return _from_switches(children, leaves, levels)


def read_tree_yaml(text: str, levels: Sequence[str]) -> Topology:
    """Return the topology of a tree. Raise TopologyError for an invalid one."""
    children: dict[str, list[str]] = {}
    leaves: set[str] = set()
    for number, row in enumerate(_list(_the_one(text, "tree"), "switches"), 1):
        name, below = str(row.get("switch", "")), row.get("children")
        _add(children, name, _names(str(below or row.get("nodes", "")), number), number)
        if below is None:
            leaves.add(name)
    return _from_switches(children, leaves, levels)


def read_block(text: str) -> Blocks:
    """Read the output of `block`, or the blocks that Slurm has read: each block, and each join with its size."""
    blocks: dict[str, list[str]] = {}
    sizes: dict[int, None] = {}
    for number, row in _rows(text):
        said = row.get("blocksizes") or row.get("blocksize") or ""
        sizes |= dict.fromkeys(_number(size, number) for size in said.split(",") if size)
        if "blockname" in row:
            _add(blocks, row["blockname"], _names(row.get("nodes", ""), number), number)
    return _from_blocks(blocks, sizes)


def read_block_yaml(text: str) -> Blocks:
    """Return the blocks of a file. Raise TopologyError for an invalid one."""
    found = _the_one(text, "block")
    blocks: dict[str, list[str]] = {}
    for number, row in enumerate(_list(found, "blocks"), 1):
        _add(blocks, str(row.get("block", "")), _names(str(row.get("nodes", "")), number), number)
    sizes = found.get("block_sizes")
    return _from_blocks(blocks, [_number(str(size), 0) for size in (sizes if isinstance(sizes, list) else [])])


def _from_blocks(blocks: Mapping[str, Sequence[str]], sizes: Iterable[int]) -> Blocks:
    places = tuple(NodeDomains(node, (name,)) for name, nodes in blocks.items() for node in nodes)
    return Blocks(Topology(("block",), places), tuple(sorted(sizes)))


def _from_switches(children: Mapping[str, Sequence[str]], leaves: set[str], levels: Sequence[str]) -> Topology:
    held = {name for switch, below in children.items() if switch not in leaves for name in below}
    roots = [name for name in children if name not in held]
    if unknown := sorted(held - set(children)):
        raise TopologyError(f"switch {unknown[0]!r} hangs from another one and has no line of its own")
    places: list[NodeDomains] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(name, ()) for name in reversed(roots)]
    seen: set[str] = set()
    while waiting:
        name, above = waiting.pop()
        if name in seen:
            raise TopologyError(f"switch {name!r} hangs from two others")
        seen.add(name)
        path = above if name in (FABRIC, MANAGEMENT) else (*above, name)
        if name in leaves:
            places += [NodeDomains(node, path) for node in children[name]]
        else:
            waiting += [(below, path) for below in reversed(children[name])]
    if lost := sorted(set(children) - seen):
        raise TopologyError(f"switch {lost[0]!r} hangs from itself")
    return Topology(tuple(levels), tuple(places))


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of words key=value with their numbers; Slurm ignores the case of keys."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        pairs = [word.partition("=") for word in words]
        if any(not equals for _, equals, _ in pairs):
            raise TopologyError(f"line {number}: not all of it is key=value")
        if pairs:
            yield number, {key.lower(): value for key, _, value in pairs}


def _add(found: dict[str, list[str]], name: str, below: Sequence[str], number: int) -> None:
    if name in found:
        raise TopologyError(f"line {number}: {name!r} is there twice")
    found[name] = list(below)


def _names(folded: str, number: int) -> tuple[str, ...]:
    if folded.rfind("[") > folded.rfind("]"):
        raise TopologyError(f"line {number}: a bracket is never closed")
    for item in (item for inside in re.findall(r"\[([^\]]*)\]", folded) for item in inside.split(",")):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", item)
        if not match or not 0 <= int(match[2] or match[1]) - int(match[1]) <= UNFOLDED_MAX:
            raise TopologyError(f"line {number}: {item!r} is no range of numbers")
    try:
        return unfold(folded)
    except ValueError as error:
        raise TopologyError(f"line {number}: {error}") from None


def _number(text: str, number: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise TopologyError(f"line {number}: {text!r} is no size of blocks")
    return int(text)


def _the_one(text: str, kind: str) -> dict[str, Any]:
    found = parsed(text)
    first = found[0] if isinstance(found, list) and len(found) == 1 else None
    if not isinstance(first, dict) or not isinstance(first.get(kind), dict):
        raise TopologyError(f"not the one topology of kind {kind}")
    return dict(first[kind])


def _list(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = found.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TopologyError(f"{name} is no list of mappings")
    return rows
