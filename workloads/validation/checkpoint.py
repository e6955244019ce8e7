"""How fast all nodes write a checkpoint at once to a directory they share, and whether each finds the others' parts.

A part counts when it is whole: it is written under another name, is on the disk, and then gets its own. Its digest goes
another way than its bytes, so that a part that is torn or stale is seen by whoever reads it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from .bounded import within
from .ranks import Ranks
from .result import Answer
from .storage import BLOCK, MB
from .timing import spread


@dataclass(frozen=True)
class Options:
    directory: str = "/tmp"  # noqa: S108 (a folder of its own is made there)
    bytes: int = 16 * 2**20
    """Of each rank's part."""
    rounds: int = 2
    seconds: float = 60.0
    """After which the directory counts as one that does not answer."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or self.rounds < 1 or self.seconds <= 0:
            raise ValueError("bytes, rounds and seconds must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    meeting = ranks.meeting
    folder = Path(options.directory) / f"{ranks.start.replace(' ', '-')}-{ranks.first.port}"
    rates: list[float] = []
    totals: list[float] = []
    for number in range(options.rounds):
        meeting.exchange(number, options.seconds)  # all begin at once
        part = folder / f"part-{ranks.rank}-{number}"
        own = _tried(functools.partial(save, part, f"{ranks.rank}.{number}", options.bytes), options, answer)
        saved = meeting.exchange(own, options.seconds)
        if own:
            rates.append(options.bytes / MB / own[0])
        if seconds := [each[0] for each in saved.values() if each]:
            totals.append(len(seconds) * options.bytes / MB / max(seconds))
        order = sorted(saved)
        neighbour = order[(order.index(ranks.rank) + 1) % len(order)]
        if saved[neighbour]:
            there = folder / f"part-{neighbour}-{number}"
            read = _tried(functools.partial(load, there), options, answer)
            if read and read[1] != saved[neighbour][1]:
                answer.problem(f"the part of {meeting.names[neighbour]} is not what it wrote")
    where = {"device": options.directory, "bytes": options.bytes}
    if rates:
        answer.value("checkpoint_write", "MB/s", spread(rates), **where)
    if totals and not ranks.rank:
        answer.value("checkpoint_write_total", "MB/s", spread(totals), node="", **where)
    ranks.collect(answer)
    meeting.exchange(None, options.seconds)  # until then somebody may read
    if not ranks.rank:
        with contextlib.suppress(OSError):
            within(options.seconds, functools.partial(shutil.rmtree, folder, ignore_errors=True), str(folder))


def _tried(work: functools.partial[tuple[float, str]], options: Options, answer: Answer) -> tuple[float, str] | None:
    try:
        return within(options.seconds, work, options.directory)
    except FileNotFoundError as error:
        answer.problem(f"{error.filename}: is not there: is {options.directory} the same directory on all nodes?")
    except OSError as error:
        answer.problem(f"{options.directory}: {error.strerror or error}")
    return None


def save(path: Path, seed: str, size: int) -> tuple[float, str]:
    """Seconds until the part is on the disk under its name, and its digest."""
    block = random.Random(seed).randbytes(min(BLOCK, size))  # noqa: S311 (data, and no secret)
    digest, left = hashlib.sha256(), size
    while left > 0:
        digest.update(block[:left])
        left -= len(block[:left])
    begun = time.perf_counter()
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".draft")
    with draft.open("wb", buffering=0) as file:
        left = size
        while left > 0:
            left -= file.write(block[:left])
        os.fsync(file.fileno())
    draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the name is on the disk, too
    finally:
        os.close(directory)
    return time.perf_counter() - begun, digest.hexdigest()


def load(path: Path) -> tuple[float, str]:
    """Seconds to read a part, and its digest."""
    begun = time.perf_counter()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return time.perf_counter() - begun, digest
