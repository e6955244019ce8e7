"""Busbw of all-reduces that people published of healthy machines, in GB/s by size in MiB."""

from __future__ import annotations

from stampworks import catalog


def modelled() -> list[catalog.Machine]:
    """Machines with enough facts about links and NICs to model a collective."""
    return [
        row
        for row in catalog.machines().values()
        if not row.simulated and catalog.UNKNOWN not in (row.fabric_reduces, row.nic_rate_gbps, row.nvlink_nodes)
        if row.accelerator and catalog.accelerators()[row.accelerator].links in ("switched", "mesh")
    ]


PUBLISHED: list[tuple[str, int, dict[float, float]]] = [
    # awsome-distributed-training 0edaf152
    ("p4de", 2, {1: 6.4, 16: 26.4, 64: 47.6, 256: 69.9, 1024: 76.9, 2048: 78.3}),
    ("p5", 1, {0.0625: 6.28, 1: 64.7, 4: 133.5, 16: 237.9, 64: 359.7, 128: 396.7, 1024: 441.8, 16384: 483.4}),
    ("p5", 1, {4096: 476.5, 8192: 480.4}),
    ("p5", 2, {1: 16.2, 4: 46.9, 16: 105.5, 64: 209.2, 128: 289.2, 256: 346.5, 1024: 441.0, 8192: 479.3, 16384: 487.3}),
    ("p5", 16, {16384: 369.9}),
    # ml-engineering 744d01e; a p5en node stands for any H200; 8 GiB values without in-switch reduction
    ("p5en", 1, {0.03125: 1.44, 0.125: 5.73, 0.5: 23.94, 1: 39.9, 2: 64.5, 4: 107.2, 8: 155.5, 16: 219.9, 32: 275.8}),
    ("p5en", 1, {64: 346.5, 128: 401.9, 256: 436.2, 512: 450.3, 1024: 463.6, 4096: 473.1, 16384: 482.3}),
    ("p5en", 1, {8192: 365.6, 16384: 367.6}),
    ("p6-b200", 1, {0.03125: 1.2, 0.125: 4.86, 0.5: 18.71, 1: 36.1, 2: 63.1, 4: 76.5, 8: 126.5, 16: 255.0, 32: 326.0}),
    ("p6-b200", 1, {64: 400.6, 128: 568.4, 256: 646.1, 512: 689.0, 1024: 723.3, 4096: 740.6, 16384: 845.7}),
    ("p6-b200", 1, {8192: 682.2}),
    ("p6-b200", 4, {0.125: 0.45, 0.5: 2.84, 1: 5.4, 2: 10.4, 4: 18.9, 8: 35.1, 16: 64.4, 32: 91.2, 64: 156.7}),
    ("p6-b200", 4, {128: 197.9, 256: 229.1, 512: 326.9, 1024: 362.0, 4096: 377.3, 16384: 381.8}),
    ("p4de", 1, {0.03125: 1.31, 0.125: 4.43, 0.5: 11.41, 1: 18.0, 2: 36.2, 4: 72.3, 8: 109.9, 16: 106.2, 32: 138.5}),
    ("p4de", 1, {64: 171.5, 128: 176.9, 256: 194.1, 512: 222.7, 1024: 229.0, 16384: 234.9}),
    # the same, on a node with MI300X
    ("ND96isr_MI300X_v5", 1, {4096: 312.9}),
    # a log of two Azure nodes, 2026-05
    ("ND96isr_H100_v5", 2, {8: 104.6, 16: 157.0, 32: 229.3, 64: 264.3, 128: 331.5, 256: 385.9, 1024: 444.2}),
    # ai-infrastructure-on-azure a01b073
    ("ND96isr_H100_v5", 8, {16384: 450.0}),
    ("ND128isr_GB300_v6", 18, {16384: 937.0}),
    # xuexu6666/aks d4ade6ca, of 2026-07: on InfiniBand alone, 4 NICs a node
    ("ND128isr_GB300_v6", 2, {16384: 378.0}),
    # coreweave/nccl-tests cb86553, its own machines of these kinds: 8 nodes, and 1, 2 and 20 racks
    ("ND96isr_H100_v5", 8, {512: 356.6, 1024: 365.9, 2048: 380.7, 4096: 383.2, 8192: 386.6}),
    ("GB200.4", 18, {512: 586.1, 1024: 724.1, 2048: 773.6, 4096: 839.2, 8192: 846.8}),
    ("GB200.4", 36, {512: 508.8, 1024: 597.6, 2048: 680.9, 4096: 745.4, 8192: 793.1, 16384: 820.4}),
    ("GB200.4", 360, {512: 151.0, 1024: 218.9, 2048: 286.5, 4096: 346.4, 8192: 382.1, 16384: 405.7}),
]  # fmt: skip
PUBLISHED_OF_OTHERS: list[tuple[str, str, int, dict[float, float]]] = [
    # ml-engineering 744d01e: 8 x H200
    ("p5en", "all_gather", 1, {16384: 361.4}),
    ("p5en", "reduce_scatter", 1, {16384: 362.9}),
    # cluster-toolkit 10470803, in its examples
    ("a3-megagpu-8g", "all_gather", 2, {0.0625: 0.63, 0.25: 1.9, 1: 7.34, 2: 14.4, 4: 26.5, 8: 47.3, 16: 79.5}),
    ("a3-megagpu-8g", "all_gather", 2, {32: 108.3, 64: 121.5, 128: 156.0, 256: 166.6, 1024: 182.0, 8192: 188.7}),
    ("a3-ultragpu-8g", "all_gather", 2, {0.0625: 1.04, 0.25: 3.85, 1: 12.3, 2: 25.1, 4: 47.3, 8: 83.4, 16: 128.0}),
    ("a3-ultragpu-8g", "all_gather", 2, {32: 170.8, 64: 213.5, 128: 254.0, 256: 286.8, 1024: 324.1, 8192: 328.9}),
]  # fmt: skip
"""The same of other operations."""
