"""Rates of single nodes, compared with peers, with known facts of the machine, and with the declaration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from stampworks.qualification import Ask, CheckFinding, Evidence, Heard, Result, Subject
from stampworks.qualification.rates import of_devices, of_storms
from stampworks.qualification.results import MeasuredValue

from tests.qualification.conftest import SimulatedCluster, subject

SHARED = [{"name": "shared", "kind": "directory", "mount": "/shared"}]


@dataclass
class Measuring(SimulatedCluster):
    """A cluster with additional answers of programs, on every node or on a single one."""

    more: Mapping[str, Sequence[tuple[str, str, float, str, int]]] = field(default_factory=dict)
    """program -> (quantity, unit, value, device, bytes)."""
    peer: str = ""

    def answers(self, program: str, asked: Ask) -> list[Result]:
        found = super().answers(program, asked)
        if program not in self.more:
            return found
        return [dataclasses.replace(each, values=(*each.values, *self.besides(program, each.node))) for each in found]

    def besides(self, program: str, node: str) -> list[MeasuredValue]:
        return [
            self.value(quantity, unit, self.says.get((node, quantity), value), "", node, self.peer, size, device)
            for quantity, unit, value, device, size in self.more[program]
        ]


def carried_out(step: Any, cluster: SimulatedCluster) -> Evidence:
    evidence = Evidence()
    conversation = step(cluster.subject, tuple(cluster.subject.nodes), evidence)
    heard: Heard | None = None
    try:
        while True:
            asked = conversation.send(heard) if heard else next(conversation)
            cluster.asked.append(asked)
            heard = Heard(tuple(each for program in asked.programs for each in cluster.answers(program, asked)), ())
    except StopIteration:
        return evidence


def of_machine(name: str, accelerators: int = 8) -> Subject:
    """Return the same nodes with other machines."""
    found = subject(4)
    [pool] = found.pools
    machine = dataclasses.replace(pool.machine, name=name, accelerators=accelerators, simulated=False)
    return dataclasses.replace(found, pools=(dataclasses.replace(pool, machine=machine),))


def about(evidence: Evidence, check: str) -> list[CheckFinding]:
    return [each for each in evidence.findings if each.check == check]


@pytest.mark.parametrize(
    ("step", "quantity", "value", "why"),
    [
        (of_devices, "memory_triad", 2.0, "adding in memory: 2 GB/s, where gpu-002 has 4"),
        (of_devices, "loading", 10.0, "loading samples on /shared: 10 MB/s, where gpu-002 has 100"),
        (
            of_storms,
            "checkpoint_write",
            30.0,
            "writing a checkpoint with all others on /shared: 30 MB/s, where gpu-002 has 300",
        ),
    ],
)
def test_one_that_is_slower_than_its_peers(step: Any, quantity: str, value: float, why: str) -> None:
    """The node is measured again beside a peer, and fails if it is slow each time."""
    cluster = SimulatedCluster(subject(4, storage=SHARED), says={("gpu-003", quantity): value})
    [failed] = [each for each in carried_out(step, cluster).findings if each.verdict != "pass"]
    assert (failed.nodes, failed.why) == (("gpu-003",), why)
    assert [asked.nodes for asked in cluster.asked[1:]] == [("gpu-003", "gpu-002")] * 3


def test_skipped_checks_are_no_finding() -> None:
    """A skipped check is neither a pass nor unknown: there was nothing to measure."""
    evidence = carried_out(of_devices, SimulatedCluster(subject(4, storage=SHARED)))
    assert about(evidence, "copies") == []
    evidence = carried_out(of_storms, SimulatedCluster(subject(4, storage=SHARED)))
    assert about(evidence, "tools") == []
    assert {each.verdict for each in about(evidence, "checkpoint")} == {"pass"}


def test_without_shared_storage_there_is_no_checkpoint_of_all() -> None:
    """A local directory shows nothing about other nodes."""
    cluster = SimulatedCluster(subject(4))
    carried_out(of_storms, cluster)
    assert [asked.programs for asked in cluster.asked] == [("tools",)]


@pytest.mark.parametrize(("accelerators", "asked_for"), [(8, 8), (2, 2), (1, 0)])
def test_one_accelerator_by_itself_is_asked_for_no_all_reduce(accelerators: int, asked_for: int) -> None:
    """all_reduce_perf prints 0 for it, which is no fault of its node."""
    cluster = SimulatedCluster(of_machine("p5", accelerators))
    carried_out(of_storms, cluster)
    assert [asked.options["tools"]["accelerators"] for asked in cluster.asked] == [asked_for]


def on_accelerators(quantity: str, value: float, slowest: float) -> Measuring:
    """Four machines with eight accelerators each; all have the first value, apart from the sixth accelerator of
    gpu-003."""

    class Eight(Measuring):
        def besides(self, program: str, node: str) -> list[MeasuredValue]:  # noqa: ARG002 (as the other one)
            return [
                self.value(
                    quantity, "GB/s", slowest if (node, number) == ("gpu-003", 5) else value, "", node, "", 1 << 28,
                    f"cuda:{number}",
                )
                for number in range(8)
            ]  # fmt: skip

    return Eight(of_machine("p5"), more={"copies": []})


@pytest.mark.parametrize(("value", "verdict"), [(52.0, "pass"), (20.0, "fail"), (90.0, "unknown")])
def test_rates_are_compared_with_the_machine(value: float, verdict: str) -> None:
    """All nodes may be equally slow, or measured wrongly: the finding shows the arithmetic of physics."""
    evidence = carried_out(of_devices, on_accelerators("h2d_bandwidth", value, value))
    found = [each for each in about(evidence, "copies") if each.quantity]
    assert {(each.verdict, each.measured) for each in found} == {(verdict, value)}
    assert sorted(node for each in found for node in each.nodes) == [f"gpu-00{number}" for number in (1, 2, 3, 4)]
    all_of_them = ", ".join(f"accelerator {number}" for number in range(8))
    which = "" if verdict == "pass" else f"{all_of_them}: "
    assert found[0].why.startswith(f"{which}to the accelerator: {value:.3g} of at most 57.6 GB/s")
    assert "pcie5-x16: 63 GB/s x 0.914" in found[0].derivation
    assert {each.expected for each in evidence.measured if each.quantity == "h2d_bandwidth"} == {57.582}


def test_one_accelerator_of_many_below_what_its_machine_can() -> None:
    """The accelerator is named by its number; all others have passed."""
    evidence = carried_out(of_devices, on_accelerators("h2d_bandwidth", 52.0, 20.0))
    passed, failed = [each for each in about(evidence, "copies") if each.quantity]
    assert (passed.verdict, passed.nodes) == ("pass", ("gpu-001", "gpu-002", "gpu-004"))
    assert (failed.verdict, failed.nodes, failed.measured) == ("fail", ("gpu-003",), 20.0)
    assert failed.why == "accelerator 5: to the accelerator: 20 of at most 57.6 GB/s"


def test_a_processor_is_not_an_accelerator() -> None:
    """Its memory proves nothing about the accelerators of the catalog."""
    evidence = carried_out(of_devices, Measuring(of_machine("p5")))
    assert {each.expected for each in evidence.measured if each.quantity == "memory_copy"} == {None}
    assert {(each.verdict, each.why) for each in about(evidence, "memory")} == {
        ("unknown", "none of its 8 accelerators was measured: torch does not see them")
    }


def test_a_smaller_size_than_that_of_the_peers_is_no_pass() -> None:
    """The value is not comparable, and is not ignored either."""

    class Smaller(SimulatedCluster):
        def value(
            self, quantity: str, unit: str, value: float, rail: str, node: str = "", *more: Any, **named: Any
        ) -> MeasuredValue:
            made = super().value(quantity, unit, value, rail, node, *more, **named)
            size = 1 << 20 if node == "gpu-003" else 1 << 26
            return dataclasses.replace(made, bytes=size) if quantity == "memory_triad" else made

    evidence = carried_out(of_devices, Smaller(subject(4)))
    [found] = [each for each in about(evidence, "memory") if each.verdict != "pass"]
    assert (found.verdict, found.nodes) == ("unknown", ("gpu-003",))
    assert found.why == "adding in memory: measured with 1048576 bytes, and its peers with 67108864"


@pytest.mark.parametrize(("value", "verdict"), [(0.19, "pass"), (0.1, "fail")])
def test_writes_over_rdma_are_judged_by_the_declared_rate(value: float, verdict: str) -> None:
    """A slow pair blames no node, and is no pass."""
    more = {"tools": [("ib_write_bandwidth", "Gb/s", value, "mlx5_0", 65536)]}
    evidence = carried_out(of_storms, Measuring(subject(4), more=more, peer="gpu-001"))
    found = about(evidence, "tools")
    assert verdict in {each.verdict for each in found}
    if verdict == "fail":
        [failed] = [each for each in found if each.verdict == "fail"]
        assert failed.nodes == ()
        assert "ib_write_bw from gpu-002 to gpu-001 over mlx5_0: 0.1 of 0.2 Gb/s" in failed.why
    assert {each.expected for each in evidence.measured if each.quantity == "ib_write_bandwidth"} == {0.2}
