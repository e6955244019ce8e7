"""Checkpoints: restored states, refusals, and a safe previous checkpoint in any failure."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from stampworks_train import checkpoint, stream
from stampworks_train.checkpoint import Checkpoints, Found
from stampworks_train.manifest import MANIFEST, CheckpointError, difference, read_manifest
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.training.ranks import Trained, alone, begun, start, together

MODEL = "0123456789abcdef"


def saved_on(world: int, folder: Path, steps: int, keep: int = 3) -> str:
    """Train and save on so many ranks; return the digest of the last saved state."""

    def work(rank: int) -> str:
        trained = Trained(world)
        checkpoints = Checkpoints(folder, keep, rank, world, MODEL)
        for step in range(1, steps + 1):
            checkpoints.copied()
            trained.step(step)
            checkpoints.save(trained.state(), step, {"seed": 7})
        digest = trained.digest()
        checkpoints.finish()
        assert checkpoints.problem() is None
        return digest

    [digest] = set(together(world, work))
    return str(digest)


def loaded_on(world: int, folder: Path, save_as: int = 0) -> Any:
    """Return the checkpoint that so many ranks find and read, and its digest; save it again if a step is given."""

    def work(rank: int) -> tuple[Found, str]:
        trained = Trained(world, seed=1)
        checkpoints = Checkpoints(folder, 3, rank, world, MODEL)
        found = checkpoints.newest()
        assert found
        state = trained.state()
        assert checkpoints.load(found, state) == found.told
        trained.take(state)
        if save_as:
            checkpoints.save(trained.state(), save_as, {})
            checkpoints.finish()
        return found, trained.digest()

    results = together(world, work)
    assert all(result == results[0] for result in results)
    return results[0]


def test_a_state_comes_back_bit_by_bit_on_any_number_of_ranks(tmp_path: Path) -> None:
    """The number goes from eight to four to sixteen, where some ranks have empty shards."""
    digest = saved_on(8, tmp_path, steps=2)
    found, on_four = loaded_on(4, tmp_path, save_as=3)
    assert (found.step, found.world, found.told, found.passed_over) == (2, 8, {"seed": 7}, ())
    found, on_sixteen = loaded_on(16, tmp_path)
    assert (found.step, found.world) == (3, 4)
    assert on_four == on_sixteen == digest


def test_later_changes_are_not_saved(tmp_path: Path) -> None:
    """The next save, which reuses the memory, keeps it, too."""

    def work(rank: int) -> list[bool]:
        trained = Trained(2)
        checkpoints = Checkpoints(tmp_path, 9, rank, 2, MODEL)
        digests = []
        for step in (1, 2, 3):
            trained.step(step)
            digests.append(trained.digest())
            checkpoints.save(trained.state(), step, {})
            checkpoints.copied()
            trained.step(100 + step)
        checkpoints.finish()
        same = []
        for step, digest in zip((1, 2, 3), digests, strict=True):
            state = trained.state()
            checkpoints.load(Found(step, tmp_path / f"step-{step:08}", 2, {}, ()), state)
            trained.take(state)
            same.append(trained.digest() == digest)
        return same

    assert together(2, work) == [[True] * 3] * 2


def test_non_contiguous_tensors_are_copied() -> None:
    """torch copies such tensors, all in one call."""
    state = {"one": torch.arange(6.0).view(2, 3).t(), "list": [torch.arange(8)[::2], torch.ones(2), 7]}
    staged, fill = checkpoint.Staging().copy(state)
    fill()
    assert torch.equal(staged["one"], state["one"])
    assert [torch.equal(each, of) for each, of in zip(staged["list"][:2], state["list"], strict=False)] == [True] * 2
    assert staged["list"][2] == 7


def test_a_save_is_told_once_and_says_what_it_was(tmp_path: Path) -> None:
    def work(rank: int) -> list[Any]:
        trained = Trained(2)
        trained.step(1)
        checkpoints = Checkpoints(tmp_path / "new" / "folder", 3, rank, 2, MODEL)
        blocked = checkpoints.save(trained.state(), 1, {}) + checkpoints.copied()
        checkpoints.finish()
        return [blocked, checkpoints.done(), checkpoints.done(), checkpoints.problem()]

    for blocked, saved, again, problem in together(2, work):
        assert 0 < blocked == saved.blocked_s <= saved.seconds
        assert (saved.step, saved.folder) == (1, tmp_path / "new/folder/step-00000001")
        files = [path for path in saved.folder.iterdir() if path.name != MANIFEST]
        assert saved.bytes == sum(path.stat().st_size for path in files)
        assert again is None
        assert problem is None


def test_the_tools_of_torch_read_a_checkpoint(tmp_path: Path) -> None:
    saved_on(2, tmp_path, steps=1)

    def work() -> set[str]:
        dcp_to_torch_save(tmp_path / "step-00000001", tmp_path / "whole.pt")
        return set(torch.load(tmp_path / "whole.pt")["model"])

    assert alone(work) == {"0.weight", "0.bias", "2.weight"}


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    saved_on(2, tmp_path, steps=5, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000004", "step-00000005"]


# -- incomplete checkpoints


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of the steps 1 to 3, by two ranks."""
    folder = tmp_path_factory.mktemp("three")
    saved_on(2, folder, steps=3)
    return folder


