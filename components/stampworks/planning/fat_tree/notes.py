"""Notes for readers of a fat tree: limits of the model, and omissions of the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.catalog.switches import PROTOCOLS
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.fat_tree.tree import FatTree
from stampworks.text.amounts import counted

PUBLISHED_WITH_MANAGERS = ("dgx-h100", "qm9700")
"""Machine and switch of the only table that counts subnet managers: NVIDIA DGX SuperPOD, DGX H100, read 2026-11-22."""

REPRODUCED = {("dgx-h100", "qm9700"), ("dgx-b200", "qm9700"), ("dgx-b300", "q3400"), ("dgx-b300", "sn5600")}
"""Machine and switch of every published table that was compared with the model."""


def notes(machine: catalog.Machine, tree: FatTree) -> tuple[str, ...]:
    """Return all notes on a tree, for the output of `stampworks fabric`."""
    return (
        *_place(machine),
        *_nics(machine, tree),
        *_units(tree),
        *_ports(machine, tree),
        *_domains(machine, tree),
        *_held_against(machine, tree),
    )


def _held_against(machine: catalog.Machine, tree: FatTree) -> Iterator[str]:
    if (machine.name, tree.switch.name) not in REPRODUCED:
        yield (
            f"no published table of {machine.name} on {tree.switch.name} was found to hold this against: the counts "
            "follow from the model alone"
        )


def _place(machine: catalog.Machine) -> Iterator[str]:
    if not CLOUDS[machine.cloud].numbers_ports:  # on other clouds the user builds the network, too
        yield (
            f"{machine.cloud} builds the network of {machine.name} itself and does not publish it: this is what such "
            "NICs take on premises"
        )


def _nics(machine: catalog.Machine, tree: FatTree) -> Iterator[str]:
    """Note a named switch that does not fit the NICs."""
    protocol = catalog.protocol_of(machine)
    if protocol not in PROTOCOLS:
        yield f"the NICs of {machine.name} speak {protocol}, which no such switch carries: others of that rate would"
    elif (kind := PROTOCOLS[protocol]) != tree.switch.kind:
        yield f"{tree.switch.name} is {tree.switch.kind}, and the NICs of {machine.name} are meant for {kind}"


def _units(tree: FatTree) -> Iterator[str]:
    nics = tree.nodes * tree.rails * tree.planes
    if tree.tiers > 1 and nics <= tree.radix:
        yield (
            f"all {nics} links of the nodes would fit into one {tree.switch.name}, without a spine: whole units, whose "
            "rails meet in spines, are what can grow"
        )
    elif rest := tree.nodes % tree.unit:
        which = "the one unit" if tree.units == 1 else f"the last of {tree.units} units"
        yield f"{which} has {rest} of {tree.unit} nodes; its leaves have all their uplinks"
    if tree.units == 1 < tree.tiers and nics > tree.radix:
        yield "in one unit each rail is one leaf, and spines only join the rails, as the published designs have them"
    if tree.planes > 1:
        yield (
            f"each NIC has {tree.link_gbps} Gb/s in each of {tree.planes} planes, which share no switch; a cable "
            "carries several links"
        )
    if tree.tiers == 3:
        yield (
            f"{tree.groups} groups of up to {tree.group_units} leaves of one rail have {tree.group_spines} spines "
            f"each: up to {tree.group_units * tree.unit:,} nodes reach each other on a rail below the cores"
        )


def _ports(machine: catalog.Machine, tree: FatTree) -> Iterator[str]:
    if left := tree.ports_left["spine"]:
        ports = "1 port of a spine stays" if left == 1 else f"{left:,} ports of spines stay"
        yield (
            f"{ports} free: the {tree.uplinks} uplinks of a leaf divide evenly over "
            f"{counted(tree.group_spines, 'spine')}, and over none fewer with ports for all their leaves"
        )
    if tree.switch.kind != "infiniband" or tree.managers:
        return
    published = (machine.name, tree.switch.name) == PUBLISHED_WITH_MANAGERS
    if left := tree.ports_left["leaf"]:
        ports = "1 port of a leaf is" if left == 1 else f"{left:,} ports of leaves are"
        yield (
            f"no subnet manager is counted; {ports} left for them (--managers)"
            + (". NVIDIA's table for DGX H100 has 4 of them among the cables of the nodes" if published else "")
        )
    else:
        design = ", as NVIDIA's design of 127 nodes does," if published else ""
        yield f"no leaf has a port left for a subnet manager: leave out a node{design} or use a port of a spine"


def _domains(machine: catalog.Machine, tree: FatTree) -> Iterator[str]:
    size = machine.nvlink_nodes
    if size is UNKNOWN:
        yield f"how many nodes of {machine.name} share one NVLink fabric is not known"
    elif size > 1:
        domains = ceil(tree.nodes / size)
        torn = sum(
            tree.unit_of(first) != tree.unit_of(min(first + size, tree.nodes) - 1)
            for first in range(0, tree.nodes, size)
        )
        yield f"{counted(domains, 'NVLink domain')} of {size} nodes, {torn} of them on the leaves of two units" + (
            f": --unit {tree.unit // size * size} keeps each on the leaves of one" if torn and tree.unit >= size else ""
        )
