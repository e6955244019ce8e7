"""The stream of steps that a rank trains on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from training import corpus, data, shards
from training.data import DataError, Stream
from training.settings import Data

from tests.project import wait_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight small shards of numbered bytes, with unique samples."""
    there = tmp_path_factory.mktemp("data")
    (there / "text").write_bytes(b"".join(number.to_bytes(4, "big") for number in range(16 * 260)))
    made, _ = shards.make(there / "text", there / "shards", tokens=65, most=48 * 1024)
    assert len(made.shards) > 5
    return str(there / "shards")


@contextmanager
def stream(source: str, batch: int, rows: range, start: int, length: int = 16, seed: int = 0) -> Iterator[Stream]:
    found = Stream(Data(source, seed=seed), batch, length, rows, start)
    try:
        yield found
    finally:
        found.close()


def taken(source: str, batch: int, rows: range, start: int, steps: int, seed: int = 0) -> np.ndarray:
    with stream(source, batch, rows, start, seed=seed) as found:
        numbers, tokens = zip(*itertools.islice(found, steps), strict=True)
    assert list(numbers) == list(range(start, start + steps))
    return np.stack(tokens)


@pytest.fixture(params=["corpus", "synthetic", "shards"])
def source(request: pytest.FixtureRequest, folder: str) -> str:
    return folder if request.param == "shards" else request.param


def test_tokens_are_whole_numbers_one_more_than_the_length(source: str) -> None:
    with stream(source, 12, range(4, 9), 1, length=50) as found:
        step, tokens = next(found)
    assert (step, tokens.shape, tokens.dtype) == (1, (5, 51), np.int64)
    assert 0 <= tokens.min() <= tokens.max() < found.vocabulary == 256


def test_a_step_is_the_same_for_any_number_of_ranks(source: str) -> None:
    """Many ranks together read the rows that a single rank would read."""
    alone = taken(source, 12, range(12), 1, 5)
    for world in (2, 3, 4, 12):
        each = 12 // world
        parts = [taken(source, 12, range(rank * each, (rank + 1) * each), 1, 5) for rank in range(world)]
        assert np.array_equal(np.concatenate(parts, axis=1), alone)


def test_a_rank_may_have_no_rows(source: str) -> None:
    assert taken(source, 12, range(0), 1, 3).shape == (3, 0, 17)


def test_it_goes_on_from_any_step_as_if_it_had_never_stopped(source: str) -> None:
    alone = taken(source, 12, range(12), 1, 400)
    for start in (1, 2, 57, 350):  # the shards have 85 steps an epoch
        assert np.array_equal(taken(source, 12, range(12), start, 10), alone[start - 1 : start + 9])
    assert not np.array_equal(alone, taken(source, 12, range(12), 1, 400, seed=1))


def test_an_epoch_of_shards_takes_all_their_samples(folder: str) -> None:
    """Every window of 16 tokens and its next token appears once, in another order in each epoch."""
    text = b"".join(number.to_bytes(4, "big") for number in range(16 * 260))
    samples = [text[at : at + 65] for at in range(0, len(text) - 64, 64)]
    windows = sorted(sample[at : at + 17] for sample in samples for at in range(0, 64, 16))
    batch = next(each for each in range(12, 100) if len(windows) % each == 0)
    steps = len(windows) // batch
    both = taken(folder, batch, range(batch), 1, 2 * steps)
    for epoch in (both[:steps], both[steps:]):
        assert sorted(bytes(row.astype(np.uint8)) for step in epoch for row in step) == windows
    assert not np.array_equal(both[:steps], both[steps:])


def test_a_step_far_away_is_there_at_once() -> None:
    """A synthetic source has more samples than any run reads."""
    assert np.array_equal(taken("synthetic", 4, range(4), 10**12, 1), taken("synthetic", 4, range(4), 10**12, 1))


def test_synthetic_tokens_can_be_learned() -> None:
    """Three of four tokens follow their predecessor by one."""
    tokens = taken("synthetic", 64, range(64), 1, 10)
    follows = (tokens[:, :, 1:] == (tokens[:, :, :-1] + 1) % 256).mean()
    assert 0.7 < follows < 0.8
    assert len(np.unique(tokens[:, :, 0])) > 200


class Slow(data.Corpus):
    """Samples that arrive, and fail, when the test says so."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.gate, self.read, self.broken, self.closed = threading.Semaphore(0), 0, "", False

    def tokens(self, shard: int, sample: int) -> np.ndarray:
        self.gate.acquire()
        if self.broken:
            raise DataError(self.broken)
        self.read += 1
        return super().tokens(shard, sample)

    def end(self) -> None:
        self.gate.release()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    samples = Slow(16)
    monkeypatch.setattr(data, "_samples", lambda settings, length: samples)
    return samples


def test_it_reads_ahead_as_far_as_it_is_told(slow: Slow) -> None:
    """Two steps are ready, a third is read and waits."""
    found = Stream(Data(prefetch=2), 1, 16, [0], 1)
    for _ in range(10):
        slow.gate.release()
    wait_for(lambda: slow.read == 3, 20)
    time.sleep(0.1)
    assert slow.read == 3
    next(found)
    wait_for(lambda: slow.read == 4, 20)
    found.close()


def test_waiting_is_told(slow: Slow) -> None:
    found = Stream(Data(), 1, 16, [0], 1)
    threading.Timer(0.3, slow.gate.release, [3]).start()
    next(found)
    waited = found.waited_s
    wait_for(lambda: slow.read == 3, 20)
    next(found)
    assert waited > 0.2
    assert found.waited_s < waited / 2
    found.close()


def test_an_error_comes_after_the_steps_before_it(slow: Slow) -> None:
    """The error is repeated whenever the step is requested."""
    found = Stream(Data(), 1, 16, [0], 7)
    slow.gate.release()
    wait_for(lambda: slow.read == 1, 20)
    slow.broken = "/data/shard-000004.tar: is missing"
    slow.gate.release()
    wait_for(lambda: slow.closed, 20)
    assert next(found)[0] == 7
    for _ in range(2):
        with pytest.raises(DataError, match=r"^/data/shard-000004\.tar: is missing$"):
            next(found)
    found.close()


def test_close_ends_everything(slow: Slow) -> None:
    """Readers that wait for a step are woken, and no thread stays."""
    found = Stream(Data(), 1, 16, [0], 1)
    ended: list[object] = []
    waiter = threading.Thread(target=lambda: ended.extend(found))
    waiter.start()
    found.close()
    waiter.join(20)
    assert not waiter.is_alive()
    assert ended == []
    assert slow.closed
    assert not found._reader.is_alive()
    found.close()


def test_a_step_needs_as_many_samples_as_it_has_rows(folder: str) -> None:
    with pytest.raises(DataError) as caught:
        Stream(Data(folder), 5000, 16, range(4), 1)
    assert str(caught.value) == (
        f"{folder}: has 1,036 samples of 16 tokens, and a step takes 5,000: "
        "give more of them, or train with a smaller batch or length"
    )


@pytest.mark.parametrize(("rows", "start"), [([0, 4], 1), ([-1], 1), ([0], 0)])
def test_rows_and_steps_that_there_are_not(rows: list[int], start: int) -> None:
    with pytest.raises(ValueError, match="steps count from 1 and rows from 0 to 3, not from"):
        Stream(Data(), 4, 16, rows, start)


def test_the_corpus_has_enough_for_any_batch() -> None:
    assert corpus.PAGES >= 2**16
    assert Path(corpus.__file__).stat().st_size < 10_000
