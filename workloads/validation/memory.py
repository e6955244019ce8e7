"""Measure memory bandwidth of each device of a node: a copy, and a scaled sum of two arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from .device import done, on_all, opened, random
from .each import Begin
from .ranks import Ranks
from .result import Answer
from .timing import repeat, spread


@dataclass(frozen=True)
class Options:
    """Settings of the memory measurement."""

    bytes: int = 0
    """Bytes of an array; 0 means 64 MiB on a CPU and 1 GiB on an accelerator: much more than any cache."""
    seconds: float = 1.0
    """Seconds for each of the two."""

    def __post_init__(self) -> None:
        if self.bytes < 0 or 0 < self.bytes < 4 or self.seconds <= 0:
            raise ValueError("bytes must be 0 or at least 4, seconds more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Measure all devices of this node at once."""
    on_all(ranks, answer, functools.partial(move, options), 2 * options.seconds)


def move(options: Options, name: str, answer: Answer, begin: Begin) -> None:
    """Measure one device in its own process: a copy and a scaled sum."""
    device = opened(name, answer)
    size = (options.bytes or (2**30 if device.type == "cuda" else 2**26)) // 4
    one, other = (random((size,), device, torch.float32, seed) for seed in (1, 2))
    target = torch.empty_like(one)

    def copy() -> None:
        target.copy_(one)
        done(device)

    def triad() -> None:
        torch.add(one, other, alpha=3.0, out=target)
        done(device)

    done(device)
    begin()
    where = {"device": answer.device, "bytes": 4 * size}
    for quantity, work, moved in (("memory_copy", copy, 2), ("memory_triad", triad, 3)):
        repeat(work, 0, least=2)  # the pages of the target are there from now on
        took = repeat(work, options.seconds)
        answer.value(quantity, "GB/s", spread([moved * 4 * size / each / 1e9 for each in took]), **where)