@pytest.fixture
def folder(three: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(three, tmp_path / "checkpoints"))


def found_in(folder: Path, model: str = MODEL) -> Found | str | None:
    """Return the checkpoint that a process finds there, or its message."""

    def work() -> Found | str | None:
        try:
            return Checkpoints(folder, 3, 0, 1, model).newest()
        except CheckpointError as error:
            return str(error)

    return alone(work)  # type: ignore[no-any-return]


def manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change a manifest."""

    def damage(newest: Path) -> None:
        path = newest / "manifest.json"
        said = json.loads(path.read_text())
        change(said)
        path.write_text(json.dumps(said))

    return damage


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path, by: int = 1) -> None:
    os.truncate(path, path.stat().st_size - by)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda newest: flip(newest / "__1_0.distcp"), "/__1_0.distcp: has not the digest that manifest.json says: "
         "its bytes have changed since"),
        (lambda newest: flip(newest / ".metadata"), "/.metadata: has not the digest that manifest.json says: "
         "its bytes have changed since"),
        (lambda newest: cut(newest / "__0_0.distcp"), r"/__0_0.distcp: has \d+ bytes, and manifest.json says \d+"),
        (lambda newest: (newest / "__0_0.distcp").unlink(), "/__0_0.distcp: cannot be read: No such file or directory"),
        (lambda newest: (newest / "manifest.json").unlink(), "/manifest.json: cannot be read: No such file or "
         "directory"),
        (lambda newest: cut(newest / "manifest.json", 2),
         "/manifest.json: is not JSON: it was cut off or overwritten"),
        (lambda newest: (newest / "manifest.json").write_text("[" * 100_000),
         "/manifest.json: is not JSON: it was cut off or overwritten"),
        (manifest(lambda said: said.update(version=3)), "/manifest.json: is of version 3, and this program reads up to "
         "2: use a newer one"),
        (manifest(lambda said: said.update(version="1")), "/manifest.json: does not say what a manifest of version 2 "
         "says"),
        (manifest(lambda said: said["files"].update({"../x": said["files"][".metadata"]})), "/manifest.json: does not "
         "say what a manifest of version 2 says"),
        (manifest(lambda said: said.update(files=[])), "/manifest.json: does not say what a manifest of version 2 "
         "says"),
        (manifest(lambda said: said.update(step=2)), "/manifest.json: does not say what a manifest of version 2 says"),
        (manifest(lambda said: said.update(model="f" * 16)), r": is of another model \(f{16}\) than this run's "
         rf"\({MODEL}\)"),
    ],
)  # fmt: skip
def test_incomplete_checkpoint_is_skipped(damage: Callable[[Path], object], why: str, folder: Path) -> None:
    newest = folder / "step-00000003"
    damage(newest)
    found = found_in(folder)
    assert isinstance(found, Found)
    assert (found.step, found.folder) == (2, folder / "step-00000002")
    [said] = found.passed_over
    assert re.fullmatch(re.escape(str(newest)) + why, said)


def test_ranks_share_the_look_at_files(folder: Path) -> None:
    """Each rank checks a part of the files, and all know the results."""
    flip(folder / "step-00000003" / "__1_0.distcp")
    cut(folder / "step-00000002" / "__0_0.distcp")
    found, _ = loaded_on(3, folder)
    assert found.step == 1
    one, other = found.passed_over
    assert "/step-00000003/__1_0.distcp: has not the digest" in one
    assert "/step-00000002/__0_0.distcp: has " in other


def test_a_run_does_not_begin_anew_where_nothing_can_be_used(folder: Path) -> None:
    """Otherwise new checkpoints would replace damaged ones that a user may still want."""
    shutil.rmtree(folder / "step-00000001")
    flip(folder / "step-00000003" / "__1_0.distcp")
    manifest(lambda said: said.update(version=9))(folder / "step-00000002")
    assert found_in(folder) == (
        f"{folder}: none of 2 checkpoints can be used:\n"
        f"  {folder}/step-00000003/__1_0.distcp: has not the digest that manifest.json says: "
        "its bytes have changed since\n"
        f"  {folder}/step-00000002/manifest.json: is of version 9, and this program reads up to 2: use a newer one\n"
        "Name another directory to begin anew, or move them away."
    )


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert found_in(tmp_path / "not there") is None
    assert found_in(tmp_path) is None


def test_a_damaged_one_is_replaced_when_its_step_comes_again(folder: Path) -> None:
    """Until then it counts neither among the kept checkpoints, nor as newer than saved ones."""
    flip(folder / "step-00000003" / "__1_0.distcp")

    def work() -> tuple[list[str], Found | None]:
        trained = Trained(1)
        trained.step(1)
        checkpoints = Checkpoints(folder, 1, 0, 1, MODEL)
        checkpoints.newest()
        checkpoints.save(trained.state(), 2, {"anew": True})
        checkpoints.finish()
        names = sorted(path.name for path in folder.iterdir())
        checkpoints.save(trained.state(), 3, {"anew": True})
        checkpoints.finish()
        assert checkpoints.problem() is None
        return names, checkpoints.newest()

    names, found = alone(work)
    assert names == ["step-00000002", "step-00000003"]
    assert (found.step, found.told, found.passed_over) == (3, {"anew": True}, ())
    assert [path.name for path in folder.iterdir()] == ["step-00000003"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_checkpoints_of_other_users_are_not_read(folder: Path) -> None:
    """Its metadata would be executed: it is skipped, with the owner's name."""
    newest, before = sorted(folder.iterdir())[-1:-3:-1]
    os.chown(newest / ".metadata", 12345, -1)
    found = found_in(folder)
    assert isinstance(found, Found)
    assert found.folder == before
    [said] = found.passed_over
    assert said == (f"{newest}/.metadata: belongs to user 12345, and this run's files to 0: is it the right directory?")


