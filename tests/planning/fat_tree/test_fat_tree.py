"""Fat trees: published designs are reproduced, ports are used once, and all leaves have equally many paths."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict
from math import ceil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.catalog.switches import switches
from stampworks.planning.fat_tree.notes import REPRODUCED, notes
from stampworks.planning.fat_tree.tree import EVEN, Cable, FabricError, FatTree, NoFatTreeError, design

from tests.planning.published_fabrics import CANNOT_BE_RIGHT, PUBLISHED, Design, Row

ROWS = [(table, row) for table in PUBLISHED for row in table.rows]
IDS = [f"{table.machine}-{table.switch}-{row.nodes}" for table, row in ROWS]
of_rows = pytest.mark.parametrize(("table", "row"), ROWS, ids=IDS)


def machine(rate_gbps: int = 400, nics: int = 8) -> catalog.Machine:
    return dataclasses.replace(catalog.machines()["ND96isr_H100_v5"], nics=nics, nic_rate_gbps=rate_gbps)


@of_rows
def test_published_design(table: Design, row: Row) -> None:
    """Every published row is reproduced, with the switch that the machine's NICs have in it."""
    tree = design(
        catalog.machines()[table.machine], row.nodes, unit=table.unit, switch=table.switch, managers=table.managers
    )
    assert (tree.leaves, tree.spines, tree.cores) == row.switches
    assert (tree.node_leaf_cables, tree.leaf_spine_cables, tree.spine_core_cables) == row.cables
    assert tree.oversubscription == 1


@of_rows
def test_published_accelerators(table: Design, row: Row) -> None:
    """Rows whose GPUs contradict their nodes are listed with the arithmetic."""
    accelerators = row.nodes * catalog.machines()[table.machine].accelerators
    assert (accelerators != row.accelerators) == ((table.machine, table.switch, row.nodes) in CANNOT_BE_RIGHT)


def test_machines_without_published_table_say_so() -> None:
    """Machines of published tables are those without such a note."""
    assert {(table.machine, table.switch) for table in PUBLISHED} == REPRODUCED
    for name, switch, said in (("dgx-b200", "", False), ("dgx-a100", "", True), ("dgx-b200", "sn5600", True)):
        row = catalog.machines()[name]
        told = notes(row, design(row, 64, switch=switch))
        assert any("was found to hold this against" in note for note in told) == said


def test_units_whose_table_was_not_found() -> None:
    """A scalable unit of NVIDIA has 20 DGX A100 and 8 leaves (RA-09950-001, second hand), or 8 racks of DGX GB200:
    576 GPUs (its reference architecture, DGX SuperPOD Architecture). Read 2026-11-22."""
    a100, gb200 = (design(catalog.machines()[name], nodes) for name, nodes in (("dgx-a100", 20), ("dgx-gb200", 144)))
    assert (a100.units, a100.leaves) == (1, 8)
    assert (gb200.units, gb200.nodes * gb200.rails) == (8, 576)


def test_defaults_are_those_of_the_published_designs() -> None:
    """Switch and unit have defaults: a generation of NICs has its switch, with half of the ports down."""
    for table in PUBLISHED[:3]:
        tree = design(catalog.machines()[table.machine], 100)
        assert (tree.switch.name, tree.unit) == (table.switch, table.unit)


@st.composite
def trees(draw: st.DrawFn, nodes_max: int) -> tuple[FatTree, float]:
    """Any design that can be built, and the oversubscription that was asked for."""
    switch = draw(st.sampled_from(sorted(switches())))
    rate = draw(st.sampled_from(sorted(switches()[switch].ports)))
    planes = draw(st.sampled_from([1, 2])) if 2 * rate in switches()[switch].ports else 1
    radix = switches()[switch].ports[rate]
    oversubscription = draw(st.sampled_from([1, 1.5, 2, 3, 4]))
    unit = draw(st.integers(1, int(radix * oversubscription / (1 + oversubscription))))
    nodes = draw(st.integers(1, nodes_max))
    nics = draw(st.sampled_from([1, 2, 4, 8, 16]))
    of = machine(rate * planes, nics)
    try:
        tree = design(of, nodes, unit=unit, switch=switch, oversubscription=oversubscription, planes=planes)
        return tree, oversubscription
    except FabricError as error:
        # small units of many rails run out of cores
        assume("three tiers of" not in str(error))
        raise


def check(tree: FatTree, asked: float = 1) -> None:
    cables = [*tree.cables()]
    _check_counts(tree, cables)
    _check_ports(tree, cables)
    _check_paths(tree, cables)
    _check_spines(tree, asked)
    assert 1 <= tree.oversubscription <= asked


