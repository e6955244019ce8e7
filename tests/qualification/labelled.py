"""Correct and wrong thresholds, each with the expected verdict of an audit.

Correct ones were published for healthy machines, or are the same part of another machine's specification. Wrong ones
result from a slip, after which every machine fails or hardly any does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from stampworks import catalog
from stampworks.qualification import Judgement, Threshold, audit
from stampworks.qualification.audit import Verdict

from tests.physics.published import PUBLISHED, PUBLISHED_OF_OTHERS

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
NODES = (2, 4, 8, 16, 64, 128, 512)
PLATEAU = 16 * GIB
MARGINS = (1.0, 0.9, 0.75)
"""Part of a measurement that people write down as the least that a machine must reach."""
IN_A_NODE = {300.0: (0.78,), 450.0: (0.81, 1.05), 900.0: (0.75, 0.93)}
"""NVLink's GB/s -> the parts of it that all-reduces reached, without and with a switch that adds up."""
ACROSS = (0.74, 0.85)
"""Share of the NICs' rate when each byte leaves its node once: p6-b200 on 4 nodes, p5 on 16."""
ALL_TO_ALL = (0.6, 0.8)
"""Shares of the traffic that leaves a node, and of NVLink inside."""


@dataclass(frozen=True)
class Labelled:
    threshold: Threshold
    verdict: Verdict
    """The correct threshold."""
    how: str
    """Origin: `published`, `alike`, or the kind of slip."""

    def judged(self) -> Judgement:
        return audit(self.threshold)


def labelled() -> list[Labelled]:
    right = [*_published(), *_alike()]
    return [*right, *(each for row in right for each in _slips(row.threshold)), *_own_slips(), *_unknown()]


def _row(machine: str, nodes: int, quantity: str, size_bytes: float, unit: str, value: float) -> Threshold:
    return Threshold(2, machine, nodes, quantity, int(size_bytes), unit, float(f"{value:.4g}"))


def _published() -> Iterator[Labelled]:
    for machine, nodes, sweep in PUBLISHED:
        for mib, gbs in sweep.items():
            for margin in MARGINS:
                row = _row(machine, nodes, "all_reduce_busbw", mib * MIB, "GB/s", margin * gbs)
                yield Labelled(row, "ok", "published")
    for machine, operation, nodes, sweep in PUBLISHED_OF_OTHERS:
        for mib, gbs in sweep.items():
            for margin in MARGINS:
                row = _row(machine, nodes, f"{operation}_busbw", mib * MIB, "GB/s", margin * gbs)
                yield Labelled(row, "ok", "published")
    for machine, nodes, quantity, unit, value in VENDORS:
        size = PLATEAU if quantity.endswith("busbw") else 0
        yield Labelled(_row(machine, nodes, quantity, size, unit, value), "ok", "published")


