"""Ranks of a generation: the number that fits a layout, and the part of the state that each of them holds.

No torch in here: the coordinator decides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .settings import Settings


@dataclass(frozen=True)
class Seat:
    """A rank and its place."""

    rank: int
    node: int
    """Index among the participating nodes."""
    local: int
    """Index of its device on its node."""
    shard: int
    """Part of the state that it holds; ranks of the same part hold the same."""


def misfit(settings: Settings, ranks: Sequence[int]) -> str:
    """Why so many ranks on each node cannot be laid out as asked, with the arithmetic; empty when they can."""
    world, layout, parallel = sum(ranks), settings.layout, settings.tensor_parallel
    if layout == "hsdp":
        if len(set(ranks)) > 1:
            counts = ", ".join(str(each) for each in ranks)
            return f"hsdp keeps a whole copy on each node, so that all need as many ranks; they have {counts}"
        if ranks[0] < 2:
            return "hsdp cuts the state up within a node, and each has 1 rank: fsdp cuts it up between nodes"
    if layout == "tp":
        if settings.model.heads % parallel:
            left = f"{settings.model.heads} / {parallel} = {settings.model.heads / parallel:g}"
            return f"tensor_parallel {parallel} must divide the model's heads: {left}"
        if world % parallel:
            left = f"{world} / {parallel} = {world / parallel:g}"
            return f"tensor_parallel {parallel} must divide the number of ranks: {left}"
    return ""


def seats(settings: Settings, ranks: Sequence[int]) -> list[Seat]:
    """Return all ranks node by node, as many as fit: a run that loses a node continues with fewer."""
    taken = list(ranks)
    if settings.layout == "hsdp":
        taken = [min(taken)] * len(taken)
    if settings.layout == "tp":
        over = sum(taken) % settings.tensor_parallel
        while over:  # take ranks from the last nodes first
            last = max(index for index, each in enumerate(taken) if each)
            less = min(over, taken[last])
            taken[last] -= less
            over -= less
    places = [(node, local) for node, count in enumerate(taken) for local in range(count)]
    return [Seat(rank, node, local, _shard(settings, rank, local)) for rank, (node, local) in enumerate(places)]


def _shard(settings: Settings, rank: int, local: int) -> int:
    if settings.layout == "ddp":
        return 0
    return local if settings.layout == "hsdp" else rank


def buddies(found: Sequence[Seat]) -> dict[int, int]:
    """Return the node that keeps the second copy of each rank's part. Parts that another node also has, and runs on a
    single node, have none."""
    homes: dict[int, set[int]] = {}
    for seat in found:
        homes.setdefault(seat.shard, set()).add(seat.node)
    nodes = sorted({seat.node for seat in found})
    alone = [seat for seat in found if len(homes[seat.shard]) == 1]
    if len(nodes) < 2:
        return {}
    return {seat.rank: nodes[(nodes.index(seat.node) + 1) % len(nodes)] for seat in alone}
