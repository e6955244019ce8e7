"""Links and trunks that are slower than declared are named, in words with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from stampworks.qualification import Ask, Evidence, Result
from stampworks.qualification.rails import LAST_SECONDS, SECONDS, pairs
from stampworks.qualification.results import MeasuredValue, MeasurementProblem

from tests.qualification.conftest import SimulatedCluster, subject


def failures(cluster: SimulatedCluster) -> list[tuple[str, tuple[str, ...], str]]:
    return [(each.check, each.nodes, each.rail) for each in cluster.prove() if each.verdict != "pass"]


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("oversubscription", [1, 2, 4])
def test_a_sound_cluster_passes(nodes: int, oversubscription: int) -> None:
    """All of it: every rail, across every trunk, in good and in bad order."""
    cluster = SimulatedCluster(subject(nodes, oversubscription=oversubscription))
    assert failures(cluster) == []
    assert len([asked for asked in cluster.asked if asked.programs == ("pairs",)]) <= 1 + nodes % 2 * 2


@pytest.mark.parametrize("left", [0.0, 0.2, 0.6, 0.8])
def test_a_slow_rail_is_its_nodes_fault(left: float) -> None:
    """The node and the rail are named, and no other."""
    cluster = SimulatedCluster(subject(8, leaf_nodes=4), {("gpu-006", "rail1"): left})
    assert failures(cluster) == [("rails", ("gpu-006",), "rail1")]


def test_the_words_of_a_slow_rail() -> None:
    """Rail, rate, partner, and the reason why it is this node."""
    cluster = SimulatedCluster(subject(4, leaf_nodes=4), {("gpu-003", "rail1"): 0.2})
    [failed] = [each for each in cluster.prove() if each.verdict == "fail"]
    assert failed.why == "rail1 to gpu-004: 0.0383 of 0.191 Gb/s; gpu-004 is fast with others"
    assert (failed.measured, failed.expected, failed.unit) == (0.0383, 0.1626, "Gb/s")


@pytest.mark.parametrize("oversubscription", [1, 2])
def test_a_rail_that_loses_packets_is_its_nodes_fault(oversubscription: int) -> None:
    """Its rate does not matter: the finding names node, rail and loss."""
    of = subject(8, leaf_nodes=4, oversubscription=oversubscription)
    cluster = SimulatedCluster(of, loss={("gpu-006", "rail1"): 2.69})
    [failed] = [each for each in cluster.prove() if each.verdict != "pass"]
    assert (failed.check, failed.nodes, failed.rail) == ("rails", ("gpu-006",), "rail1")
    assert failed.why == "rail1 to gpu-005: 2.7 % of packets are lost and sent again; gpu-005 is sound with others"
    assert (failed.quantity, failed.measured, failed.expected, failed.unit) == ("pair_resent", 2.69, 0.5, "%")


def test_dropped_packets_are_no_fault() -> None:
    """On a trunk narrower than the rails, TCP finds its rate by losing packets."""
    of = subject(8, leaf_nodes=4, oversubscription=4)

    class Queues(SimulatedCluster):
        def pairs(self, asked: Ask) -> Result:
            said = super().pairs(asked)
            return replace(said, values=tuple(map(self.dropped, said.values)))

        def dropped(self, said: MeasuredValue) -> MeasuredValue:
            return replace(said, value=1.4) if said.unit == "%" and of.leaf(said.node) != of.leaf(said.peer) else said

    assert failures(Queues(of)) == []


def test_loss_that_nobody_counted_is_not_none() -> None:
    """The rate alone passes, and the finding says that loss was not measured."""

    class Uncounted(SimulatedCluster):
        def pairs(self, asked: Ask) -> Result:
            said = super().pairs(asked)
            of_one = ("pair_resent", "gpu-002", "rail1")
            left = [each for each in said.values if (each.quantity, each.node, each.rail) != of_one]
            return replace(said, values=tuple(left))

    of_rails = {each.rail: each for each in Uncounted(subject(4)).prove() if each.check == "rails"}
    assert {each.verdict for each in of_rails.values()} == {"pass"}
    assert of_rails["rail1"].why == "rail1: 0.191 of 0.191 Gb/s in pairs; loss not counted"
    assert of_rails["rail0"].why == "rail0: 0.191 of 0.191 Gb/s in pairs"


def test_a_little_that_is_sent_again_is_no_fault() -> None:
    """A packet of a transfer may be late."""
    assert failures(SimulatedCluster(subject(4), loss={("gpu-002", "rail0"): 0.4})) == []


def test_a_rail_that_is_down_says_so() -> None:
    """There is no measurement, and the reason is the program's message."""
    cluster = SimulatedCluster(subject(4, leaf_nodes=4), {("gpu-001", "rail0"): 0.0})
    [failed] = [each for each in cluster.prove() if each.verdict == "fail"]
    assert failed.why == "rail0 to gpu-002: no answer from gpu-002 within 5 s; gpu-002 is fast with others"
    assert failed.measured is None


