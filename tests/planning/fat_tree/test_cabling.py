"""Cablings held against their plan: every seeded mistake is found, and nothing that is none."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.planning.fat_tree.cabling import Comparison, DumpError, FoundCable, Seen, compare
from stampworks.planning.fat_tree.dumps import Names, read_ibnetdiscover, read_lldp, read_names
from stampworks.planning.fat_tree.tree import End, FatTree, design

from tests.planning.cabling_dumps import Mistakes, ibnetdiscover, links_of, lldp

NO_NAMES = Names({})
DUMPS = Path(__file__).parents[1] / "dumps"


def machine(rate_gbps: int, nics: int) -> catalog.Machine:
    return dataclasses.replace(catalog.machines()["ND96isr_H100_v5"], nics=nics, nic_rate_gbps=rate_gbps)


INFINIBAND = design(machine(400, 8), 20, switch="qm9700", unit=16, managers=2)
THREE_TIERS = design(machine(200, 2), 60, switch="qm8790", unit=2)
TWIN_PLANES = design(machine(800, 4), 20, switch="sn5600", unit=16)
SPLIT = design(machine(200, 2), 40, switch="sn5600", unit=32)
TREES = {"infiniband": INFINIBAND, "three-tiers": THREE_TIERS, "twin-planes": TWIN_PLANES, "split": SPLIT}


def seen_by(tree: FatTree, links: list[FoundCable]) -> Seen:
    """Return a dump of these links in the format of the tree's switches."""
    if tree.switch.kind == "infiniband":
        return read_ibnetdiscover(ibnetdiscover(links, tree.radix), "dump", NO_NAMES)
    texts = lldp(links, lambda device: device != "stranger", "json0" if len(links) % 2 else "json")
    return read_lldp(texts, NO_NAMES)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_cabling_as_planned_is_right(tree: FatTree) -> None:
    """No difference is found; LLDP reports no rates, and a note says so."""
    links = links_of(tree)
    unrated = 0 if tree.switch.kind == "infiniband" else len(links)
    assert compare(tree, seen_by(tree, links)) == Comparison(len(links), (), 0, unrated, 0)


def check_seed(tree: FatTree, seed: int) -> None:
    """Several mistakes on different cables are all found, and nothing else is."""
    made = Mistakes(tree, random.Random(seed))  # noqa: S311 (repeatable)
    kinds = [made.swap, made.wrong_rail, made.rotate, made.remove, made.move, made.take_a_place, made.slow_down]
    if made.free and tree.switch.kind == "infiniband":
        kinds.append(made.add)
    if not made.free:
        kinds.remove(made.move)
    for make in made.chance.sample(kinds, made.chance.randint(1, 4)):
        make()
    compared = compare(tree, seen_by(tree, made.all_links()))
    found = [(each.kind, frozenset(each.planned)) for each in compared.findings if each.kind != "slow"]
    told = Counter((kind, frozenset(cables)) for kind, cables in made.expected)
    assert Counter(found) == told, [each.text for each in compared.findings]
    slow = {frozenset(each.found[0].ends) for each in compared.findings if each.kind == "slow"}
    meant = made.slow if tree.switch.kind == "infiniband" else set()
    assert slow == {frozenset((cable.lower, cable.upper)) for cable in meant}
    assert compared.right == len(made.links) - len({cable for _, cables in made.expected for cable in cables})


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_seeded_mistakes_are_all_found_and_none_invented(tree: FatTree) -> None:
    for seed in range(60):
        check_seed(tree, seed)


@pytest.mark.long
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_many_more_seeded_mistakes(tree: FatTree) -> None:
    for seed in range(1000, 1400):
        check_seed(tree, seed)


