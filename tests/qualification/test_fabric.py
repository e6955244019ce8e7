"""Byte counters of NICs show a collective that bypasses the fabric, and the node at fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from stampworks.qualification import Ask, CheckFinding, Evidence, Result
from stampworks.qualification.fabric import used
from stampworks.qualification.results import MeasurementProblem, Text

from tests.qualification.conftest import SimulatedCluster, subject

MIB = 1 << 20


def judged(cluster: SimulatedCluster) -> list[CheckFinding]:
    return [each for each in cluster.prove() if each.check == "fabric"]


def open_findings(cluster: SimulatedCluster) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.verdict, each.nodes) for each in judged(cluster) if each.verdict != "pass"]


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_a_collective_that_goes_over_the_rails_passes(nodes: int) -> None:
    """The expected bytes follow from size and ranks alone."""
    cluster = SimulatedCluster(subject(nodes))
    [found] = judged(cluster)
    [asked] = [each for each in cluster.asked if each.programs == ("fabric",)]
    size = asked.options["fabric"]["bytes"] // 4 // nodes * nodes * 4
    assert (found.verdict, found.nodes, found.unit) == ("pass", tuple(cluster.subject.nodes), "bytes")
    assert found.expected == pytest.approx(2 * (nodes - 1) / nodes * size * 8)
    assert found.measured == pytest.approx(found.expected)


def test_the_words_of_a_collective_that_is_past_the_fabric() -> None:
    """The reason has the share of bytes on each network, and the required share."""
    cluster = SimulatedCluster(subject(4), addresses=frozenset(["gpu-002"]))
    [failed] = [each for each in judged(cluster) if each.verdict == "fail"]
    assert failed.nodes == ("gpu-002",)
    assert failed.why == (
        "0 bytes of 24 MiB of an all-reduce went over its rails, and 24 MiB over its network for management"
    )
    assert failed.derivation == (
        "at least: 8 times: in a ring each of 4 ranks sends 2 x 3/4 of 2 MiB; at most over the network for management: "
        "half of its share if it were used like each of 2 rails: 1/6 of 24 MiB"
    )


@pytest.mark.parametrize("nodes", [4, 8])
def test_neighbours_of_a_node_with_a_wrong_address_are_not_to_blame(nodes: int) -> None:
    """Their traffic to that node is diverted, too; without it they are correct."""
    cluster = SimulatedCluster(subject(nodes), addresses=frozenset(["gpu-003"]))
    assert open_findings(cluster) == [("fail", ("gpu-003",))]
    [passed] = [each for each in judged(cluster) if each.verdict == "pass"]
    assert passed.nodes == tuple(name for name in cluster.subject.nodes if name != "gpu-003")


def test_senders_with_wrong_routes_are_blamed() -> None:
    """The receiver cannot change the route."""
    cluster = SimulatedCluster(subject(4), routes=frozenset(["gpu-004"]))
    assert open_findings(cluster) == [("fail", ("gpu-004",))]


@pytest.mark.parametrize(("nodes", "wrong"), [(4, 4), (2, 1), (2, 2)])
def test_when_nobody_does_better_the_whole_fails(nodes: int, wrong: int) -> None:
    """All nodes have the same wrong setting, which no comparison finds; no node is held."""
    names = list(subject(nodes).nodes)
    cluster = SimulatedCluster(subject(nodes), addresses=frozenset(names[:wrong]))
    assert open_findings(cluster) == [("fail", ())]
    assert not [each for each in cluster.prove() if each.verdict != "pass" and each.check != "fabric"]


@pytest.mark.parametrize(("part", "verdict"), [(0.9, "pass"), (1.1, "fail")])
def test_the_network_for_management_may_carry_a_little(part: float, verdict: str) -> None:
    """It may carry less than half of the share of a rail, and the text says so."""
    whole = 24 * MIB
    cluster = SimulatedCluster(subject(4), elsewhere=part * whole / 6)
    [found] = judged(cluster)
    assert found.verdict == verdict
    if verdict == "fail":
        assert (found.quantity, found.measured, found.expected) == ("management_sent", part * whole / 6, whole / 6)


def test_traffic_of_every_node_is_kept() -> None:
    """Its rails count together, next to its management network: four rows for each node."""
    cluster = SimulatedCluster(subject(4))
    rows = [
        each for each in cluster.evidence(tuple(cluster.subject.nodes), "standard").measured if each.unit == "bytes"
    ]
    assert len(rows) == 4 * 4
    kept = {each.quantity: each.value for each in rows if each.node == "gpu-002"}
    assert kept["fabric_sent"] == kept["fabric_received"] == pytest.approx(24 * MIB)
    assert kept["management_sent"] == kept["management_received"] == 2000


class Once(SimulatedCluster):
    """Foreign traffic passes over the management network for a moment."""

    def fabric(self, asked: Ask) -> list[Result]:
        self.elsewhere = 2000.0 if self.elsewhere != 2000.0 else 64.0 * MIB
        return super().fabric(asked)


def test_foreign_traffic_is_measured_again() -> None:
    """The measurement is repeated before a node is blamed."""
    assert open_findings(Once(subject(4), elsewhere=2000.0)) == []


class Blind(SimulatedCluster):
    """A cluster whose second node cannot read its counters, and says so."""

    def fabric(self, asked: Ask) -> list[Result]:
        first, second, *others = super().fabric(asked)
        problem = MeasurementProblem(asked.nodes[1], "", "rdmap0s6/1: No such file or directory")
        return [first, dataclasses.replace(second, values=(), problems=(problem,)), *others]


def test_counters_that_cannot_be_read_are_unknown() -> None:
    """The result is neither a pass nor a fault, with the reason; other nodes are judged by their own counters."""
    cluster = Blind(subject(4))
    assert open_findings(cluster) == [("unknown", ("gpu-002",))]
    [why] = [each.why for each in judged(cluster) if each.verdict == "unknown"]
    assert why == "rdmap0s6/1: No such file or directory"


class Half(SimulatedCluster):
    """A cluster that does not report the traffic on the management network."""

    words: Sequence[str] = ()

    def fabric(self, asked: Ask) -> list[Result]:
        return [
            dataclasses.replace(
                each,
                values=tuple(value for value in each.values if value.quantity.startswith("fabric")),
                texts=tuple(Text("skipped", each.node, "management", word) for word in self.words),
            )
            for each in super().fabric(asked)
        ]


def test_half_an_answer_is_none() -> None:
    """A partial answer counts only if the node says that its rail is its management network."""
    cluster = Half(subject(4))
    assert open_findings(cluster) == [("unknown", (name,)) for name in cluster.subject.nodes]
    cluster.words = ["eth0 is a rail, too"]
    assert open_findings(cluster) == []


def test_required_traffic_assumes_no_ring() -> None:
    """NCCL may use trees, and a switch may reduce: only traffic that must leave a node is required."""

    class Nccl(SimulatedCluster):
        def fabric(self, asked: Ask) -> list[Result]:
            return [dataclasses.replace(each, backend="nccl") for each in super().fabric(asked)]

    [found] = judged(Nccl(subject(4)))
    assert (found.verdict, found.expected, found.measured) == ("pass", 16.0 * MIB, 24.0 * MIB)


def test_rails_that_are_rdma_devices_are_counted_as_such() -> None:
    """Interfaces do not count RDMA traffic."""
    local = subject(4)
    efa = dataclasses.replace(local, fabric=dataclasses.replace(local.fabric, kind="efa"))
    for of, rdma in ((local, False), (efa, True)):
        assert next(used(of, tuple(of.nodes), Evidence())).options["fabric"]["rdma"] is rdma


def test_without_rails_there_is_nothing_to_ask() -> None:
    """The same holds for a single node."""
    local = subject(4)
    none = dataclasses.replace(local, fabric=dataclasses.replace(local.fabric, rails=()))
    assert list(used(none, tuple(none.nodes), Evidence())) == []
    assert list(used(local, ("gpu-001",), Evidence())) == []
