"""Data of a rank: the tokens of its rows, step by step, read ahead.

The samples of a step depend on the seed, the step and the number of rows only: not on the ranks, on restarts, or on
earlier reads.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from . import corpus
from .order import Order, key, mixed
from .settings import Data
from .shards import AHEAD, Shards
from .store import DataError as DataError
from .store import Store

CORPUS, SYNTHETIC = "corpus", "synthetic"
SYNTHETIC_SAMPLES = 2**48
JUMPS = 4
"""One in this many synthetic tokens does not follow its predecessor."""
CLOSING = 5.0
"""Seconds that close() waits for running reads. Reads that hang in a file system are abandoned."""


class Samples(Protocol):
    """A source of samples."""

    vocabulary: int
    where: str

    @property
    def counts(self) -> Sequence[int]:
        """Return the number of samples of each shard."""

    @property
    def notices(self) -> list[str]:
        """Lines for the user, such as shards that had to be read again."""

    def want(self, shards: set[int], step: int, until: int) -> None:
        """Prepare the shards for the steps from `step` to `until`, and forget the others."""

    def tokens(self, shard: int, sample: int) -> np.ndarray:
        """Return the tokens of a sample, with one more for the last target."""

    def end(self) -> None:
        """Wake all readers that wait for a sample."""

    def close(self) -> None:
        """Free the data that `want` prepared."""


class Stream:
    """Steps from `start` on, without an end. Steps count from 1, rows of a step from 0."""

    def __init__(self, data: Data, batch: int, length: int, rows: Sequence[int], start: int) -> None:
        if start < 1 or not all(0 <= row < batch for row in rows):
            raise ValueError(f"steps count from 1 and rows from 0 to {batch - 1}, not from {start} and {list(rows)}")
        self._samples = _samples(data, length)
        self._order = Order(self._samples.counts, batch, data.seed)
        if not self._order.steps:
            self._samples.close()
            raise DataError(
                f"{self._samples.where}: has {sum(self._samples.counts):,} samples of {length:,} tokens, and a step "
                f"takes {batch:,}: give more of them, or train with a smaller batch or length"
            )
        self.vocabulary = self._samples.vocabulary
        """Largest token plus one."""
        self.notices = self._samples.notices
        """Notices for users, each once; they arise while data is read."""
        self.waited_s = 0.0
        """Seconds that the last step waited for data."""
        self._rows, self._shape, self._ahead = list(rows), (len(rows), length + 1), data.prefetch
        self._ready: deque[tuple[int, np.ndarray]] = deque()
        self._failed: Exception | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._run, args=(start,), name="data", daemon=True)
        self._reader.start()

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        return self

    def __next__(self) -> tuple[int, np.ndarray]:
        """Return the next step. An error of its reading is raised each time."""
        begun = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._failed or self._closed)
            self.waited_s = time.perf_counter() - begun
            if self._closed:
                raise StopIteration
            if self._failed and not self._ready:
                raise self._failed
            found = self._ready.popleft()
            self._changed.notify_all()
        return found

    def close(self) -> None:
        """End the thread that reads ahead."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._samples.end()
        self._reader.join(CLOSING)

    def _run(self, start: int) -> None:
        try:
            for step in itertools.count(start):
                tokens = self._read(step)
                with self._changed:
                    self._changed.wait_for(lambda: len(self._ready) < self._ahead or self._closed)
                    if self._closed:
                        return
                    self._ready.append((step, tokens))
                    self._changed.notify_all()
        except Exception as error:
            with self._changed:
                self._failed = error
                self._changed.notify_all()
        finally:
            self._samples.close()

    def _read(self, step: int) -> np.ndarray:
        self._samples.want(self._order.shards(step, self._rows), step, step)
        self._samples.want(self._order.shards(step + AHEAD, self._rows), step, step + AHEAD)
        found = np.empty(self._shape, np.int64)
        shards, samples = self._order.of(step, self._rows)
        for row, (shard, sample) in enumerate(zip(shards.tolist(), samples.tolist(), strict=True)):
            found[row] = self._samples.tokens(shard, sample)
        return found


class Corpus:
    """The bundled corpus: a sample is the beginning of a page."""

    counts = (corpus.PAGES,)
    vocabulary = 256
    where = "the bundled corpus"

    def __init__(self, length: int) -> None:
        self.notices: list[str] = []
        self._length = length

    def want(self, shards: set[int], step: int, until: int) -> None:
        """Do nothing: pages are computed when they are read."""

    def tokens(self, shard: int, sample: int) -> np.ndarray:  # noqa: ARG002 (there is one)
        """Return the bytes of a page as tokens."""
        return np.frombuffer(corpus.page(sample, self._length + 1), np.uint8)

    def end(self) -> None:
        """Do nothing: no reader waits."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


class Synthetic(Corpus):
    """Computed samples without a limit: each token mostly follows its predecessor."""

    counts = (SYNTHETIC_SAMPLES,)
    where = "the synthetic source"

    def tokens(self, shard: int, sample: int) -> np.ndarray:  # noqa: ARG002
        """Return a sequence that counts up and sometimes jumps, which a small model learns."""
        drawn = mixed(key(sample) + np.arange(self._length + 1, dtype=np.uint64))
        jumps = drawn % np.uint64(JUMPS) == 0
        jumps[0] = True
        return (np.cumsum(np.where(jumps, drawn >> np.uint64(56), np.uint64(1)), dtype=np.uint64)) % np.uint64(256)


def _samples(data: Data, length: int) -> Samples:
    if data.source == CORPUS:
        return Corpus(length)
    if data.source == SYNTHETIC:
        return Synthetic(length)
    return Shards(Store(data.source, data.cache), length)