def test_checkpoints_of_another_model_are_left_alone(folder: Path) -> None:
    def work() -> str | None:
        trained = Trained(1)
        trained.step(1)
        checkpoints = Checkpoints(folder, 1, 0, 1, "f" * 16)
        for step in (4, 5, 3):
            checkpoints.save(trained.state(), step, {})
        checkpoints.finish()
        return checkpoints.problem()

    assert alone(work) == (
        f"{folder}/step-00000003: was not saved, and training goes on: {folder}/step-00000003: is there already, and "
        "is not of this model: move it away. Earlier ones are kept, and the next one is tried again."
    )
    assert sorted(path.name for path in folder.iterdir()) == [f"step-0000000{step}" for step in (1, 2, 3, 5)]


def test_a_checkpoint_that_does_not_fit_says_where(folder: Path) -> None:
    """The fingerprint is the caller's, and may be of less than decides."""

    def work() -> str:
        checkpoints = Checkpoints(folder, 3, 0, 1, MODEL)
        found = checkpoints.newest()
        assert found
        with pytest.raises(CheckpointError) as raised:
            checkpoints.load(found, Trained(1, width=22).state())
        return str(raised.value)

    assert alone(work).startswith(f"{folder}/step-00000003: does not fit this state: rank 0: ValueError: Size mismatch")


def test_remains_of_killed_writers_are_cleared(folder: Path) -> None:
    """A checkpoint that was moved aside for its successor gets its name back."""
    (folder / "step-00000003").rename(folder / "step-00000003.replaced")
    shutil.copytree(folder / "step-00000002", folder / "step-00000002.replaced")
    shutil.copytree(folder / "step-00000002", folder / "step-00000004.partial")
    shutil.copytree(folder / "step-00000001", folder / "step-00000000.removed")
    (folder / "notes.txt").touch()
    found = found_in(folder)
    assert isinstance(found, Found)
    assert (found.step, found.passed_over) == (3, ())
    assert sorted(path.name for path in folder.iterdir()) == [
        "notes.txt",
        *(f"step-0000000{step}" for step in (1, 2, 3)),
    ]


