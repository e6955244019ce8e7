"""The validation programs on a real cluster: measurements of declared values, and behaviour on faults."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from stampworks.qualification import Heard, read
from stampworks.qualification.results import MeasuredValue

from tests.cluster.stack import Stack
from tests.project import wait_for

pytestmark = pytest.mark.cluster

NODES = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
RATE_MBPS = 200
PAYLOAD = 1448 / 1514
"""Payload of an ethernet frame for users of TCP: the rest is headers."""
FABRIC = """\
    fabric: {kind: simulated, rail_rate_mbps: 200, leaf_nodes: 2, oversubscription: 1}
    storage:
"""
STARTS_MAX = 4
"""Number of attempts: a busy host may spoil a measurement."""
WHERE = "PYTHONPATH=/usr/local/lib/stampworks/workloads"


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    """Four nodes with two rails each, for tests that break something."""
    stack.edit("count: 2", f"count: {len(NODES)}")
    stack.edit("    storage:\n", FABRIC)
    stack.up()
    return stack


def stampworks(stack: Stack, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stampworks.cli.main", *argv],
        cwd=stack.folder,
        env=stack.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on(stack: Stack, node: str, *command: str) -> str:
    process = stampworks(stack, "ssh", "-s", "test", node, "--", shlex.join(command))
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return said


def begin(stack: Stack, *programs: str, fault: str = "", **options: Any) -> subprocess.Popen[str]:
    """Starts programs on all nodes, which know each other as qualification would tell them."""
    nodes = stack.nodes()
    rails = {name: list(nodes[name]["rail_addresses"]) for name in NODES}
    listed = [{"name": name, "address": nodes[name]["address"], "rails": rails[name]} for name in NODES]
    told = {"cluster": {"nodes": listed, "rails": ["rail0", "rail1"], "wait": 20, "shared": True}, **options}
    variables = [WHERE, *([fault] if fault else [])]
    command = ["env", *variables, "python3", "-m", "validation", *programs, "--options", json.dumps(told)]
    return stampworks(stack, "run", "-s", "test", "--", *command)


def heard(process: subprocess.Popen[str]) -> Heard:
    said, errors = process.communicate(timeout=300)
    found = read(said)
    assert found.results, errors
    assert found.unreadable == ()
    return found


def values(found: Heard, quantity: str) -> list[MeasuredValue]:
    return [value for result in found.results for value in result.values if value.quantity == quantity]


def best(starts: Sequence[Heard], quantity: str) -> dict[tuple[str, str, str], float]:
    """Return the best of several starts for each pair and rail: a busy host only lowers a rate."""
    found: dict[tuple[str, str, str], float] = {}
    for value in (value for start in starts for value in values(start, quantity)):
        pair = (value.node, value.peer, value.rail)
        found[pair] = max(value.value, found.get(pair, 0.0))
    return found


def problems(found: Heard) -> list[str]:
    return [f"{each.node} {each.rail} {each.what}" for result in found.results for each in result.problems]


@pytest.fixture(scope="module")
def whole(slurm_cluster: Stack) -> Heard:
    """Run every program in a single start on a healthy cluster."""
    small = {"bytes": 2**20, "rounds": 1}
    programs = ["checkpoint", "clocks", "collectives", "copies", "inventory", "limits", "loading", "matmul", "memory"]
    return heard(
        begin(
            slurm_cluster,
            *(*programs, "pairs", "storage", "tools"),
            checkpoint={"directory": "/shared", **small},
            storage={"directories": ["/tmp", "/shared"], **small},
            matmul={"size": 256, "seconds": 0.2, "warmup": 0.0},
            memory={"bytes": 2**22, "seconds": 0.1},
            loading={"bytes": 2**20, "seconds": 0.1},
            collectives={"bytes": [2**22], "seconds": 3.0},
            pairs={"seconds": 0.5},
            tools={"accelerators": 8, "directories": ["/tmp"]},
        )
    )


def test_every_program_answers(whole: Heard) -> None:
    """Each program answers on every node, or on the first for all; there are no problems."""
    assert problems(whole) == []
    several = {"checkpoint", "clocks", "collectives", "pairs"}
    for workload in ("copies", "inventory", "limits", "loading", "matmul", "memory", "storage", "tools", *several):
        ranks = [result.rank for result in whole.of(workload)]
        assert ranks == ([0] if workload in several else [0, 1, 2, 3]), workload


def test_rails_carry_what_was_declared(slurm: Stack, whole: Heard) -> None:
    """Each rail is measured between any two nodes, in both directions."""
    declared, starts = RATE_MBPS / 1000 * PAYLOAD, [whole]
    while min(best(starts, "pair_bandwidth").values()) < 0.95 * declared and len(starts) < STARTS_MAX:
        starts.append(heard(begin(slurm, "pairs", pairs={"seconds": 0.5})))
    found = best(starts, "pair_bandwidth")
    assert set(found) == {
        (one, other, rail) for one in NODES for other in NODES for rail in ("rail0", "rail1") if one != other
    }
    assert {pair: value for pair, value in found.items() if value != pytest.approx(declared, rel=0.05)} == {}


def test_a_ring_reaches_nearly_what_a_pair_does(whole: Heard) -> None:
    """The usual definition of bus bandwidth applies, from some MiB on. On a busy host the best run counts."""
    pair = min(value.value for value in values(whole, "pair_bandwidth")) / 8
    for value in values(whole, "all_reduce_busbw"):
        assert 0.9 * pair < value.high, value
        assert value.value < 1.05 * RATE_MBPS / 8000, value


def test_products_are_the_same_everywhere(whole: Heard) -> None:
    """Products of the same matrices agree on the same processor with the same software."""
    assert {value.value for value in values(whole, "matmul_mismatches")} == {0.0}
    digests = [text.text for result in whole.of("matmul") for text in result.texts if text.quantity == "matmul_digest"]
    assert len(digests) == len(NODES)
    assert len(set(digests)) == 1


def test_simulated_measurements_are_marked(whole: Heard) -> None:
    """Accelerators are simulated, and nothing else is."""
    simulated = {value.quantity for result in whole.results for value in result.values if value.simulated}
    assert simulated
    assert all(quantity.startswith("accelerator") for quantity in simulated)


def test_measurements_of_absent_parts_are_skipped(whole: Heard) -> None:
    """Results of absent accelerators and tools are skipped, without a value."""
    skipped = {text.name for result in whole.results for text in result.texts if text.quantity == "skipped"}
    assert skipped == {"copies", "all_reduce_perf", "fio"}


def test_a_turned_bit_is_seen(slurm: Stack) -> None:
    """Only the node that computed it is blamed. The answer says that the fault was rehearsed."""
    found = heard(
        begin(slurm, "matmul", fault="STAMPWORKS_FAULT_BITFLIP=1", matmul={"size": 256, "seconds": 0.2, "warmup": 0.0})
    )
    assert {(value.node, value.value) for value in values(found, "matmul_mismatches")} == {
        (name, 1.0) for name in NODES
    }


@pytest.fixture
def slow_rail(stamped: Stack) -> Iterator[None]:
    """Slow down traffic of gpu-003 on rail1 to a quarter of its rate, without a counter that shows it."""
    on(stamped, "gpu-003", "tc", "qdisc", "replace", "dev", "rail1", "root", "handle", "1:", "htb", "default", "1")
    limit = ["rate", "50mbit", "burst", "64kb"]
    on(stamped, "gpu-003", "tc", "class", "add", "dev", "rail1", "parent", "1:", "classid", "1:1", "htb", *limit)
    yield
    burst = ["burst", "100kb", "latency", "20ms"]
    on(stamped, "gpu-003", "tc", "qdisc", "replace", "dev", "rail1", "root", "tbf", "rate", "200mbit", *burst)


@pytest.mark.long
@pytest.mark.usefixtures("slow_rail")
def test_a_slow_rail_is_seen(stamped: Stack) -> None:
    """Pairs show the node of the slow rail; a ring is as slow as its slowest link."""
    options: dict[str, Any] = {"pairs": {"seconds": 0.5}, "collectives": {"bytes": [2**20]}}
    starts: list[Heard] = []
    while len(starts) < STARTS_MAX:
        starts.append(heard(begin(stamped, "pairs", "collectives", **options)))
        slow = {(node, rail) for (node, _, rail), value in best(starts, "pair_bandwidth").items() if value < 0.1}
        ring = {rail: value for (_, _, rail), value in best(starts, "all_reduce_busbw").items()}
        quarter = pytest.approx(ring["rail0"] / 4, rel=0.2)
        if slow == {("gpu-003", "rail1")} and ring["rail1"] == quarter and not problems(starts[-1]):
            break
    assert problems(starts[-1]) == []
    assert slow == {("gpu-003", "rail1")}
    assert ring["rail1"] == quarter


@pytest.mark.long
def test_a_node_that_dies_is_named(stamped: Stack) -> None:
    """The node dies during a collective: the others end, and the first one names it."""
    process = begin(stamped, "collectives", collectives={"bytes": [2**22], "seconds": 60.0, "rails": ["rail0"]})
    stored = "awk '$2 ~ /:733D$/ && $4 == \"01\"' /proc/net/tcp /proc/net/tcp6 | wc -l"  # torch's store, port 29501
    wait_for(lambda: int(on(stamped, "gpu-001", "sh", "-c", stored)) >= len(NODES), 60)
    stamped.kill("gpu-004")
    found = heard(process)
    [result] = found.of("collectives")
    assert result.rank == 0
    assert result.seconds < 60, "it ended before the collective would have"
    named = [problem.what for problem in result.problems if problem.node == "gpu-004"]
    assert named
    assert named[0].startswith("no answer: ")
