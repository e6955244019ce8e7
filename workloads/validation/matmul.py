"""Measure matrix products on each device of a node, and compare the results of repeated products.

A device that sometimes computes wrong does not report it. The same product of the same random matrices is therefore
repeated, and each result is compared with the first, bit by bit. Nodes simulated on a single machine share its CPUs,
which is no node's fault: the time that a product waited for a CPU is left out. A remaining slowness is the node's own.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .device import done, on_all, opened, random
from .each import Begin
from .ranks import Ranks
from .result import Answer
from .timing import paces, spread, windows_of, without_waiting

SAMPLE_S = 0.08
"""Seconds of a sample: single products could miss a device that is slow at intervals."""
SAMPLES_MIN = 5
KINDS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
REHEARSED = "STAMPWORKS_FAULT_BITFLIP"
"""Set to 1 to rehearse a fault: one bit of one product is turned, as by a faulty device."""


@dataclass(frozen=True)
class Options:
    """Settings of the multiplication."""

    size: int = 0
    """Rows of the square matrices; 0 is 1024 on a processor and 8192 on an accelerator."""
    kind: str = ""
    """float32, bfloat16 or float16; by default float32 on a CPU and bfloat16 on an accelerator."""
    seconds: float = 2.0
    warmup: float = 0.3
    """Seconds that are left out: caches are cold, clocks are low."""
    windows: int = 1
    """Into so many parts the time is cut, with a rate of each: whether it gets slower."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.kind and self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.size < 0 or self.seconds <= 0 or self.warmup < 0 or self.windows < 1:
            raise ValueError("size and warmup must be 0 or more, seconds more than 0, windows 1 or more")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Measure all devices of this node at once."""
    work = functools.partial(multiply, options, ranks.cluster.shared)
    on_all(ranks, answer, work, options.warmup + options.seconds)


def multiply(options: Options, shared: bool, name: str, answer: Answer, begin: Begin) -> None:
    """Measure one device in its own process, and compare its results bit by bit."""
    device = opened(name, answer)
    accelerated = device.type == "cuda"
    size = options.size or (8192 if accelerated else 1024)
    kind = options.kind or ("bfloat16" if accelerated else "float32")
    one, other = (random((size, size), device, getattr(torch, kind), options.seed + number) for number in (0, 1))
    first = one @ other
    clock = without_waiting if shared else time.perf_counter
    work = Work(one, other, first, device, clock)
    done(device)
    begin()
    work.done_for(options.warmup, 0)
    took, wrong = work.done_for(options.seconds, SAMPLES_MIN, turn=os.environ.get(REHEARSED) == "1")

    unit, scale = ("TFLOP/s", 1e12) if accelerated else ("GFLOP/s", 1e9)
    where = {"device": answer.device, "bytes": one.numel() * one.element_size()}
    flop = 2 * size**3 / scale
    answer.value(f"matmul_{KINDS[kind]}", unit, spread(paces(took, SAMPLE_S)).scaled(flop), **where)
    for window in windows_of(took, took, options.windows):
        answer.value(f"matmul_{KINDS[kind]}_window", unit, spread(paces(window, SAMPLE_S)).scaled(flop), **where)
    answer.value("matmul_mismatches", "count", float(wrong), **where, note=f"of {len(took)} products")
    answer.text("matmul_digest", f"{size} {KINDS[kind]} {options.seed} {answer.device}", digest(first))


@dataclass(frozen=True)
class Work:
    """The same product again and again."""

    one: Any
    other: Any
    first: Any
    device: torch.device
    clock: Callable[[], float]

    def done_for(self, seconds: float, samples: int, *, turn: bool = False) -> tuple[list[float], int]:
        """Return the duration of each product, without its comparison, and the number of products that differ from the
        first."""
        product, took, worked, wrong = torch.empty_like(self.first), list[float](), 0.0, 0
        begun = time.perf_counter()
        while not took or time.perf_counter() - begun < seconds or worked < samples * SAMPLE_S:
            done(self.device)
            before = self.clock()
            torch.mm(self.one, self.other, out=product)
            done(self.device)
            took.append(self.clock() - before)
            worked += took[-1]
            if turn and len(took) == 2:
                _turn_a_bit(product)
            wrong += not torch.equal(bits(product), bits(self.first))
        return took, wrong


def bits(product: Any) -> Any:
    """Return the numbers as integers: as floats, -0 equals 0, and NaN equals nothing."""
    return product.view(torch.int16 if product.element_size() == 2 else torch.int32)


def _turn_a_bit(product: Any) -> None:
    bits(product)[0, 0] ^= 1 << 5


def digest(product: Any) -> str:
    """Digest of the product: the same on equal devices with the same software, so that a device that is always wrong
    differs from others."""
    return hashlib.sha256(bits(product).cpu().numpy().tobytes()).hexdigest()