def test_a_save_clears_what_a_killed_one_left(folder: Path) -> None:
    """Ranks that had their state from memory have not looked for a checkpoint."""
    shutil.copytree(folder / "step-00000002", folder / "step-00000004.partial")
    shutil.copytree(folder / "step-00000002", folder / "step-00000005.partial")

    def work() -> str | None:
        checkpoints = Checkpoints(folder, 9, 0, 1, MODEL)
        checkpoints.save({"model": {"weight": torch.ones(3)}}, 4, {})
        checkpoints.finish()
        return checkpoints.problem()

    assert alone(work) is None
    assert sorted(path.name for path in folder.iterdir()) == [f"step-0000000{step}" for step in (1, 2, 3, 4)]


# -- reading


def test_a_checkpoint_of_the_version_before_is_read(folder: Path) -> None:
    """It has SHA-256 digests, which are checked, too."""
    for newest in folder.iterdir():

        def older(said: dict[str, Any], newest: Path = newest) -> None:
            said["version"] = 1
            for name, file in said["files"].items():
                del file["crc32"]
                file["sha256"] = hashlib.sha256((newest / name).read_bytes()).hexdigest()

        manifest(older)(newest)
    assert found_in(folder).step == 3  # type: ignore[union-attr]
    flip(folder / "step-00000003" / "__1_0.distcp")
    found = found_in(folder)
    assert isinstance(found, Found)
    assert found.step == 2
    assert "__1_0.distcp: has not the digest that manifest.json says" in found.passed_over[0]


def test_training_waits_for_the_copy_and_for_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`copied` returns after the copy, while bytes are still written to the disk."""
    go, write = threading.Event(), threading.Event()
    fill, all_ = checkpoint._fill, stream._all
    monkeypatch.setattr(checkpoint, "_fill", lambda *given: (go.wait(60), fill(*given)))
    monkeypatch.setattr(stream, "_all", lambda *given: (write.wait(60), all_(*given)))

    def work() -> list[float]:
        weight = torch.zeros(3)
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        begun = checkpoints.save({"model": {"weight": weight}}, 1, {})
        threading.Timer(0.3, go.set).start()
        waited = checkpoints.copied()
        weight += 1
        published = (tmp_path / "step-00000001").exists()
        write.set()
        checkpoints.finish()
        loaded = {"model": {"weight": torch.ones(3)}}
        checkpoints.load(Found(1, tmp_path / "step-00000001", 1, {}, ()), loaded)
        return [begun, waited, checkpoints.copied(), published, float(loaded["model"]["weight"].sum())]

    begun, waited, again, published, loaded = alone(work)
    assert begun < 0.2 < waited
    assert (again, published, loaded) == (0.0, False, 0.0)


def test_the_wait_for_the_checkpoint_before_is_not_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a slow disk would make a checkpoint look twice as expensive."""
    write = threading.Event()
    all_ = stream._all
    monkeypatch.setattr(stream, "_all", lambda *given: (write.wait(60), all_(*given)))

    def work() -> list[float]:
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        state = {"model": {"weight": torch.zeros(3)}}
        checkpoints.save(state, 1, {})
        threading.Timer(1.5, write.set).start()
        begun = time.perf_counter()
        said = checkpoints.save(state, 2, {})
        checkpoints.finish()
        saved = checkpoints.done()
        assert saved
        assert saved.step == 2
        return [time.perf_counter() - begun, said, saved.blocked_s, saved.seconds]

    took, *said = alone(work)
    assert all(took - each > 1.0 for each in said)


