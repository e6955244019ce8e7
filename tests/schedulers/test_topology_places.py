"""Places of nodes by clouds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.schedulers.topology import Topology, TopologyError, answers, kubernetes, places, ranks, slurm

NAMES = {"i-1": "gpu-001", "i-2": "gpu-002", "i-3": "gpu-003"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["Instances", "InstanceId", "NetworkNodes", "name"]), inner, max_size=3)
    ),
)


def test_reads_places_of_a_roster() -> None:
    """Layers are listed from the top down; nodes without a place stay unplaced."""
    ways = {"gpu-002": ["nn-a", "nn-b", "nn-d"], "gpu-001": ["nn-a", "nn-b", "nn-c"], "gpu-003": []}
    made = places.of_ways(ways)
    assert made.levels == ("layer-1", "layer-2", "layer-3")
    assert made.domains(2) == {"nn-c": ["gpu-001"], "nn-d": ["gpu-002"]}
    assert made.unplaced == ("gpu-003",)
    assert "SwitchName=management Nodes=gpu-003\n" in slurm.tree(made)
    assert places.of_ways({"gpu-001": []}).unplaced == ("gpu-001",)


def test_machines_of_another_depth_stand_elsewhere() -> None:
    """A place on three of four layers is none."""
    made = places.of_ways({"gpu-001": ["nn-a", "nn-b", "nn-c", "nn-d"], "gpu-002": ["nn-a", "nn-b", "nn-c"]})
    assert len(made.levels) == 4
    assert made.unplaced == ("gpu-002",)


def test_google() -> None:
    """Blocks and their parts; ids that begin with a digit get valid names."""
    where = {"cluster": "c", "block": "3e30", "subblock": "91aa", "host": "ff"}
    rows: list[Any] = [
        {"name": "i-1", "resourceStatus": {"physicalHostTopology": where}},
        {"name": "i-2", "resourceStatus": {"physicalHostTopology": {**where, "subblock": ""}}},
        {"name": "i-3", "resourceStatus": {}},
    ]
    made = answers.of_google(json.dumps(rows), NAMES)
    (place,) = made.placed
    assert place.node == "gpu-001"
    assert [domain.rsplit("-", 1)[0] for domain in place.domains] == ["block-3e30", "subblock-91aa"]
    assert made.unplaced == ("gpu-002", "gpu-003")


def test_oracle() -> None:
    """Long ids become names; a node without data stays unplaced."""
    said = {"customerHPCIslandId": "ocid1.hpcisland.oc1.iad." + "a" * 60, "customerNetworkBlock": "nb", "x": 1}
    said["customerLocalBlock"] = "lb"
    made = answers.of_oracle({"gpu-001": json.dumps(said), "gpu-002": "{}", "gpu-003": "null"})
    assert [place.domains[1:] for place in made.placed] == [("nb", "lb")]
    assert made.placed[0].domains[0].startswith("hpc-island-ocid1-hpcisland-oc1-iad")
    assert made.unplaced == ("gpu-002", "gpu-003")


def test_rank_order_of_scattered_nodes() -> None:
    """Nodes of a switch are adjacent, for any names."""
    made = places.of_ways({"gpu-001": ["nn-a"], "gpu-002": ["nn-b"], "gpu-003": ["nn-a"]})
    assert ranks.order(made) == ("gpu-001", "gpu-003", "gpu-002")
    assert ranks.crossings(made, ranks.order(made)) == (2,)


@pytest.mark.parametrize("cloud", catalog.cloud_nodes())
def test_kueue_goes_by_the_labels_of_a_cloud(cloud: str) -> None:
    """The cloud's own labels are the levels, read back as the cloud writes them."""
    keys = catalog.cloud_nodes()[cloud].place_labels
    made = Topology(tuple(f"level-{index}" for index in range(len(keys))), ())
    assert kubernetes.read_kueue(kubernetes.kueue(made, {}, "test", keys))[0] == keys
    node = {"kind": "Node", "metadata": {"name": "a", "labels": dict.fromkeys(keys, "A_b.1")}}
    assert kubernetes.read_labels(json.dumps({"items": [node]}), made.levels, keys) == {"a": ("A_b.1",) * len(keys)}


@settings(deadline=None)
@given(ANYTHING)
def test_any_answer_is_a_topology_or_an_error(answer: Any) -> None:
    """A cloud may return any text."""
    text = json.dumps(answer)
    asked: list[Callable[[], Topology]] = [
        lambda: answers.of_google(text, NAMES),
        lambda: answers.of_oracle({"gpu-001": text}),
    ]
    for ask in asked:
        try:
            assert len(ask().places) in (1, 3)
        except TopologyError:
            continue