def _check_spines(tree: FatTree, asked: float) -> None:
    """Uplinks are as few as the request allows, in pairs, and divide evenly over the spines."""
    assert tree.uplinks <= ceil(tree.unit / asked) + EVEN - 1
    leaves = tree.group_units if tree.tiers == 3 else tree.units * tree.rails
    ports = tree.radix // (tree.tiers - 1) if tree.tiers > 1 else 0  # below cores, half of a spine's ports lead up
    fewer = [each for each in range(1, tree.group_spines) if tree.uplinks % each == 0]
    assert all(leaves * tree.uplinks // each > ports for each in fewer)


def _check_counts(tree: FatTree, cables: list[Cable]) -> None:
    links = Counter(cable.boundary for cable in cables)
    assert links["node-leaf"] == tree.nodes * tree.rails * tree.planes + tree.managers
    assert links["leaf-spine"] == tree.leaves * tree.uplinks
    assert links["spine-core"] == tree.spines * tree.spine_uplinks
    devices = {end.device for cable in cables for end in (cable.lower, cable.upper)}
    for tier, count in (("leaf", tree.leaves), ("spine", tree.spines), ("core", tree.cores)):
        assert sum(device.startswith(tier) for device in devices) == count


def _check_ports(tree: FatTree, cables: list[Cable]) -> None:
    """Each port is used once, and no switch has more ports than its model."""
    ends = [end for cable in cables for end in (cable.lower, cable.upper)]
    assert len(set(ends)) == len(ends)
    used = Counter(end.device for end in ends if not end.device.startswith(("node", "manager")))
    assert max(used.values()) <= tree.radix
    names = {end.port for end in ends if not end.device.startswith(("node", "manager"))}
    if tree.switch.kind == "infiniband":
        assert all(1 <= int(name) <= tree.radix for name in names)
    tiers = Counter[str]()
    for device, count in used.items():
        tiers[device.split("-")[0]] += count
    switches_of = {"leaf": tree.leaves, "spine": tree.spines, "core": tree.cores}
    assert tree.ports_left == {tier: switches_of[tier] * tree.radix - tiers[tier] for tier in switches_of}


def _check_paths(tree: FatTree, cables: list[Cable]) -> None:
    """All pairs of leaves of a plane at the same distance have the same number of paths."""
    up: dict[str, Counter[str]] = defaultdict(Counter)
    for cable in cables:
        if cable.boundary != "node-leaf":
            up[cable.lower.device][cable.upper.device] += 1
    leaves = sorted(device for device in up if device.startswith("leaf"))
    to_core = {
        leaf: sum((_times(up[spine], links) for spine, links in up[leaf].items()), Counter[str]()) for leaf in leaves
    }
    # a few leaves against all: the tree looks alike from each
    for plane in range(tree.planes):
        mine = [leaf for leaf in leaves if tree.planes == 1 or leaf.endswith(f"plane{plane}")]
        near, far = set(), set()
        for one in mine[:3] + mine[-3:]:
            for other in mine:
                if one != other:
                    paths = sum(links * up[other][spine] for spine, links in up[one].items())
                    (near.add(paths) if paths else far.add(_paths(to_core[one], to_core[other])))
        assert len(near) <= 1
        assert len(far) <= 1
        assert 0 not in far


def _times(links: Counter[str], factor: int) -> Counter[str]:
    return Counter({device: count * factor for device, count in links.items()})


def _paths(one: Counter[str], other: Counter[str]) -> int:
    return sum(count * other[core] for core, count in one.items())


@given(trees(nodes_max=200))
@settings(max_examples=40, deadline=None)
def test_any_design_is_sound(asked: tuple[FatTree, float]) -> None:
    """Counts match the list of cables, no port is used twice, paths are equal, and no spine is superfluous."""
    check(*asked)


@pytest.mark.long
@given(trees(nodes_max=1500))
@settings(max_examples=400, deadline=None)
def test_any_larger_design_is_sound(asked: tuple[FatTree, float]) -> None:
    check(*asked)


@pytest.mark.parametrize(("table", "row"), [each for each in ROWS if each[1].nodes <= 576])
def test_published_design_has_equal_paths(table: Design, row: Row) -> None:
    check(design(catalog.machines()[table.machine], row.nodes, unit=table.unit, switch=table.switch), asked=1)


def test_three_tiers_keep_a_rail_below_the_cores() -> None:
    """Nodes of a rail and group reach each other over a spine; traffic between rails crosses a core."""
    tree = design(machine(), 512, switch="qm9700")
    assert (tree.tiers, tree.groups, tree.group_units) == (3, 8, 16)
    assert tree.group_of(0, 3) == tree.group_of(15, 3) != tree.group_of(0, 4)


def test_oversubscription_is_what_was_asked_for_at_most() -> None:
    """48 nodes share 16 uplinks at 3:1, and half of the NICs use the remaining ports."""
    tree = design(machine(), 96, switch="qm9700", oversubscription=3)
    assert (tree.unit, tree.uplinks, tree.oversubscription) == (48, 16, 3)
    assert tree.bisection_gbps == 2 * 8 * 16 * 400 / 2
    partial = design(machine(), 96 + 40, switch="qm9700", oversubscription=3)
    assert partial.bisection_gbps == 3 * 8 * 16 * 400 / 2


def test_uplinks_that_are_oversubscribed_divide_over_few_spines() -> None:
    """This is the default: an odd or prime number would need a spine for each uplink."""
    trees = [design(machine(), 64, switch="qm9700", oversubscription=thin) for thin in (2, 4)]
    assert [(tree.unit, tree.uplinks, tree.spines) for tree in trees] == [(40, 20, 5), (48, 12, 3)]
    assert [tree.oversubscription for tree in trees] == [2, 4]


@pytest.mark.parametrize(
    ("asked", "unit", "uplinks", "switches"),
    [
        (1, 32, 32, (256, 256, 128)), (1.5, 36, 24, (232, 192, 87)), (2, 40, 20, (208, 160, 65)),
        (3, 48, 16, (176, 128, 44)), (4, 48, 12, (176, 96, 33)), (5, 50, 10, (168, 80, 30)), (8, 48, 6, (176, 48, 22)),
    ],
)  # fmt: skip
def test_spines_of_a_thin_fabric(asked: float, unit: int, uplinks: int, switches: tuple[int, int, int]) -> None:
    """1,020 nodes: ports of spines stay free because uplinks divide evenly over spines, as they do in NVIDIA's table of
    DGX B300 (288 nodes leave 16 of 144 ports of each free); the notes say so."""
    tree = design(machine(), 1020, switch="qm9700", oversubscription=asked)
    assert (tree.unit, tree.uplinks) == (unit, uplinks)
    assert (tree.leaves, tree.spines, tree.cores) == switches
    free = f"{tree.ports_left['spine']:,} ports of spines stay free: the {uplinks} uplinks of a leaf"
    assert any(note.startswith(free) for note in notes(machine(), tree)) == (tree.ports_left["spine"] > 0)


def test_a_small_unit_has_uplinks_for_its_nodes_only() -> None:
    """18 nodes on a leaf of 64 ports need 18 uplinks, although 32 would divide over more numbers of spines."""
    tree = design(catalog.machines()["dgx-gb200"], 36)
    assert (tree.unit, tree.uplinks, tree.oversubscription) == (18, 18, 1)


def test_a_unit_has_whole_nvlink_domains_by_default() -> None:
    """The leaf has enough ports for a domain."""
    assert design(catalog.machines()["dgx-gb200"], 36).unit == 18
    assert design(dataclasses.replace(machine(), nvlink_nodes=40), 80, switch="qm9700").unit == 32


def test_a_spine_has_a_port_for_every_leaf_of_two_tiers() -> None:
    """64 ports serve 64 leaves; another leaf needs cores."""
    assert [design(machine(nics=1), 32 * leaves, switch="qm9700").tiers for leaves in (64, 65)] == [2, 3]


@pytest.mark.parametrize("nodes", [1, 32, 127, 2048])
def test_bisection_of_a_full_tree_is_half_of_its_nics(nodes: int) -> None:
    assert design(machine(), nodes, switch="qm9700").bisection_gbps == nodes * 8 * 400 / 2


def test_one_rail_of_one_unit_is_one_switch() -> None:
    tree = design(machine(nics=1), 32, switch="qm9700")
    assert (tree.leaves, tree.spines, tree.cores, tree.tiers) == (1, 0, 0, 1)
    assert next(tree.cables()).upper.device == "leaf-001-rail0"


def test_managers_take_places_that_nodes_leave() -> None:
    """A full last unit has no place for them, which is why the published designs have a node less."""
    check(design(machine(), 127, switch="qm9700", managers=4))
    with pytest.raises(FabricError, match="the leaves of the last unit have 0 ports left"):
        design(machine(), 128, switch="qm9700", managers=4)


@pytest.mark.parametrize(
    ("wrong", "what", "hint"),
    [
        ({"nodes": 0}, "0 nodes", "from 1"),
        ({"nodes": -3}, "-3 nodes", "from 1"),
        ({"nodes": 10**12}, "1000000000000 nodes", "1,000,000"),
        ({"nodes": 8193}, "end at 8,192 nodes in units of 32", "more ports"),
        ({"unit": 0}, "unit of 0 nodes", "at least one"),
        (
            {"unit": 40},
            "40 uplinks at an oversubscription of 1; qm9700 has 64",
            "--unit 32 or less, --oversubscription 1.67",
        ),
        ({"unit": 64}, "64 ports of each leaf", "or a switch with 128 ports"),
        ({"oversubscription": 0.5}, "oversubscription 0.5", "1 or more"),
        ({"oversubscription": float("nan")}, "oversubscription nan", "1 or more"),
        ({"oversubscription": float("inf")}, "oversubscription inf", "1 or more"),
        ({"switch": "qm97"}, "no switch is called 'qm97'", "did you mean 'qm9700'?"),
        ({"switch": "q3400"}, "have 400 Gb/s, and ports of q3400 800 Gb/s", "leave it out"),
        ({"planes": 3}, "400 Gb/s of a NIC do not divide into 3 planes", "leave out"),
        ({"planes": 0}, "0 planes", "leave out"),
        ({"managers": -1}, "-1 subnet managers", "fewer"),
    ],
)
def test_impossible_fabric_names_conflicting_facts(wrong: dict[str, object], what: str, hint: str) -> None:
    asked: dict[str, object] = {"nodes": 64, "switch": "qm9700", **wrong}
    with pytest.raises(FabricError) as caught:
        design(machine(), **asked)  # type: ignore[arg-type]
    first, second = str(caught.value).splitlines()
    assert what in first
    assert hint in second


def test_proposed_oversubscription_works() -> None:
    """Each unit that does not fit gets a working oversubscription."""
    for unit in range(33, 64):
        with pytest.raises(FabricError) as caught:
            design(machine(), 64, switch="qm9700", unit=unit)
        relief = float(str(caught.value).split("--oversubscription ")[1].split(",")[0])
        assert design(machine(), 64, switch="qm9700", unit=unit, oversubscription=relief).oversubscription <= relief


@pytest.mark.parametrize("name", ["p5", "p5en", "a3-megagpu-8g", "sim-h100", "sim-cpu"])
def test_no_fat_tree_is_said_of_what_nobody_can_build(name: str) -> None:
    with pytest.raises(NoFatTreeError):
        design(catalog.machines()[name], 16)


def test_no_fat_tree_is_said_of_nics_that_nobody_knows() -> None:
    """A rented machine may have any NICs, so that the error does not claim that it has none."""
    with pytest.raises(NoFatTreeError) as error:
        design(catalog.machines()["together-h100"], 16)
    assert str(error.value) == "the NICs and cables of together-h100 are not published"


def test_design_takes_no_time_and_cables_are_made_one_at_a_time() -> None:
    started = time.perf_counter()
    tree = design(machine(), 2048, switch="qm9700")
    assert (tree.leaves, tree.ports_left["leaf"], next(tree.cables()).rate_gbps) == (512, 0, 400)
    assert time.perf_counter() - started < 0.3


def test_notes_say_where_the_model_ends() -> None:
    """Clouds, full leaves, torn NVLink domains, and a switch that is not for these NICs."""

    def noted(name: str, nodes: int, switch: str = "", unit: int | None = None) -> str:
        of = catalog.machines()[name]
        return "\n".join(notes(of, design(of, nodes, switch=switch, unit=unit)))

    assert "azure builds the network" in noted("ND96isr_H100_v5", 64)
    assert "no leaf has a port left for a subnet manager" in noted("ND96isr_H100_v5", 64)
    assert "8 ports of leaves are left for them" in noted("ND96isr_H100_v5", 63)
    assert "the last of 2 units has 31 of 32 nodes" in noted("ND96isr_H100_v5", 63)
    assert "the one unit has 20 of 32 nodes" in noted("dgx-h100", 20)
    assert "would fit into one qm9700" in noted("ND96isr_H100_v5", 8)
    assert "spines only join the rails" in noted("dgx-h100", 20)
    assert "qm9700 is infiniband, and the NICs of a4-highgpu-8g are meant for ethernet" in noted(
        "a4-highgpu-8g", 8, "qm9700"
    )
    assert "speak efa, which no such switch carries" in noted("p6-b200", 8, "sn5600")
    assert "NVIDIA's table for DGX H100" in noted("dgx-h100", 63)
    assert "NVIDIA's design of 127 nodes" in noted("dgx-h100", 64)
    for other in ("dgx-b200", "dgx-b300", "dgx-gb200"):
        assert not any("NVIDIA's" in noted(other, nodes) for nodes in (63, 64, 72, 144))
    torn = noted("ND128isr_NDR_GB200_v6", 72, unit=32)
    assert "4 NVLink domains of 18 nodes, 2 of them on the leaves of two units: --unit 18 keeps" in torn
    assert "4 NVLink domains of 18 nodes, 0 of them" in noted("ND128isr_NDR_GB200_v6", 72, unit=18)