@pytest.mark.parametrize("left", [0.0, 1.0])
def test_the_first_save_waits_for_room_only_while_it_is_made(
    left: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training waits for it; memory allocated in time costs no wait, and is reused."""
    go = threading.Event()
    monkeypatch.setattr(checkpoint, "populate", lambda _: go.wait(60))

    def work() -> tuple[float, float, bool]:
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        state = {"model": {"weight": torch.zeros(3), "another": torch.ones(2, 5)}}
        checkpoints.prepare(state)
        threading.Timer(left, go.set).start()
        if not left:
            checkpoints._preparing.join()  # type: ignore[union-attr]
        made = dict(checkpoints._staging._buffers)
        blocked = checkpoints.save(state, 1, {})
        checkpoints.finish()
        saved = checkpoints.done()
        assert saved
        return blocked, saved.blocked_s, all(checkpoints._staging._buffers[each] is made[each] for each in made)

    blocked, told, used = alone(work)
    assert (blocked > 0.5) == (told > 0.5) == (left > 0)
    assert used


def test_room_that_cannot_be_made_is_said_by_the_first_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps before the save do not need it."""

    def fails(*_: Any) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(checkpoint, "populate", fails)

    def work() -> None:
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        state = {"model": {"weight": torch.zeros(3)}}
        checkpoints.prepare(state)
        checkpoints.copied()
        checkpoints.finish()
        with pytest.raises(RuntimeError, match="CUDA error: out of memory"):
            checkpoints.save(state, 1, {})

    alone(work)


def test_end_does_not_wait_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a program does not wait either."""
    monkeypatch.setattr(checkpoint, "populate", lambda _: time.sleep(60))

    def work() -> list[bool]:
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        checkpoints.prepare({"model": {"weight": torch.zeros(3)}})
        checkpoints.finish()
        assert checkpoints._preparing
        return [checkpoints._preparing.is_alive(), checkpoints._preparing.daemon]

    assert alone(work) == [True, True]


@pytest.mark.parametrize("asked", ["copied", "finish", "save"])
def test_a_copy_that_fails_ends_its_rank(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised in training: a rank that continued would leave the others waiting in the save."""

    def fails(*_: Any) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(checkpoint, "_fill", fails)

    def work() -> str | None:
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        state = {"model": {"weight": torch.zeros(3)}}
        checkpoints.save(state, 1, {})
        with pytest.raises(RuntimeError, match="CUDA error: out of memory"):
            checkpoints.save(state, 2, {}) if asked == "save" else getattr(checkpoints, asked)()
        return checkpoints.problem()

    assert alone(work) is None


def test_a_checkpoint_is_saved_also_where_older_ones_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))

    monkeypatch.setattr(Checkpoints, "_retain", fails)

    def work() -> list[Any]:
        checkpoints = Checkpoints(tmp_path, 3, 0, 1, MODEL)
        checkpoints.save({"model": {"weight": torch.zeros(3)}}, 1, {})
        checkpoints.finish()
        return [checkpoints.done() is not None, checkpoints.problem()]

    saved, problem = alone(work)
    assert saved
    assert problem.startswith(f"{tmp_path}/step-00000001: was saved, and which older ones can be removed could not be")
    assert "Permission denied" in problem


# -- disks and folders


def troubled(folder: Path, world: int, trouble: Callable[[int], None], mend: Callable[[int], None]) -> list[list[Any]]:
    """Return each rank's messages about four saves: the second and third in trouble."""

    def work(rank: int) -> list[Any]:
        trained = Trained(world, width=64)
        trained.step(1)
        checkpoints = Checkpoints(folder, 9, rank, world, MODEL)
        said: list[Any] = []
        for step in (1, 2, 3, 4):
            if step == 2:
                trouble(rank)
            if step == 4:
                mend(rank)
            checkpoints.save(trained.state(), step, {})
            checkpoints.finish()
            said.append((checkpoints.done() is not None, checkpoints.problem()))
        return said

    return together(world, work)


def assert_told_once(said: list[list[Any]], why: str) -> None:
    for each in said:
        assert [saved for saved, _ in each] == [True, False, False, True]
        assert [problem is not None for _, problem in each] == [False, True, False, False]
        assert re.search(why, each[1][1]), each[1][1]
        assert each[1][1] == said[0][1][1]


