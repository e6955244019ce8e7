"""A simulated cluster that answers a campaign: measurements follow from its faults."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stampworks import planning
from stampworks.declaration import load_value
from stampworks.qualification import Ask, CheckFinding, Evidence, Heard, Result, Subject, campaign, subject_of
from stampworks.qualification.results import MeasuredValue, MeasurementProblem, Text

EFFICIENCY = 1448 / 1514
USUAL = {
    "limits": (
        ("memlock", "bytes", 8 << 20, ""),
        ("open_files", "count", 20_000, ""),
        ("memory", "bytes", 16 << 30, ""),
        ("directory_size", "bytes", 1 << 30, "/dev/shm"),
        ("directory_free", "bytes", 1 << 29, "/dev/shm"),
    ),
    "inventory": (("accelerators", "count", 8, ""), ("accelerator_ecc_uncorrected", "count", 0, "3")),
    "clocks": (("clock_offset", "ms", 0.1, ""),),
    "storage": (("storage_write", "MB/s", 300, "/shared"),),
    "matmul": (("matmul_fp32", "GFLOP/s", 100, ""), ("matmul_mismatches", "count", 0, "")),
    "memory": (("memory_copy", "GB/s", 3, "cpu"), ("memory_triad", "GB/s", 4, "cpu")),
    "copies": (),
    "loading": (("loading", "MB/s", 100, "/shared"),),
    "checkpoint": (("checkpoint_write", "MB/s", 300, "/shared"), ("checkpoint_torn", "count", 0, "/shared")),
    "tools": (),
}
"""Usual answers of every node: (quantity, unit, value, device)."""
NAMED = {
    "inventory": ("library_version", "kernel", "6.18"),
    "matmul": ("matmul_digest", "1024 fp32 1", "ab"),
    "copies": ("skipped", "copies", "there is no accelerator to copy to"),
    "tools": ("skipped", "fio", "this node has no such program"),
}

DONE = {"reduce_scatter": 0.5, "all_to_all": 0.6}
"""Part of a ring's rate that these reach in gloo."""


def subject(nodes: int, leaf_nodes: int = 2, oversubscription: int = 1, **more: Any) -> Subject:
    declared = {
        "version": 1,
        "name": "one",
        "cloud": "local",
        "pools": [{"name": "gpu", "machine": "sim-h100", "count": nodes}],
        "fabric": {"rail_rate_mbps": 200, "leaf_nodes": leaf_nodes, "oversubscription": oversubscription},
        **more,
    }
    return subject_of(planning.plan(load_value(declared, "test")))