@pytest.mark.parametrize(
    ("one", "other", "kind", "text"),
    [
        (
            ("node-0001", 0),
            ("node-0001", 1),
            "swapped",
            "node-0001 mlx5_0 is on leaf-001-rail1 1, not on leaf-001-rail0 1",
        ),
        (("node-0001", 0), ("node-0001", 1), "swapped", "(wrong rail)"),
        (("node-0001", 0), ("node-0017", 0), "swapped", "(wrong unit)"),
        (("node-0001", 0), ("node-0017", 5), "swapped", "(wrong unit and rail)"),
        (("node-0001", 0), ("node-0002", 0), "swapped", "(another port of the same device)"),
    ],
)
def test_a_swap_says_in_what_it_is_wrong(one: tuple[str, int], other: tuple[str, int], kind: str, text: str) -> None:
    ends = [End(node, f"mlx5_{rail}") for node, rail in (one, other)]
    links = links_of(INFINIBAND)
    places = {link.one: number for number, link in enumerate(links)}
    first, second = (places[end] for end in ends)
    links[first], links[second] = (
        dataclasses.replace(links[first], other=links[second].other),
        dataclasses.replace(links[second], other=links[first].other),
    )
    [finding] = compare(INFINIBAND, seen_by(INFINIBAND, links)).findings
    assert finding.kind == kind
    assert text in finding.text


def test_a_device_that_is_down_is_told_once() -> None:
    """A dead leaf is a single finding with all its cables; devices below it are not reported again."""
    dead = INFINIBAND.leaf_name(0, 3)
    links = [link for link in links_of(INFINIBAND) if dead not in {end.device for end in link.ends}]
    [finding] = compare(INFINIBAND, seen_by(INFINIBAND, links)).findings
    assert (finding.kind, len(finding.planned)) == ("missing", 16 + INFINIBAND.uplinks)
    assert finding.text == f"{dead} has no cable at all: {len(finding.planned)} are missing"


def test_unseen_cables_are_unknown() -> None:
    """Dumps of the nodes alone say nothing of the cables between switches."""
    texts = lldp(links_of(TWIN_PLANES), lambda device: device.startswith("node"), "json")
    compared = compare(TWIN_PLANES, read_lldp(texts, NO_NAMES))
    assert (compared.right, compared.findings) == (20 * 4 * 2, ())
    assert compared.unseen == TWIN_PLANES.leaves * TWIN_PLANES.uplinks


def test_names_of_the_owner_are_those_of_the_plan() -> None:
    """Devices, NICs of all nodes, and NICs of a node may have other names."""
    links = links_of(INFINIBAND)
    text = ibnetdiscover(links, 64).replace("node-0001 mlx5_1", "dgx1 ib9").replace("node-0001", "dgx1")
    text = text.replace("leaf-001-rail0", "SW Q 17").replace("mlx5_3", "ibp3")
    lines = ["# ours,theirs", "node-0001,dgx1", "leaf-001-rail0,SW Q 17", "mlx5_3,ibp3", "node-0001 mlx5_1,dgx1 ib9"]
    names = read_names("\n".join(lines), "names.csv")
    assert compare(INFINIBAND, read_ibnetdiscover(text, "dump", names)).findings == ()


def test_a_dump_of_another_fabric_is_refused() -> None:
    text = ibnetdiscover(links_of(INFINIBAND), 64).replace("leaf", "blatt").replace("node", "knoten")
    text = text.replace("spine", "rueckgrat").replace("manager", "verwalter")
    with pytest.raises(DumpError, match=r"no device of the dump is one of the plan.*\n.*--names"):
        compare(INFINIBAND, read_ibnetdiscover(text, "dump", NO_NAMES))


GUID = "b83fd203000000{:02x}"
SWITCH = f'Switch\t64 "S-{GUID.format(1)}"\t\t# "leaf-001-rail0" enhanced port 0 lid 1 lmc 0\n'
NIC = f'Ca\t1 "H-{GUID.format(2)}"\t\t# "node-0001 mlx5_0"\n'
UP = f'[1]({GUID.format(2)}) \t"S-{GUID.format(1)}"[1]\t\t# lid 2 lmc 0 "leaf-001-rail0" lid 1 4xNDR\n'
DOWN = f'[1]\t"H-{GUID.format(2)}"[1]({GUID.format(2)}) \t\t# "node-0001 mlx5_0" lid 2 4xNDR\n'