VENDORS = (
    # oci-hpc b5285a68: its health checks, in a node and between two
    *(
        (name, nodes, "all_reduce_busbw", "GB/s", 185)
        for name in ("BM.GPU4.8", "B4.8", "A100-v2.8")
        for nodes in (1, 2)
    ),
    *((name, nodes, "all_reduce_busbw", "GB/s", 440) for name in ("H100.8", "H200.8", "B200.8") for nodes in (1, 2)),
    ("B300.8", 1, "all_reduce_busbw", "GB/s", 800),
    ("B300.8", 2, "all_reduce_busbw", "GB/s", 700),
    ("GB200-v3.4", 2, "all_reduce_busbw", "GB/s", 300),
    ("GB300.4", 2, "all_reduce_busbw", "GB/s", 440),
    *((name, 2, "nic_bandwidth", "Gb/s", 96) for name in ("BM.GPU4.8", "B4.8", "A100-v2.8")),
    *((name, 2, "nic_bandwidth", "Gb/s", 384) for name in ("H200.8", "B200.8", "GB200.4", "GB200-v2.4", "GB300.4")),
    ("H100.8", 2, "nic_bandwidth", "Gb/s", 192),
    ("B300.8", 2, "nic_bandwidth", "Gb/s", 375),
    ("H100.8", 1, "h2d_bandwidth", "GB/s", 52),
    # azurehpc-health-checks 0e0a1ac; the A100 node is not Azure's, its links are the same
    ("ND96isr_H100_v5", 1, "all_reduce_busbw", "GB/s", 460),
    ("ND96isr_H100_v5", 2, "nic_bandwidth", "Gb/s", 380),
    ("ND96isr_H100_v5", 1, "h2d_bandwidth", "GB/s", 48),
    ("H200.8", 1, "all_reduce_busbw", "GB/s", 431),
    ("H200.8", 2, "nic_bandwidth", "Gb/s", 360),
    ("p4de", 1, "all_reduce_busbw", "GB/s", 228),
    ("p4de", 1, "h2d_bandwidth", "GB/s", 21),
    # ai-infrastructure-on-azure a01b073: thresholds to investigate a node and to replace it
    *(("ND96isr_H100_v5", 8, "all_reduce_busbw", "GB/s", gbs) for gbs in (400, 300)),
    *(("ND96isr_H100_v5", 1, "matmul_bf16", "TFLOP/s", tflops) for tflops in (742, 715)),
    *(("ND128isr_GB300_v6", 18, "all_reduce_busbw", "GB/s", gbs) for gbs in (800, 600)),
    *(("ND128isr_GB300_v6", 1, "matmul_bf16", "TFLOP/s", tflops) for tflops in (1785, 1720)),
    # oci-hpc b5285a68, again: AMD's machine
    ("MI300X.8", 1, "all_reduce_busbw", "GB/s", 310),
    ("MI300X.8", 2, "all_reduce_busbw", "GB/s", 350),
    ("MI300X.8", 2, "nic_bandwidth", "Gb/s", 350),
    # cluster-health-scanner 81c525d
    ("a3-megagpu-8g", 2, "all_gather_busbw", "GB/s", 150),
    ("a3-ultragpu-8g", 2, "all_gather_busbw", "GB/s", 250),
    ("a4-highgpu-8g", 2, "all_gather_busbw", "GB/s", 250),
    # awsome-distributed-training 0edaf152
    ("p4d", 1, "all_reduce_busbw", "GB/s", 200),
    ("p6-b200", 1, "all_reduce_busbw", "GB/s", 600),
)


def _alike() -> Iterator[Labelled]:
    """Yield thresholds of machines without published figures, as good as published ones."""
    for machine in modelled():
        for nodes in (1, *NODES) if machine.accelerators > 1 else NODES:  # a single rank has no busbw
            for quantity, gbs in _collectives(machine, nodes):
                yield Labelled(_row(machine.name, nodes, quantity, PLATEAU, "GB/s", gbs), "ok", "alike")
        for quantity, unit, value in _devices(machine):
            yield Labelled(_row(machine.name, 1, quantity, 0, unit, value), "ok", "alike")
        if isinstance(client_gbs := machine.storage_client_gbs, float):
            for nodes in (1, 8):
                for quantity, part in (("storage_read", 0.6), ("storage_write", 0.2)):
                    row = _row(machine.name, nodes, quantity, 0, "GB/s", part * nodes * client_gbs)
                    yield Labelled(row, "ok", "alike")


