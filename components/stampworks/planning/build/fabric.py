"""Build the network between the GPUs: rails, leaves, trunks, and the levels above and below the leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import ceil

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.declaration import Declaration
from stampworks.plan import CORE, Domain, Fabric, Group, Leaf, Rail, Trunk, declared_pools
from stampworks.planning.build import hosts
from stampworks.planning.build.layout import ClusterLayout
from stampworks.planning.build.leaves import joined_nodes, leaf_size, unit_of
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices
from stampworks.planning.fat_tree.tree import FabricError, FatTree, NoFatTreeError, design
from stampworks.text.amounts import counted

SIMULATED_RAIL_MBPS = 200
SIZES = "fabric.switches"
"""Path of the reasons for the sizes of switch trees. It is no value of the plan, which has only leaves and trunks."""


def build(declaration: Declaration, layout: ClusterLayout, choices: Choices, notes: Notes) -> Fabric:
    """Plan the fabric. Note a problem for NICs without a published rate if the plan numbers ports."""
    machines = [catalog.machines()[group.machine.name] for group in layout.groups if group.role == "worker"]
    kind = _kind(declaration, machines, notes)
    _check_accelerators(layout, notes)
    rates = _rates(declaration, machines, len(layout.rail_cidrs), notes)
    if not choices.numbers_ports or hosts.listed(declaration):
        return _cloud_fabric(declaration, layout, kind, rates, notes)
    declared, leaf_nodes = declaration.fabric, leaf_size(declaration)
    if not rates and layout.rail_cidrs:
        notes.problem(
            "pools", "the rate of their NICs is not published, and trunks follow from it", "choose other machines"
        )
    trees = _trees(declaration, leaf_nodes, notes)
    uplinks = {pool: links for pool, (links, _) in trees.items()}
    of_leaf = {node.leaf: uplinks.get(group.name) for group in layout.groups for node in group.nodes}
    narrowed = Fraction(leaf_nodes, declared.oversubscription)
    leaves_of_spines = {pool: leaves for pool, (_, leaves) in trees.items()} | _declared_spines(declaration, notes)
    # A declared spine is a level even when it is alone: otherwise growth would change the levels of the fabric.
    spines = _spines(layout, leaves_of_spines, leaf_nodes, least=1 if declared.spine_leaves else 2)
    rails = tuple(
        Rail(
            index=index,
            interface=f"rail{index}",
            cidr=cidr,
            rate_mbps=rate,
            trunks=_trunks(
                leaves_of_rail(layout.groups, layout.leaves, index),
                {leaf: ceil((links or narrowed) * rate) for leaf, links in of_leaf.items()},
            ),
        )
        for index, (cidr, rate) in enumerate(zip(layout.rail_cidrs, rates, strict=False))
    )
    if declared.spine_leaves and spines:
        rails = tuple(_below(spines, declared.spine_leaves, rail, layout.leaves) for rail in rails)
    fabric = Fabric(
        kind=kind,
        oversubscription=declared.oversubscription,
        leaf_nodes=leaf_nodes,
        rails=rails,
        leaves=layout.leaves,
        spine_leaves=declared.spine_leaves,
        spines=spines,
        nvlink_domains=_nvlink_domains(declaration, layout, leaf_nodes, notes),
    )
    _say_why(fabric, layout, uplinks, notes)
    _say_sizes(declaration, leaf_nodes, notes)
    return fabric


def _trees(declaration: Declaration, leaf_nodes: int, notes: Notes) -> dict[str, tuple[int, int]]:
    """Return, for each pool with real switches, the uplinks of a leaf, and the number of leaves that share spines (0:
    all)."""
    found = {}
    for index, pool in enumerate(declaration.pools):
        row, thin = catalog.machines()[pool.machine], declaration.fabric.oversubscription
        if row.simulated or not catalog.known_nics(row) or pool.scheduling_only:
            continue
        try:  # design for several leaves
            tree = design(row, max(pool.count, leaf_nodes + 1), unit=leaf_nodes, oversubscription=thin)
            found[pool.name] = (tree.uplinks, tree.group_units if tree.tiers == 3 else 0)
        except NoFatTreeError:
            continue
        except FabricError as error:
            unit = unit_of(row, thin)
            if leaf_nodes > unit:
                notes.problem("fabric.leaf_nodes", error.what, f"write {unit} or less, or take it out")
            else:
                notes.problem(f"pools[{index}].count", error.what, "write a smaller one, or make clusters of their own")
    return found


def _say_sizes(declaration: Declaration, leaf_nodes: int, notes: Notes) -> None:
    """Note the result of `stampworks fabric` for the nodes of each pool that has a design."""
    for pool in declaration.pools:
        row = catalog.machines()[pool.machine]
        if row.simulated or not catalog.known_nics(row) or pool.scheduling_only:
            continue
        with suppress(NoFatTreeError, FabricError):  # `_trees` reports a tree that cannot be built
            tree = design(row, pool.count, unit=leaf_nodes, oversubscription=declaration.fabric.oversubscription)
            notes.reason(SIZES, f"{pool.name}: {_size(tree)}")


def _size(tree: FatTree) -> str:
    tiers = [("leaf", "leaves", tree.leaves), ("spine", "spines", tree.spines), ("core", "cores", tree.cores)]
    boundaries = (tree.node_leaf_cables, tree.leaf_spine_cables, tree.spine_core_cables)
    there = [(one, many, count) for one, many, count in tiers if count]
    switches = ", ".join(f"{count:,} {one if count == 1 else many}" for one, many, count in there)
    cables = " + ".join(f"{count:,}" for count in boundaries if count)
    left = ", ".join(f"{tree.ports_left[one]:,} of {many}" for one, many, _ in there)
    return (
        f"{switches} of {tree.switch.name}, {cables} cables from the nodes upwards, ports left: {left}, bisection "
        f"{tree.bisection_gbps / 1000:,.1f} Tb/s"
    )


def _spines(
    layout: ClusterLayout, leaves_of_spines: Mapping[str, int], leaf_nodes: int, *, least: int
) -> tuple[Domain, ...] | None:
    """Give each pool its own spines when cores join them, so that growth moves no other pool."""
    if not any(leaves_of_spines.values()):
        return None
    nodes = {pool: leaves * leaf_nodes for pool, leaves in leaves_of_spines.items()}
    domains = _runs(layout, "spine", nodes)
    return domains if len(domains) >= least else None


def _declared_spines(declaration: Declaration, notes: Notes) -> dict[str, int]:
    """Return, for each pool of simulated machines, the declared number of leaves that share a spine."""
    wanted = declaration.fabric.spine_leaves
    rows = {pool.name: catalog.machines()[pool.machine] for pool in declaration.pools}
    if wanted and (real := [row.name for row in rows.values() if not row.simulated]):
        what = f"{real[0]} is no simulated machine, and has the spines that its switches need"
        notes.problem("fabric.spine_leaves", what, "take it out")
    return {name: wanted for name, row in rows.items() if wanted and row.simulated}


def _below(spines: Sequence[Domain], spine_leaves: int, rail: Rail, leaves: Sequence[Leaf]) -> Rail:
    """Connect the trunks of a rail to the spines of their leaves, and each spine to a core at the sum of its trunks."""
    spine_of = {node: spine.name for spine in spines for node in spine.nodes}
    to = {leaf.name: spine_of[leaf.nodes[0]] for leaf in leaves}
    trunks = tuple(replace(trunk, to=to[trunk.leaf]) for trunk in rail.trunks)
    rates = {trunk.to: spine_leaves * trunk.rate_mbps for trunk in trunks}
    cores = tuple(Trunk(spine, rate, CORE) for spine, rate in rates.items()) if len(rates) > 1 else ()
    return replace(rail, trunks=trunks, core_trunks=cores)


def _nvlink_domains(
    declaration: Declaration, layout: ClusterLayout, leaf_nodes: int, notes: Notes
) -> tuple[Domain, ...] | None:
    """Return NVLink domains if all pools on the fabric have them: schedulers require every node to have a place on each
    level."""
    there = [group for group in layout.groups if any(node.leaf for node in group.nodes)]
    sizes = {group.name: joined_nodes(catalog.machines()[group.machine.name]) for group in there}
    if not sizes or min(sizes.values()) == 1:
        return None
    for group in there:
        size = sizes[group.name]
        if leaf_nodes % size and group.count > leaf_nodes:
            if declaration.fabric.leaf_nodes:
                notes.problem(
                    "fabric.leaf_nodes",
                    f"leaves of {leaf_nodes} nodes tear the NVLink domains of pool {group.name}, where {size} nodes of "
                    f"{group.machine.name} are one",
                    f"write a multiple of {size}, or take it out",
                )
            return None
    return _runs(layout, "nvlink", sizes)


def _runs(layout: ClusterLayout, level: str, sizes: Mapping[str, int]) -> tuple[Domain, ...]:
    """Split each pool into runs of its size; a pool without a size is one run."""
    found: dict[str, list[str]] = {}
    for slot, group in enumerate(declared_pools(layout.groups)):
        size = sizes.get(group.name) or group.count
        for number, node in enumerate(group.nodes):
            if node.leaf:
                found.setdefault(f"{level}{slot + 1}-{number // size + 1}", []).append(node.name)
    return tuple(Domain(name, tuple(nodes)) for name, nodes in found.items())


def _cloud_fabric(
    declaration: Declaration, layout: ClusterLayout, kind: str, rates: Sequence[int], notes: Notes
) -> Fabric:
    """Return the rails of a cloud's own fabric. The cloud does not publish how it joins them."""
    for name, default in (("leaf_nodes", 0), ("spine_leaves", 0), ("oversubscription", 1)):
        if getattr(declaration.fabric, name) != default:
            notes.problem(
                f"fabric.{name}", f"{declaration.cloud} builds the fabric, so that it cannot be chosen", "take it out"
            )
    if layout.rail_cidrs and hosts.listed(declaration):
        notes.reason("fabric.leaves", "the fabric exists; racks of the machines say which are near each other")
    elif layout.rail_cidrs:
        notes.reason("fabric.leaves", f"{declaration.cloud} joins the rails and does not publish how")
    if layout.rail_cidrs and not rates:
        notes.reason("fabric.rails", "no rails are planned, for their rate is not published")
    else:
        _say_rails(layout, notes)
    rails = tuple(
        Rail(index=index, interface=f"rail{index}", cidr=cidr, rate_mbps=rate, trunks=())
        for index, (cidr, rate) in enumerate(zip(layout.rail_cidrs, rates, strict=False))
    )
    return Fabric(kind=kind, oversubscription=None, leaf_nodes=None, rails=rails, leaves=())