def test_rates_are_those_of_the_slower_report() -> None:
    """Half the lanes, an older generation, and with -f more behind them."""
    for rate, gbps in (("4xNDR", 400), ("2xNDR", 200), ("4xHDR s=4 w=2 v=4", 200), ("1xSDR", 2.5), ("4x???", None)):
        text = SWITCH + DOWN.replace("4xNDR", rate) + NIC + UP.replace("4xNDR", rate)
        [link] = read_ibnetdiscover(text, "dump", NO_NAMES).links
        assert link.rate_gbps == gbps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "dump: describes no switch and no NIC"),
        ("# nothing\n", "dump: describes no switch and no NIC"),
        (SWITCH + "hello\n", "dump:2: 'hello' is nothing that ibnetdiscover prints"),
        (DOWN, "dump:1: port 1 belongs to no device"),
        (SWITCH + DOWN, f"dump:2: leads to H-{GUID.format(2)}, which the dump does not describe"),
        (SWITCH + DOWN + NIC, "dump:2: leads to a port that does not lead back: that port has no line"),
        (
            SWITCH + DOWN + NIC + UP.replace('"[1]', '"[2]'),
            "dump:2: leads to a port that does not lead back: line 4 says",
        ),
        (SWITCH + DOWN + DOWN, "dump:3: port 1 is listed a second time"),
        (SWITCH + SWITCH, f"dump:2: S-{GUID.format(1)} is described a second time"),
        (SWITCH + SWITCH.replace(GUID.format(1), GUID.format(3)), "are both called 'leaf-001-rail0'"),
        (SWITCH + "x" * 5000, "dump:2: a line of 5000 characters"),
        ("\x1b[2J" + SWITCH, r"dump:1: '\\x1b[2JSwitch"),
    ],
)
def test_dump_errors_name_their_place(text: str, message: str) -> None:
    with pytest.raises(DumpError) as caught:
        read_ibnetdiscover(text, "dump", NO_NAMES)
    first, hint = str(caught.value).splitlines()
    assert message.replace("\\\\", "\\") in first
    assert hint.startswith("  hint: ")


@given(st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_a_damaged_dump_is_read_or_refused(chance: random.Random) -> None:
    """Text that was cut, doubled or replaced gives an answer or a located error."""
    text = list(SHORT)
    for _ in range(chance.randint(1, 6)):
        at, size = chance.randrange(len(text)), chance.randint(0, 40)
        text[at : at + size] = chance.choice([[], text[at : at + size] * 2, list('"[]()#\n\0xS-é9')])
    with contextlib.suppress(DumpError):
        compare(INFINIBAND, read_ibnetdiscover("".join(text), "dump", NO_NAMES))


SHORT = ibnetdiscover(links_of(design(machine(400, 2), 3, switch="qm9700", unit=4)), 64)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "7",
        '{"lldp": 7}',
        '{"lldp": {"interface": 7}}',
        '{"lldp": {"interface": [7]}}',
        '{"lldp": {"interface": {"swp1": 7}}}',
        '{"lldp": {"interface": {"swp1": {"chassis": 7, "port": [[]]}}}}',
        '{"lldp": {"interface": {"swp1": {"chassis": {"id": []}, "port": {"id": {"type": []}}}}}}',
        '{"lldp": {"interface": {"name": {"name": [{"value": {}}]}}}}',
        '{"lldp": [[{"interface": []}]]}',
        "[" * 100_000,
        '{"lldp": ' * 50_000,
        '{"lldp": {"interface": {"swp1": {"chassis": {"' + "x" * 100_000 + '": {}}}}}}',
    ],
)
def test_strange_lldp_is_read_or_refused(text: str) -> None:
    message, links = "leaf-001-rail0: ", tuple[FoundCable, ...]()
    try:
        links = read_lldp({"leaf-001-rail0": text}, NO_NAMES).links
    except DumpError as error:
        message = str(error)
    assert message.startswith("leaf-001-rail0: ")
    assert len(message) < 1000
    assert all(len(str(end)) < 1000 for link in links for end in link.ends)


