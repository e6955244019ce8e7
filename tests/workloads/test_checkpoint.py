"""A part that differs from its writer's data is noticed, and a third rank tells which rank is to blame."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from validation.checkpoint import Options, Reading, clean, doubt, load, save, second_look
from validation.result import Answer, Problem

from tests.workloads.conftest import Starter

NAMES = {0: "node-0", 1: "node-1", 2: "node-2"}
SIZE = 3 * 2**20 + 17


def readings(folder: Path, world: int = 3) -> list[Reading]:
    """Return the input of each rank with its own answer; all have saved their part."""
    saved = {rank: save(folder / f"part-{rank}-0", f"{rank}.0", SIZE) for rank in range(world)}
    names = {rank: NAMES[rank] for rank in range(world)}
    options = Options(directory=str(folder), bytes=SIZE)

    def ranks(rank: int) -> Any:
        return SimpleNamespace(rank=rank, meeting=SimpleNamespace(names=names))

    return [Reading(ranks(rank), options, Answer(NAMES[rank]), folder, 0, saved) for rank in range(world)]


def judged(each: list[Reading], doubts: dict[int, list[Any]] | None = None) -> tuple[list[int], list[Problem]]:
    """Return the owners of torn parts, and the common messages."""
    told = doubts or {rank: doubt(reading) for rank, reading in enumerate(each)}
    torn = [writer for reading in each for writer in second_look(reading, told)]
    return torn, [problem for reading in each for problem in reading.answer.problems]


@pytest.mark.parametrize("world", [2, 3])
def test_parts_that_are_whole(tmp_path: Path, world: int) -> None:
    """No part is torn, and no rank is blamed."""
    assert judged(readings(tmp_path, world)) == ([], [])


@pytest.mark.parametrize("world", [2, 3])
def test_a_part_that_lost_its_end(tmp_path: Path, world: int) -> None:
    """The writer is blamed if another reader sees the same."""
    each = readings(tmp_path, world)
    with (tmp_path / "part-1-0").open("r+b") as file:
        file.truncate(SIZE - 1)
    what = f"part 1 of node-1 is not what it wrote and synced: {SIZE - 1} of {SIZE} bytes are there"
    assert judged(each) == ([1], [Problem(what, "node-1")])


def test_a_part_with_another_byte(tmp_path: Path) -> None:
    """The part has the right length and other content."""
    each = readings(tmp_path)
    with (tmp_path / "part-2-0").open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 1]))
    what = "part 1 of node-2 is not what it wrote and synced: other bytes are there"
    assert judged(each) == ([2], [Problem(what, "node-2")])


def test_wrong_readers_are_blamed(tmp_path: Path) -> None:
    """The reader is blamed if others find the part complete; two ranks alone cannot tell."""
    doubts = {0: [1, "other bytes are there"], 1: [], 2: []}
    what = "part 1 of node-1 is not what it wrote and synced"
    why = f"it reads that {what}: other bytes are there; node-2 reads it as it was written"
    assert judged(readings(tmp_path), doubts) == ([], [Problem(why, "node-0")])
    why = f"{what}, node-0 says, and node-1 does not find that"
    assert judged(readings(tmp_path, 2), {0: doubts[0], 1: []}) == ([], [Problem(why, "")])


def test_a_part_that_is_not_there(tmp_path: Path) -> None:
    """The writer is blamed if no rank finds it, otherwise the reader."""
    each = readings(tmp_path)
    where = f"it is not there: is {tmp_path} the same directory on all nodes?"
    elsewhere = Reading(each[0].ranks, each[0].options, each[0].answer, tmp_path / "other", 0, each[0].saved)
    what = "part 1 of node-1 is not what it wrote and synced"
    why = f"it reads that {what}: {where}; node-2 reads it as it was written"
    assert judged(each, {0: doubt(elsewhere), 1: [], 2: []}) == ([], [Problem(why, "node-0")])
    each = readings(tmp_path)
    (tmp_path / "part-1-0").unlink()
    assert judged(each) == ([1], [Problem(f"{what}: {where}", "node-1")])


@pytest.mark.parametrize("world", [2, 3])
def test_failed_reader_blames_no_writer(tmp_path: Path, world: int) -> None:
    """Neither the writer nor its first reader is blamed."""
    each, other = readings(tmp_path, world), world - 1
    (tmp_path / "part-1-0").unlink()
    (tmp_path / "part-1-0").mkdir()
    torn, problems = judged(each, {0: [1, "other bytes are there"], **{rank: [] for rank in range(1, world)}})
    why = "part 1 of node-1 is not what it wrote and synced, node-0 says: other bytes are there; "
    why += f"node-{other} could not read it, so that who is to blame cannot be told"
    own = Problem(f"{tmp_path}: Is a directory", f"node-{other}")
    assert (torn, problems) == ([], [own, Problem(why, "")])


def test_loaded_parts_equal_saved_ones(tmp_path: Path) -> None:
    """Digest and size are the same, and no draft is left."""
    _, digest = save(tmp_path / "part", "seed", SIZE)
    assert load(tmp_path / "part")[1:] == (digest, SIZE)
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def test_all_ranks_write_at_once(start: Starter, tmp_path: Path) -> None:
    """Each rank reports its rate and no torn part; no file is left."""
    options = {"directory": str(tmp_path), "bytes": 2**20, "rounds": 2}
    [result] = start(3, "checkpoint", checkpoint=options).heard().results
    assert result.problems == ()
    torn = {value.node: (value.value, value.note) for value in result.values if value.quantity == "checkpoint_torn"}
    assert torn == dict.fromkeys(NAMES.values(), (0.0, "of 2 parts"))
    assert not list(tmp_path.glob("stampworks*"))


def test_remains_of_killed_starts_are_removed(tmp_path: Path) -> None:
    """Only folders with the toolkit's name and this owner that are older than any start are removed; no link is
    followed."""
    precious, own = tmp_path / "precious", tmp_path / "stampworks-12.0-20001"
    gone, young, strange = (
        tmp_path / name for name in ("stampworks-7.0-20002", "stampworks-8.0-20003", "stampworks-x")
    )
    for folder in (precious, own, gone, young, strange):
        save(folder / "part-0-0", "seed", 10)
    link, file = tmp_path / "stampworks-9.0-20004", tmp_path / "stampworks-10.0-20005"
    link.symlink_to(precious)
    file.touch()
    (gone / "away").symlink_to(precious)
    now = own.stat().st_mtime
    for path in (precious, gone, strange, link, file):
        os.utime(path, (now - 700, now - 700), follow_symlinks=False)
    os.utime(young, (now - 500, now - 500))
    clean(own, 600.0)
    assert {path.name for path in tmp_path.iterdir()} == {each.name for each in (precious, young, strange, link, file)}
    assert (precious / "part-0-0").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder away")
def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """Its name does not matter."""
    own, other = tmp_path / "stampworks-12.0-20001", tmp_path / "stampworks-7.0-20002"
    for folder in (own, other):
        folder.mkdir()
    os.utime(other, (1, 1))
    os.chown(other, 4711, 4711)
    clean(own, 600.0)
    assert list(tmp_path.iterdir()) == [other]


def test_without_a_folder_of_its_own_nothing_is_cleaned(tmp_path: Path) -> None:
    """Their age could not be judged."""
    other = tmp_path / "stampworks-7.0-20002"
    other.mkdir()
    os.utime(other, (1, 1))
    clean(tmp_path / "stampworks-12.0-20001", 600.0)
    assert other.exists()
