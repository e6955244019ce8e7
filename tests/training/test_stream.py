"""Writing of bytes to a disk."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stampworks_train import stream as module
from stampworks_train.manifest import difference
from stampworks_train.stream import BLOCK, File, Stream, make


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 2**23 - 1, 2**23, 2**24 + 5])
def test_a_stream_has_what_was_written_whatever_the_sizes(size: int, tmp_path: Path) -> None:
    """Past the page cache only whole pages go."""
    content = random.Random(size).randbytes(size)  # noqa: S311
    with Stream(tmp_path / "it") as stream:
        for start in range(0, size, 3_000_001):
            assert stream.write(memoryview(content)[start : start + 3_000_001]) == len(
                content[start : start + 3_000_001]
            )
        assert stream.write(b"") == 0
        file = stream.durable()
    assert (tmp_path / "it").read_bytes() == content
    assert file == File(size, f"{zlib.crc32(content):08x}")
    assert difference(tmp_path / "it", file, "crc32") == ""


def refusing(monkeypatch: pytest.MonkeyPatch, name: str, flags_of: Callable[..., int]) -> list[int]:
    """Let a system call refuse direct writes; record those requests."""
    plain, refused = getattr(os, name), []

    def instead(first: Any, *more: Any) -> Any:
        if flags_of(first, *more) & os.O_DIRECT:
            refused.append(1)
            if name == "open":
                os.close(plain(first, *more))  # Linux makes the file, and then refuses
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), first)
        return plain(first, *more)

    monkeypatch.setattr(os, name, instead)
    return refused


@pytest.mark.parametrize("name", ["open", "pwrite"])
def test_a_file_system_without_direct_writes_gets_others(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems refuse when a file is opened, some when it is written."""
    flags = {"open": lambda path, flags, *_: flags, "pwrite": lambda fd, *_: fcntl.fcntl(fd, fcntl.F_GETFL)}
    content = os.urandom(2**23 + 77)
    with monkeypatch.context() as patched:
        refused = refusing(patched, name, flags[name])
        with Stream(tmp_path / "it") as stream:
            stream.write(content)
            file = stream.durable()
    assert refused
    assert (tmp_path / "it").read_bytes() == content
    assert file.digest == f"{zlib.crc32(content):08x}"


def test_a_disk_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write is not repeated for ever."""
    asked: list[int] = []

    def nothing(*_: Any) -> int:
        asked.append(1)
        assert len(asked) < 9
        return 0

    monkeypatch.setattr(os, "pwrite", nothing)
    with Stream(tmp_path / "it") as stream:
        stream.write(b"some")
        with pytest.raises(OSError, match="none of 4096 bytes") as caught:
            stream.durable()
    assert caught.value.errno == errno.EIO


def test_writer_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` raises the error, which torch.save would hide."""

    def no_memory(*_: Any) -> None:
        raise MemoryError("no page left")

    monkeypatch.setattr(module, "_all", no_memory)
    with Stream(tmp_path / "it") as stream:
        assert stream.write(bytes(2 * BLOCK)) == 2 * BLOCK
        with pytest.raises(MemoryError, match="no page left"):
            stream.check()


def test_a_stream_without_memory_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", no_memory)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        Stream(tmp_path / "it")
    assert not (tmp_path / "it").exists()


def test_new_folders_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint is lost if a crash removes its folder."""
    synced: list[Path] = []
    monkeypatch.setattr(module, "sync", synced.append)
    make(tmp_path / "new" / "folder")
    assert set(synced) == {tmp_path, tmp_path / "new"}
    make(tmp_path / "new" / "folder")
    assert len(synced) == 2
