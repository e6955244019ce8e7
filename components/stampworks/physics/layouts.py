"""Check whether a layout of a model fits a number of ranks, with the arithmetic. Standard library only, and pure."""

from __future__ import annotations

from math import gcd

from stampworks.text.amounts import counted


def misfit(layout: str, tensor_parallel: int, nodes: int, ranks: int) -> str:
    """Explain why this number of nodes and ranks per node does not fit the layout; empty when it does."""
    world = nodes * ranks
    if layout == "hsdp" and ranks < 2:
        return "hsdp splits a model within a node, and each has 1 rank"
    if layout != "tp" or world % tensor_parallel == 0:
        return ""
    groups = f"{world} / {tensor_parallel} = {world / tensor_parallel:.4g}"
    all_of_them = f"{counted(nodes, 'node')} x {counted(ranks, 'rank')} = {counted(world, 'rank')}"
    return f"{all_of_them}; in groups of tensor_parallel {groups}, which is not whole"


def fitting(layout: str, tensor_parallel: int, nodes: int, ranks: int) -> int:
    """Return the largest number of nodes up to this one that fits the layout; 0 when there is none."""
    if layout == "hsdp" and ranks < 2:
        return 0
    step = tensor_parallel // gcd(tensor_parallel, ranks) if layout == "tp" else 1
    return nodes - nodes % step
