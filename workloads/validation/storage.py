"""Measure how fast directories write and read files. Written data are on the disk before the clock stops."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .bounded import within
from .ranks import Ranks
from .result import Answer
from .timing import spread

BLOCK = 2**20
MB = 1e6


@dataclass(frozen=True)
class Options:
    """Settings of the storage measurement."""

    directories: tuple[str, ...] = ("/tmp",)  # noqa: S108 (a folder of its own is made there)
    bytes: int = 16 * 2**20
    """Bytes of one file."""
    rounds: int = 3
    files: int = 100
    """Number of small files to create, look up and remove."""
    seconds: float = 30.0
    """Seconds after which a directory counts as silent."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or self.rounds < 1 or self.files < 1 or self.seconds <= 0:
            raise ValueError("bytes, rounds, files and seconds must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:  # noqa: ARG001 (as every program)
    """Measure each directory within the time limit; a late result does not count."""
    for directory in options.directories:
        found = Answer(answer.node)  # later results do not count
        try:
            within(options.seconds, functools.partial(measure, directory, options, found), directory)
        except OSError as error:
            answer.problem(f"{directory}: {error.strerror or error}")
        else:
            answer.values += found.values
            answer.problems += found.problems


def measure(directory: str, options: Options, answer: Answer) -> bool:
    """Measure files in a separate directory, which is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="stampworks-storage-", dir=directory))
    try:
        block = os.urandom(min(BLOCK, options.bytes))
        wrote, gave = [], []
        for number in range(options.rounds):
            path = folder / str(number)
            wrote.append(options.bytes / MB / write(path, block, options.bytes))
            seconds, same = read(path, block, options.bytes)
            gave.append(options.bytes / MB / seconds)
            if not same:
                answer.problem(f"{directory}: a file came back other than it was written")
            path.unlink()
        answer.value("storage_write", "MB/s", spread(wrote), device=directory, bytes=options.bytes)
        answer.value("storage_read", "MB/s", spread(gave), device=directory, bytes=options.bytes)
        rates = [3 * options.files / metadata(folder, options.files) for _ in range(options.rounds)]
        answer.value("storage_metadata", "operations/s", spread(rates), device=directory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def write(path: Path, block: bytes, size: int) -> float:
    """Seconds until all of it is on the disk."""
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        left = size
        while left > 0:
            left -= file.write(block[:left])
        os.fsync(file.fileno())
    return time.perf_counter() - begun


def read(path: Path, block: bytes, size: int) -> tuple[float, bool]:
    """Return the seconds to read a file, from the disk if the kernel drops its cache, and whether the content is
    right."""
    same, seconds, left = True, 0.0, size
    with path.open("rb", buffering=0) as file:
        with contextlib.suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while True:
            before = time.perf_counter()
            piece = file.read(len(block))
            seconds += time.perf_counter() - before
            if not piece:
                return seconds, same and not left
            left -= len(piece)
            same = same and piece == block[: len(piece)]


def metadata(folder: Path, files: int) -> float:
    """Return the seconds to create that many empty files, look each up and remove it."""
    begun = time.perf_counter()
    for number in range(files):
        (folder / f"m{number}").touch(exist_ok=False)
    for number in range(files):
        (folder / f"m{number}").stat()
    for number in range(files):
        (folder / f"m{number}").unlink()
    return time.perf_counter() - begun
