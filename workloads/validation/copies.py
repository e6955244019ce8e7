"""Measure copies between this host's memory and each accelerator, and within it, on all of them at once."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from .device import done, on_all, opened
from .each import Begin
from .ranks import Ranks
from .result import Answer
from .timing import repeat, spread


@dataclass(frozen=True)
class Options:
    """Settings of the copies."""

    bytes: int = 2**28
    seconds: float = 0.5
    """Seconds for each direction."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or self.seconds <= 0:
            raise ValueError("bytes and seconds must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Measure all accelerators of this node at once."""
    on_all(ranks, answer, functools.partial(copy, options), 3 * options.seconds)


def copy(options: Options, name: str, answer: Answer, begin: Begin) -> None:
    """Measure an accelerator in its own process: copies to it, from it, and within it."""
    device = opened(name, answer)
    if device.type != "cuda":
        answer.text("skipped", "copies", "there is no accelerator to copy to")
        return
    # pinned: the rate of the link, and not that of copying into a buffer first
    host = torch.randint(0, 255, (options.bytes,), dtype=torch.uint8).pin_memory()
    there, beside = (torch.empty(options.bytes, dtype=torch.uint8, device=device) for _ in range(2))
    begin()
    ways = (("h2d_bandwidth", there, host, 1), ("d2h_bandwidth", host, there, 1), ("d2d_bandwidth", beside, there, 2))
    for quantity, target, source, moved in ways:

        def once(target: torch.Tensor = target, source: torch.Tensor = source) -> None:
            target.copy_(source, non_blocking=True)
            done(device)

        repeat(once, 0, least=2)
        took = repeat(once, options.seconds)
        found = spread([moved * options.bytes / each / 1e9 for each in took])
        answer.value(quantity, "GB/s", found, device=answer.device, bytes=options.bytes)
