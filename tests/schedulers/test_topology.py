"""The model of the network and its forms for schedulers: written, read back, and refused when wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.plan import Plan, Roster
from stampworks.schedulers import topology
from stampworks.schedulers.topology import NodeDomains, Topology, TopologyError, kubernetes, ranks, slurm

GOLDEN = Path(__file__).parent / "golden-topology"
relaxed = settings(deadline=None)


def three_tiers(nodes: int = 16, leaf: int = 2, unit: int = 4, core: int = 8) -> Topology:
    places = {
        f"gpu-{number:04d}": (f"core{number // core + 1}", f"unit{number // unit + 1}", f"leaf{number // leaf + 1}")
        for number in range(nodes)
    }
    return topology.of_places(("core", "unit", "leaf"), {**places, "cpu-001": ()})


POOLS = {"gpu": [f"gpu-{number:04d}" for number in range(16)], "cpu": ["cpu-001"]}


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Draw topologies of any depth and width, with nodes of any name in any order, some of them nowhere."""
    depth = draw(st.integers(1, 4))
    label = st.from_regex(r"[a-z]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
    node = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?(\.[a-z]{1,3})?", fullmatch=True)
    raw = st.text(max_size=8) | label | st.sampled_from(["fabric", "management", "a1", "a2", "a01"])
    way = st.just(()) | st.tuples(*[st.one_of(raw, st.sampled_from(["x", "y"])) for _ in range(depth)])
    levels = draw(st.lists(label, min_size=depth, max_size=depth, unique=True))
    return topology.of_places(levels, draw(st.dictionaries(node, way, max_size=12)))


def used(made: Topology) -> Topology:
    return Topology(made.levels, made.placed)


def round_trips(made: Topology) -> None:
    levels = made.levels
    assert topology.from_text(topology.to_text(made)) == made
    assert slurm.read_tree(slurm.tree(made), levels) == made
    assert slurm.read_tree_yaml(slurm.tree_yaml(made), levels) == made
    inner = used(made).of_levels(levels[-1:])
    expected = slurm.Blocks(Topology(("block",), inner.places), slurm.block_sizes(made))
    assert slurm.read_block(slurm.block(made)) == expected
    assert slurm.read_block_yaml(slurm.block_yaml(made)) == expected
    domains = {place.node: place.domains for place in made.places}
    assert kubernetes.read_labels(kubernetes.labels(made, {}), levels) == domains
    assert kubernetes.read_volcano(kubernetes.volcano(made), levels) == used(made)
    assert kubernetes.read_kueue(kubernetes.kueue(made, {}, "test"))[0] == tuple(map(kubernetes.key, levels))
    slots = {node: 1 + len(node) % 8 for node in ranks.order(made)}
    for write, read in (
        (ranks.slurm_hostfile, ranks.read_slurm_hostfile),
        (ranks.mpi_hostfile, ranks.read_mpi_hostfile),
        (lambda slots: ranks.rankfile(slots, dict.fromkeys(slots, 5)), ranks.read_rankfile),
    ):
        assert list(read(write(slots)).items()) == list(slots.items())


@relaxed
@given(topologies())
def test_every_form_round_trips(made: Topology) -> None:
    """Every format contains the whole model, or documents its omissions."""
    round_trips(made)


@pytest.mark.long
@settings(deadline=None, max_examples=10_000)
@given(topologies())
def test_every_form_round_trips_at_length(made: Topology) -> None:
    round_trips(made)


@relaxed
@given(topologies())
def test_rank_order_keeps_domains_together(made: Topology) -> None:
    """A ring leaves each domain once on every level, for any order of names."""
    counts = [len(made.domains(level)) for level in range(len(made.levels))] if made.placed else []
    expected = tuple(count if count > 1 else 0 for count in counts) or (0,) * len(made.levels)
    assert ranks.crossings(made, ranks.order(made)) == expected


def test_golden_files(golden: Callable[[Path, str], None]) -> None:
    """Formats without a real reader here are at least reviewed; pytest --regenerate writes them again."""
    made = three_tiers()
    golden(GOLDEN / "topology.json", topology.to_text(made))
    golden(GOLDEN / "tree.conf", slurm.tree(made))
    golden(GOLDEN / "block.conf", slurm.block(made))
    golden(GOLDEN / "tree-yaml.json", slurm.tree_yaml(made))
    golden(GOLDEN / "block-yaml.json", slurm.block_yaml(made))
    golden(GOLDEN / "labels.json", kubernetes.labels(made, POOLS))
    golden(GOLDEN / "kueue.json", kubernetes.kueue(made, POOLS, "test"))
    golden(GOLDEN / "volcano.json", kubernetes.volcano(made))
    nodes = ranks.order(made)
    golden(GOLDEN / "rankfile", ranks.rankfile(dict.fromkeys(nodes, 2), dict.fromkeys(nodes, 96)))


def test_every_node_of_a_plan_has_its_leaf(stack: tuple[Plan, Roster]) -> None:
    """The plan's leaves are the model's, in the plan's order."""
    plan, _ = stack
    made = topology.of_plan(plan)
    assert made.domains(0) == {leaf.name: list(leaf.nodes) for leaf in plan.fabric.leaves}
    assert set(made.unplaced) == {node.name for pool in plan.pools for node in pool.nodes if not node.leaf}


def test_names_of_a_plan_follow_its_leaves(stack: tuple[Plan, Roster]) -> None:
    """Slurm lists the nodes of a job by name, so that in a plan's own pools the list is in rank order."""
    plan, _ = stack
    order = ranks.order(topology.of_plan(plan))
    for pool in plan.pools:
        assert [node for node in order if node.startswith(pool.name)] == [node.name for node in pool.nodes]


def test_domains_get_names_that_everybody_takes() -> None:
    """Special characters, leading digits, duplicates and reserved names are replaced by unique valid names."""
    said = {
        "a": ("nn-0f9", "ocid1.block.oc1..anuwc/RACK 1"),
        "b": ("nn-0f9", "3e30"),
        "c": ("nn-1a7", "3e30"),
        "d": ("fabric", "x" * 70),
    }
    made = topology.of_places(("spine", "leaf"), said)
    names = [place.domains for place in made.places]
    assert [spine for spine, _ in names] == ["nn-0f9", "nn-0f9", "nn-1a7", "spine-fabric-de13e3f9"]
    leaves = [leaf for _, leaf in names]
    assert leaves[0].startswith("leaf-ocid1-block-oc1-anuwc-ra")
    assert leaves[1] != leaves[2]
    assert all(topology.model.NAME.fullmatch(leaf) for leaf in leaves)
    assert topology.of_places(("spine", "leaf"), dict(reversed(said.items()))).of(["b"]) == made.of(["b"])


def test_one_name_in_two_places_becomes_two() -> None:
    """Clouds number the inside of each block separately."""
    made = topology.of_places(("block", "subblock"), {"a": ("b1", "s1"), "b": ("b2", "s1"), "c": ("b1", "s1")})
    assert [len(nodes) for nodes in made.domains(1).values()] == [2, 1]


def test_blocks_of_outer_levels_are_powers_of_two() -> None:
    """Levels that Slurm could not join in this way are left out."""
    assert slurm.block_sizes(three_tiers()) == (2, 4, 8)
    assert slurm.block_sizes(three_tiers(nodes=24, unit=6, core=12)) == (2,)  # three blocks a unit, six a core
    assert slurm.block_sizes(three_tiers(nodes=14)) == (2,)  # the last unit and core are not full
    assert slurm.block_sizes(Topology(("leaf",), ())) == ()


def test_ranks_meet_rails() -> None:
    """Equal numbers of ranks and rails give a rail for each rank. Otherwise neighbours share."""
    assert [ranks.rail_of(rank, 8, 8) for rank in range(8)] == list(range(8))
    assert [ranks.rail_of(rank, 8, 4) for rank in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [ranks.rail_of(rank, 2, 8) for rank in range(2)] == [0, 4]


def test_variables_of_nccl() -> None:
    """Rings stay on their rail, and devices are listed exactly, in the order of rails. A single NIC needs no
    variable."""
    rails = [f"rail{index}" for index in range(8)]
    assert ranks.nccl(rails) == {"NCCL_CROSS_NIC": "0"}
    assert ranks.nccl(rails[:1]) == ranks.nccl([]) == {}
    told = ranks.nccl(rails, [f"mlx5_{index}" for index in (0, 3, 4, 5, 6, 9, 10, 11)])
    assert told["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"
    assert ranks.read_environment(ranks.environment(told)) == told


def test_manifests_keep_to_what_their_schemas_say() -> None:
    """The rules of the published schemas that a manifest of the toolkit could violate."""
    made = three_tiers()
    levels = json.loads(kubernetes.kueue(made, POOLS, "test"))["items"]
    keys = [level["nodeLabel"] for level in levels[0]["spec"]["levels"]]
    assert len(set(keys)) == len(keys) <= 16
    assert keys.index("kubernetes.io/hostname") == len(keys) - 1
    flat, *flavors = levels[1:]
    assert flat["spec"] == {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
    assert [item["spec"] for item in flavors] == [
        {"nodeLabels": {"stampworks/pool": "gpu"}, "topologyName": levels[0]["metadata"]["name"]},
        {"nodeLabels": {"stampworks/pool": "cpu"}, "topologyName": flat["metadata"]["name"]},
    ]
    assert kubernetes.read_kueue(kubernetes.kueue(made, POOLS, "test")) == (tuple(keys[:-1]), ("gpu",))
    for item in json.loads(kubernetes.volcano(made))["items"]:
        assert item["spec"]["tier"] >= 0
        assert item["spec"]["members"]
        for member in item["spec"]["members"]:
            assert member["type"] in ("Node", "HyperNode")
            assert list(member["selector"]) == ["exactMatch"]


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (slurm.read_tree, "SwitchName=a Nodes=n[1-2]\nSwitchName=a Nodes=n3", "line 2: 'a' is there twice"),
        (slurm.read_tree, "SwitchName=a", "line 1: neither a switch with switches nor one with nodes"),
        (slurm.read_tree, "SwitchName=a Switches=b", "switch 'b' hangs from another one and has no line of its own"),
        (slurm.read_tree, "SwitchName=a Switches=b\nSwitchName=b Switches=a", "switch 'a' hangs from itself"),
        (slurm.read_tree, "SwitchName=a Nodes=n[1", "line 1: a bracket is never closed"),
        (slurm.read_tree, "SwitchName=a Nodes=n[1-9999999]", "line 1: '1-9999999' is no range of numbers"),
        (slurm.read_tree, "SwitchName=a Nodes=n[1-999][1-999]", "line 1: a list of more than 65536 nodes"),
        (slurm.read_tree, "SwitchName=a Nodes=n1 up", "line 1: not all of it is key=value"),
        (slurm.read_tree, "SwitchName=a Nodes=n1,n1", "node 'n1' stands in two places"),
        (slurm.read_tree, "SwitchName=a Nodes=N1;id", "node 'N1;id' has no host name"),
        (slurm.read_tree, "SwitchName=a Switches=b\nSwitchName=b Nodes=n1", "node 'n1' has 2 domains for 1 levels"),
        (slurm.read_tree_yaml, "[]", "not the one topology of kind tree"),
        (slurm.read_tree_yaml, '[{"tree": {}}]', "switches is no list of mappings"),
        (kubernetes.read_volcano, "{}", "not a list of Kubernetes' objects"),
        (kubernetes.read_labels, "[" * 100_000, "not JSON"),
    ],
)
def test_texts_that_say_no_topology(read: Callable[[str, tuple[str, ...]], Any], text: str, said: str) -> None:
    """The error has position and reason: an invalid file is never read as half a model."""
    with pytest.raises(TopologyError) as error:
        read(text, ("leaf",))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (slurm.read_block, "BlockName=a Nodes=n1\nBlockSizes=x", "line 2: 'x' is no size of blocks"),
        (slurm.read_block, "BlockName=a Nodes=n1\nBlockName=b Nodes=n1", "node 'n1' stands in two places"),
        (ranks.read_slurm_hostfile, "a\nb\na\n", "line 3: node 'a' comes back after 'b'"),
        (ranks.read_mpi_hostfile, "a slots=8\na slots=8", "line 2: not one node with its slots"),
        (ranks.read_rankfile, "rank 0=a slot=0\nrank 2=a slot=1", "line 2: not rank 1"),
        (ranks.read_rankfile, "rank 0=a slot=1", "line 1: not in rank order"),
        (ranks.read_rankfile, "rank 0=a slot=0-1\nrank 1=a slot=2-3\nrank 2=a slot=0-1", "line 3: not in rank order"),
        (ranks.read_rankfile, "rank 0=a slot=0\nrank 1=b slot=0\nrank 2=a slot=1", "line 3: not in rank order"),
        (ranks.read_environment, "PATH", "line 1: not NAME=value"),
        (topology.from_text, '{"levels": []}', "lacks places"),
        (topology.from_text, '{"levels": ["a"], "places": [{"node": "n", "domains": ["fabric"]}]}', "with a meaning"),
    ],
)
def test_more_texts_that_say_none(read: Callable[[str], Any], text: str, said: str) -> None:
    with pytest.raises(TopologyError) as error:
        read(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("levels", "places", "said"),
    [
        (("leaf",), {"a": ("x", "y")}, "node 'a' has 2 domains for 1 levels (leaf)"),
        (("Leaf",), {}, "level 'Leaf' is not a name"),
        (("leaf", "leaf"), {}, "each once"),
        (("leaf",), {"a b": ("x",)}, "node 'a b' has no host name"),
    ],
)
def test_places_that_are_none(levels: tuple[str, ...], places: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(TopologyError) as error:
        topology.of_places(levels, places)
    assert said in str(error.value)


def test_a_domain_stands_in_one_place() -> None:
    """A leaf below two spines would have two places."""
    with pytest.raises(TopologyError, match="domain 'l1' stands in two places"):
        Topology(("spine", "leaf"), (NodeDomains("a", ("s1", "l1")), NodeDomains("b", ("s2", "l1"))))


@relaxed
@given(st.text() | st.text("SwitchName=Nodes[]0123456789-,\n #BlockSizes", max_size=200))
def test_any_text_is_a_topology_or_an_error(text: str) -> None:
    """No content of a file raises another error."""
    for read in (slurm.read_tree, slurm.read_tree_yaml, kubernetes.read_labels, kubernetes.read_volcano):
        try:
            read(text, ("leaf",))
        except TopologyError:
            continue
    for alone in (slurm.read_block, slurm.read_block_yaml, kubernetes.read_kueue, topology.from_text):
        try:
            alone(text)
        except TopologyError:
            continue


@pytest.mark.parametrize(
    ("count", "cores", "parts"),
    [
        (8, 96, ["0-11", "12-23", "24-35", "36-47", "48-59", "60-71", "72-83", "84-95"]),
        (1, 112, ["0-111"]),
        (3, 8, ["0-1", "2-4", "5-7"]),
        (4, 2, ["0", "0", "1", "1"]),
    ],
)
def test_ranks_of_a_node_share_out_its_cores(count: int, cores: int, parts: list[str]) -> None:
    """All cores are used: a rank bound to a core would run all its threads there."""
    lines = ranks.rankfile({"n": count}, {"n": cores}).splitlines()
    assert lines == [f"rank {rank}=n slot={part}" for rank, part in enumerate(parts)]