def _collectives(machine: catalog.Machine, nodes: int) -> Iterator[tuple[str, float]]:
    nvlink_gbs, nic_gbs = _known(_accelerator(machine).nvlink_gbs), _nic_gbs(machine)
    ranks, inside = nodes * machine.accelerators, machine.accelerators
    plain, best = IN_A_NODE[nvlink_gbs][0] * nvlink_gbs, IN_A_NODE[nvlink_gbs][-1] * nvlink_gbs
    if nodes <= _known(machine.nvlink_nodes):
        reduced, moved, exchanged = {plain, best}, {plain}, {part * nvlink_gbs for part in ALL_TO_ALL}
    elif _known(machine.nvlink_nodes) > 1:  # racks of other sizes were not published
        reduced, moved, exchanged = {0.45 * nvlink_gbs}, {0.45 * nvlink_gbs}, {0.6 * nic_gbs}
    else:
        crossing = nic_gbs * (ranks - 1) / (nodes - 1)
        added = nic_gbs * inside * 2 * (ranks - 1) / ranks  # when switches add up, each byte leaves a NIC once
        reduced = {min(best, part * (added if machine.fabric_reduces is True else crossing)) for part in ACROSS}
        moved = {min(plain, part * crossing) for part in ACROSS}
        exchanged = {part * nic_gbs * (ranks - 1) / (ranks - inside) for part in ALL_TO_ALL}
    yield from (("all_reduce_busbw", gbs) for gbs in sorted(reduced))
    yield from ((quantity, gbs) for quantity in ("all_gather_busbw", "reduce_scatter_busbw") for gbs in sorted(moved))
    yield from (("alltoall_busbw", gbs) for gbs in sorted(exchanged))


def _devices(machine: catalog.Machine) -> Iterator[tuple[str, str, float]]:
    row, rate_gbps = _accelerator(machine), _known(machine.nic_rate_gbps)
    yield from (("nic_bandwidth", "Gb/s", part * rate_gbps) for part in (0.96, 0.9))
    yield "nic_bandwidth", "GB/s", 0.95 * rate_gbps / 8
    yield from (("memory_bandwidth", "GB/s", part * _known(row.memory_bandwidth_gbs)) for part in (0.92, 0.8))
    yield from (("matmul_bf16", "TFLOP/s", part * _known(row.bf16_measured_tflops)) for part in (1.0, 0.8))
    yield "matmul_bf16", "GFLOP/s", 930 * _known(row.bf16_measured_tflops)
    if isinstance(machine.host_link, str):
        yield "h2d_bandwidth", "GB/s", 0.87 * catalog.host_links()[machine.host_link].rate_gbs


SLIPS: Mapping[str, Callable[[Threshold], Threshold]] = {
    "8 times as much": lambda row: replace(row, value=8 * row.value),
    "an eighth": lambda row: replace(row, value=row.value / 8),
    "1,000 times as much": lambda row: replace(row, value=1000 * row.value),
    "a thousandth": lambda row: replace(row, value=row.value / 1000),
}
OTHER_UNITS = {"GB/s": ("Gb/s", "MB/s"), "Gb/s": ("GB/s",), "TFLOP/s": ("GFLOP/s", "GB/s"), "GFLOP/s": ("TFLOP/s",)}


def _slips(row: Threshold) -> Iterator[Labelled]:
    for how, slip in SLIPS.items():
        yield Labelled(slip(row), "refused", how)
    for unit in OTHER_UNITS[row.unit]:
        yield Labelled(replace(row, unit=unit), "refused", f"{row.unit} taken for {unit}")
    if row.size_bytes == PLATEAU and row.nodes in (1, 2, 16):
        for size_bytes in (8, 8 * KIB, 256 * KIB):
            yield Labelled(replace(row, size_bytes=size_bytes), "refused", "of a large payload, for a small one")
    yield Labelled(replace(row, value=row.value / 20), "refused", "so low that nobody fails")