def test_a_file_that_cannot_grow_on_one_rank_costs_one_checkpoint_and_is_told_once(tmp_path: Path) -> None:
    """A limit of the process has the effect of a full disk, without a mount."""

    def limited(most: int) -> Callable[[int], None]:
        return lambda rank: resource.setrlimit(resource.RLIMIT_FSIZE, (most, -1)) if rank == 1 else None

    said = troubled(tmp_path, 2, limited(50_000), limited(-1))
    host = re.escape(os.uname().nodename)
    path = re.escape(str(tmp_path))
    assert_told_once(
        said,
        rf"^{path}/step-00000002: was not saved, and training goes on: rank 1 on {host}: "
        rf"{path}/step-00000002.partial/__1_0.distcp: File too large: raise the greatest size of a file "
        r"\(ulimit -f\)\. Earlier ones are kept, and the next one is tried again.$",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000004"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid():
        pytest.skip("mounts a small file system, which root may")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_costs_one_checkpoint_and_is_told_once(small_disk: Path) -> None:
    ballast = small_disk / "ballast"

    def fill(rank: int) -> None:
        if not rank:
            free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
            ballast.write_bytes(bytes(free - 100_000))

    said = troubled(small_disk, 2, fill, lambda rank: None if rank else ballast.unlink())
    assert_told_once(said, r"rank 0 on \S+: .*/__0_0.distcp: No space left on device: free some space, or keep fewer")
    assert sorted(path.name for path in small_disk.iterdir()) == ["step-00000001", "step-00000004"]
    assert found_in(small_disk).step == 4  # type: ignore[union-attr]


def test_a_folder_that_one_rank_may_not_write_is_located(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("lets one rank be another user, which root may")

    def nobody(rank: int) -> None:
        if rank == 1:
            os.seteuid(65534)

    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_mode & 0o005 != 0o005:
            path.chmod(path.stat().st_mode | 0o005)
    said = troubled(tmp_path, 2, nobody, lambda rank: os.seteuid(0))
    assert_told_once(
        said, r"rank 1 on \S+: \S+/__1_0.distcp: Permission denied: it must be writable on every node, for the user of"
    )


def test_a_folder_that_ranks_do_not_share_is_located(tmp_path: Path) -> None:
    def work(rank: int) -> str | None:
        trained = Trained(2)
        checkpoints = Checkpoints(tmp_path / f"of-{rank}", 3, rank, 2, MODEL)
        checkpoints.save(trained.state(), 1, {})
        checkpoints.finish()
        return checkpoints.problem()

    one, other = together(2, work)
    assert one
    assert other
    assert re.search(
        r"rank 1 on \S+: \S+/of-1/\S+: No such file or directory: checkpoints must be in a directory that all nodes",
        one,
    )


# -- killed on the way


def killing(at: int) -> None:
    """Let this process end itself, as if killed, before its n-th disk operation."""
    left = [at]

    def wrapped(work: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*given: Any, **named: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return work(*given, **named)

        return instead

    for name in ("open", "write", "pwrite", "ftruncate", "fsync", "unlink", "rmdir", "rename", "mkdir"):
        setattr(os, name, wrapped(getattr(os, name)))


@pytest.mark.long
def test_a_kill_at_any_point_costs_at_most_what_was_being_written(folder: Path, tmp_path: Path) -> None:
    """The kill comes before each operation of a save, a replacement and a removal in turn."""
    for at in range(200):
        trial, published = tmp_path / f"trial-{at}", tmp_path / f"published-{at}"
        shutil.copytree(folder, trial)
        published.write_text("3")
        process, _ = start(functools.partial(saves_until, at, trial, published))
        process.join(60)
        found = found_in(trial)
        assert isinstance(found, Found), found
        assert found.step >= int(published.read_text())
        assert found.passed_over == ()
        assert not [problem for each in checkpoint._published(trial) for problem in problems_of(trial / each)]
        shutil.rmtree(trial)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert process.exitcode == 0
    assert at > 40


def problems_of(folder: Path) -> list[str]:
    said = read_manifest(folder)
    return [problem for name, file in said.files.items() if (problem := difference(folder / name, file, "crc32"))]


def saves_until(at: int, folder: Path, published: Path) -> None:
    """Replace a checkpoint, and save another, which removes older ones."""
    state = {"model": {"weight": torch.ones(3, 5)}}
    checkpoints = Checkpoints(folder, 1, 0, 1, MODEL)
    killing(at)
    for step in (3, 4):
        checkpoints.save(state, step, {})
        checkpoints.finish()
        if saved := checkpoints.done():
            published.write_text(str(saved.step))


def test_ranks_killed_at_any_time_leave_a_whole_checkpoint(tmp_path: Path) -> None:
    """Two ranks are killed at random times; the test above covers every point of a single rank."""
    chance = random.Random(6)  # noqa: S311  (no secret)
    checkpoints, published = tmp_path / "checkpoints", tmp_path / "published"
    published.write_text("0")

    def work(rank: int) -> None:
        trained = Trained(2, width=64)
        trained.step(1)
        state = trained.state()
        saving = Checkpoints(checkpoints, 2, rank, 2, MODEL)
        found = saving.newest()
        for step in range(found.step + 1 if found else 1, 1_000_000):
            saving.save(state, step, {})
            if (saved := saving.done()) and not rank:
                published.with_suffix(".new").write_text(str(saved.step))
                published.with_suffix(".new").rename(published)

    before = 0
    for _ in range(4):
        started = begun(2, work)
        deadline = time.monotonic() + 60
        while int(published.read_text()) <= before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2))
        for process, _pipe in started:
            process.kill()
        for process, _pipe in started:
            process.join()
        found = found_in(checkpoints)
        assert isinstance(found, Found)
        assert found.passed_over == ()
        assert found.step >= int(published.read_text()) > before
        before = found.step
