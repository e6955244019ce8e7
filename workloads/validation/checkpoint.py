"""Measure how fast all nodes together write a checkpoint to a shared directory, and check each other's parts.

A part counts when it is complete: it is written under a temporary name, flushed to the disk, and then renamed. Its
digest takes another path than its bytes, so that a reader sees a torn or stale part; a third rank then tells whether it
was written or read wrongly.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import re
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .bounded import Found, within
from .ranks import Ranks
from .result import Answer
from .storage import BLOCK, MB
from .timing import spread

FOLDER = re.compile(r"stampworks-\d+\.\d+-\d+")
"""Name of the folder of a start: by its job and step, and its port."""


@dataclass(frozen=True)
class Options:
    """Settings of the checkpoint measurement."""

    directory: str = "/tmp"  # noqa: S108 (a folder of its own is made there)
    bytes: int = 16 * 2**20
    """Bytes of each rank's part."""
    rounds: int = 2
    seconds: float = 60.0
    """Seconds after which the directory counts as silent."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or self.rounds < 1 or self.seconds <= 0:
            raise ValueError("bytes, rounds and seconds must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Write and check parts in rounds; all ranks start each round together."""
    meeting = ranks.meeting
    folder = Path(options.directory) / f"{ranks.start.replace(' ', '-')}-{ranks.first.port}"
    rates: list[float] = []
    totals: list[float] = []
    torn = 0
    for number in range(options.rounds):
        meeting.exchange(number, options.seconds)  # all begin at once
        part = folder / f"part-{ranks.rank}-{number}"
        own = _tried(functools.partial(save, part, f"{ranks.rank}.{number}", options.bytes), options, answer)
        saved = meeting.exchange(own, options.seconds)
        if own:
            rates.append(options.bytes / MB / own[0])
        if seconds := [each[0] for each in saved.values() if each]:
            totals.append(len(seconds) * options.bytes / MB / max(seconds))
        reading = Reading(ranks, options, answer, folder, number, saved)
        doubts = meeting.exchange(doubt(reading), options.seconds)
        found = meeting.exchange(second_look(reading, doubts), options.seconds)
        torn += any(ranks.rank in each for each in found.values())
    where = {"device": options.directory, "bytes": options.bytes}
    if rates:
        answer.value("checkpoint_write", "MB/s", spread(rates), **where)
        answer.value("checkpoint_torn", "count", float(torn), **where, note=f"of {options.rounds} parts")
    if totals and not ranks.rank:
        answer.value("checkpoint_write_total", "MB/s", spread(totals), node="", **where)
    ranks.collect(answer)
    meeting.exchange(None, options.seconds)  # keep the parts while others may read them
    if not ranks.rank:
        with contextlib.suppress(OSError):
            within(options.seconds, functools.partial(clean, folder, ranks.cluster.limit), str(folder))


@dataclass(frozen=True)
class Reading:
    """Data that is needed to read the parts of others, with their digests."""

    ranks: Ranks
    options: Options
    answer: Answer
    folder: Path
    number: int
    saved: Mapping[int, Sequence[Any] | None]

    def differs(self, writer: int) -> str | None:
        """Return how a part differs from its writer's account; empty if it does not, None if that is unknown."""
        said = self.saved.get(writer)
        path = self.folder / f"part-{writer}-{self.number}"
        read = _tried(functools.partial(_load_if_there, path), self.options, self.answer) if said else None
        if not said or not read:
            return None
        _, digest, size = read
        if size is None:
            return f"it is not there: is {self.options.directory} the same directory on all nodes?"
        if digest == said[1]:
            return ""
        wanted = self.options.bytes
        return f"{size} of {wanted} bytes are there" if size != wanted else "other bytes are there"


def doubt(reading: Reading) -> list[Any]:
    """Return the part of the next rank and its difference, if it differs from the written one."""
    order = sorted(reading.saved)
    neighbour = order[(order.index(reading.ranks.rank) + 1) % len(order)]
    how = reading.differs(neighbour)
    return [neighbour, how] if how else []


def second_look(reading: Reading, doubts: Mapping[int, Sequence[Any]]) -> list[int]:
    """Return the ranks whose parts are torn: if a second reader agrees, the writer is at fault, otherwise the first
    reader."""
    order, names, torn = sorted(doubts), reading.ranks.meeting.names, list[int]()
    for reader, doubted in doubts.items():
        if not doubted:
            continue
        writer, how = doubted
        others = [rank for rank in order if rank not in (reader, writer)] or [writer]
        if others[reader % len(others)] != reading.ranks.rank:
            continue
        what = f"part {reading.number + 1} of {names[writer]} is not what it wrote and synced"
        again = reading.differs(writer)
        if again is None:
            own = f"{names[reading.ranks.rank]} could not read it, so that who is to blame cannot be told"
            reading.answer.problem(f"{what}, {names[reader]} says: {how}; {own}", node="")
        elif again:
            torn.append(writer)
            reading.answer.problem(f"{what}: {again}", node=names[writer])
        elif others == [writer]:
            reading.answer.problem(f"{what}, {names[reader]} says, and {names[writer]} does not find that", node="")
        else:
            own = f"{names[reading.ranks.rank]} reads it as it was written"
            reading.answer.problem(f"it reads that {what}: {how}; {own}", node=names[reader])
    return torn


def clean(folder: Path, limit: float) -> None:
    """Remove this start's folder, and those of killed starts: none runs longer than the limit.

    Ages come from the file system, whose clock may differ from this node's.
    """
    left = list[Path]()
    with contextlib.suppress(OSError):
        latest = folder.lstat().st_mtime - limit
        left = [path for path in folder.parent.iterdir() if FOLDER.fullmatch(path.name) and _ours(path, latest)]
    for path in (folder, *left):
        shutil.rmtree(path, ignore_errors=True)  # it does not follow links


def _ours(path: Path, latest: float) -> bool:
    try:
        its = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(its.st_mode) and its.st_uid == os.geteuid() and its.st_mtime < latest


def _tried(work: functools.partial[Found], options: Options, answer: Answer) -> Found | None:
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


def load(path: Path) -> tuple[float, str, int]:
    """Return seconds, digest and size of reading a part, from the disk if the kernel drops its cache."""
    begun = time.perf_counter()
    with path.open("rb") as file:
        with contextlib.suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return time.perf_counter() - begun, digest, file.tell()


def _load_if_there(path: Path) -> tuple[float, str, int | None]:
    """Return the same; no size if there is no such part."""
    try:
        return load(path)
    except FileNotFoundError:
        return 0.0, "", None
