"""Order of samples: the sample of a row is a pure function of seed, step and row, computed without earlier ones.

An epoch shuffles the shards, and the samples inside each shard, and lays them out in a sequence. Rows go through it in
lanes of a few rows; each lane has its own stretch. A node therefore reads only the shards of its own rows, and the
assignment of rows to ranks changes nothing. No permutation is stored, and none comes from a library, whose next version
may shuffle differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LANE = 8
"""Rows that read the same shard. More: fewer shards are open at once; less: nodes share fewer of them."""
SAMPLES_MAX = 2**62
ROUNDS = 6
SHARD, SAMPLE = 0, 1
"""Uses of a key."""


class Order:
    """Order of samples in shards of given sizes."""

    def __init__(self, counts: Sequence[int], batch: int, seed: int) -> None:
        self.counts = np.asarray(counts, np.int64)
        self.batch, self.seed = batch, seed
        self.steps = int(self.counts.sum()) // batch
        """Steps of an epoch. Samples that do not fill a step are left out, others in each epoch."""
        self._laid: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, step: int, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The shard and the sample inside it, for each of these rows. Steps count from 1."""
        epoch, shard, inside = self._place(step, rows)
        return shard, permuted(inside, self.counts[shard], key(self.seed, epoch, SAMPLE, shard))

    def shards(self, step: int, rows: Sequence[int]) -> set[int]:
        """The shards that these rows read."""
        return {int(shard) for shard in self._place(step, rows)[1]}

    def _place(self, step: int, rows: Sequence[int]) -> tuple[int, np.ndarray, np.ndarray]:
        epoch, at = divmod(step - 1, self.steps)
        row = np.asarray(rows, np.int64)
        first = row // LANE * LANE
        width = np.minimum(LANE, self.batch - first)
        place = first * self.steps + at * width + (row - first)
        shards, ends = self._layout(epoch)
        number = np.searchsorted(ends, place, side="right")
        shard = shards[number]
        return epoch, shard, place - (ends[number] - self.counts[shard])

    def _layout(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The shards in the order of this epoch, and where each of them ends."""
        if epoch not in self._laid:
            while len(self._laid) > 1:  # the current step and a prefetched one may lie in two epochs
                del self._laid[min(self._laid)]
            shards = np.argsort(key(self.seed, epoch, SHARD, np.arange(len(self.counts))), kind="stable")
            self._laid[epoch] = shards, np.cumsum(self.counts[shards])
        return self._laid[epoch]


def key(*parts: int | np.ndarray) -> np.ndarray:
    """64 bits that depend on all parts, which are whole numbers or arrays of them."""
    found = np.zeros(1, np.uint64)
    for part in parts:
        number = np.atleast_1d(np.asarray(part % 2**64 if isinstance(part, int) else part)).astype(np.uint64)
        found = mixed(found + number)
    return found


def mixed(values: np.ndarray) -> np.ndarray:
    """Apply the finalizer of splitmix64, a permutation of all 64-bit numbers that looks random."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def permuted(values: np.ndarray, sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the images of values in the permutations of range(size) chosen by their keys.

    A Feistel network permutes the pairs of two numbers below the root of the size; values outside of the range go
    through it again (Black and Rogaway).
    """
    sizes = np.broadcast_to(sizes, values.shape).astype(np.uint64)
    keys = np.broadcast_to(keys, values.shape)
    root = np.maximum(np.sqrt(sizes.astype(np.float64)).astype(np.uint64), np.uint64(2)) - np.uint64(1)
    for _ in range(3):  # approach from below, whatever the rounding of the root
        root = root + (root * root < sizes)
    found = values.astype(np.uint64)
    outside = np.ones(values.shape, bool)
    while outside.any():
        found[outside] = _network(found[outside], root[outside], keys[outside])
        outside = found >= sizes
    return found.astype(np.int64)


def _network(values: np.ndarray, root: np.ndarray, keys: np.ndarray) -> np.ndarray:
    left, right = values // root, values % root
    for each in mixed(keys + np.arange(ROUNDS, dtype=np.uint64)[:, None]):
        left, right = right, (left + mixed(right + each) % root) % root
    return left * root + right
