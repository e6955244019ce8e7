"""Common properties of collectives on any hardware.

Bandwidths of collectives are bus bandwidths in GB/s, as in nccl-tests: the bytes that a link of a ring would have
carried, over the time. Sizes are bytes of the whole buffer of a rank, also as in nccl-tests.
"""

from __future__ import annotations

from typing import Literal

from stampworks.physics.bounds import Bound, figure

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]


def bus_factor(operation: Operation, ranks: int) -> float:
    """Return the factor from size over time to bus bandwidth."""
    if operation == "send_recv":
        return 1.0
    return (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks


def all_reduce_moves(ranks: int, size_bytes: int, ring: bool) -> Bound:
    """Return the minimum number of bytes that each rank sends; it receives the same number."""
    if ring:
        share = bus_factor("all_reduce", ranks)
        why = f"in a ring each of {ranks} ranks sends 2 x {ranks - 1}/{ranks} of {size(size_bytes)}"
        return Bound(share * size_bytes, why)
    why = f"however it is done, the {size(size_bytes)} of a rank have to leave it once, and those of the others to come"
    return Bound(size_bytes, why)


def size(size_bytes: int) -> str:
    """Return a size in readable units."""
    for unit, bytes_of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= bytes_of:
            return f"{figure(size_bytes / bytes_of)} {unit}"
    return "1 byte" if size_bytes == 1 else f"{size_bytes} bytes"