def test_lldp_that_contradicts_itself_is_refused() -> None:
    """Dumps from before and after a move of a cable contradict each other."""
    before = links_of(TWIN_PLANES)
    after = [dataclasses.replace(link, other=End("leaf-001-rail0-plane0", "swp60s0")) for link in before[:1]]
    texts = lldp(before, lambda device: device.startswith("leaf"), "json")
    texts |= lldp(after, lambda device: device.startswith("node"), "json0")
    with pytest.raises(DumpError, match="the cabling changed between the dumps"):
        read_lldp(texts, NO_NAMES)


@pytest.mark.parametrize("form", ["json", "json0"])
def test_reads_real_output_of_lldpd(form: str) -> None:
    """Two hosts with lldpd 1.0.16 and two cables; hosts give the address of a port for its name."""
    texts = {file.name.split(".")[0]: file.read_text() for file in DUMPS.glob(f"*.{form}")}
    assert {*texts} == {"leaf-001-rail0", "node-0001"}
    seen = read_lldp(texts, NO_NAMES)
    assert {frozenset(map(str, link.ends)) for link in seen.links} == {
        frozenset(("leaf-001-rail0 swp1", "node-0001 rail0")),
        frozenset(("leaf-001-rail0 swp2", "node-0001 rail1")),
    }


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_two_exchanged_leaves_are_one_finding(tree: FatTree) -> None:
    """All cables of the leaves are exchanged, or only those of the nodes."""
    first, second = tree.leaf_name(0, 0), tree.leaf_name(0, 1)
    other = {first: second, second: first}

    def moved(end: End) -> End:
        return dataclasses.replace(end, device=other.get(end.device, end.device))

    links = [dataclasses.replace(link, one=moved(link.one), other=moved(link.other)) for link in links_of(tree)]
    [finding] = compare(tree, seen_by(tree, links)).findings
    assert finding.kind == "exchanged"
    assert finding.text.startswith(f"{first} and {second} are exchanged: ")


def test_a_management_network_is_not_of_the_fabric() -> None:
    """Switches and hosts see each other on other ports, too; these are counted and not judged."""
    links = [*links_of(TWIN_PLANES), FoundCable(End("node-0001", "eth0"), End("rack-7", "swp1"), None)]
    compared = compare(TWIN_PLANES, seen_by(TWIN_PLANES, links))
    assert (compared.findings, compared.others) == ((), 1)


def test_names_file_errors_have_a_line() -> None:
    for text, message in (("a,b\na", "names.csv:2: 'a' is no pair"), ("a,x\nb,x", "names.csv:2: 'x' has a name")):
        with pytest.raises(DumpError) as caught:
            read_names(text, "names.csv")
        assert message in str(caught.value)


def test_json_of_the_sample_is_what_lldpd_prints() -> None:
    """The writer of these tests has the shape of a real dump."""
    real = json.loads((DUMPS / "leaf-001-rail0.json").read_text())
    ours = json.loads(
        lldp(links_of(TWIN_PLANES), lambda device: device.startswith("leaf"), "json")["leaf-001-rail0-plane0"]
    )
    assert [*real["lldp"]] == [*ours["lldp"]] == ["interface"]
    for dump in (real, ours):
        [facts] = dump["lldp"]["interface"][0].values()
        [chassis] = facts["chassis"].values()
        assert {"via", "chassis", "port"} <= {*facts}
        assert {"type", "value"} == {*chassis["id"]} == {*facts["port"]["id"]}
