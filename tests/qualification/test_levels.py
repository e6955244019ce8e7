"""What a level asks, in which order, and what becomes of what its time does not allow."""

from __future__ import annotations

import pytest
from stampworks.qualification import Evidence
from stampworks.qualification.levels import steps

from tests.qualification.conftest import SimulatedCluster, subject


def unknown(evidence: Evidence) -> dict[str, tuple[tuple[str, ...], str]]:
    return {each.check: (each.nodes, each.why) for each in evidence.findings if each.verdict == "unknown"}


def failed(evidence: Evidence) -> set[tuple[str, tuple[str, ...]]]:
    return {(each.check, each.nodes) for each in evidence.findings if each.verdict == "fail"}


def test_what_tells_most_a_second_comes_first() -> None:
    """At every level, and each level has all that the one below it has."""
    for level in ("quick", "standard", "burn-in"):
        worth = [step.tells / step.seconds for step in steps(level)]
        assert worth == sorted(worth, reverse=True)
    assert set(steps("none")) < set(steps("quick")) < set(steps("standard")) < set(steps("burn-in"))


def test_what_is_asked_follows_that_order() -> None:
    """Nobody reorders it on the way."""
    cluster = SimulatedCluster(subject(4))
    cluster.prove()
    asked = [program for each in cluster.asked for program in each.programs]
    assert list(dict.fromkeys(asked)) == ["limits", "inventory", "pairs", "clocks", "storage", "matmul", "collectives"]


def test_what_does_not_fit_is_not_begun() -> None:
    """It is unknown, with the reason; something shorter that comes later is asked all the same."""
    cluster = SimulatedCluster(subject(4), takes=2.0)
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard", seconds=9)
    everybody = tuple(cluster.subject.nodes)
    assert [asked.programs for asked in cluster.asked] == [("limits", "inventory"), ("pairs",), ("clocks", "storage")]
    assert unknown(evidence) == {
        "matmul": (everybody, "not measured: it takes about 9 s, and of the budget of 10 min 3 s are left"),
        "collectives": (everybody, "not measured: it takes about 14 s, and of the budget of 10 min 3 s are left"),
    }


def test_what_was_found_before_the_time_was_up_counts() -> None:
    """Of a step that was not carried to its end nobody passes, whatever it has said so far."""
    cluster = SimulatedCluster(subject(4), {("gpu-003", "rail0"): 0.2}, takes=6.0)
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard", seconds=20)
    why = "the budget of 10 min was used up during: rail0: gpu-003 for the last time"
    assert unknown(evidence)["rails"] == (tuple(cluster.subject.nodes), why)
    cluster = SimulatedCluster(subject(4), says={("gpu-002", "memlock"): 1}, takes=12.0)
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard", seconds=20)
    assert failed(evidence) == {("limits", ("gpu-002",))}
    others = ("gpu-001", "gpu-003", "gpu-004")
    why = "the budget of 10 min was used up during: 2 rails of 3 nodes, pair by pair"
    assert unknown(evidence)["rails"] == (others, why)


def test_a_second_look_that_was_cut_short_blames_nobody() -> None:
    """A node that gave no answer because the time was up is not at fault."""
    cluster = SimulatedCluster(subject(4), says={("gpu-003", "matmul_fp32"): 60}, takes=3.0)
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard", seconds=20)
    assert failed(evidence) == set()
    assert "gpu-003" in unknown(evidence)["matmul"][0]


def test_a_rail_that_failed_is_asked_nothing_more() -> None:
    """Its verdict is settled; the other one is measured on."""
    cluster = SimulatedCluster(subject(4), trunks={("leaf1-1", "rail0"): 0.4})
    assert ("trunks", ()) in failed(cluster.evidence(tuple(cluster.subject.nodes), "standard"))
    rails = [asked.options["collectives"]["rails"] for asked in cluster.asked if "collectives" in asked.programs]
    assert rails
    assert all(each == ["rail1"] for each in rails)


@pytest.mark.parametrize("level", ["standard", "burn-in"])
def test_when_all_have_failed_nothing_more_is_asked(level: str) -> None:
    """No further answer could change a verdict."""
    nodes = tuple(subject(4).nodes)
    cluster = SimulatedCluster(subject(4), says={(node, "accelerators"): 7 for node in nodes})
    assert failed(cluster.evidence(nodes, level)) == {("inventory", (node,)) for node in nodes}
    assert len(cluster.asked) == 1