@dataclass
class SimulatedCluster:
    """A stand-in for a running cluster: links of declared rates, some of them broken."""

    subject: Subject
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(node, rail) -> the part of its rate that is left; 0 for a link that is down."""
    trunks: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(leaf, rail) -> the same."""
    says: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(node, quantity) -> answer of that node instead of the common one."""
    together: float = 1.0
    """Rate of a collective as a part of the links' rate."""
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Answers that are no numbers, in the same form."""
    loss: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(node, rail) -> percentage of its packets that are sent again."""
    addresses: frozenset[str] = frozenset()
    """Nodes whose collectives use their management network."""
    routes: frozenset[str] = frozenset()
    """Nodes that send to rails over the network for management."""
    elsewhere: float = 2000.0
    """Bytes that every node sends and receives there anyway."""
    fades: Mapping[str, float] = field(default_factory=dict)
    """node -> factor between its compute rates in consecutive windows."""
    windows: int = 0
    """Number of windows so far."""
    asked: list[Ask] = field(default_factory=list)
    takes: float = 5.0
    """Seconds of each start."""

    def prove(self, level: Any = "standard") -> list[CheckFinding]:
        return self.evidence(tuple(self.subject.nodes), level).findings

    def evidence(self, nodes: tuple[str, ...], level: Any, seconds: float | None = None) -> Evidence:
        evidence = Evidence()
        conversation = campaign(self.subject, nodes, level, evidence, seconds)
        heard: Heard | None = None
        try:
            while True:
                asked = conversation.send(heard) if heard else next(conversation)
                self.asked.append(asked)
                said = tuple(each for program in asked.programs for each in self.answers(program, asked))
                heard = Heard(said, (), seconds=self.takes)
        except StopIteration:
            return evidence

    def answers(self, program: str, asked: Ask) -> list[Result]:
        if program in ("pairs", "collectives"):
            return [self.pairs(asked) if program == "pairs" else self.collectives(asked)]
        if program == "fabric":
            return self.fabric(asked)
        found = []
        for rank, node in enumerate(asked.nodes):
            values = [
                self.value(quantity, unit, self.says.get((node, quantity), usual), "", node, device=device)
                for quantity, unit, usual, device in USUAL[program]
            ]
            if program == "matmul" and asked.options["matmul"].get("windows"):
                values += self.in_windows(node, asked.options["matmul"]["windows"])
            result = self.result(program, asked, values, [], rank)
            if program in NAMED and not result.texts:
                quantity, name, usual_text = NAMED[program]
                text = self.texts.get((node, quantity), usual_text)
                result = dataclasses.replace(result, texts=(Text(quantity, node, name, text),))
            found.append(result)
        self.windows += asked.options.get("matmul", {}).get("windows", 0) if program == "matmul" else 0
        return found

    def in_windows(self, node: str, count: int) -> list[MeasuredValue]:
        noise = [1, 0.99, 1.01, 1.02]
        rates = [
            100
            * noise[(window + len(node) + 3 * int(node[-1])) % 4]
            * self.fades.get(node, 1) ** (self.windows + window)
            for window in range(count)
        ]
        return [self.value("matmul_fp32_window", "GFLOP/s", rate, "", node) for rate in rates]

    def pairs(self, asked: Ask) -> Result:
        values: list[MeasuredValue] = []
        problems: list[MeasurementProblem] = []
        options = asked.options["pairs"]
        for together in options["rounds"]:
            for rail in self.rails:
                both = [pair for pair in together if all(self.has(node, rail) for node in pair)]
                for (one, other), mbps in self.rates(both, rail).items():
                    if mbps:
                        for way in ((one, other), (other, one)):
                            values.append(self.value("pair_bandwidth", "Gb/s", mbps * EFFICIENCY / 1000, rail, *way))
                            lost = self.loss.get((way[0], rail), 0.0)
                            values.append(self.value("pair_resent", "%", lost, rail, *way))
                    else:
                        problems.append(MeasurementProblem(one, rail, f"no answer from {other} within 5 s"))
        return self.result("pairs", asked, values, problems)

    @property
    def rails(self) -> list[str]:
        return [rail.interface for rail in self.subject.fabric.rails]

    def has(self, node: str, rail: str) -> bool:
        return len(self.subject.nodes[node].rail_addresses) > self.rails.index(rail)

    def rates(self, together: Sequence[Sequence[str]], rail: str) -> dict[tuple[str, str], float]:
        subject, rates = self.subject, {}
        declared = next(each for each in subject.fabric.rails if each.interface == rail)
        trunks = {trunk.leaf: trunk.rate_mbps for trunk in declared.trunks}
        leaves = [tuple(map(subject.leaf, pair)) for pair in together]
        crossing = Counter(leaf for pair in leaves if pair[0] != pair[1] for leaf in pair)
        for (one, other), pair in zip(together, leaves, strict=True):
            shares = [declared.rate_mbps * self.links.get((node, rail), 1.0) for node in (one, other)]
            if pair[0] != pair[1]:
                shares += [trunks[leaf] * self.trunks.get((leaf, rail), 1.0) / crossing[leaf] for leaf in pair]
            rates[one, other] = min(shares)
        return rates

    def fabric(self, asked: Ask) -> list[Result]:
        """A ring in the order that was asked for."""
        options, ranks = asked.options["fabric"], len(asked.nodes)
        size = options["bytes"] // 4 // ranks * ranks * 4
        moved = {(node, use): [0.0, 0.0] for node in asked.nodes for use in ("fabric", "management")}
        for one, other in zip(asked.nodes, (*asked.nodes[1:], asked.nodes[0]), strict=True):
            use = "management" if {one, other} & self.addresses or one in self.routes else "fabric"
            for way, node in enumerate((one, other)):
                moved[node, use][way] += 2 * (ranks - 1) / ranks * size * options["rounds"]
                moved[node, "management"][way] += self.elsewhere
        return [
            self.result(
                "fabric",
                asked,
                [
                    self.value(f"{use}_{way}", "bytes", moved[node, use][index], "", node, size=size, device=device)
                    for use, device in (("fabric", "rail0"), ("management", "eth0"))
                    for index, way in enumerate(("sent", "received"))
                ],
                [],
                rank,
            )
            for rank, node in enumerate(asked.nodes)
        ]

    def collectives(self, asked: Ask) -> Result:
        options = asked.options["collectives"]
        order = options["order"]
        ring = list(zip(order, order[1:] + order[:1], strict=True))
        values = [
            self.value(
                f"{operation}_busbw",
                "GB/s",
                DONE.get(operation, 1.0) * self.together * self.carried(operation, ring, rail) * EFFICIENCY / 8000,
                rail,
                size=4 * len(order) * (size // 4 // len(order)),
            )
            for operation in options["operations"]
            for rail in options["rails"]
            for size in options["bytes"]
        ]
        return self.result("collectives", asked, values, [])

    def carried(self, operation: str, ring: Sequence[tuple[str, str]], rail: str) -> float:
        return self.exchange([one for one, _ in ring], rail) if operation == "all_to_all" else self.ring(ring, rail)

    def exchange(self, nodes: Sequence[str], rail: str) -> float:
        """Let all nodes exchange data: nodes of a leaf send to all others over its trunk, in any order."""
        declared = next(each for each in self.subject.fabric.rails if each.interface == rail)
        there = Counter(map(self.subject.leaf, nodes))
        shares = [declared.rate_mbps * self.links.get((node, rail), 1.0) for node in nodes]
        shares += [
            trunk.rate_mbps * self.trunks.get((trunk.leaf, rail), 1.0) * (len(nodes) - 1) / (inside * outside)
            for trunk in declared.trunks
            if (inside := there[trunk.leaf]) and (outside := len(nodes) - inside)
        ]
        return min(shares)

    def ring(self, ring: Sequence[tuple[str, str]], rail: str) -> float:
        """The slowest link of a ring; each trunk is crossed in each direction by its own links."""
        subject = self.subject
        declared = next(each for each in subject.fabric.rails if each.interface == rail)
        leaving = Counter(subject.leaf(one) for one, other in ring if subject.leaf(one) != subject.leaf(other))
        shares = [declared.rate_mbps * self.links.get((one, rail), 1.0) for one, _ in ring]
        shares += [
            trunk.rate_mbps * self.trunks.get((trunk.leaf, rail), 1.0) / leaving[trunk.leaf]
            for trunk in declared.trunks
            if leaving[trunk.leaf]
        ]
        return min(shares)

    def value(
        self,
        quantity: str,
        unit: str,
        value: float,
        rail: str,
        node: str = "",
        peer: str = "",
        size: int = 0,
        device: str = "",
    ) -> MeasuredValue:
        return MeasuredValue(quantity, unit, node, peer, rail, device, size, value, value, value, 3, False, "")

    def result(
        self,
        workload: str,
        asked: Ask,
        values: Sequence[MeasuredValue],
        problems: Sequence[MeasurementProblem],
        rank: int = 0,
    ) -> Result:
        return Result(
            version=1, workload=workload, rank=rank, ranks=len(asked.nodes), nodes=asked.nodes,
            started="2026-11-21T19:00:00Z", seconds=1.0, backend="gloo", device="cpu",
            values=tuple(values), texts=(), problems=tuple(problems),
        )  # fmt: skip