def _kind(declaration: Declaration, machines: Sequence[catalog.Machine], notes: Notes) -> str:
    """Return the protocol of the NICs, which is that of the first pool that has NICs."""
    there = [machine for machine in machines if catalog.known_nics(machine)]
    unsaid = [machine for machine in machines if machine.nics is UNKNOWN]
    if there:
        kind, why = catalog.protocol_of(there[0]), f"the NICs of {there[0].name} speak {catalog.protocol_of(there[0])}"
    elif unsaid:
        kind, why = str(UNKNOWN), f"the protocol of the NICs of {unsaid[0].name} is {UNKNOWN}"
    else:
        kind = "simulated" if all(machine.simulated for machine in machines) else ""
        why = "no pool's machine has a NIC on the fabric"
    declared = declaration.fabric.kind
    if declared and declared != kind:
        problem = f"{why}, not {declared}" if kind else f"{why}, and {declared} needs one"
        notes.problem("fabric.kind", problem, "take it out, or choose another machine")
    return kind


def _rates(declaration: Declaration, machines: Sequence[catalog.Machine], rails: int, notes: Notes) -> list[int]:
    """Return the rate of each rail, which is that of its slowest NIC; empty when one is not published."""
    declared = declaration.fabric.rail_rate_mbps
    real = [machine for machine in machines if catalog.known_nics(machine) and not machine.simulated]
    if not real:
        return [declared or SIMULATED_RAIL_MBPS] * rails
    if declared:
        notes.problem(
            "fabric.rail_rate_mbps",
            f"the rails of {real[0].name} have the rate of its NICs, {real[0].nic_rate_gbps} Gb/s",
            "take it out: only simulated rails have a declared rate",
        )
    found = {machine.name: machine.nic_rate_gbps for machine in real}
    known = {name: gbps for name, gbps in found.items() if isinstance(gbps, int)}
    if len(known) < len(found):
        return []
    said = ", ".join(f"a NIC of {name} has {gbps} Gb/s" for name, gbps in known.items())
    notes.reason("fabric.rail_rate_mbps", f"{said}{'; the slowest on a rail counts' if len(known) > 1 else ''}")
    return [
        1000 * min(known[machine.name] for machine in real if rail < catalog.known_nics(machine))
        for rail in range(rails)
    ]