def _own_slips() -> Iterator[Labelled]:
    """Yield slips that only some quantities can have."""
    for machine in modelled():
        row = _accelerator(machine)
        # a single accelerator has no peer on its node
        one_node = _known(machine.nvlink_nodes) == 1 and machine.accelerators > 1
        best, nic_gbs = IN_A_NODE[_known(row.nvlink_gbs)][-1] * _known(row.nvlink_gbs), _nic_gbs(machine)
        nics = nic_gbs * machine.accelerators
        for nodes in (nodes for nodes in NODES if one_node and machine.fabric_reduces is False):
            if best > nic_gbs * (nodes * machine.accelerators - 1) / (nodes - 1):
                threshold = _row(machine.name, nodes, "all_reduce_busbw", PLATEAU, "GB/s", best)
                yield Labelled(threshold, "refused", "of one node, for several")
            threshold = _row(machine.name, nodes, "alltoall_busbw", PLATEAU, "GB/s", 0.75 * _known(row.nvlink_gbs))
            yield Labelled(threshold, "refused", "of one node, for several")
            if nics < _known(row.nvlink_gbs):
                threshold = _row(machine.name, nodes, "alltoall_busbw", PLATEAU, "GB/s", 0.9 * nics)
                yield Labelled(threshold, "refused", "of all NICs, for those of one accelerator")
        for part, how in ((2, "with sparsity"), (1, "a specification")):
            threshold = _row(machine.name, 1, "matmul_bf16", 0, "TFLOP/s", part * _known(row.bf16_dense_tflops))
            yield Labelled(threshold, "refused", how)
        for quantity, unit, value in (
            ("nic_bandwidth", "Gb/s", _known(machine.nic_rate_gbps)),
            ("memory_bandwidth", "GB/s", _known(row.memory_bandwidth_gbs)),
        ):
            yield Labelled(_row(machine.name, 1, quantity, 0, unit, value), "refused", "a specification")
    for threshold in (
        # awsome-distributed-training 0edaf152
        *(_row(name, 1, "all_reduce_busbw", PLATEAU, "GB/s", 500) for name in ("p5", "p5e", "p5en")),
        *(_row(name, 2, "nic_bandwidth", 0, "Gb/s", 20) for name in ("p5", "p5e", "p5en", "p6-b200", "p4d")),
        *(_row(name, 2, "all_reduce_busbw", 128 * MIB, "GB/s", 800) for name in ("p5", "p5e", "p5en")),
        _row("p4d", 2, "all_reduce_busbw", 128 * MIB, "GB/s", 300),
        _row("p6-b200", 2, "all_reduce_busbw", 128 * MIB, "GB/s", 900),
        # a cloud's validation of pairs of its nodes, after NeMo-Framework-Launcher
        *(_row(name, 2, "all_reduce_busbw", 10 * GIB, "GB/s", 100) for name in ("a3-ultragpu-8g", "a4-highgpu-8g")),
        # ai-infrastructure-on-azure a01b073
        *(_row("ND96isr_H100_v5", 1, "matmul_bf16", 0, "GFLOP/s", gflops) for gflops in (742, 715)),
        # oci-hpc b5285a68: the same floor however many nodes there are
        *(_row(name, 16, "all_reduce_busbw", PLATEAU, "GB/s", 440) for name in ("H100.8", "H200.8", "B200.8")),
    ):
        yield Labelled(threshold, "refused", "published, and wrong")


def _unknown() -> Iterator[Labelled]:
    """Yield thresholds of unknown machines."""
    for machine in modelled():
        if not isinstance(machine.storage_client_gbs, float):
            for quantity in ("storage_write", "storage_read"):
                yield Labelled(_row(machine.name, 4, quantity, 0, "GB/s", 40), "cannot-tell", "unknown")
        if not isinstance(machine.host_link, str):
            yield Labelled(_row(machine.name, 1, "h2d_bandwidth", 0, "GB/s", 50), "cannot-tell", "unknown")
    for name in ("sim-h100", "dgx-h800", "p6"):
        for quantity in ("all_reduce_busbw", "nic_bandwidth", "storage_read"):
            yield Labelled(_row(name, 2, quantity, 0, "GB/s", 20), "cannot-tell", "unknown")


def modelled() -> list[catalog.Machine]:
    """Return machines with NVLink switches, with published figures of their kind and known facts."""
    return [
        machine
        for machine in catalog.machines().values()
        if machine.accelerator and _accelerator(machine).links == "switched"
        if not machine.simulated and isinstance(machine.nic_rate_gbps, int) and isinstance(machine.nvlink_nodes, int)
    ]


def _accelerator(machine: catalog.Machine) -> catalog.Accelerator:
    return catalog.accelerators()[machine.accelerator]


def _nic_gbs(machine: catalog.Machine) -> float:
    """Return the NIC rate of an accelerator."""
    return _known(machine.nics_rate_gbps) / 8 / machine.accelerators


def _known(fact: float | catalog.Unknown) -> float:
    assert not isinstance(fact, catalog.Unknown)
    return fact
