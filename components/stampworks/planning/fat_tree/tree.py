"""Design rail-optimised fat trees: the switches and cables for a number of nodes, and the ends of each cable.

Nodes form scalable units. In each unit every rail has its own leaf, which takes that NIC of all nodes. The uplinks of a
leaf divide evenly over its spines. As long as a spine has a port for every leaf there are two tiers. Above that, the
leaves of a rail form groups with their own spines, and cores join the spines of all groups.

A link joins two ports. A cable of the published designs carries one link if its ports are not split. Between switches
with split ports it carries as many links as one port is split into.

Pure: a FatTree is a handful of numbers; long lists (cables, ports) are generated on demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Final, Literal, TypeAlias

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.catalog.switches import PROTOCOLS, Switch, built_with, switch_names, switches
from stampworks.declaration.wording import did_you_mean, shown
from stampworks.text.amounts import counted

Boundary: TypeAlias = Literal["node-leaf", "leaf-spine", "spine-core"]

NODES_MAX: Final = 1_000_000
"""More than any tree of today's switches holds; a larger number is a typing error."""

EVEN: Final = 2
"""Uplinks of a leaf come in pairs if there is room: an odd number is often prime, and takes a spine for each. Larger
steps leave ports of leaves idle: in fours, a leaf at 8:1 has four uplinks instead of six, and 16 nodes less."""


