"""Files whose writers can wait until their bytes are on the disk."""

from __future__ import annotations

import concurrent.futures
import ctypes
import errno
import fcntl
import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 2**23
"""Bytes of one read or write."""
PAGE = 2**12
"""Alignment of writes that bypass the page cache."""

LIBC = ctypes.CDLL(None)
SYNC_FILE_RANGE_WRITE = 2
"""Start writing without waiting: fsync reports the result."""


@dataclass(frozen=True)
class File:
    """File with its size and digest, as a manifest lists it."""

    bytes: int
    digest: str


class Stream:
    """A new file. While another thread writes a block, this one computes its checksum, and then fills the next.

    It is written past the page cache if the file system allows it: filling pages takes most of the CPU time, and many
    dirty pages delay all writers.
    """

    def __init__(self, path: Path) -> None:
        self._block, self._other = (memoryview(mmap.mmap(-1, BLOCK)) for _ in range(2))  # page-aligned
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._writing: concurrent.futures.Future[None] | None = None
        self._failed: Exception | None = None
        self._fd = _opened(path)  # open it last: an earlier error leaves no open file
        self._filled = self._sum = 0
        self.bytes = 0
        """Number of bytes, including those still in the block."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        os.close(self._fd)

    def write(self, data: Any) -> int:
        """Write without raising: torch.save hides errors of its file behind its own. `check` raises them."""
        size = memoryview(data).nbytes
        content = memoryview(data).cast("B") if size else memoryview(b"")
        while len(content) and not self._failed:
            part = content[: BLOCK - self._filled]
            self._block[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            self.bytes += len(part)
            if self._filled == BLOCK:
                self._put()
            content = content[len(part) :]
        return size

    def flush(self) -> None:
        """A block waits until it is full, or `durable` is asked for."""

    def check(self) -> None:
        """Raise the error of a write that failed in the background."""
        if self._failed:
            raise self._failed

    def durable(self) -> File:
        """Return the written file, once it is on the disk."""
        self._put()
        self._wait()
        self.check()
        os.ftruncate(self._fd, self.bytes)
        os.fsync(self._fd)
        return File(self.bytes, f"{self._sum:08x}")

    def _put(self) -> None:
        """Start to write the block up to a whole page: `durable` cuts off the excess."""
        pages = -(-self._filled // PAGE) * PAGE
        begun = self._thread.submit(_all, self._fd, self._block[:pages], self.bytes - self._filled)
        self._sum = zlib.crc32(self._block[: self._filled], self._sum)
        self._wait()
        self._writing = begun
        self._block, self._other, self._filled = self._other, self._block, 0

    def _wait(self) -> None:
        """Wait until the previous block is written."""
        try:
            if self._writing:
                self._writing.result()
        except Exception as error:
            self._failed = error


def _opened(path: Path) -> int:
    """Open a new file; EINVAL means that the file system supports no direct writes."""
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, how | os.O_DIRECT, 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    path.unlink(missing_ok=True)  # created before the file system refused O_DIRECT
    return os.open(path, how, 0o666)


def _all(fd: int, block: Any, at: int) -> None:
    """Write everything and start the disk at once: otherwise it idles until fsync, for which all ranks wait."""
    while len(block):
        try:
            size = os.pwrite(fd, block, at)
        except OSError as error:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            if error.errno != errno.EINVAL or not flags & os.O_DIRECT:
                raise
            fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)  # larger pages than ours, or the disk is about full
            continue
        if not size:
            raise OSError(errno.EIO, f"none of {len(block)} bytes were taken at byte {at}")
        LIBC.sync_file_range(fd, ctypes.c_int64(at), ctypes.c_int64(size), SYNC_FILE_RANGE_WRITE)
        block, at = block[size:], at + size


def write(path: Path, content: bytes) -> File:
    """A small file, on the disk."""
    with path.open("xb", buffering=0) as file:
        _all(file.fileno(), memoryview(content), 0)
        os.fsync(file.fileno())
    return File(len(content), f"{zlib.crc32(content):08x}")


def make(folder: Path) -> None:
    """Write a folder and its parents to the disk."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in new:
        sync(each.parent)


def sync(folder: Path) -> None:
    """The names in a folder, on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
