"""Measurements of a level, their order, and those that do not fit into its time."""

from __future__ import annotations

import pytest
from stampworks.qualification import Ask, Evidence, Result
from stampworks.qualification.levels import steps

from tests.qualification.conftest import USUAL, SimulatedCluster, subject

SHARED = [{"name": "shared", "kind": "directory", "mount": "/shared"}]


def unknown(evidence: Evidence) -> dict[str, tuple[tuple[str, ...], str]]:
    return {each.check: (each.nodes, each.why) for each in evidence.findings if each.verdict == "unknown"}


def failed(evidence: Evidence) -> set[tuple[str, tuple[str, ...]]]:
    return {(each.check, each.nodes) for each in evidence.findings if each.verdict == "fail"}


def test_most_informative_steps_come_first() -> None:
    """Each level has this order, and all steps of the level below."""
    for level in ("quick", "standard", "burn-in"):
        worth = [step.tells / step.seconds for step in steps(level)]
        assert worth == sorted(worth, reverse=True)
    assert set(steps("none")) < set(steps("quick")) < set(steps("standard")) < set(steps("burn-in"))


def test_steps_keep_their_order() -> None:
    """No later step changes the order."""
    cluster = SimulatedCluster(subject(4))
    cluster.prove()
    asked = [program for each in cluster.asked for program in each.programs]
    assert list(dict.fromkeys(asked)) == [
        *("limits", "inventory", "pairs", "clocks", "storage", "matmul", "fabric", "collectives")
    ]


def test_steps_without_time_are_not_started() -> None:
    """The step is unknown, with the reason; a shorter step after it still runs."""
    cluster = SimulatedCluster(subject(4), takes=2.0)
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard", seconds=9)
    everybody = tuple(cluster.subject.nodes)
    assert [asked.programs for asked in cluster.asked] == [("limits", "inventory"), ("pairs",), ("clocks", "storage")]
    assert unknown(evidence) == {
        "matmul": (everybody, "not measured: it takes about 9 s, and of the budget of 10 min 3 s are left"),
        "fabric": (everybody, "not measured: it takes about 5 s, and of the budget of 10 min 3 s are left"),
        "collectives": (everybody, "not measured: it takes about 14 s, and of the budget of 10 min 3 s are left"),
    }


def test_findings_before_the_deadline_count() -> None:
    """An unfinished step passes no node, whatever it has reported so far."""
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
    """Its verdict is final; the other rail is measured further."""
    cluster = SimulatedCluster(subject(4), trunks={("leaf1-1", "rail0"): 0.4})
    assert ("trunks", ()) in failed(cluster.evidence(tuple(cluster.subject.nodes), "standard"))
    rails = [asked.options["collectives"]["rails"] for asked in cluster.asked if "collectives" in asked.programs]
    assert rails
    assert all(each == ["rail1"] for each in rails)


@pytest.mark.parametrize("level", ["standard", "burn-in"])
def test_when_all_have_failed_nothing_more_is_asked(level: str) -> None:
    """No answer could change a verdict."""
    nodes = tuple(subject(4).nodes)
    cluster = SimulatedCluster(subject(4), says={(node, "accelerators"): 7 for node in nodes})
    assert failed(cluster.evidence(nodes, level)) == {("inventory", (node,)) for node in nodes}
    assert len(cluster.asked) == 1


def burnt_in(cluster: SimulatedCluster, minutes: int = 30) -> Evidence:
    return cluster.evidence(tuple(cluster.subject.nodes), "burn-in", seconds=60 * minutes)


def test_burn_in_goes_round_and_round() -> None:
    """Every program runs as often as the time allows; repeated passes are reported once."""
    cluster = SimulatedCluster(subject(4, storage=SHARED))
    evidence = burnt_in(cluster)
    assert {each.verdict for each in evidence.findings} == {"pass"}
    assert {program for asked in cluster.asked for program in asked.programs} == {
        *USUAL,
        "pairs",
        "fabric",
        "collectives",
    }
    [said] = [each.why for each in evidence.findings if each.check == "burn-in"]
    rounds = int(said.partition(" rounds")[0])
    assert rounds > 5
    assert sum("memory" in asked.programs for asked in cluster.asked) == rounds
    assert len([each for each in evidence.findings if each.check == "memory"]) == 1
    kept = [
        each.quantity for each in evidence.measured if each.node == "gpu-001" and each.quantity.startswith("matmul")
    ]
    assert sorted(kept) == ["matmul_fp32", "matmul_fp32", "matmul_fp32.over_time"]


def test_burn_in_without_time_for_a_second_round() -> None:
    """A slowdown over time is unknown."""
    evidence = burnt_in(SimulatedCluster(subject(4), takes=60.0), 12)
    nodes, why = unknown(evidence)["burn-in"]
    assert len(nodes) == 4
    assert why == "the budget of 10 min holds no second round, and a node that gets slower shows only in two"


def test_failures_in_a_later_round() -> None:
    """The failure is reported, and the node is not measured further."""

    class Later(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            if sum("limits" in each.programs for each in self.asked) == 3:
                self.says = {("gpu-002", "accelerator_ecc_uncorrected"): 4}
            return super().answers(program, asked)

    cluster = Later(subject(4))
    evidence = burnt_in(cluster)
    [found] = [each for each in evidence.findings if each.verdict != "pass"]
    assert (found.check, found.nodes) == ("inventory", ("gpu-002",))
    assert found.why == "in a later round: accelerator 3 has 4 uncorrected memory errors"
    assert not any("gpu-002" in asked.nodes for asked in cluster.asked[-5:])


@pytest.mark.parametrize(("nodes", "part"), [(4, 0.995), (2, 0.99), (16, 0.997)])
def test_a_node_that_gets_slower_is_found(nodes: int, part: float) -> None:
    """The node is found in windows of all its peers, among few nodes and many, and no other node is."""
    cluster = SimulatedCluster(subject(nodes), fades={"gpu-002": part})
    found = [each for each in burnt_in(cluster, 60).findings if each.verdict != "pass"]
    assert [(each.check, each.nodes) for each in found] == [("burn-in", ("gpu-002",))]
    assert "windows" in found[0].why


def test_a_room_that_gets_warm_is_nobodys_fault() -> None:
    """All nodes get slower equally."""
    cluster = SimulatedCluster(subject(4), fades=dict.fromkeys(subject(4).nodes, 0.995))
    assert {each.verdict for each in burnt_in(cluster, 60).findings} == {"pass"}
