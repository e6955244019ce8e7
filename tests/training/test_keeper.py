"""Snapshots that nodes keep for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from stampworks_train.keeper import Keeper, Kept, reserved
from stampworks_train.wire import connect

PIECES = [["embedding.weight/weight", [0, 0], [2, 2], "float32", 0]]


async def _keeper(folder: Path) -> Keeper:
    await asyncio.to_thread(folder.mkdir)
    keeper = Keeper(folder, "127.0.0.1", "secret")
    keeper.generation = 1
    await keeper.open()
    return keeper


def _written(keeper: Keeper, shard: int, step: int, content: bytes, cut: int = 1) -> None:
    path = keeper.folder / f"own-{cut}-{shard}-{step % 2}"
    keeper.writing(shard, step)
    path.write_bytes(content)
    keeper.written(shard, step, Kept(path, PIECES, cut))


def _run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


def test_a_second_copy_is_the_first(tmp_path: Path) -> None:
    """This holds if two ranks send at once; a fetched copy is complete."""

    async def story() -> None:
        one, other = await _keeper(tmp_path / "one"), await _keeper(tmp_path / "other")
        contents = {shard: bytes([shard]) * (9 * 2**20 + shard) for shard in (0, 1, 2)}
        for shard, content in contents.items():
            _written(one, shard, 7, content)
        to = (other.address, other.port)
        await asyncio.gather(*(one.send(to, shard, 7) for shard in contents))
        assert sorted(other.told()) == [(0, 7, 1), (1, 7, 1), (2, 7, 1)]
        for shard, content in contents.items():
            assert other.held[shard, 7].path.read_bytes() == content
        fetched = await one.fetch(to, 1, 7, 1, whole=True)
        assert fetched.path.read_bytes() == contents[1]
        assert fetched.pieces == PIECES
        one.close()
        other.close()
        assert not other.folder.exists()

    _run(story())


def test_unfinished_snapshots_do_not_count(tmp_path: Path) -> None:
    """An incomplete snapshot and the one it replaced do not count; that of the step before does."""

    async def story() -> None:
        keeper = await _keeper(tmp_path / "one")
        for step in (5, 6):
            _written(keeper, 0, step, b"x")
        keeper.writing(0, 7)
        assert keeper.told() == [(0, 6, 1)]
        keeper.forget_after(5)
        assert keeper.told() == []
        keeper.close()

    _run(story())


def test_a_copy_that_is_gone_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        one, other = await _keeper(tmp_path / "one"), await _keeper(tmp_path / "other")
        with pytest.raises(ConnectionError, match=r"127\.0\.0\.1 has lost its copy of part 3 of step 9"):
            await one.fetch((other.address, other.port), 3, 9, 1, whole=True)
        one.close()
        other.close()

    _run(story())


def test_other_generations_are_kept_apart(tmp_path: Path) -> None:
    """A node that slept through a failure neither overwrites nor receives the current copies of others."""

    async def story() -> None:
        one, other = await _keeper(tmp_path / "one"), await _keeper(tmp_path / "other")
        other.generation = 2
        _written(other, 0, 7, b"new", cut=2)
        _written(one, 0, 7, b"old", cut=1)
        to = (other.address, other.port)
        with pytest.raises(ConnectionError, match=r"keeps no copy of part 0 of step 7"):
            await one.send(to, 0, 7)
        assert other.held[0, 7].path.read_bytes() == b"new"
        with pytest.raises(ConnectionError, match=r"has lost its copy of part 0 of step 7"):
            await one.fetch(to, 0, 7, 1, whole=True)
        one.close()
        other.close()

    _run(story())


def test_memory_that_is_full_says_so(tmp_path: Path) -> None:
    """The error has place, need, available memory and a remedy: no signal interrupts a copy."""
    path = tmp_path / "snapshot"
    with path.open("w") as file, pytest.raises(MemoryError, match=r"bytes, and .* are free .* set snapshots to false"):
        reserved(file.fileno(), 2**60, path)


def test_strangers_are_not_listened_to(tmp_path: Path) -> None:
    """A peer without the run's secret gets nothing and leaves nothing."""

    async def story() -> None:
        keeper = await _keeper(tmp_path / "one")
        _written(keeper, 0, 1, b"state")
        wire = await connect(keeper.address, keeper.port, "guessed", 5.0)
        wire.say({"give": [0, 1, 1], "whole": True})
        assert await wire.hear() is None
        wire.close()
        keeper.close()

    _run(story())


def test_earlier_generations_are_tidied_away(tmp_path: Path) -> None:
    """Snapshots are removed as soon as no rank needs them."""

    async def story() -> None:
        keeper = await _keeper(tmp_path / "one")
        _written(keeper, 0, 4, b"x", cut=1)
        _written(keeper, 0, 5, b"x", cut=2)
        keeper.tidy(2)
        assert sorted(path.name for path in keeper.folder.iterdir()) == ["own-1-0-0", "own-2-0-1"]
        _written(keeper, 0, 6, b"x", cut=2)
        keeper.tidy(2)
        assert sorted(path.name for path in keeper.folder.iterdir()) == ["own-2-0-0", "own-2-0-1"]
        keeper.close()

    _run(story())
