"""A simulated cluster with noisy measurements, and faults of random kind, place and severity."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from stampworks.qualification import Ask, CheckFinding, Result
from stampworks.qualification.results import MeasuredValue, MeasurementProblem, Text

from tests.qualification.conftest import USUAL, SimulatedCluster, subject

MTU_BYTES = 1500
TEXTS = (("library_version", "torch", "2.6.0"), ("slurm_configuration", "slurm.conf", "5d1e0c"))


def slower(spread: float, seldom: float, least: float) -> Callable[[Random], float]:
    """A rate slightly below the possible one; sometimes a neighbour takes a large part."""

    def part(chance: Random) -> float:
        usual = 1 - abs(chance.gauss(0, spread))
        return usual * chance.uniform(least, 0.95) if chance.random() < seldom else usual

    return part


NOISE: Mapping[str, Callable[[Random], float]] = {
    "pair_bandwidth": slower(0.01, 1 / 1000, 0.4),
    "all_reduce_busbw": slower(0.02, 1 / 100, 0.5),
    "matmul_fp32": slower(0.01, 1 / 50, 0.6),
    "storage_write": lambda chance: chance.lognormvariate(0, 0.3),
    "clock_offset": lambda chance: chance.uniform(1, 50),
}
"""Random factor by quantity. Pairs on shaped links were steady in measurements, computing and writing were not."""


@dataclass
class NoisyCluster(SimulatedCluster):
    chance: Random = field(default_factory=lambda: Random(1))  # noqa: S311
    writes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(node, quantity) -> the text that it has instead of the others'."""
    mtu: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(node, rail) -> the size of its packets."""
    misses: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(node, program) -> its failure there."""

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
        noise = NOISE[quantity](self.chance) if quantity in NOISE else 1.0
        return super().value(quantity, unit, value * noise, rail, node, peer, size, device)

    def result(
        self,
        workload: str,
        asked: Ask,
        values: Sequence[MeasuredValue],
        problems: Sequence[MeasurementProblem],
        rank: int = 0,
    ) -> Result:
        made = super().result(workload, asked, values, problems, rank)
        node = asked.nodes[rank]
        if workload == "inventory":
            texts = tuple(Text(each, node, name, self.writes.get((node, each), usual)) for each, name, usual in TEXTS)
            made = dataclasses.replace(made, texts=texts)
        if workload == "limits":
            sizes = [
                self.value("mtu", "bytes", self.mtu.get((node, rail), MTU_BYTES), rail, node) for rail in self.rails
            ]
            made = dataclasses.replace(made, values=(*made.values, *sizes))
        if what := self.misses.get((node, workload)):
            made = dataclasses.replace(made, problems=(*made.problems, MeasurementProblem(node, "", what)))
        return made


@dataclass(frozen=True)
class Fault:
    """Fault, and the nodes that must be named for it."""

    kind: str
    node: str
    """Empty if no node is to blame."""
    leaf: str = ""
    rail: str = ""

    def caught(self, findings: Sequence[CheckFinding]) -> bool:
        """Whether something fails, or is unknown, at this place."""
        about = [each for each in findings if each.verdict != "pass"]
        return any(self.node in each.nodes if self.node else self._is_trunk(each) for each in about)

    def _is_trunk(self, finding: CheckFinding) -> bool:
        return finding.check == "trunks" and finding.rail == self.rail and self.leaf in finding.why


def named(faults: Sequence[Fault], findings: Sequence[CheckFinding]) -> bool:
    """Whether these are all caught, and no node and no trunk is blamed besides."""
    failed = [each for each in findings if each.verdict == "fail"]
    blamed = {node for each in failed for node in each.nodes}
    rails = {each.rail for each in failed if each.check == "trunks"}
    right = blamed == {each.node for each in faults} - {""} and rails == {each.rail for each in faults if each.leaf}
    return right and all(each.caught(failed) for each in faults)


def sound(chance: Random) -> NoisyCluster:
    """A healthy cluster of random size and oversubscription."""
    nodes, oversubscription = chance.choice((8, 12, 16)), chance.choice((1, 2, 4))
    return NoisyCluster(subject(nodes, leaf_nodes=4, oversubscription=oversubscription), {}, {}, {}, chance=chance)


def broken(chance: Random, count: int) -> tuple[NoisyCluster, list[Fault]]:
    """Return a cluster with this many faults, each on another node or leaf."""
    cluster = sound(chance)
    nodes = chance.sample(sorted(cluster.subject.nodes), count)
    kinds = [chance.choice(KINDS) for _ in nodes]
    if kinds.count("trunk slow") > 1:
        kinds[0] = "rail slow"
    return cluster, [_break(cluster, kind, node, chance) for kind, node in zip(kinds, nodes, strict=True)]


def _break(cluster: NoisyCluster, kind: str, node: str, chance: Random) -> Fault:
    rail = chance.choice(cluster.rails)
    usual = {quantity: value for said in USUAL.values() for quantity, _, value, _ in said}
    if kind == "trunk slow":
        leaf = cluster.subject.leaf(node)
        cluster.trunks = {(leaf, rail): chance.uniform(0.1, 0.7)}
        return Fault(kind, "", leaf, rail)
    if kind in ("rail slow", "rail down"):
        cluster.links = {**cluster.links, (node, rail): chance.uniform(0.05, 0.75) if kind == "rail slow" else 0.0}
    elif kind == "packets lost":
        cluster.loss = {**cluster.loss, (node, rail): chance.uniform(1, 25)}
    elif kind == "small packets":
        cluster.mtu = {**cluster.mtu, (node, rail): chance.randrange(576, MTU_BYTES)}
    elif kind in PARTS:
        quantity, least, most = PARTS[kind]
        cluster.says = {**cluster.says, (node, quantity): usual[quantity] * chance.uniform(least, most)}
    elif kind in COUNTS:
        quantity, least, most = COUNTS[kind]
        cluster.says = {**cluster.says, (node, quantity): float(chance.randint(least, most))}
    elif kind in SKEWS:
        cluster.writes = {**cluster.writes, (node, SKEWS[kind]): f"{chance.random():.6f}"}
    else:
        cluster.misses = {**cluster.misses, (node, "storage"): "/shared: no such directory"}
    return Fault(kind, node)


PARTS = {
    "small memlock": ("memlock", 0.001, 0.45),
    "few open files": ("open_files", 0.001, 0.45),
    "small shared memory": ("directory_size", 0.01, 0.45),
    "disk full": ("directory_free", 0.0, 0.03),
    "slow storage": ("storage_write", 0.02, 0.08),
    "slow arithmetic": ("matmul_fp32", 0.4, 0.92),
}
"""kind -> (quantity, smallest and largest part of the usual value)."""
COUNTS = {
    "accelerator missing": ("accelerators", 0, 7),
    "memory errors": ("accelerator_ecc_uncorrected", 1, 50),
    "clock skew": ("clock_offset", 600, 600_000),
    "wrong products": ("matmul_mismatches", 1, 9),
}
SKEWS = {"another library": "library_version", "another slurm.conf": "slurm_configuration"}
KINDS = (
    *("rail slow", "rail down", "packets lost", "trunk slow", "small packets", "no shared directory"),
    *(*PARTS, *COUNTS, *SKEWS),
)
