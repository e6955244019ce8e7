"""Explanations of unknown values of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import load_file
from stampworks.planning import plan
from stampworks.planning.explained import Explanation, explain

CLOUDS = {"google": "region: us-central1", "aws": "region: us-east-1", "hosts": ""}


@pytest.fixture
def said_of(tmp_path: Path):  # type: ignore[no-untyped-def]
    def ask(cloud: str, machine: str, count: int, path: str) -> Explanation:
        file = tmp_path / "cluster.yaml"
        pools = f"pools: [{{name: gpu, machine: {machine}, count: {count}}}]"
        network = "network: {cidr: 10.40.0.0/16}"
        file.write_text(f"version: 1\nname: big\ncloud: {cloud}\n{CLOUDS[cloud]}\n{network}\n{pools}\n")
        source = load_file(file)
        return explain(plan(source), source, path)

    return ask


def test_a_collective_of_unknown_links(said_of) -> None:  # type: ignore[no-untyped-def]
    """Asked for by the name that it would have."""
    for end in ("_max", "_min", ""):
        found = said_of("google", "a3-ultra", 200, f"gpu.allreduce_busbw_gbs{end}")
        [reason] = found.reasons
        assert found.value is None
        assert reason.why.startswith("unknown: the catalog does not know whether the fabric of a3-ultra")


def test_rails_of_a_cloud(said_of) -> None:  # type: ignore[no-untyped-def]
    [reason] = [each for each in said_of("aws", "p5", 400, "fabric.rails").reasons if each.path == "fabric.rails"]
    assert reason.why == "32: p5 of pool gpu has that many NICs on the fabric, and no machine has more"


def test_addresses_that_are_needed(said_of) -> None:  # type: ignore[no-untyped-def]
    found = said_of("aws", "p5", 400, "network.subnets.nodes.needed")
    assert found.value == 401
    assert found.reasons[0].why == "1 x 1 (head) + 400 x 1 (gpu) = 401"


@pytest.mark.parametrize("field", ["network.pods_cidr", "network.services_cidr", "scheduler.pods_per_node"])
def test_fields_of_kubernetes_are_unknown_without_it(field: str, said_of) -> None:  # type: ignore[no-untyped-def]
    [reason] = said_of("aws", "p5", 4, field).reasons
    assert reason.why == "nothing follows from it here: this plan has no network.pods"