def leaves_of_rail(groups: tuple[Group, ...], leaves: tuple[Leaf, ...], rail: int) -> tuple[Leaf, ...]:
    """Return the leaves that have nodes on a rail: machines with fewer NICs are on the first rails only."""
    there = {node.leaf for group in groups for node in group.nodes if rail < len(node.rail_addresses)}
    return tuple(leaf for leaf in leaves if leaf.name in there)


def _trunks(leaves: tuple[Leaf, ...], rates_mbps: Mapping[str, int]) -> tuple[Trunk, ...]:
    return tuple(Trunk(leaf.name, rates_mbps[leaf.name]) for leaf in leaves) if len(leaves) > 1 else ()


def _check_accelerators(layout: ClusterLayout, notes: Notes) -> None:
    """Refuse pools whose nodes cannot train together. Unknown NICs are left to a rule."""
    for index, pool in enumerate(declared_pools(layout.groups)):
        row = catalog.machines()[pool.machine.name]
        joined = joined_nodes(row)
        if not row.accelerators or row.nics != 0 or pool.count <= joined:
            continue
        if joined > 1:
            notes.problem(
                f"pools[{index}].count",
                f"{joined} nodes of {row.name} are joined by links between their accelerators, which have no NIC on a "
                f"fabric: the {pool.count} nodes of pool {pool.name} cannot train together",
                f"write count: {joined} or less, or choose a machine with NICs",
            )
        else:
            notes.problem(
                f"pools[{index}].machine",
                f"{row.name} has {row.accelerators} accelerators and no NIC on the fabric: the {pool.count} nodes of "
                f"pool {pool.name} cannot train together",
                "choose a machine with NICs, or make it a pool of one node",
            )


