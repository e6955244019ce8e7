"""Sample of a row of a step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training.order import SAMPLES_MAX, Order, key, permuted

relaxed = settings(deadline=None, max_examples=50)


def epoch_of(order: Order, epoch: int) -> list[tuple[int, int]]:
    """Return its samples in order."""
    steps = range(1 + epoch * order.steps, 1 + (epoch + 1) * order.steps)
    parts = [order.of(step, range(order.batch)) for step in steps]
    return [sample for shard, samples in parts for sample in zip(shard.tolist(), samples.tolist(), strict=True)]


@relaxed
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 40), st.integers(-(2**70), 2**70))
def test_an_epoch_takes_no_sample_twice(counts: list[int], batch: int, seed: int) -> None:
    """An epoch leaves out less than one step; the rows of a step differ, too."""
    order = Order(counts, batch, seed)
    for epoch in (0, 1, 1000) if order.steps else ():
        taken = epoch_of(order, epoch)
        assert len(taken) == len(set(taken)) == sum(counts) - sum(counts) % batch
        assert all(0 <= sample < counts[shard] for shard, sample in taken)


@relaxed
@given(st.integers(1, 10**6), st.sets(st.integers(0, 39), min_size=1))
def test_a_row_does_not_depend_on_the_others(step: int, rows: set[int]) -> None:
    """The step is the same for any rows of a rank, without earlier steps."""
    alone = Order([100, 3, 50, 1000], 40, 7)
    of_all = [part.tolist() for part in Order([100, 3, 50, 1000], 40, 7).of(step, range(40))]
    assert [part.tolist() for part in alone.of(step, sorted(rows))] == [
        [part[row] for row in sorted(rows)] for part in of_all
    ]
    assert alone.shards(step, sorted(rows)) == {of_all[0][row] for row in rows}


def test_epochs_and_seeds_shuffle_anew() -> None:
    order, other = Order([500] * 4, 20, 1), Order([500] * 4, 20, 2)
    first, second, third = epoch_of(order, 0), epoch_of(order, 1), epoch_of(other, 0)
    assert first != second
    assert first != third
    assert sorted(first) == sorted(second) == sorted(third)


def test_left_out_samples_change() -> None:
    """No sample is left out for ever."""
    order = Order([7, 7, 7], 10, 0)
    everything = {(shard, sample) for shard in range(3) for sample in range(7)}
    left = [everything - set(epoch_of(order, epoch)) for epoch in range(200)]
    assert all(len(each) == 1 for each in left)
    assert set.union(*left) == everything


def test_the_order_is_the_same_for_ever() -> None:
    """A run of an older version continues with the samples that it would have had."""
    shard, sample = Order([1000, 2000, 3000, 4000], 32, 42).of(123_456_789, [0, 7, 8, 31])
    assert shard.tolist() == [2, 2, 3, 1]
    assert sample.tolist() == [216, 436, 2774, 61]


def test_neighbouring_rows_read_few_shards() -> None:
    """Reads of a node shrink with its part of the rows."""
    order = Order([1000] * 64, 512, 3)
    steps = range(1, order.steps + 1)
    a_node = set.union(*(order.shards(step, range(64)) for step in steps))
    everybody = set.union(*(order.shards(step, range(512)) for step in steps))
    assert len(everybody) == 64
    assert len(a_node) <= 64 // 8 + 1
    assert max(len(order.shards(step, range(64))) for step in steps) <= 64 // 8 + 1


@relaxed
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_a_permutation_is_one(size: int, secret: int) -> None:
    found = permuted(np.arange(size), np.array([size]), key(secret))
    assert sorted(found.tolist()) == list(range(size))


@relaxed
@given(st.integers(1, SAMPLES_MAX), st.integers(0, 2**64 - 1), st.data())
def test_a_permutation_of_any_size_stays_inside(size: int, secret: int, data: st.DataObject) -> None:
    values = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=50))
    found = permuted(np.array(sorted(values)), np.array([size]), key(secret)).tolist()
    assert len(set(found)) == len(values)
    assert all(0 <= each < size for each in found)


@pytest.mark.parametrize("size", [10, 1000, 10**9])
def test_a_permutation_looks_random(size: int) -> None:
    """Images spread evenly over keys, and neighbours are separated."""
    keys = key(5, np.arange(20_000))
    found = permuted(np.full(20_000, size // 3), np.array([size]), keys)
    after = permuted(np.full(20_000, size // 3 + 1), np.array([size]), keys)
    tenths = np.bincount(found * 10 // size, minlength=10)
    pairs = np.bincount(found * 3 // size * 3 + after * 3 // size, minlength=9)
    assert tenths.min() > 1850  # 2,000 each, seven standard deviations of 42 to either side
    assert tenths.max() < 2300
    if size > 10:
        assert pairs.min() > 2222 - 7 * 45
        assert pairs.max() < 2222 + 7 * 45