class FabricError(ValueError):
    """A request that cannot be built: the conflicting facts, and a way to resolve the conflict."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")
        self.what = what


class NoFatTreeError(ValueError):
    """The model does not apply, or lacks a fact, so that nothing can be said about switches."""


@dataclass(frozen=True)
class End:
    """An end of a cable: a node's NIC or a switch's port."""

    device: str
    port: str

    def __str__(self) -> str:
        return f"{self.device} {self.port}"


@dataclass(frozen=True)
class Cable:
    """One link from a lower device to a higher one."""

    boundary: Boundary
    lower: End
    upper: End
    rate_gbps: int


@dataclass(frozen=True)
class FatTree:
    """A design in numbers. Indexes of units, rails, planes, leaves and spines start at 0 here. Names of units, spines,
    cores and nodes start at 1."""

    nodes: int
    rails: int
    planes: int
    """Separate fabrics; each NIC has a port in every one."""
    switch: Switch
    link_gbps: int
    unit: int
    """Nodes of a scalable unit, which equals the nodes of a leaf."""
    uplinks: int
    """Uplinks of each leaf."""
    group_units: int
    """Units whose leaves of one rail share spines. In two tiers all units share them, and all rails too."""
    group_spines: int
    """Spines of a group of leaves; each spine reaches all of them."""
    spine_uplinks: int
    """Uplinks of each spine; 0 in two tiers."""
    core_sets: int
    """Sets of cores in a plane. A spine has links to one set: the first spines of all groups to the first set."""
    set_cores: int
    managers: int
    """Subnet managers; each has a port of a leaf of the last unit."""

    @property
    def radix(self) -> int:
        """Return the ports of a switch at the rate of a link."""
        return self.switch.ports[self.link_gbps]

    @property
    def split(self) -> int:
        """Return the links of a cable between switches."""
        return self.radix // self.switch.ports[self.switch.rate_gbps]

    @property
    def tiers(self) -> int:
        """Levels of switches."""
        return 3 if self.spine_uplinks else 2 if self.group_spines else 1

    @property
    def units(self) -> int:
        """Number of scalable units, the last of which may be partly filled."""
        return ceil(self.nodes / self.unit)

    @property
    def leaves(self) -> int:
        """Number of leaves in all planes."""
        return self.units * self.rails * self.planes

    @property
    def groups(self) -> int:
        """Return the groups of leaves that share spines, in all planes."""
        if self.tiers < 3:
            return self.planes
        return self.planes * self.rails * ceil(self.units / self.group_units)

    @property
    def spines(self) -> int:
        """Number of spines in all groups."""
        return self.groups * self.group_spines

    @property
    def cores(self) -> int:
        """Number of cores in all planes."""
        return self.planes * self.core_sets * self.set_cores

    @property
    def leaf_spine_links(self) -> int:
        """Return the links between a leaf and one of its spines."""
        return self.uplinks // self.group_spines if self.group_spines else 0

    @property
    def spine_core_links(self) -> int:
        """Return the links between a spine and one of its cores."""
        return self.spine_uplinks // self.set_cores if self.set_cores else 0

    @property
    def node_leaf_cables(self) -> int:
        """Return the cables of nodes. A NIC with ports in two planes has one cable. Published tables count managers
        with the nodes."""
        return self.nodes * self.rails + self.managers

    @property
    def leaf_spine_cables(self) -> int:
        """Number of cables between leaves and spines; a split cable carries several links."""
        return ceil(self.leaves * self.uplinks / self.split)

    @property
    def spine_core_cables(self) -> int:
        """Number of cables between spines and cores; a split cable carries several links."""
        return ceil(self.spines * self.spine_uplinks / self.split)

    @property
    def oversubscription(self) -> float:
        """Return the ratio of a full leaf's nodes to its uplinks; at least 1."""
        return max(1.0, min(self.unit, self.nodes) / self.uplinks) if self.uplinks else 1.0

    @property
    def bisection_gbps(self) -> float:
        """Return the rate at which one half of the NICs can send to the other, with the halves cut along the leaves."""
        if not self.uplinks:
            return self.nodes * self.rails * self.planes * self.link_gbps / 2
        full, rest = divmod(self.nodes, self.unit)
        links = full * min(self.unit, self.uplinks) + min(rest, self.uplinks)
        return links * self.rails * self.planes * self.link_gbps / 2

    @property
    def ports_left(self) -> dict[str, int]:
        """Return the free ports of each tier, counted at the rate of a link."""
        node_links = self.nodes * self.rails * self.planes + self.managers
        leaf_links = self.leaves * self.uplinks
        core_links = self.spines * self.spine_uplinks
        return {
            "leaf": self.leaves * self.radix - node_links - leaf_links,
            "spine": self.spines * self.radix - leaf_links - core_links,
            "core": self.cores * self.radix - core_links,
        }

    def unit_of(self, node: int) -> int:
        """Return the index of a node's unit, both counted from 0."""
        return node // self.unit

    def leaf_name(self, unit: int, rail: int, plane: int = 0) -> str:
        """Return a leaf's name in lists of cables. Indices count from 0, names from 1."""
        return f"leaf-{unit + 1:03d}-rail{rail}" + self._plane(plane)

    def spine_name(self, group: int, spine: int, plane: int = 0) -> str:
        """Return a spine's name. Groups are counted within a plane; two tiers have one group."""
        return (f"spine-{group + 1:03d}-" if self.tiers == 3 else "spine-") + f"{spine + 1:03d}" + self._plane(plane)

    def core_name(self, core_set: int, core: int, plane: int = 0) -> str:
        """Return a core's name in lists of cables. Indices count from 0, names from 1."""
        return f"core-{core_set * self.set_cores + core + 1:03d}" + self._plane(plane)

    def group_of(self, unit: int, rail: int) -> int:
        """Return the group of spines of a leaf, counted within its plane."""
        return 0 if self.tiers < 3 else (unit // self.group_units) * self.rails + rail

    def cables(self) -> Iterator[Cable]:
        """Yield every link, from the nodes upwards, one at a time."""
        for plane in range(self.planes):
            yield from self._node_cables(plane)
            yield from self._manager_cables(plane)
            yield from self._leaf_cables(plane)
            yield from self._spine_cables(plane)

    def _node_cables(self, plane: int) -> Iterator[Cable]:
        for node in range(self.nodes):
            unit, place = divmod(node, self.unit)
            for rail in range(self.rails):
                nic = End(node_name(node), self._nic(rail, plane))
                yield Cable("node-leaf", nic, End(self.leaf_name(unit, rail, plane), self._port(place)), self.link_gbps)

    def _manager_cables(self, plane: int) -> Iterator[Cable]:
        """Put managers on the first free ports of the last unit, one rail after the other. A manager is in one
        plane."""
        for manager in range(self.managers if plane == 0 else 0):
            row, rail = divmod(manager, self.rails)
            leaf = self.leaf_name(self.units - 1, rail, plane)
            port = self._port(self.nodes - (self.units - 1) * self.unit + row)
            yield Cable(
                "node-leaf", End(f"manager-{manager + 1:02d}", self._nic(0, plane)), End(leaf, port), self.link_gbps
            )

    def _leaf_cables(self, plane: int) -> Iterator[Cable]:
        for unit in range(self.units):
            for rail in range(self.rails):
                group = self.group_of(unit, rail)
                # in two tiers spines number the leaves of all rails, in three tiers those of their own rail
                place = unit % self.group_units if self.tiers == 3 else unit * self.rails + rail
                for uplink in range(self.uplinks):
                    spine, link = divmod(uplink, self.leaf_spine_links)
                    lower = End(self.leaf_name(unit, rail, plane), self._port(self.radix - self.uplinks + uplink))
                    port = self._port(place * self.leaf_spine_links + link)
                    yield Cable("leaf-spine", lower, End(self.spine_name(group, spine, plane), port), self.link_gbps)

    def _spine_cables(self, plane: int) -> Iterator[Cable]:
        if self.tiers < 3:
            return
        set_spines = self.group_spines // self.core_sets
        for group in range(self.groups // self.planes):
            for spine in range(self.group_spines):
                core_set, place = divmod(spine, set_spines)
                for uplink in range(self.spine_uplinks):
                    core, link = divmod(uplink, self.spine_core_links)
                    down = (group * set_spines + place) * self.spine_core_links + link
                    lower = End(
                        self.spine_name(group, spine, plane), self._port(self.radix - self.spine_uplinks + uplink)
                    )
                    upper = End(self.core_name(core_set, core, plane), self._port(down))
                    yield Cable("spine-core", lower, upper, self.link_gbps)

    def _plane(self, plane: int) -> str:
        return f"-plane{plane}" if self.planes > 1 else ""

    def _nic(self, rail: int, plane: int) -> str:
        if self.switch.kind == "infiniband":
            return f"mlx5_{rail * self.planes + plane}"
        return f"rail{rail}" + (f"p{plane}" if self.planes > 1 else "")

    def _port(self, index: int) -> str:
        """Return the switch's name of a port. InfiniBand counts ports; Ethernet counts cages and the parts of a split
        cage."""
        if self.switch.kind == "infiniband":
            return str(index + 1)
        cage, part = divmod(index, self.split)
        return f"swp{cage + 1}" + (f"s{part}" if self.split > 1 else "")


def node_name(node: int) -> str:
    """Return a node's name in lists of cables. Indices count from 0, names from 1."""
    return f"node-{node + 1:04d}"


def design(
    machine: catalog.Machine,
    nodes: int,
    *,
    unit: int | None = None,
    switch: str = "",
    oversubscription: float = 1,
    planes: int | None = None,
    managers: int = 0,
) -> FatTree:
    """Design the tree for a number of nodes of a machine. Defaults are those of the published designs for its NICs.

    Raises FabricError when the tree cannot be built, NoFatTreeError when the facts are unknown.
    """
    rails, rate = _nics(machine)
    if not 1 <= nodes <= NODES_MAX:
        raise FabricError(f"a cluster of {nodes} nodes", f"give a number from 1 to {NODES_MAX:,}")
    if not 1 <= oversubscription < inf:
        what = f"oversubscription {oversubscription:g}: 1 is a leaf with as much bandwidth up as down, 2 one with half"
        raise FabricError(what, "give 1 or more")
    chosen = _switch(machine, switch, rate)
    planes = chosen.planes.get(rate, 1) if planes is None else planes
    link = _link(machine, chosen, rate, planes)
    radix = chosen.ports[link]
    unit = _default_unit(machine, radix, oversubscription) if unit is None else unit
    uplinks = _uplinks(machine, chosen, radix, unit, oversubscription)
    places = ceil(nodes / unit) * unit - nodes + radix - unit - uplinks
    if not 0 <= managers <= places * rails:
        what = f"{managers} subnet managers: the leaves of the last unit have {places * rails} ports left for them"
        raise FabricError(what, "fewer managers, or fewer nodes")
    tiers = _tiers(rails, nodes, chosen, radix, unit, uplinks)
    return FatTree(nodes, rails, planes, chosen, link, unit, *tiers, managers)


def _nics(machine: catalog.Machine) -> tuple[int, int]:
    """Return the number of NICs, and the rate of one."""
    if machine.nics is UNKNOWN:
        raise NoFatTreeError(f"the NICs and cables of {machine.name} are not published")
    if not machine.nics:
        torus = machine.accelerator and catalog.accelerators()[machine.accelerator].links == "torus"
        why = "; its accelerators are joined to a torus, which is no tree" if torus else ""
        raise NoFatTreeError(f"{machine.name} has no NIC on a fabric between nodes{why}")
    if machine.nic_rate_gbps is UNKNOWN:
        raise NoFatTreeError(f"the rate of a NIC of {machine.name} is not known")
    return machine.nics, machine.nic_rate_gbps


def _switch(machine: catalog.Machine, name: str, rate: int) -> Switch:
    if name:
        return _named_switch(name)
    protocol = catalog.protocol_of(machine)
    if protocol not in PROTOCOLS:
        raise NoFatTreeError(
            f"the NICs of {machine.name} speak {protocol}, which only the network of its cloud does, and what that "
            "looks like is not public"
        )
    chosen = built_with(protocol, rate)
    if chosen is None:
        raise NoFatTreeError(f"no published design with {protocol} NICs of {rate} Gb/s is known; name a switch")
    return chosen


def _named_switch(name: str) -> Switch:
    if chosen := switch_names().get(name.lower()):
        return chosen
    raise FabricError(f"no switch is called {shown(name)}", did_you_mean(name.lower(), switches()))


def _link(machine: catalog.Machine, switch: Switch, rate: int, planes: int) -> int:
    if planes < 1 or rate % planes:
        raise FabricError(f"{rate} Gb/s of a NIC do not divide into {planes} planes", "leave out the planes")
    if rate // planes in switch.ports:
        return rate // planes
    rates = ", ".join(str(each) for each in sorted(switch.ports))
    over = f" in {planes} planes" if planes > 1 else ""
    raise FabricError(
        f"NICs of {machine.name} have {rate} Gb/s{over}, and ports of {switch.name} {rates} Gb/s",
        "name a switch with such ports, or leave it out",
    )


def _default_unit(machine: catalog.Machine, radix: int, oversubscription: float) -> int:
    """Return the number of nodes that leaves enough ports for well-divisible uplinks, in whole NVLink domains."""
    uplinks = int(radix / (1 + oversubscription))
    even = uplinks - uplinks % EVEN
    unit = int(even * oversubscription) if even else int(radix * oversubscription / (1 + oversubscription))
    domain = machine.nvlink_nodes if isinstance(machine.nvlink_nodes, int) else 1
    return unit - unit % domain if domain <= unit else unit


def _uplinks(machine: catalog.Machine, switch: Switch, radix: int, unit: int, oversubscription: float) -> int:
    """Return enough uplinks for the leaf's nodes, in pairs if there is room."""
    if unit < 1:
        raise FabricError(f"a unit of {unit} nodes", "a unit has at least one")
    needed = ceil(unit / oversubscription)
    if unit + needed > radix:
        relief = f", --oversubscription {ceil(100 * unit / (radix - unit)) / 100:g}" if unit < radix else ""
        raise FabricError(
            f"a unit of {unit} nodes takes {unit} ports of each leaf, and {needed} uplinks at an oversubscription of "
            f"{oversubscription:g}; {switch.name} has {radix} ports for NICs of {machine.name}",
            f"--unit {_default_unit(machine, radix, oversubscription)} or less{relief}, or a switch with "
            f"{unit + needed} ports",
        )
    even = needed + -needed % EVEN
    return even if unit + even <= radix else needed


def _spines(uplinks: int, leaves: int, ports: int) -> int:
    """Return the fewest spines over which a leaf's uplinks divide evenly, each with ports for all leaves; 0 when
    impossible."""
    return next((each for each in _divisors(uplinks) if leaves * (uplinks // each) <= ports), 0)


def _tiers(
    rails: int, nodes: int, switch: Switch, radix: int, unit: int, uplinks: int
) -> tuple[int, int, int, int, int, int]:
    """Return uplinks of a leaf, units and spines of a group, uplinks of a spine, sets of cores, cores of a set."""
    units = ceil(nodes / unit)
    if units * rails == 1:
        return 0, 1, 0, 0, 0, 0
    if spines := _spines(uplinks, units * rails, radix):
        return uplinks, units, spines, 0, 0, 0
    # Half of a spine's ports go down. Groups are of equal size, so that their spines are, too.
    group_units = ceil(units / ceil(units / (radix // 2)))
    groups = rails * ceil(units / group_units)
    spines = _spines(uplinks, group_units, radix // 2)
    spine_uplinks = group_units * uplinks // spines
    cores = [
        (sets * each, -sets)
        for sets in _divisors(spines)
        for each in _divisors(spine_uplinks)
        if groups * (spines // sets) * (spine_uplinks // each) <= radix
    ]
    if not cores:
        most = (radix // rails) * (radix // 2) * unit
        what = f"{nodes} nodes with {counted(rails, 'NIC')}: three tiers of {switch.name}, with {radix} ports each"
        raise FabricError(
            f"{what}, end at {most:,} nodes in units of {unit}",
            "fewer nodes, larger units, or a switch with more ports",
        )
    all_cores, minus_sets = min(cores)
    return uplinks, group_units, spines, spine_uplinks, -minus_sets, all_cores // -minus_sets


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