def _say_rails(layout: ClusterLayout, notes: Notes) -> None:
    rails = len(layout.rail_cidrs)
    unsaid = next((group.machine.name for group in layout.groups if group.rails is None), "")
    if not rails:
        without = f"the NICs of {unsaid} are not published" if unsaid else "no pool's machine has a NIC on the fabric"
        notes.reason("fabric.rails", f"none: {without}")
        return
    widest = next(group for group in layout.groups if group.rails == rails)
    others = f"the number of NICs of {unsaid} is not published" if unsaid else "no machine has more"
    notes.reason(
        "fabric.rails",
        f"{rails}: {widest.machine.name} of pool {widest.name} has that many NICs on the fabric, and {others}",
    )


def _say_why(fabric: Fabric, layout: ClusterLayout, uplinks: Mapping[str, int], notes: Notes) -> None:
    _say_rails(layout, notes)
    if not fabric.rails:
        return
    notes.reason(
        "fabric.leaves",
        f"the nodes of a pool in runs of {fabric.leaf_nodes}; leaf2-1 is the first leaf of the second pool, so that "
        "growth of one pool renames nothing in another",
    )
    if fabric.spine_leaves and fabric.spines:
        notes.reason(
            "fabric.spines",
            f"the leaves of a pool in runs of {fabric.spine_leaves}, each under a spine of its own; a spine has as "
            "much to its core as all of its leaves have to it, counted for a full spine",
        )
    if any(rail.trunks for rail in fabric.rails):
        rate, trunk = next((rail.rate_mbps, rail.trunks[0].rate_mbps) for rail in fabric.rails if rail.trunks)
        links = next(iter(uplinks.values()), 0)
        nodes = counted(fabric.leaf_nodes or 0, "node")
        sum_ = (
            f"{links} uplinks of a leaf with {nodes} at {fabric.oversubscription}:1 x {rate} Mb/s"
            if links
            else f"{nodes} x {rate} Mb/s / {fabric.oversubscription}"
        )
        notes.reason(
            "fabric.trunks",
            f"{sum_} = {trunk} Mb/s from a leaf to the spine, counted for a full leaf, so that growth changes no trunk",
        )
    else:
        notes.reason("fabric.trunks", "none: one leaf of a rail holds all nodes")
