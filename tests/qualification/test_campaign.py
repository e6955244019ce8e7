"""A campaign continues without lost nodes, and never takes silence for a result."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from stampworks.qualification import Ask, CheckFinding, Evidence, Heard, Result, Subject, campaign

from tests.qualification.conftest import SimulatedCluster, subject


def open_findings(cluster: SimulatedCluster) -> list[CheckFinding]:
    return [each for each in cluster.prove() if each.verdict != "pass"]


class Mute(SimulatedCluster):
    """A cluster on which a program never answers."""

    program = "pairs"

    def answers(self, program: str, asked: Ask) -> list[Result]:
        return [] if program == self.program else super().answers(program, asked)


def test_rails_that_were_not_measured_are_nobodys_fault() -> None:
    """A program that did not run is unknown, and no node is held for it."""
    found = open_findings(Mute(subject(4)))
    assert {(each.check, each.verdict) for each in found} == {("rails", "unknown")}
    assert {each.nodes for each in found} == {("gpu-001", "gpu-002", "gpu-003", "gpu-004")}


def test_a_second_look_that_fails_blames_nobody() -> None:
    """Neither the slow node nor its partner is blamed."""

    class OnceOnly(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            again = program == "pairs" and sum("pairs" in each.programs for each in self.asked) > 1
            return [] if again else super().answers(program, asked)

    found = open_findings(OnceOnly(subject(4), {("gpu-001", "rail0"): 0.2}))
    assert ("rails", "unknown") in {(each.check, each.verdict) for each in found}
    assert not [each for each in found if each.verdict == "fail" and each.nodes]


@pytest.mark.parametrize("part", [0.5, 0.55])
@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_a_collective_that_is_slow_by_itself(nodes: int, part: float) -> None:
    """Links that are sound in pairs and not together fail the whole, and no node."""
    found = open_findings(SimulatedCluster(subject(nodes), together=part))
    assert {(each.check, each.verdict, each.nodes) for each in found} == {("collectives", "fail", ())}


def test_more_than_can_be_is_no_pass() -> None:
    """Such a value belongs to another quantity."""
    found = open_findings(SimulatedCluster(subject(4), together=1.5))
    assert {(each.check, each.verdict) for each in found} == {("collectives", "unknown")}
    assert all("more than is possible" in each.why for each in found)


@pytest.mark.parametrize("change", [{"ranks": 2, "nodes": ("a", "b")}, {"rank": 3}, {"values": ()}])
def test_an_answer_to_another_question_is_unknown(change: dict[str, Any]) -> None:
    """Fewer ranks, another rank, no value."""

    class Other(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            found = super().answers(program, asked)
            return [dataclasses.replace(found[0], **change)] if program == "collectives" else found

    found = open_findings(Other(subject(4)))
    assert {(each.check, each.verdict) for each in found} == {("collectives", "unknown")}


def test_nodes_that_drop_out_fail_and_the_rest_is_asked_again() -> None:
    """Measurements of the others depended on them."""
    cluster, evidence = SimulatedCluster(subject(4)), Evidence()
    conversation = campaign(cluster.subject, tuple(cluster.subject.nodes), "quick", evidence)
    assert next(conversation).nodes == ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
    asked = conversation.send(Heard((), (), {"gpu-002": "down: power loss"}))
    assert asked.nodes == ("gpu-001", "gpu-003", "gpu-004")
    with pytest.raises(StopIteration):
        conversation.send(Heard(tuple(each for p in asked.programs for each in cluster.answers(p, asked)), ()))
    assert next((each.check, each.verdict, each.nodes, each.why) for each in evidence.findings) == (
        "answering", "fail", ("gpu-002",), "down: power loss"
    )  # fmt: skip
    assert {each.verdict for each in evidence.findings[1:]} == {"pass"}


def test_only_the_first_rank_reports_about_others() -> None:
    """Its reports count only for nodes of the start."""

    class Slander(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            found = super().answers(program, asked)
            if program not in ("limits", "matmul"):
                return found
            lies = [
                self.value("memlock" if program == "limits" else "matmul_fp32", "", 1.0, "", name)
                for name in ("gpu-001", "evil; rm -rf /")
            ]
            return [dataclasses.replace(each, values=(*each.values, *lies)) if each.rank else each for each in found]

    assert open_findings(Slander(subject(4))) == []


def with_rails(nodes: Subject, rails: dict[str, int]) -> Subject:
    """Return a subject in which some nodes have only their first rails."""
    [pool] = nodes.pools
    cut = tuple(
        dataclasses.replace(node, rail_addresses=node.rail_addresses[: rails.get(node.name, 2)]) for node in pool.nodes
    )
    return dataclasses.replace(nodes, pools=(dataclasses.replace(pool, nodes=cut),))


@pytest.mark.parametrize("level", ["standard", "burn-in"])
def test_a_rail_that_not_all_nodes_have(level: str) -> None:
    """Its collective spans the nodes with that rail; a node without rails prevents no measurement."""
    found = subject(5, leaf_nodes=8, proof={"budget_minutes": 30})
    cluster = SimulatedCluster(with_rails(found, {"gpu-004": 1, "gpu-005": 0}), together=0.5)
    failed = [each for each in cluster.prove(level) if each.check == "collectives" and not each.why.startswith("in a")]
    assert {(each.rail, each.verdict) for each in failed} == {("rail0", "fail"), ("rail1", "fail")}
    asked = [each for each in cluster.asked if each.programs == ("collectives",)]
    assert {(each.nodes, *each.options["collectives"]["rails"]) for each in asked} == {
        (("gpu-001", "gpu-002", "gpu-003", "gpu-004"), "rail0"),
        (("gpu-001", "gpu-002", "gpu-003"), "rail1"),
    }
