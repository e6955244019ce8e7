"""What one node says of itself that its peers do not is its own fault, in words with numbers."""

from __future__ import annotations

import pytest

from tests.qualification.conftest import SimulatedCluster, subject

CASES = [
    ("limits", "memlock", 65536, "lockable memory: 65536, where its peers have 8388608"),
    ("limits", "open_files", 256, "open files: 256, where its peers have 20000"),
    ("limits", "directory_size", 64 << 20, "/dev/shm has 64 MiB, where its peers have 1024"),
    ("limits", "directory_free", 1 << 20, "/dev/shm has 0.1 % free"),
    ("inventory", "accelerators", 7, "7 of 8 accelerators"),
    ("inventory", "accelerator_ecc_uncorrected", 2, "accelerator 3 has 2 uncorrected memory errors"),
    ("clocks", "clock_offset", 600_000, "its clock is +600 s off those of its peers"),
    ("storage", "storage_write", 20, "/shared takes 20 MB/s, where its peers' takes 300"),
    ("matmul", "matmul_mismatches", 1, "1 products , of the same matrices, came out different"),
    ("matmul", "matmul_fp32", 75, "it multiplies at 75 GFLOP/s, where gpu-002 beside it does at 100"),
]


@pytest.mark.parametrize(("check", "quantity", "value", "why"), CASES, ids=[case[1] for case in CASES])
def test_one_that_differs(check: str, quantity: str, value: float, why: str) -> None:
    """It fails for that, and nobody else does."""
    cluster = SimulatedCluster(subject(4), says={("gpu-003", quantity): value})
    failed = [each for each in cluster.prove() if each.verdict != "pass"]
    assert [(each.check, each.nodes, each.why) for each in failed] == [(check, ("gpu-003",), why)]


def test_a_node_that_failed_is_asked_nothing_more() -> None:
    """What is known needs no further measurement."""
    cluster = SimulatedCluster(subject(4), says={("gpu-003", "memlock"): 1})
    cluster.prove()
    assert ["gpu-003" in asked.nodes for asked in cluster.asked] == [True] + [False] * (len(cluster.asked) - 1)


def test_the_quick_level_starts_once() -> None:
    """It is what a prolog can afford."""
    cluster = SimulatedCluster(subject(4))
    assert {each.verdict for each in cluster.prove("quick")} == {"pass"}
    assert [asked.programs for asked in cluster.asked] == [("limits", "inventory")]
