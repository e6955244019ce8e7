"""Figures of compute fabrics in reference designs, each table with its source and date."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    nodes: int
    accelerators: int
    switches: tuple[int, int, int]
    """Leaves, spines, cores."""
    cables: tuple[int, int, int]
    """Cables from nodes to leaves, to spines, to cores."""


@dataclass(frozen=True)
class Design:
    source: str
    machine: str
    switch: str
    unit: int
    managers: int
    """Cables to the leaves that belong to subnet managers."""
    rows: tuple[Row, ...]


PUBLISHED = (
    Design(
        "NVIDIA DGX SuperPOD, DGX H100 (RA-11333), Network Fabrics, Table 4, read 2026-11-22",
        "dgx-h100",
        "qm9700",
        unit=32,
        managers=4,
        rows=(
            Row(31, 248, (8, 4, 0), (252, 256, 0)),
            Row(63, 504, (16, 8, 0), (508, 512, 0)),
            Row(95, 760, (24, 16, 0), (764, 768, 0)),
            Row(127, 1016, (32, 16, 0), (1020, 1024, 0)),
        ),
    ),
    Design(
        "NVIDIA DGX SuperPOD, DGX B200, DGX SuperPOD Architecture, larger component counts, read 2026-11-22",
        "dgx-b200",
        "qm9700",
        unit=32,
        managers=0,
        rows=(
            Row(64, 512, (16, 8, 0), (512, 512, 0)),
            Row(128, 1024, (32, 16, 0), (1024, 1024, 0)),
            Row(256, 2048, (64, 32, 0), (2048, 2048, 0)),
            Row(512, 4096, (128, 128, 64), (4096, 4096, 4096)),
            Row(1024, 8192, (256, 256, 128), (8192, 8192, 8192)),
            Row(2048, 16384, (512, 512, 256), (16384, 16384, 16384)),
        ),
    ),
    Design(
        "NVIDIA DGX SuperPOD, DGX B300 and XDR InfiniBand, Table 3, read 2026-11-22",
        "dgx-b300",
        "q3400",
        unit=72,
        managers=0,
        rows=(
            Row(72, 576, (8, 4, 0), (576, 576, 0)),
            Row(144, 1152, (16, 8, 0), (1152, 1152, 0)),
            Row(288, 2304, (32, 18, 0), (2304, 2304, 0)),
            Row(576, 4608, (64, 36, 0), (4608, 4608, 0)),
            Row(1296, 9216, (144, 72, 0), (10368, 10368, 0)),
        ),
    ),
    Design(
        "NVIDIA DGX SuperPOD, DGX B300 and Spectrum-4 Ethernet in twin planes, Table 3, read 2026-11-22",
        "dgx-b300",
        "sn5600",
        unit=64,
        managers=0,
        rows=(
            Row(64, 512, (16, 8, 0), (512, 512, 0)),
            Row(128, 1024, (32, 16, 0), (1024, 1024, 0)),
            Row(256, 2048, (64, 32, 0), (2048, 2048, 0)),
            Row(512, 4096, (128, 64, 0), (4096, 4096, 0)),
            Row(1024, 8192, (256, 128, 0), (8192, 8192, 0)),
        ),
    ),
)

CANNOT_BE_RIGHT = {
    ("dgx-b300", "q3400", 1296): "1,296 nodes of 8 GPUs are 10,368, as many as its cables; 9,216 are of 1,152 nodes",
}
"""(machine, switch, nodes) of a row, and the contradiction in its published accelerators."""