@pytest.mark.parametrize("oversubscription", [1, 2, 4])
def test_a_slow_trunk_is_no_nodes_fault(oversubscription: int) -> None:
    """The leaves between which it is slow are named, and no node is held back."""
    sound = subject(8, leaf_nodes=4, oversubscription=oversubscription)
    leaf = sound.fabric.leaves[1].name
    cluster = SimulatedCluster(sound, trunks={(leaf, "rail0"): 0.5})
    found = failures(cluster)
    assert ("trunks", (), "rail0") in found
    assert not any(nodes for _, nodes, _ in found)


def test_all_rails_slow_blames_nobody() -> None:
    """Without a fast node none can be blamed: the rail has failed, and no node is drained."""
    broken = {(f"gpu-00{number}", "rail0"): 0.5 for number in range(1, 5)}
    found = failures(SimulatedCluster(subject(4), broken))
    assert ("rails", (), "rail0") in found
    assert not any(nodes for _, nodes, _ in found)


class Noisy(SimulatedCluster):
    """A host that is busy while pairs are measured: a longer measurement shows only slow nodes."""

    def rates(self, together: Sequence[Sequence[str]], rail: str) -> dict[tuple[str, str], float]:
        part = 0.2 if self.asked[-1].options["pairs"]["seconds"] == SECONDS else 1.0
        return {pair: part * mbps for pair, mbps in super().rates(together, rail).items()}


def test_noise_of_the_host_blames_nobody() -> None:
    """Without a fast node all are measured for longer, before the rail counts as slow."""
    cluster = Noisy(subject(4))
    assert [failed for failed in failures(cluster) if failed[0] == "rails"] == []
    longest = {
        asked.what: asked.options["pairs"]["rounds"]
        for asked in cluster.asked
        if asked.programs == ("pairs",) and asked.options["pairs"]["seconds"] == LAST_SECONDS
    }
    alone = [rounds for what, rounds in longest.items() if what.endswith("gpu-[001-004] for the last time")]
    assert len(alone) == 2
    assert all(len(together) == 1 for rounds in alone for together in rounds)


def test_node_that_stays_slow_is_named() -> None:
    """The other end of its last pair was fast with another partner."""
    cluster = Noisy(subject(3), {("gpu-002", "rail0"): 0.5})
    [failed] = [failed for failed in failures(cluster) if failed[0] == "rails"]
    assert failed == ("rails", ("gpu-002",), "rail0")


class Halting(SimulatedCluster):
    """A host that is halted half of the time: all samples of a rate but one are low."""

    def result(
        self,
        workload: str,
        asked: Ask,
        values: Sequence[MeasuredValue],
        problems: Sequence[MeasurementProblem],
        rank: int = 0,
    ) -> Result:
        rates = {"pair_bandwidth", "all_reduce_busbw"}
        values = [replace(each, value=each.value / 2) if each.quantity in rates else each for each in values]
        return super().result(workload, asked, values, problems, rank)


def test_nodes_that_share_a_host_are_judged_by_the_best_sample() -> None:
    """The median does not suffice there. Slow nodes are slow in each sample, and real machines are not excused."""
    shared = subject(4)
    found = Halting(shared).prove()
    assert {each.verdict for each in found} == {"pass"}
    measured = [each.why for each in found if each.check in ("rails", "collectives")]
    assert all(why.endswith("; the best sample counts, for the host was busy") for why in measured), measured
    assert failures(Halting(shared, {("gpu-002", "rail0"): 0.5})) == [("rails", ("gpu-002",), "rail0")]
    own = replace(
        shared, pools=tuple(replace(each, machine=replace(each.machine, simulated=False)) for each in shared.pools)
    )
    assert "rails" in {check for check, _, _ in failures(Halting(own))}


def test_two_faults_at_once() -> None:
    """Faults are on two rails of two nodes of a leaf: each is named with its own."""
    cluster = SimulatedCluster(subject(8, leaf_nodes=4), {("gpu-001", "rail0"): 0.5, ("gpu-002", "rail1"): 0.5})
    assert failures(cluster) == [("rails", ("gpu-001",), "rail0"), ("rails", ("gpu-002",), "rail1")]


def test_node_without_a_partner_is_unknown() -> None:
    """A node whose rails have no partner now is not proven; a single node has nothing to prove."""
    evidence = Evidence()
    asked = list(pairs(subject(4), ("gpu-002",), evidence))
    assert asked == []
    assert [(each.verdict, each.why) for each in evidence.findings] == [
        ("unknown", "rail0: no node was free to measure it with"),
        ("unknown", "rail1: no node was free to measure it with"),
    ]
    assert failures(SimulatedCluster(subject(1))) == []
