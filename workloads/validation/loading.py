"""Measure how fast samples reach a training step: torch's own loader with workers, from shards in a directory.

Workers pass samples through shared memory: too little of it fails here as in training.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from .ranks import Ranks
from .result import Answer
from .storage import BLOCK, MB, write
from .timing import repeat, spread


@dataclass(frozen=True)
class Options:
    """Settings of the loading measurement."""

    directories: tuple[str, ...] = ("/tmp",)  # noqa: S108 (a folder of its own is made there)
    shards: int = 4
    bytes: int = 8 * 2**20
    """Bytes of one shard."""
    sample: int = 2**16
    """Bytes of one sample."""
    batch: int = 16
    workers: int = 2
    seconds: float = 1.0
    wait: float = 30.0
    """Seconds until a missing batch counts as lost."""

    def __post_init__(self) -> None:
        if min(self.shards, self.sample, self.batch, self.workers) < 1 or self.seconds <= 0 or self.wait <= 0:
            raise ValueError("shards, sample, batch, workers, seconds and wait must be more than 0")
        if self.bytes < self.sample:
            raise ValueError("bytes of a shard must be at least those of a sample")


def samples_of(options: Options) -> int:
    """Return the number of samples in a shard."""
    return options.bytes // options.sample


class Shards:
    """Samples by number, as torch's loader wants them."""

    def __init__(self, paths: list[Path], options: Options) -> None:
        self.paths, self.sample = paths, options.sample
        self.each = samples_of(options)

    def __len__(self) -> int:
        return len(self.paths) * self.each

    def __getitem__(self, number: int) -> Any:
        with self.paths[number // self.each].open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), self.sample, number % self.each * self.sample)
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def run(ranks: Ranks, options: Options, answer: Answer) -> None:  # noqa: ARG001 (as every program)
    """Write shards to each directory and measure a loader on them."""
    answer.versions["torch"] = str(torch.__version__)
    for directory in options.directories:
        try:
            folder = Path(tempfile.mkdtemp(prefix="stampworks-loading-", dir=directory))
        except OSError as error:
            answer.problem(f"{directory}: {error.strerror}")
            continue
        try:
            _measure(directory, folder, options, answer)
        except (OSError, RuntimeError) as error:  # errors of the loader about workers that died
            answer.problem(f"{directory}: {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _measure(directory: str, folder: Path, options: Options, answer: Answer) -> None:
    block = os.urandom(min(BLOCK, options.bytes))
    paths = [folder / str(number) for number in range(options.shards)]
    for path in paths:
        write(path, block, options.bytes)
        _forget(path)
    loader = DataLoader(
        Shards(paths, options),
        batch_size=options.batch,
        shuffle=True,
        drop_last=False,
        num_workers=options.workers,
        timeout=options.wait,
        persistent_workers=True,
    )
    begun = time.perf_counter()
    next(iter(loader))
    first = time.perf_counter() - begun

    def through() -> None:
        for _ in loader:
            pass

    repeat(through, 0, least=1)  # the workers are warm after this
    took = repeat(through, options.seconds)
    answer.value("loading_first_batch", "s", first, device=directory, note="with the start of the workers")
    rates = [len(paths) * samples_of(options) * options.sample / MB / each for each in took]
    answer.value("loading", "MB/s", spread(rates), device=directory, bytes=options.sample)


def _forget(path: Path) -> None:
    """Drop a file from the kernel's cache, as most of a large data set would be."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
