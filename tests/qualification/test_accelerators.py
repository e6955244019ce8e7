"""Machines with several accelerators: each is measured, and compared with all others of its machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from stampworks.qualification import Ask, CheckFinding, Result, Subject
from stampworks.qualification.results import MeasuredValue, MeasurementProblem, Text

from tests.qualification.conftest import SimulatedCluster, subject

NUMBERS = range(8)
Place = tuple[str, int]
"""A node, and the number of its accelerator."""


@dataclass
class Accelerated(SimulatedCluster):
    """A cluster with eight accelerators on each node, which answer individually."""

    rate: Mapping[Place, float] = field(default_factory=dict)
    """TFLOP/s by accelerator; by default 700."""
    wrong: Mapping[Place, int] = field(default_factory=dict)
    digest: Mapping[Place, str] = field(default_factory=dict)
    broken: Mapping[Place, str] = field(default_factory=dict)
    """Messages of accelerators that gave no answer."""
    windows_of: Mapping[Place, float] = field(default_factory=dict)

    def answers(self, program: str, asked: Ask) -> list[Result]:
        if program == "matmul":
            windows = asked.options["matmul"].get("windows", 0)
            return [self.multiplied(asked, rank, node, windows) for rank, node in enumerate(asked.nodes)]
        return super().answers(program, asked)

    def multiplied(self, asked: Ask, rank: int, node: str, windows: int) -> Result:
        values, texts, problems = list[MeasuredValue](), list[Text](), list[MeasurementProblem]()
        for number in NUMBERS:
            place, device = (node, number), f"cuda:{number}"
            if place in self.broken:
                problems.append(MeasurementProblem(node, "", f"accelerator {number}: {self.broken[place]}"))
                continue
            rate = self.rate.get(place, 700.0 + number / 10)
            values.append(self.value("matmul_bf16", "TFLOP/s", rate, "", node, device=device))
            values.append(self.value("matmul_mismatches", "count", self.wrong.get(place, 0), "", node, device=device))
            texts.append(Text("matmul_digest", node, f"8192 bf16 1 {device}", self.digest.get(place, "ab")))
            part = self.windows_of.get(place, 1.0)
            values += [
                self.value(
                    "matmul_bf16_window", "TFLOP/s", part * (700 + (3 * window + number + rank) % 5), "", node,
                    device=device,
                )
                for window in range(windows)
            ]  # fmt: skip
        made = self.result("matmul", asked, values, problems, rank)
        return dataclasses.replace(made, texts=tuple(texts), device="cuda")


def of_eight(nodes: int = 4, **more: object) -> Subject:
    """Return a subject whose nodes have eight accelerators, which count as real."""
    found = subject(nodes, **more)  # type: ignore[arg-type]
    [pool] = found.pools
    return dataclasses.replace(
        found, pools=(dataclasses.replace(pool, machine=dataclasses.replace(pool.machine, simulated=False)),)
    )


def matmul(cluster: SimulatedCluster) -> list[tuple[str, tuple[str, ...], str]]:
    """Return the findings that do not pass."""
    found: list[CheckFinding] = cluster.prove()
    return [(each.verdict, each.nodes, each.why) for each in found if each.verdict != "pass" and each.check == "matmul"]


def test_all_alike_pass() -> None:
    """Each accelerator has its own measured value."""
    cluster = Accelerated(of_eight())
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard")
    assert {each.verdict for each in evidence.findings} == {"pass"}
    found = {(each.node, each.device) for each in evidence.measured if each.quantity == "matmul_bf16"}
    assert found == {(node, f"cuda:{number}") for node in cluster.subject.nodes for number in NUMBERS}


def test_a_slow_one_is_named_with_its_number() -> None:
    """The finding compares it with the median of all; the node is measured again, with all of its accelerators."""
    cluster = Accelerated(of_eight(), rate={("gpu-003", 5): 500.0})
    [(verdict, nodes, why)] = matmul(cluster)
    assert (verdict, nodes) == ("fail", ("gpu-003",))
    assert why.startswith("accelerator 5: it multiplies at 71% of the rate of gpu-00"), why
    assert "below the median of 31 peers" in why
    again = [asked.nodes for asked in cluster.asked if asked.programs == ("matmul",)][1:]
    assert len(again) == 3
    assert all("gpu-003" in each and len(each) <= 2 for each in again)


def test_accelerators_of_a_single_node_are_compared() -> None:
    """Each of eight accelerators is compared with seven."""
    cluster = Accelerated(of_eight(1), rate={("gpu-001", 2): 400.0})
    [(verdict, nodes, why)] = matmul(cluster)
    assert (verdict, nodes) == ("fail", ("gpu-001",))
    assert why.startswith("accelerator 2: it multiplies at 57% of the rate of gpu-001 accelerator ")


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"wrong": {("gpu-002", 7): 2}}, "accelerator 7: 2 products , of the same matrices, came out different"),
        (
            {"digest": {("gpu-002", 7): "cd"}},
            "accelerator 7: its product of the same matrices differs from that of its peers",
        ),
        (
            {"broken": {("gpu-002", 7): "no answer within 31 s"}},
            "accelerator 7: no answer within 31 s; 7 of 8 accelerators were measured",
        ),
    ],
)
def test_one_of_eight_that_is_broken(broken: dict[str, Mapping[Place, object]], why: str) -> None:
    """The broken accelerator is named, and the values of the other seven count."""
    cluster = Accelerated(of_eight(), **broken)  # type: ignore[arg-type]
    evidence = cluster.evidence(tuple(cluster.subject.nodes), "standard")
    [found] = [each for each in evidence.findings if each.verdict != "pass"]
    assert (found.check, found.verdict, found.nodes, found.why) == ("matmul", "fail", ("gpu-002",), why)
    kept = [each for each in evidence.measured if (each.node, each.quantity) == ("gpu-002", "matmul_bf16")]
    assert len(kept) >= 7


def test_fewer_than_declared_are_no_pass() -> None:
    """Accelerators that torch does not find are missing for jobs, too, even without a complaint."""

    class Seven(Accelerated):
        def multiplied(self, asked: Ask, rank: int, node: str, windows: int) -> Result:
            made = super().multiplied(asked, rank, node, windows)
            missing = "cuda:7" if node == "gpu-004" else ""
            return dataclasses.replace(made, values=tuple(each for each in made.values if each.device != missing))

    assert matmul(Seven(of_eight())) == [("fail", ("gpu-004",), "7 of 8 accelerators were measured")]


def test_an_accelerator_that_is_slow_only_when_warm() -> None:
    """Window by window, in two rounds running: it is named with its number."""
    cluster = Accelerated(of_eight(proof={"budget_minutes": 30}), windows_of={("gpu-002", 3): 0.9})
    [found] = [each for each in cluster.prove("burn-in") if each.verdict == "fail"]
    assert (found.check, found.nodes) == ("burn-in", ("gpu-002",))
    assert found.why.startswith("accelerator 3: 10."), found.why
    assert "below the median of 31 peers" in found.why
