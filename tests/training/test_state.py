"""The state of a run, split in any way and joined in another."""

from __future__ import annotations

import mmap
import os
import random
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from stampworks_train import keeper, memory
from stampworks_train.checkpoint import Checkpoints
from stampworks_train.memory import Memory, fault_in, populate
from stampworks_train.snapshot import Piece, copy_all, overlaps, seen, sources_of
from stampworks_train.snapshot import _shared as shared
from training.model import Transformer
from training.settings import Model, Settings
from training.state import State


def cut(whole: torch.Tensor, rows: int, columns: int) -> dict[int, tuple[list[Piece], torch.Tensor]]:
    """Return snapshots of as many ranks as there are tiles."""
    found: dict[int, tuple[list[Piece], torch.Tensor]] = {}
    at_row = 0
    for band in whole.tensor_split(rows):
        at_column = 0
        for tile in band.tensor_split(columns, dim=1):
            if tile.numel():
                piece: Piece = ("w/weight", [at_row, at_column], list(tile.shape), "float32", 64)
                snapshot = torch.zeros(64 + 4 * tile.numel(), dtype=torch.uint8)
                seen(snapshot, 64, tile.shape, "float32").copy_(tile)
                found[len(found)] = ([piece], snapshot)
            at_column += tile.shape[1]
        at_row += band.shape[0]
    return found


def test_parts_of_one_cut_make_up_those_of_another() -> None:
    """Parts in any numbers combine to the same bits, and each number is counted once."""
    chance = random.Random(7)  # noqa: S311
    for _ in range(200):
        whole = torch.randn(chance.randrange(1, 12), chance.randrange(1, 12))
        sources = sources_of(cut(whole, chance.randrange(1, 5), chance.randrange(1, 5)))
        for pieces, _ in cut(whole, chance.randrange(1, 5), chance.randrange(1, 5)).values():
            _, start, shape, _, _ = pieces[0]
            target = torch.full(shape, float("nan"))
            found = [shared(target, start, shape, *source) for source in sources("w/weight")]
            pairs = [pair for pair in found if pair]
            assert sum(part.numel() for part, _ in pairs) == target.numel()
            copy_all(pairs)
            assert torch.equal(target, whole[start[0] : start[0] + shape[0], start[1] : start[1] + shape[1]])


def test_replicated_weights_count_once() -> None:
    whole = torch.randn(4, 4)
    twice = {shard: cut(whole, 1, 1)[0] for shard in (0, 1)}
    assert len(list(sources_of(twice)("w/weight"))) == 1
    assert list(sources_of(twice)("another")) == []


def test_overlaps() -> None:
    one: Piece = ("w", [0, 0], [2, 4], "float32", 0)
    assert overlaps(one, ("w", [1, 3], [5, 5], "float32", 0))
    assert not overlaps(one, ("w", [2, 0], [2, 4], "float32", 0))


def faults(work: Callable[[], object]) -> int:
    """Pages that this thread waited for."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


PAGES = 4096


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=keeper.MEMORY) as name:
        yield Path(name)


@pytest.mark.parametrize("advice", [memory.POPULATE, 12345])
def test_no_snapshot_waits_for_pages(advice: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds with and without the kernel's support; the memory's content stays."""
    monkeypatch.setattr(memory, "POPULATE", advice)
    kept = Memory(folder / "it", PAGES * mmap.PAGESIZE)
    assert faults(lambda: kept.tensor.fill_(7)) < PAGES // 100
    fault_in(kept.tensor)
    assert kept.tensor.eq(7).all()


@pytest.mark.parametrize("advice", [memory.POPULATE, 12345])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 100_003)])
def test_pages_of_any_tensor(shape: tuple[int, ...], advice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any place of the tensor in them."""
    monkeypatch.setattr(memory, "POPULATE", advice)
    populate(torch.empty(shape, dtype=torch.bfloat16))


def test_memory_that_cannot_be_had_is_said(folder: Path) -> None:
    """The rank does not try to write, which would kill it."""
    kept = Memory(folder / "it", 4 * mmap.PAGESIZE)
    os.truncate(kept.path, 0)
    with pytest.raises(MemoryError, match=r"[\d,]+ bytes of memory cannot be had: Bad address"):
        fault_in(kept.tensor)


def test_a_checkpoint_has_twelve_bytes_a_parameter(tmp_path: Path) -> None:
    """Estimates use the same count: float32 weights, two moments, and little else. tests/physics/test_transformer.py
    has the same number for the shape."""
    shape = Model(layers=4, width=256, heads=4, length=64, vocabulary=4096)
    trained = Transformer(shape)
    parameters = sum(weight.numel() for weight in trained.parameters())
    assert parameters == 5_310_720
    checkpoints = Checkpoints(tmp_path, 1, 0, 1, shape.fingerprint)
    checkpoints.save(State(trained, Settings("run", str(tmp_path), model=shape)).durable(), 1, {})
    checkpoints.finish()
    assert checkpoints.problem() is None
    written = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert 12 * parameters < written < 1.01 * 12 * parameters
